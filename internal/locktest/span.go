package locktest

import (
	"slices"
	"sync"
	"time"
)

// Span makes a time of a test longer where the machine is busy: a lease that a goroutine or a server can sleep through says
// nothing about locks. On an idle machine it returns d.
func Span(d time.Duration) time.Duration { return d * time.Duration(tempo()) }

// tempo is by how much a second of a test is stretched, 1 to 4. It is measured once, by how late timers fire: a single one that is
// late says nothing, so the tenth worst of two hundred counts.
var tempo = sync.OnceValue(func() int {
	const pause, rounds, spared, calm = time.Millisecond, 200, 10, 3 * time.Millisecond
	late := make([]time.Duration, rounds)
	for i := range late {
		due := time.Now().Add(pause)
		timer := time.NewTimer(pause)
		<-timer.C
		late[i] = time.Since(due)
	}
	slices.Sort(late)
	return int(min(1+late[rounds-spared]/calm, 4))
})
