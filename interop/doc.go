// Package interop holds the tests in which Go and a real Redisson JVM share locks on one Redis.
//
// Each topic is written once over party, an owner of locks in either language, and run in both directions. The differential
// tests run the same random programs in Java and in Go and compare what Redis holds, what was answered and what was
// published after each step.
package interop
