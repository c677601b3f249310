// Package redisproc runs real redis-server processes: on free ports of 127.0.0.1, in their own folders, ended by their own
// handle.
//
// # What is guaranteed
//
//   - When Launch returns a Process, the server has said that it accepts connections and has answered on its port.
//   - When Close returns, the process is gone and has been reaped, whatever state it was in, SIGSTOPped included, and
//     no goroutine of this package is left.
//   - A server does not outlive the program that started it, even when that program is killed (Linux only).
//   - A binary that this package downloaded is the one whose SHA-256 stands in its source.
//
// # What is not
//
//   - Nothing that a server holds outlives its process: snapshots and the append-only file are off unless
//     Options.Config turns them on.
//   - A port is chosen, not reserved: between Kill and Restart another process can take it, and Restart then fails
//     with an error that says so. The ports lie below the usual ephemeral range, so outgoing connections do not.
//
// The package depends on the standard library alone and knows nothing of tests, so that a tool or a benchmark can use
// it; redistest builds on it.
package redisproc
