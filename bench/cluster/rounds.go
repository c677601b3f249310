package main

import (
	"context"
	"slices"
	"time"
)

// countEvery is how often the servers are asked for their counts. What a round takes is found too long by about this much for each group of locks
// that is renewed in it, of which Redlatch has up to twenty.
const countEvery = 5 * time.Millisecond

// rounds measures how long it takes to renew all locks once. The locks do not fall due together, but by and by as they were taken. So a round is not
// what passes from its first renewal to its last, but the part of it in which renewals went on: the sum of the intervals in which any
// server's count rose.
type rounds struct {
	size int // renewals to a round

	count int             // when last asked
	at    time.Time       // and when that was
	done  int             // renewals of the round that is on its way
	busy  time.Duration   // and what it has taken so far
	whole []time.Duration // what the rounds took that came to their end
}

func (r *rounds) longest() time.Duration { return slices.Max(r.whole) }

// median is the shorter of the two in the middle, if there are two.
func (r *rounds) median() time.Duration {
	return slices.Sorted(slices.Values(r.whole))[(len(r.whole)-1)/2]
}

// start takes the first count.
func (r *rounds) start(count int, at time.Time) { r.count, r.at = count, at }

// counted takes the next.
func (r *rounds) counted(count int, at time.Time) {
	if count > r.count {
		r.busy += at.Sub(r.at)
		r.done += count - r.count
	}
	r.count, r.at = count, at
	if r.done >= r.size {
		r.whole = append(r.whole, r.busy)
		r.done, r.busy = r.done-r.size, 0
	}
}

// watchRounds counts until ctx ends, and returns what it has seen by then. It fails when a server does.
func watchRounds(ctx context.Context, nodes []*node, size int) (*rounds, error) {
	r := &rounds{size: size}
	ticker := time.NewTicker(countEvery)
	defer ticker.Stop()
	for first := true; ; first = false {
		count := 0
		for _, n := range nodes {
			c, err := n.renewed(ctx)
			if err != nil {
				if ctx.Err() != nil {
					err = nil
				}
				return r, err
			}
			count += c
		}
		if first {
			r.start(count, time.Now())
		} else {
			r.counted(count, time.Now())
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return r, nil
		}
	}
}
