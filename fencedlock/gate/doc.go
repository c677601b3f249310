// Package gate refuses writers that come too late, where the data lives.
//
// # Overview
//
// A lock in Redis excludes, but it can't stop a holder that was paused: by a garbage collector, a suspended machine, a packet that
// took a detour. While the holder stood still its lease ended, somebody else took the lock and wrote; then the first one goes on and
// writes too. A fenced lock gives each acquisition a token that is greater than all before it (see package fencedlock); the
// resource remembers the greatest token that it has seen and refuses what is older. That check is a gate:
//
//	holder 33   lock ── paused beyond its lease ──────────────── write(33): ErrStale
//	holder 34                             lock ── write(34): admitted
//
// There is a gate for each place: [Memory] for what lives in this process, package sqlgate for rows of an SQL database, package
// redisgate for keys in Redis. Each is a package of its own, so that nobody compiles in what they do not use. For other places (files,
// object stores with conditional writes, services that take the token as a header) a gate of one's own needs [CheckToken], a comparison
// that is atomic with the write, and [StaleError].
//
// # What is guaranteed
//
// A gate admits a token when no greater one has been admitted for that resource, and refuses it with ErrStale otherwise. Equal
// tokens are admitted: they are one holder's, who may write as often as it likes. Check and write are one step for the gates of SQL
// and Redis, and for Memory.Do.
//
// # What is not
//
// A gate knows who came too late only when the newer holder has been to the gate. Until then the older one's writes are admitted: it
// is a late writer, but nobody has built on the state without it. A holder that reads first and must not see late writes after
// that goes through the gate before it reads, with Admit.
//
// A gate compares numbers. Each resource needs a lock of its own whose tokens it is given, and no writer may pass it by. Should
// the lock's counter of tokens be lost or deleted, tokens begin again at 1, and a gate that knows a greater one refuses them all until they
// have grown beyond it: it errs on the side of refusing. Package fencedlock says how that can happen.
//
// A gate does not order the writes of one holder: what a request with an unknown outcome did is for that holder to find out.
package gate
