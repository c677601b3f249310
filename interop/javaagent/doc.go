// Package javaagent lets a Go program drive a real Redisson: it builds the Java agent (interop/agent), starts it as a
// process of its own and speaks its line protocol.
//
//	agent, err := javaagent.Start(ctx, javaagent.Options{})
//	defer agent.Close()
//	client, err := agent.Open(ctx, "a", javaagent.YAMLSingle("127.0.0.1:6379"))
//	thread := client.Thread("t1")
//	err = thread.Lock(ctx, javaagent.Plain("order:1001"))
//	waiting := client.Thread("t2").Go(javaagent.NewOp(javaagent.OpLock, javaagent.Plain("order:1001")))
//	err = thread.Unlock(ctx, javaagent.Plain("order:1001"))
//	result, err := waiting.Wait(ctx)
//
// # Overview
//
// An Agent is one JVM. A Client is one RedissonClient in it, with a client id (UUID) of its own. A Thread is one real Java
// thread, named by the caller; together with a client it is an owner, "<client id>:<thread id>", as Redis sees it.
// Operations on one thread run in the order given, operations on different threads overlap.
//
// A start costs about half a second and the first client about one more, so a test package should start one agent and open
// a client for each test; a second client is open within milliseconds.
//
// # What is guaranteed
//
//   - An operation that the JVM ended is reported with the JVM's own value or exception (JavaError) and with the wall-clock
//     times of its start and end, which can be compared with Go's on the same machine.
//   - When the JVM goes away, whatever is pending fails with ErrEnded and the end of what the JVM wrote to stderr.
//   - The JVM never outlives this process: it ends when its stdin closes, and the kernel closes that with the process.
//   - After Close no goroutine and no process is left.
//
// # What is not guaranteed
//
// The ctx of a call bounds how long Go waits for the answer, not the operation: after its end the JVM goes on, and may
// still take the lock. Pending.Interrupt ends what can be interrupted; Redisson's lock() can not.
//
// # The build
//
// The agent is built once for each Redisson release and each state of its sources, into
// <user cache folder>/redlatch/agent/<release>-<hash>, under a file lock, so that test packages that run in parallel build
// it once. It needs Maven and a JDK 17 or newer, and the dependencies go where Maven keeps them (~/.m2).
package javaagent
