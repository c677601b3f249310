// Package config holds what a Redlatch client is told before it opens: where Redis is, how to log in, and the times and numbers by which
// its locks work.
//
// # Where the settings come from
//
// Redlatch shares its locks with Java services that use Redisson, and most settings exist because both sides must agree, or because who
// knows one side should not have to learn the other. Three groups follow from that:
//
//   - Must be equal in all processes that share a lock: the server and Database, NameMapper, FairLockWaitTimeout, and on a cluster
//     ShardedSubscriptionMode (PlainAndSharded bridges two). Different values give two locks instead of one, waiters that are dropped from the fair queue, or waiters
//     that only their timeouts wake.
//   - Named and set as in Redisson, but each process may have its own: LockWatchdogTimeout, LockWatchdogBatchSize,
//     CheckLockSyncedSlaves, SlavesSyncTimeout, Timeout, ConnectTimeout, RetryAttempts, RetryDelay, ScanInterval, DNSMonitoringInterval,
//     NATMapper and the log-ins.
//   - Redlatch's own, without a counterpart in Redisson: PlainAndSharded, SkipKindCheck, SubscriptionLinger, FallbackPoll,
//     HandOffLimit, HandOffWindow, DriftMargin.
//
// A service that has a redisson.yaml can read it: LoadRedissonYAML makes a Config of it, and warns of what Go cannot follow.
//
// Defaults are those of Redisson 4.7.0. Settings that only tune Redisson's machinery (its threads, pools and codecs) do not exist here.
//
// # Zero, off, and out of range
//
// A field left at zero has its default, so that Config{Servers: config.Single("redis://127.0.0.1:6379")} is complete. Where a thing can
// be turned off, zero would be the natural word for it but is taken; the constants NoRetry, NoLinger, NoDNSMonitoring, NoHandOff and
// SyncedSlavesOff say it instead. Every range in the documentation of a field is checked, once, by Config.WithDefaults, which reports all faults at
// once and corrects none. Redisson accepts any positive number for most of them; the ranges here are narrower where
// a value beyond them could only be a slip of units, such as a timeout of 3 ns for 3 s.
//
// # What a password can reach
//
// No error of this package and no String, GoString or LogValue repeats a password, nor any part of an address that might be one: an
// address with an unencoded special character in its password is taken apart in the wrong places, so of an address that has an
// "@", "?" or "#" in it and is faulty no part is shown. Of an unknown key in a redisson.yaml only its name is shown, and not even
// that where it may be the rest of a password.
//
// # Names of locks
//
// Config.MapName gives the name that a lock has in Redis. Prefixed and Suffixed make the names of its companion keys and
// channels (wire-protocol.md §1), Slot says where a key lives in a cluster, and SlotSafe whether a lock's keys all live in one place
// there, which the brace rule that Redisson uses fails to ensure for names such as "a{b" or "a}b".
//
// The package needs the standard library and a parser of YAML, starts no goroutine and opens no connection.
package config
