// Package engine is what stands behind a client: one acquire loop, one queue per lock and process, one watchdog, and the settling of
// doubtful requests, for all kinds of locks. A kind answers a few questions, see [Kind], and nothing else.
//
// # State
//
// One mutex guards all of it. A tenure is what the client knows of one owner's stay in one lock: its holds, the trust in them, and
// whose turn it is to send. A room is where the waiters of one lock stand in order. The schedule is a heap of tenures by the
// time of their next event. The mutex is held for a few instructions at a time, never over a request, nor while a callback runs.
//
// # Acquiring
//
// Only the first waiter of a room asks the server: try, join the channel, try again when the server has confirmed the subscription, sleep until a
// message, the TTL, or the fallback poll, and so on. A waiter that leaves makes the next one first, which tries at once: a wake-up
// is never lost with the one who got it.
//
// # Turns
//
// Requests that set an owner's count or lease go one after the other, by the tenure's turn. So the count after each is known, and the scripts
// set it instead of adding to it: what runs twice counts once. Renewals need no turn; the epochs of trust order them.
//
// # Doubt
//
// Every request has a latch, a name of its own. When its answer is lost, settle writes the latch, which bars the request from then on, and
// reads the owner's count in the same script. What can't be settled now becomes a debt, which the settler pays as soon as the
// server answers. Nothing is built upon a debt: an entry pays it first, and a renewal does not count while there is one. Nor is anybody
// let in because the count says so, for it does not tell the lease: who still wants the lock asks anew.
//
// # Hand-off
//
// A release gives the lock straight to the first waiter of its room, if there is one. Its hold is made under the mutex together with the
// news, so that nobody ever sees a lock on the server that nobody here holds.
//
// # Time
//
// Trust counts from before a request was sent. Whoever asks a hold whether it is live looks at the clock first, so that a process
// which was stopped does not believe what was true before; the watchdog does the same before it does anything else.
package engine
