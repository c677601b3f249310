package main

import (
	"strconv"
	"strings"
)

// selection is the topics that each cell runs, each in both directions where it has two: of each kind of lock that the sides keep
// each other out and wake each other, and what has differed between releases.
var selection = []string{
	"plain: exclusion",
	"plain: hold counts",
	"plain: a waiter is woken by the message",
	"plain: a waiter is woken each time",
	"plain: a lease ends and lets the waiter in",
	"plain: the watchdog keeps the other out",
	"plain: force-unlock wakes the waiter",
	"spin: exclusion",
	"fair: exclusion",
	"fair: hold counts",
	"fair: a waiter is woken by the message",
	"fair: waiters of both languages enter in the order of arrival",
	"fair: a waiter that gives up leaves the queue",
	"write: exclusion",
	"write: hold counts",
	"write in Go, read in Java: a waiter is woken by the message",
	"read in Go, write in Java: a waiter is woken by the message",
	"write in Go, read in Java: the watchdog renews an owner that entered twice",
	"read: readers of both languages enter together",
	"fenced: exclusion",
	"fenced: a waiter is woken by the message",
	"fenced: tokens grow over both languages",
	"non-reentrant: exclusion",
	"non-reentrant fair: exclusion",
	"multi: exclusion",
	"multi: members of all kinds",
	"grouped: values in common exclude, others do not",
	"grouped: a waiter is woken by the message",
	"all kinds: random programs leave the same state",
}

// difference is something that is known to be otherwise with some releases of Redisson.
type difference struct {
	name         string
	what, reason string
	workaround   string   // also that nothing has to be done
	topics       []string // patterns of the topics that show it; none where the tests run with the workaround
	says         string   // what the failure of such a topic says; any other failure is not the known one
	from, before string   // the releases: from this one on, and before that one; "" is no bound
	topology     string   // "" is all
	absent       bool     // there is no such lock, so the topics are not run
	untried      bool     // no topic of the selection meets it
}

func (d *difference) concerns(c *cell) bool {
	return (d.topology == "" || d.topology == c.Topology) &&
		(d.from == "" || !older(c.Redisson, d.from)) && (d.before == "" || older(c.Redisson, d.before))
}

// older compares releases such as 3.9.1 and 3.16.8 by their numbers.
func older(release, than string) bool {
	a, b := strings.Split(release, "."), strings.Split(than, ".")
	for i := range min(len(a), len(b)) {
		x, _ := strconv.Atoi(a[i])
		y, _ := strconv.Atoi(b[i])
		if x != y {
			return x < y
		}
	}
	return len(a) < len(b)
}

var differences = []*difference{
	{
		name: "fenced",
		what: "There is no fenced lock.", reason: "RFencedLock came with 3.19.0.", before: "3.19.0", absent: true,
		workaround: "Fence in Go alone, or upgrade the Java services.",
		topics:     []string{"fenced: .*", "multi: members of all kinds"},
	},
	{
		name: "grouped",
		what: "There is no grouped multi-lock.", reason: "getMultiLock(name, values) came with 3.38.0.", before: "3.38.0", absent: true,
		workaround: "Use a multi-lock of plain locks.",
		topics:     []string{"grouped: .*"},
	},
	{
		name: "non-reentrant",
		what: "There are no non-reentrant locks.", reason: "getNonReentrantLock and getNonReentrantFairLock came with 4.4.0.",
		before: "4.4.0", absent: true,
		workaround: "`rlock.NonReentrant()` in Go shares its lock with a plain lock in Java, and `fairlock.NonReentrant()` with a fair one.",
		topics:     []string{"non-reentrant: .*", "non-reentrant fair: .*"},
	},
	{
		name:       "write release",
		what:       "A write lock that is gone can be released without an error.",
		reason:     "Redisson before 3.44.0 does not tell it from a lock that it has freed.",
		before:     "3.44.0",
		workaround: "None is needed in Go, where a release of a lost lock is `ErrLost` whatever Java says; in Java ask `isHeldByCurrentThread()` before.",
		topics:     []string{"write: hold counts"},
		says:       `Expected error with "not held by this owner" in chain but got nil`,
	},
	{
		name:   "read renewal",
		what:   "A reader in Java that has entered more than once, and has held on for `lockWatchdogTimeout`, loses the whole lock with its first release.",
		reason: "In 3.44.0 to 3.52.0 the watchdog renews the lock, but not the keys of its single holds, whose TTLs say who still reads.",
		from:   "3.44.0", before: "4.0.0",
		workaround: "Enter once, or upgrade the Java services; the Go side can't help.",
		topics:     []string{"write in Go, read in Java: the watchdog renews an owner that entered twice"},
		says:       "one hold is left",
	},
	{
		name: "leases",
		what: "A lock without a lease can be taken with that of an earlier entry through the same `RLock` object.",
		reason: "Redisson keeps the lease in a field of that object, which its threads share: until a full or failed release, and before 3.45.0 " +
			"in other ways. The comparison of random programs allows for it.",
		workaround: "None is needed in Go, where a lease belongs to its entry; in Java use a lock with a lease or without one, not both.",
	},
	{
		name:   "sharded",
		what:   "Messages on a cluster go by PUBLISH, also where the server has sharded messages.",
		reason: "Sharded messages of locks came with 3.22.0.", before: "3.22.0", topology: "cluster",
		workaround: "Set `PlainAndSharded` in `config.Config`, as these cells have it; where no Java service is newer, " +
			"`ShardedSubscriptionMode: config.ShardedSubscriptionOff` is enough.",
	},
	{
		name: "fair wait", untried: true, before: "3.46.0",
		what: "The time that a waiter keeps its place in a fair queue can't be set.", reason: "`fairLockWaitTimeout` came with 3.46.0; before it is 5 minutes.",
		workaround: "Leave `FairLockWaitTimeout` at its default, which is the same.",
	},
	{
		name: "fair mapper", untried: true, before: "3.52.0",
		what: "With a name mapper the queue of a fair lock stands under the name that was not mapped.", reason: "Mended in 3.52.0.",
		workaround: "Use no name mapper together with fair locks, or upgrade the Java services.",
	},
	{
		name: "dead readers", untried: true, before: "4.4.0",
		what:       "A reader in Java renews the holds of other readers too, also those of a process that has died.",
		reason:     "Mended in 4.4.0.",
		workaround: "None in Go: writers wait as long as such a reader lives.",
	},
	{
		name: "latches", untried: true, from: "3.52.0", before: "4.3.0",
		what:       "Keys `redisson_unlock_latch:…` stay for up to 20 s after each release in Java.",
		reason:     "Redisson deletes them under a wrong name.",
		workaround: "Nothing is to be done: they end by themselves, and Redlatch neither reads nor needs them.",
	},
}
