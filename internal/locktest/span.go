package locktest

import (
	"sync"
	"time"
)

// Span makes a time of a test longer where the machine is busy: a lease that a goroutine or a server can sleep through says
// nothing about locks. On an idle machine it returns d.
func Span(d time.Duration) time.Duration { return d * time.Duration(tempo()) }

// tempo is by how much a second of a test is stretched, 1 to 5. It is measured once, by how late timers fire.
var tempo = sync.OnceValue(func() int {
	const pause, rounds, calm = time.Millisecond, 100, 5 * time.Millisecond
	var worst time.Duration
	for range rounds {
		due := time.Now().Add(pause)
		timer := time.NewTimer(pause)
		<-timer.C
		worst = max(worst, time.Since(due))
	}
	return int(min(1+worst/calm, 5))
})
