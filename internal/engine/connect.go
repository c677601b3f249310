package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/internal/topology"
)

// connect finds the servers and makes sure that locks can work there at all, before anybody relies on it.
func (e *Engine) connect(ctx context.Context, borrowed rueidis.Client) error {
	servers, err := topology.Open(ctx, e.cfg, topology.Options{Log: e.log, Redis: borrowed, Changed: e.reroute})
	if err != nil {
		return explain(err)
	}
	e.servers = servers
	if err = e.check(ctx); err != nil {
		servers.Close()
	}
	return err
}

// check runs a first script on every master. Of several, those that can't be reached now are left out, as long as one answers.
func (e *Engine) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Timeout)
	defer cancel()
	answered, unreachable := false, error(nil)
	for _, err := range topology.Probe(ctx, e.servers) {
		switch {
		case err == nil:
			answered = true
		case isReply(err) && !serverSays(err, notNow...):
			return fmt.Errorf("run a first script (locks need EVAL and EVALSHA): %w", explain(err))
		default:
			unreachable = err
		}
	}
	if !answered {
		return fmt.Errorf("run a first script: %w", explain(unreachable))
	}
	return nil
}

// reroute lets the first waiters of locks whose master is another one now ask there, and listen there, and ends the pauses of those who
// met trouble at the one before.
func (e *Engine) reroute(moved func(key string) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.rerouted)
	e.rerouted = make(chan struct{})
	for at, t := range e.tenures {
		if len(t.waiters) > 0 && moved(at.key) {
			for _, w := range t.waiters {
				w.wake()
			}
		}
	}
}

// nextLayout gives a channel that is closed when some locks have got another master from now on.
func (e *Engine) nextLayout() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.rerouted
}

// explain adds what to do to what a server or the network said while connecting.
func explain(err error) error {
	var failed *topology.NotSentError
	if errors.As(err, &failed) {
		if failed.Sentinel && serverSays(err, "WRONGPASS", "NOAUTH", "ERR invalid password") {
			return fmt.Errorf("the sentinel %s refused user and password; check SentinelUsername and SentinelPassword: %w", failed.Address, failed.Err)
		}
		return fmt.Errorf("connect to %s: %w", failed.Address, explainReply(failed.Err))
	}
	if isReply(err) || isTimeout(err) {
		return explainReply(err)
	}
	return err
}

func explainReply(err error) error {
	switch {
	case serverSays(err, "NOAUTH"):
		return fmt.Errorf("the server demands a log-in; set Password, and Username where it knows several: %w", err)
	case serverSays(err, "WRONGPASS", "ERR invalid password"):
		return fmt.Errorf("the server refused user and password; check Username and Password: %w", err)
	case forbidden(err):
		return fmt.Errorf("the user's ACL does not allow to connect and run scripts; see docs/operations.md for the rule: %w", err)
	case serverSays(err, "DB index is out of range"):
		return fmt.Errorf("the server has no such database; check Database: %w", err)
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return fmt.Errorf("no answer in time; is this a Redis server, with TLS as configured?: %w", err)
	case notConnected(err):
		return err
	}
	if !isReply(err) && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("the answer is not that of a Redis server (or TLS is on at one side only): %w", err)
	}
	return err
}

// latches makes the names of requests: 32 hexadecimal digits as Redisson has, unique to the client and the request.
type latches struct {
	prefix string
	last   atomic.Uint64
}

func newLatchPrefix(clientID string) string { return strings.ReplaceAll(clientID, "-", "")[:16] }

func (l *latches) next() string {
	var digits [16]byte
	const hexDigits = "0123456789abcdef"
	for n, i := l.last.Add(1), 15; i >= 0; n, i = n>>4, i-1 {
		digits[i] = hexDigits[n&15]
	}
	return l.prefix + string(digits[:])
}
