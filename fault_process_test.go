package redlatch_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/locktest"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/rlock"
)

// childEnv makes the test binary a program that holds a lock on the server of that address.
const childEnv = "REDLATCH_TEST_CHILD"

// runChild takes the lock, says so, and looks at nothing but the clock until it finds that it was stopped. What it asks first then
// is what it believes, and its first words say that. Other goroutines must not get in between: it neither blocks nor yields.
func runChild(address string) int {
	lease, err := time.ParseDuration(os.Getenv(childEnv + "_LEASE"))
	if err != nil {
		return fail("the lease", err)
	}
	ctx := context.Background()
	client, err := redlatch.Open(ctx, config.Config{Servers: config.Single(address), LockWatchdogTimeout: lease})
	if err != nil {
		return fail("open", err)
	}
	defer client.Close()
	byContext := os.Getenv(childEnv+"_ASKS") == "context"
	hold, err := rlock.New(client, lockName).Lock(ctx)
	if err != nil {
		return fail("lock", err)
	}
	last := time.Now() // before the words on which the parent acts
	fmt.Println("held")
	for {
		now := time.Now()
		if now.Sub(last) < lease {
			last = now
			continue
		}
		if byContext {
			err = hold.Context().Err()
		} else {
			err = hold.Err()
		}
		break
	}
	fmt.Printf("believes: %v, lost: %v\n", err == nil, errors.Is(context.Cause(hold.Context()), redlatch.ErrLost))
	fmt.Printf("unlock: %v\n", errors.Is(hold.Unlock(ctx), redlatch.ErrLost))
	return 0
}

func fail(what string, err error) int {
	fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
	return 1
}

// WD-16: a process that was stopped for longer than its lease does not believe in its lock when it wakes up, whatever it asks first, and
// leaves the lock of who has it now alone.
func TestStoppedProcessWakesUpWithoutBelief(t *testing.T) {
	t.Parallel()
	// Several of each: on waking, the program races with the client's own goroutine that would tell it.
	for i, asks := range []string{"hold", "context", "hold", "context", "hold", "context"} {
		t.Run(asks+strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			lease := locktest.Span(800 * time.Millisecond)
			r := &rig{T: t, server: redistest.Start(t)}
			r.other = probe.Open(t, r.server.URL())
			child := exec.Command(os.Args[0])
			child.Env = append(os.Environ(), childEnv+"="+r.server.URL(), childEnv+"_LEASE="+lease.String(), childEnv+"_ASKS="+asks)
			child.Stderr = os.Stderr
			out, err := child.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, child.Start())
			t.Cleanup(func() {
				_ = child.Process.Kill() // it has ended by then, if all is well
				_ = child.Wait()
			})
			lines := bufio.NewScanner(out)
			says := func() string {
				require.True(t, lines.Scan(), "the child has ended: %v", lines.Err())
				return strings.TrimSpace(lines.Text())
			}
			require.Equal(t, "held", says())

			require.NoError(t, child.Process.Signal(syscall.SIGSTOP))
			asleep := time.NewTimer(lease + lease/2)
			next := r.take(context.Background(), r.theirs(), redlatch.WithLease(time.Hour))
			<-asleep.C
			require.NoError(t, child.Process.Signal(syscall.SIGCONT))
			require.Equal(t, "believes: false, lost: true", says())
			require.Equal(t, "unlock: true", says())
			require.NoError(t, next.Err())
			r.holdsAlone(next, 1)
			require.Greater(t, r.server.Do(t, "PTTL", lockName).Int(), int64(3_500_000))
			r.release(next)
			require.Empty(t, r.locks())
		})
	}
}
