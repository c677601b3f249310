//go:build crowd

package interop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/interop/javaagent"
)

// caller is what tests with several processes need of an owner, which may be in another process: a part of party.
type caller interface {
	lock(ctx context.Context, lease time.Duration) error
	tryLock(ctx context.Context, wait, lease time.Duration) (bool, error)
	unlock(ctx context.Context) error
	field() string
}

var (
	_ caller = party(nil)
	_ caller = (*childParty)(nil)
)

// world is what tests with several processes share: the servers' topology, the program that plays a Go process, and a JVM beside the package's one.
type world struct {
	on      *topology
	program string
	second  *javaagent.Agent
}

func newWorld(t *testing.T, on *topology) *world {
	t.Helper()
	w := &world{on: on, program: filepath.Join(t.TempDir(), "waiter")}
	// With the race detector, as the tests are: the packages are compiled so already.
	out, err := exec.CommandContext(t.Context(), "go", "build", "-race", "-o", w.program, "./internal/waiter").CombinedOutput()
	require.NoError(t, err, "%s", out)
	w.second, err = javaagent.Start(t.Context(), javaagent.Options{RedissonVersion: os.Getenv("REDLATCH_REDISSON_VERSION")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.second.Close()) })
	return w
}

// javaOwners are threads of a client of their own in that JVM. The client's end is no failure when the JVM was killed.
func javaOwners(t *testing.T, jvm *javaagent.Agent, f *fleet, k kind, count int) (list []caller) {
	t.Helper()
	id := fmt.Sprintf("%s#%d", t.Name(), clients.Add(1))
	client, err := jvm.Open(t.Context(), id, f.yaml(f.lines...))
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := client.Close(context.Background()); !errors.Is(err, javaagent.ErrEnded) {
			assert.NoError(t, err)
		}
	})
	for i := range count {
		list = append(list, newJavaParty(t, client, fmt.Sprint("owner ", i), k, name))
	}
	return list
}

// goOwners are owners of one client in this process.
func goOwners(t *testing.T, f *fleet, k kind, count int) (list []caller) {
	t.Helper()
	client := f.goClient(t)
	for range count {
		list = append(list, newGoParty(client, k, name))
	}
	return list
}

// child is a Go process with owners of one kind of lock.
type child struct {
	cmd     *exec.Cmd
	orders  io.WriteCloser
	ordered sync.Mutex
	answers []chan string // of each owner; closed with the process
	gone    chan struct{} // closed when the process has ended
	killed  bool
	owners  []caller
}

// childParty is an owner in another Go process. Its calls follow each other.
type childParty struct {
	child   *child
	number  int
	ownerID string
}

// child starts a Go process. It ends with the test, which fails when it does not end well, unless it was killed.
func (w *world) child(t *testing.T, f *fleet, k kind, owners int) *child {
	t.Helper()
	path := filepath.Join(t.TempDir(), "redisson.yaml")
	require.NoError(t, os.WriteFile(path, []byte(f.yaml(f.lines...)), 0o600))
	c := &child{gone: make(chan struct{}), cmd: exec.Command(w.program, "-config", path, "-both-channels="+strconv.FormatBool(f.cfg.PlainAndSharded),
		"-kind", k.name, "-name", name, "-owners", strconv.Itoa(owners))}
	c.cmd.Stderr = os.Stderr
	var err error
	c.orders, err = c.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.cmd.Start())

	lines := bufio.NewScanner(out)
	t.Cleanup(func() {
		assert.NoError(t, c.orders.Close())
		impatient := time.AfterFunc(15*time.Second, func() { _ = c.cmd.Process.Kill() })
		<-c.gone
		err := c.cmd.Wait()
		impatient.Stop()
		if !c.killed {
			assert.NoError(t, err, "a Go process did not end well")
		}
	})
	if !assert.True(t, lines.Scan(), "a Go process has ended: %v", lines.Err()) {
		close(c.gone)
		t.FailNow()
	}
	for i, field := range strings.Fields(lines.Text())[1:] {
		c.answers = append(c.answers, make(chan string, 1))
		c.owners = append(c.owners, &childParty{c, i, field})
	}
	go func() {
		defer close(c.gone)
		for lines.Scan() {
			number, answer, _ := strings.Cut(lines.Text(), " ")
			var i int
			if _, err := fmt.Sscan(number, &i); err != nil || i < 0 || i >= len(c.answers) {
				continue // the race detector, say
			}
			select {
			case c.answers[i] <- answer:
			default: // nobody has waited for the last one either: the test has failed
			}
		}
		for _, answers := range c.answers {
			close(answers)
		}
	}()
	return c
}

// kill ends the process as a crash would, and returns when it is gone.
func (c *child) kill(t *testing.T) {
	t.Helper()
	c.killed = true
	require.NoError(t, c.cmd.Process.Kill())
	<-c.gone
}

func (p *childParty) order(ctx context.Context, words ...any) (string, error) {
	p.child.ordered.Lock()
	_, err := fmt.Fprintln(p.child.orders, words...)
	p.child.ordered.Unlock()
	if err != nil {
		return "", err
	}
	select {
	case answer, alive := <-p.child.answers[p.number]:
		switch {
		case !alive:
			return "", errors.New("the Go process has ended")
		case answer == "ok", answer == "refused":
			return answer, nil
		default:
			return "", errors.New(answer)
		}
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// lock waits without limit. The lease is the watchdog's, whatever is asked for.
func (p *childParty) lock(ctx context.Context, _ time.Duration) error {
	answer, err := p.order(ctx, "lock", p.number, time.Duration(0))
	if err == nil && answer != "ok" {
		err = errors.New(answer)
	}
	return err
}

func (p *childParty) tryLock(ctx context.Context, wait, _ time.Duration) (bool, error) {
	answer, err := p.order(ctx, "lock", p.number, wait)
	return answer == "ok", err
}

func (p *childParty) unlock(ctx context.Context) error {
	_, err := p.order(ctx, "unlock", p.number)
	return err
}

func (p *childParty) field() string { return p.ownerID }
