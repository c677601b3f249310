package pubsub

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

const (
	// batchSize bounds the commands on their way: large enough that the round trip does not count, small enough that a
	// late Join waits a few milliseconds.
	batchSize = 1000
	// answerTimeout bounds the wait for the answers of a batch of SUBSCRIBEs, and of a probe. A server that takes longer is
	// as good as cut off.
	answerTimeout = 10 * time.Second
	// dropTimeout bounds a batch of UNSUBSCRIBEs; see link.drop for why it must stay well below 5 s.
	dropTimeout = 2 * time.Second
	// closeGrace bounds how long Close waits for calls into rueidis that no context ends.
	closeGrace = time.Second
	// maxSlack bounds how much longer than asked a subscription lingers.
	maxSlack = 100 * time.Millisecond
	// steady is how long a connection, or a channel that was got back, must last for the next loss to count as a new
	// trouble whose pauses begin small again.
	steady = 2 * time.Second
)

// link is one connection to one server: it makes the server's subscriptions follow the Hub's table. One goroutine, run,
// owns the connection and is the only one that sends commands; the read goroutine of rueidis reports through hooks
// (state.go); the two meet under Hub.mu.
type link struct {
	hub     *Hub
	dialer  dialer
	log     *slog.Logger
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	kick    chan struct{} // capacity one: there may be something to do
	done    chan struct{} // closed when run has ended
	sharded bool

	// Guarded by hub.mu. A channel stands in at most one list; those whose command is on its way stand in none.
	current     *conn     // nil while there is none
	connects    uint64    // connections so far
	confirmed   int       // channels in state active
	subscribe   list      // wanted and absent: to be sent
	unsubscribe list      // active and not wanted: to be sent
	deferred    list      // either of these, kept back until retryAt
	lingering   list      // active and not wanted, not yet to be sent, in the order of channel.ends
	alarm       time.Time // when run wakes by itself; zero while it is awake or sleeps without end

	// Only for run.
	outage    pacer     // between connection attempts
	notBefore time.Time // the next one
	trouble   pacer     // between attempts for the deferred
	retryAt   time.Time // the next one; zero while nothing is deferred
	retried   time.Time // the last one
}

