package pubsub

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

const (
	firstPause = 50 * time.Millisecond
	maxPause   = 2 * time.Second
)

// pacer makes the pauses of one kind of trouble. It is for one goroutine.
type pacer struct{ schedule backoff.BackOff }

func newPacer(fresh func() backoff.BackOff) pacer {
	if fresh == nil {
		fresh = defaultRetry
	}
	return pacer{fresh()}
}

// next is the pause before the next attempt. A schedule that ends starts over after maxPause: there is nobody to tell
// that the Hub gave up, and members keep waiting.
func (p *pacer) next() time.Duration {
	pause := p.schedule.NextBackOff()
	if pause == backoff.Stop {
		p.schedule.Reset()
		return maxPause
	}
	return pause
}

// reset begins a new row of pauses.
func (p *pacer) reset() { p.schedule.Reset() }

// defaultRetry is what Options.Retry documents.
func defaultRetry() backoff.BackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstPause),
		backoff.WithMaxInterval(maxPause),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0.5),
		backoff.WithMaxElapsedTime(0),
	)
}
