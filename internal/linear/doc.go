// Package linear judges whether what callers in several processes saw of one lock is what one lock can have done.
//
// A History collects the calls of all owners, each with its answer and the times at which it began and ended. Check looks for an order
// of the calls in which each one takes effect at some moment between its beginning and its end, and in which each answer is the one that
// a lock in a single process would have given. Plain, ReadWrite and Fenced say what that lock is.
//
//	var h linear.History
//	began := time.Now()
//	got := tryLock()
//	h.Add(linear.Call{Act: linear.Acquire, Owner: 3}, linear.Answer{OK: got}, began, time.Now())
//	…
//	err := h.Check(linear.Plain, time.Minute)
//
// # What is judged
//
//   - An acquisition that was granted: nobody else held the lock. Likewise each entry of an owner that is inside already.
//   - An attempt without a wait that was refused: somebody else did hold it. A refusal after a wait says only that the time was
//     over, which no order of calls can contradict, so it is always right.
//   - A release: "done" only for an owner inside, "not held" only for one outside.
//   - A release by force, and the question whether the lock is held.
//   - Of a fenced lock, that each token that comes with an acquisition is greater than every token before, and that none which is read
//     without acquiring is smaller. Tokens may be left out.
//
// # What is not
//
// Leases: time is no part of the models, so no hold of a recorded lock may expire. Nor order among waiters, and whether somebody who
// waits is ever let in.
//
// # Clocks
//
// Beginnings and ends are wall-clock times, because they have to be compared between processes, and so between processes of
// one machine only. They count in microseconds, ends rounded up. A clock that is set back while a history is recorded can make it wrong;
// Check notices when a call ends before it began.
package linear
