// Package lua is the catalog of the scripts that Redlatch runs on a server, and their only callers.
//
// # Overview
//
// Every change of a lock is one script, so that it is atomic: no reader sees half of it. A file holds one operation; its
// header is the contract: KEYS, ARGV, and each reply that a caller must expect. One Go function builds the call, with
// types instead of positions, and a test holds every header against what the function sends.
//
// # What is guaranteed
//
// A script is sent by its SHA-1 first and in full when the server answers NOSCRIPT, within the same call: a restarted
// server, a failover or SCRIPT FLUSH costs one round trip and no lock. Nothing here is ever sent again by itself: only
// NOSCRIPT, which proves that nothing ran, leads to a second sending.
//
// States and messages are those of wire-protocol.md §3–7, which Redisson reads and writes too. Two things differ and
// cannot be seen by another client. The hold count is set to the number that the client knows and not incremented or
// decremented, so that a request that runs twice counts once. And each request has a latch key of its own, which exists
// only after a lost answer: it bars the lost request from taking effect later, when the caller has gone on. Without a
// fault no latch is ever written. (Redisson's latch guards the release only, and is written by each one.)
//
// A lock of another kind under the name is seen by what its hash has: a mode (read/write), one field and no mode (plain, fair and fenced, which
// are alike), or more fields without a mode (grouped). The look costs no command on the way to success. Who would take or free the lock is
// refused, see [OtherKind]; a holder finds that it does not hold it, also when its own field is there: a reader's is that of a plain owner.
//
// # For reviewers
//
// [Catalog] lists name, SHA-1, purpose and source of every script; nothing else is ever sent by EVAL or SCRIPT LOAD. A server
// whose ACL allows only listed scripts needs exactly these.
package lua