func newLink(h *Hub, o Options) *link {
	l := &link{
		hub:     h,
		dialer:  o.Connect,
		log:     o.Logger,
		kick:    make(chan struct{}, 1),
		done:    make(chan struct{}),
		sharded: o.Sharded,
		outage:  newPacer(o.Retry),
		trouble: newPacer(o.Retry),
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// command is how the link subscribes.
func (l *link) command() string {
	if l.sharded {
		return "SSUBSCRIBE"
	}
	return "SUBSCRIBE"
}

// stir makes run look at the table. It never blocks.
func (l *link) stir() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// run owns the connection. It ends with Close.
func (l *link) run() {
	defer close(l.done)
	var lost bool // since the last connection that worked
	for l.awaitWork() {
		c, err := l.open()
		if err != nil {
			l.failed("pubsub: cannot connect", err, !lost)
			lost = true
			continue
		}
		if lost {
			l.log.Info("pubsub: connected again")
		}
		lost = !l.use(c)
	}
}

// use serves the table over c until the connection or the Hub ends, and closes c. It is false when it was the connection.
func (l *link) use(c *conn) bool {
	if !l.adopt(c) {
		l.dispose(c)
		return true
	}
	since := time.Now()
	err := l.serve(c)
	wanted := l.cut()
	l.dispose(c)
	if l.ctx.Err() != nil {
		return true
	}
	if time.Since(since) >= steady {
		l.outage.reset()
	}
	l.retryAt = time.Time{}
	l.failed("pubsub: connection lost", err, true, slog.Int("channels", wanted))
	return false
}

// failed sets the pause before the next attempt. The first failure of a row is a warning, those that follow are not.
func (l *link) failed(msg string, err error, first bool, attrs ...slog.Attr) {
	if l.ctx.Err() != nil {
		return
	}
	pause := l.outage.next()
	l.notBefore = time.Now().Add(pause)
	level := slog.LevelDebug
	if first {
		level = slog.LevelWarn
	}
	l.log.LogAttrs(l.ctx, level, msg, append(attrs, slog.Any("error", err), slog.Duration("pause", pause))...)
}

// awaitWork sleeps, without a connection, until there is a channel to subscribe and the pause is over. It is false after
// Close. Nothing wakes it while nobody waits: then an unreachable server is left alone.
func (l *link) awaitWork() bool {
	for l.ctx.Err() == nil {
		if l.idle() {
			select {
			case <-l.kick:
			case <-l.ctx.Done():
			}
			continue
		}
		pause := time.Until(l.notBefore)
		if pause <= 0 {
			return true
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C: // and look again whether anybody still waits
		case <-l.ctx.Done():
			timer.Stop()
		}
	}
	return false
}

// idle says that no channel is to be subscribed.
func (l *link) idle() bool {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	return l.subscribe.size == 0
}

// serve does what the table asks for until the connection fails, with the reason, or the Hub closes. Subscribing and
// unsubscribing take turns, so that a storm of one does not hold up the other.
func (l *link) serve(c *conn) error {
	timer := time.NewTimer(0)
	timer.Stop()
	for l.ctx.Err() == nil {
		now := time.Now()
		l.pace(now)
		asks, drops, alarm := l.plan(now)
		if len(asks) > 0 {
			if err := l.ask(c, asks); err != nil {
				return err
			}
		}
		if drops {
			if err := l.drop(c); err != nil {
				return err
			}
		}
		if len(asks) > 0 || drops {
			continue
		}
		if err := l.sleep(c, timer, alarm); err != nil {
			return err
		}
	}
	return nil
}

// plan takes the next channels to subscribe, now marked as asked for, says whether there are any to unsubscribe, and,
// when there is nothing to do, until when (zero: without end).
func (l *link) plan(now time.Time) (asks []*channel, drops bool, alarm time.Time) {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	if !l.retryAt.IsZero() && !now.Before(l.retryAt) {
		l.requeueLocked()
		l.retryAt, l.retried = time.Time{}, now
	}
	l.expireLocked(now)
	asks, drops = l.subscribe.pop(batchSize), l.unsubscribe.size > 0
	for _, ch := range asks {
		l.setStateLocked(ch, asking)
	}
	l.alarm = time.Time{}
	if len(asks) == 0 && !drops {
		// In the same critical section as the finding that there is nothing to do: a Leave that follows sees the alarm.
		l.alarm = l.nextLocked()
	}
	return asks, drops, l.alarm
}

// pace begins the pause of the deferred, when there are any and none has begun. Who defers one also stirs, so none that
// comes after the look at the list is forgotten.
func (l *link) pace(now time.Time) {
	l.hub.mu.Lock()
	none := l.deferred.size == 0
	l.hub.mu.Unlock()
	switch {
	case none:
		l.retryAt = time.Time{}
	case l.retryAt.IsZero():
		if now.Sub(l.retried) >= steady {
			l.trouble.reset()
		}
		l.retryAt = now.Add(l.trouble.next())
	}
}

// nextLocked is when something falls due by itself.
func (l *link) nextLocked() time.Time {
	next := l.retryAt
	if ch := l.lingering.first; ch != nil {
		if ends := ch.ends.Add(l.slack()); next.IsZero() || ends.Before(next) {
			next = ends
		}
	}
	return next
}

// sleep waits until there may be something to do. It returns why the connection ended, if it did.
func (l *link) sleep(c *conn, timer *time.Timer, alarm time.Time) error {
	var due <-chan time.Time
	if !alarm.IsZero() {
		timer.Reset(time.Until(alarm))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-l.kick:
	case <-due:
	case err := <-c.closed:
		return closedBecause(err)
	case <-l.ctx.Done():
	}
	return nil
}

// ask subscribes a batch. An error is the connection's; the server's refusals are dealt with.
func (l *link) ask(c *conn, batch []*channel) error {
	ctx, cancel := bounded(l.ctx, answerTimeout)
	defer cancel()
	answers, err := c.subscribe(ctx, batch)
	if err != nil {
		return err
	}
	l.conclude(batch, answers, "pubsub: channel refused", l.askedLocked)
	return nil
}

// conclude takes the answers to a batch, and logs what take makes of them when it has given up the mutex: a logger is
// somebody else's code.
func (l *link) conclude(batch []*channel, answers []error, msg string, take func(*channel, error) error) {
	refusals := make([]error, len(batch))
	l.hub.mu.Lock()
	for i, ch := range batch {
		refusals[i] = take(ch, answers[i])
	}
	l.hub.mu.Unlock()
	for i, refusal := range refusals {
		if refusal != nil {
			l.log.Warn(msg, slog.String("channel", batch[i].name), slog.Any("error", refusal))
		}
	}
}

// drop unsubscribes a batch, if the server is well.
//
// rueidis 1.0.79 sends a PING behind every UNSUBSCRIBE and takes its PONG for the answer. A server that answers with an
// error where rueidis does not expect one makes it panic, on a goroutine of its own where nothing can recover it. Two
// such states are ordinary: BUSY, when somebody's script runs longer than busy-reply-threshold (5 s by default), where
// both commands fail; and MISCONF, when the disk is full, where PING fails. So the server is probed first, and while it is
// not well the subscriptions are kept, which does no harm. What begins between the probe and the drop is caught by
// dropTimeout: a script that began there blocks the answers, and the connection is given up and closed (one more second)
// before such a server turns from silent to BUSY.
func (l *link) drop(c *conn) error {
	if well, err := l.probe(c); err != nil || !well {
		return err
	}
	batch := l.takeDrops()
	if len(batch) == 0 {
		return nil
	}
	ctx, cancel := bounded(l.ctx, dropTimeout)
	defer cancel()
	answers, err := c.unsubscribe(ctx, batch)
	if err != nil {
		return err
	}
	l.conclude(batch, answers, "pubsub: the server keeps a subscription that nobody wants any more", l.droppedLocked)
	return nil
}

// takeDrops marks the next channels to unsubscribe as being dropped: whoever joins them from now on waits for a
// subscription of their own.
func (l *link) takeDrops() []*channel {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	batch := l.unsubscribe.pop(batchSize)
	for _, ch := range batch {
		l.setStateLocked(ch, dropping)
	}
	return batch
}

// probe says whether the server is in a state to unsubscribe. When it is not, all that was to be dropped is deferred.
func (l *link) probe(c *conn) (bool, error) {
	name, ok := l.anyDrop()
	if !ok {
		return false, nil
	}
	ctx, cancel := bounded(l.ctx, answerTimeout)
	defer cancel()
	refusal, err := c.probe(ctx, name)
	if err != nil || refusal == nil {
		return err == nil, err
	}
	l.log.Debug("pubsub: the server is not well, unsubscribing later", slog.Any("error", refusal))
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	for _, ch := range l.unsubscribe.pop(l.unsubscribe.size) {
		l.deferLocked(ch)
	}
	return false, nil
}

// anyDrop names a channel that is to be unsubscribed, if there still is one.
func (l *link) anyDrop() (string, bool) {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	if l.unsubscribe.first == nil {
		return "", false
	}
	return l.unsubscribe.first.name, true
}

// open makes a connection. Since an attempt may ignore its context, as rueidis's Dedicate does, it runs beside: what it
// brings after Close it closes itself, and Close waits for it no longer than closeGrace.
func (l *link) open() (*conn, error) {
	type outcome struct {
		c   *conn
		err error
	}
	hand, ended := make(chan outcome), make(chan struct{})
	go func() {
		defer close(ended)
		c, err := dial(l.ctx, l)
		select {
		case hand <- outcome{c, err}:
		case <-l.ctx.Done():
			if c != nil {
				c.close()
			}
		}
	}()
	select {
	case o := <-hand:
		return o.c, o.err
	case <-l.ctx.Done():
		await(ended, closeGrace)
		return nil, context.Cause(l.ctx)
	}
}

// dispose closes a connection before the next is opened. rueidis takes up to a second for that against a server that is
// silent, or several; Close waits no longer than closeGrace.
func (l *link) dispose(c *conn) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		c.close()
	}()
	select {
	case <-closed:
	case <-l.ctx.Done():
		await(closed, closeGrace)
	}
}

// await waits for done, but not longer than d.
func await(done <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

var errNoAnswer = errors.New("pubsub: the server did not answer in time")

// bounded is a context that ends after d without saying so in advance: rueidis heeds the cancellation of a context with a
// deadline only when the deadline has passed, and Close could not cut the wait short.
func bounded(parent context.Context, d time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	timer := time.AfterFunc(d, func() { cancel(errNoAnswer) })
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}
