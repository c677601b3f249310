//go:build crowd

package interop

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/internal/linear"
)

// What stands here is broken on purpose: owners in Go that do what a bad lock library would, to show that histories tell.

// fault makes a broken owner of a sound one.
type fault func(b bench, sound *goActor, rng *rand.Rand) actor

// bench is what a broken owner works with.
type bench struct {
	conn    rueidis.Client
	key     string // of the lock
	channel string // on which its releases are announced
}

// deleter frees the whole lock when it should release one hold, and does not ask who holds it.
type deleter struct {
	*goActor
	bench
}

func newDeleter(b bench, sound *goActor, _ *rand.Rand) actor { return &deleter{sound, b} }

func (d *deleter) do(ctx context.Context, c linear.Call) (a linear.Answer, began, ended time.Time, err error) {
	if c.Act != linear.Release {
		return d.goActor.do(ctx, c)
	}
	d.forget(c.Side) // the client goes on to believe in the hold
	began = time.Now()
	if err = d.conn.Do(ctx, d.conn.B().Del().Key(d.key).Build()).Error(); err == nil {
		err = d.conn.Do(ctx, d.conn.B().Publish().Channel(d.channel).Message("1").Build()).Error()
	}
	return linear.Answer{OK: err == nil}, began, time.Now(), err
}

// claimant says now and then that it has what it was refused.
type claimant struct {
	*goActor
	rng     *rand.Rand
	claimed map[linear.Side]int
}

func newClaimant(_ bench, sound *goActor, rng *rand.Rand) actor { return claims(sound, rng) }

func claims(sound *goActor, rng *rand.Rand) *claimant {
	return &claimant{sound, rng, make(map[linear.Side]int)}
}

func (k *claimant) do(ctx context.Context, c linear.Call) (a linear.Answer, began, ended time.Time, err error) {
	a, began, ended, err = k.sound(ctx, c)
	if c.Act == linear.Acquire && !a.OK && err == nil && k.rng.IntN(2) == 0 {
		k.claim(c.Side, &a)
	}
	return a, began, ended, err
}

func (k *claimant) claim(side linear.Side, a *linear.Answer) {
	k.claimed[side]++
	a.OK = true
}

// sound does what is to be done, apart from releases of what was only claimed.
func (k *claimant) sound(ctx context.Context, c linear.Call) (a linear.Answer, began, ended time.Time, err error) {
	if c.Act == linear.Release && k.claimed[c.Side] > 0 {
		k.claimed[c.Side]--
		now := time.Now()
		return linear.Answer{OK: true}, now, now, nil
	}
	return k.goActor.do(ctx, c)
}

// believer waits for a message that the lock is free, and then holds it to be its own.
type believer struct {
	*claimant
	bench
}

func newBeliever(b bench, sound *goActor, rng *rand.Rand) actor {
	return &believer{claims(sound, rng), b}
}

func (b *believer) do(ctx context.Context, c linear.Call) (a linear.Answer, began, ended time.Time, err error) {
	attempt := c
	attempt.Wait = 0
	a, began, ended, err = b.sound(ctx, attempt)
	if c.Act != linear.Acquire || c.Wait == 0 || a.OK || err != nil {
		return a, began, ended, err
	}
	if b.hears(ctx, min(c.Wait, 200*time.Millisecond)) {
		b.claim(c.Side, &a)
	}
	return a, began, time.Now(), nil
}

// hears tells whether a message came in that time.
func (b *believer) hears(ctx context.Context, wait time.Duration) (heard bool) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	_ = b.conn.Receive(ctx, b.conn.B().Subscribe().Channel(b.channel).Build(), func(rueidis.PubSubMessage) {
		heard = true
		cancel()
	})
	return heard
}

// foreseer reads which token is next, and only then waits for the lock.
type foreseer struct{ *goActor }

func newForeseer(_ bench, sound *goActor, _ *rand.Rand) actor { return &foreseer{sound} }

func (f *foreseer) do(ctx context.Context, c linear.Call) (a linear.Answer, began, ended time.Time, err error) {
	if c.Act != linear.Acquire {
		return f.goActor.do(ctx, c)
	}
	last, began, _, err := f.goActor.do(ctx, linear.Call{Act: linear.Token})
	if err != nil {
		return a, began, time.Now(), err
	}
	a, _, ended, err = f.goActor.do(ctx, c)
	if a.OK {
		a.Token = last.Token + 1
	}
	return a, began, ended, err
}
