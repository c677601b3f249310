//go:build unix

package redisproc_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest/redisproc"
)

func launch(t *testing.T, opts redisproc.Options) *redisproc.Process {
	t.Helper()
	p, err := redisproc.Launch(context.Background(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// ask sends one inline command over a new connection and returns the first line of the answer.
func ask(t *testing.T, p *redisproc.Process, command string) (string, error) {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	_, err = io.WriteString(conn, command+"\r\n")
	require.NoError(t, err)
	line, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(line), err
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestLaunchedServerAnswersAtOnceAndIsReapedByClose(t *testing.T) {
	p := launch(t, redisproc.Options{})
	answer, err := ask(t, p, "PING")
	require.NoError(t, err)
	require.Equal(t, "+PONG", answer)
	require.Contains(t, p.Log(), "Ready to accept connections")
	pid, dir := p.PID(), p.Dir()
	require.True(t, alive(pid))
	require.DirExists(t, dir)

	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	require.False(t, alive(pid))
	require.NoDirExists(t, dir)
	require.Zero(t, p.PID())
	require.ErrorIs(t, p.Stop(), redisproc.ErrNotRunning)
	require.ErrorIs(t, p.Cont(), redisproc.ErrNotRunning)
}

func TestStoppedServerIsSilentUntilContinued(t *testing.T) {
	p := launch(t, redisproc.Options{})
	conn, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	defer conn.Close()
	for range 50 {
		require.NoError(t, p.Stop())
		_, err = io.WriteString(conn, "PING\r\n")
		require.NoError(t, err)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(5*time.Millisecond)))
		_, err = conn.Read(make([]byte, 16))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.NoError(t, p.Cont())
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(20*time.Second)))
		_, err = io.ReadFull(conn, make([]byte, len("+PONG\r\n")))
		require.NoError(t, err)
	}
}

func TestCloseEndsAStoppedServer(t *testing.T) {
	p := launch(t, redisproc.Options{})
	pid := p.PID()
	require.NoError(t, p.Stop())
	require.NoError(t, p.Close())
	require.False(t, alive(pid))
}

func TestRestartKeepsTheAddressAndForgetsTheData(t *testing.T) {
	p := launch(t, redisproc.Options{})
	addr, pid := p.Addr(), p.PID()
	_, err := ask(t, p, "SET k v")
	require.NoError(t, err)
	require.NoError(t, p.Kill())
	require.NoError(t, p.Kill())
	require.False(t, alive(pid))
	_, err = ask(t, p, "PING")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)

	require.NoError(t, p.Restart(context.Background()))
	require.Equal(t, addr, p.Addr())
	answer, err := ask(t, p, "EXISTS k")
	require.NoError(t, err)
	require.Equal(t, ":0", answer)

	require.NoError(t, p.Restart(context.Background())) // also when it runs
	require.NotEqual(t, pid, p.PID())
}

func TestRestartRemembersWhatWasWrittenToDisk(t *testing.T) {
	p := launch(t, redisproc.Options{Config: []redisproc.Directive{{Key: "appendonly", Value: "yes"}, {Key: "appendfsync", Value: "always"}}})
	_, err := ask(t, p, "SET k v")
	require.NoError(t, err)
	require.NoError(t, p.Restart(context.Background()))
	answer, err := ask(t, p, "EXISTS k")
	require.NoError(t, err)
	require.Equal(t, ":1", answer)
}

func TestRestartKeepsTheConfigurationWhereItIsToldTo(t *testing.T) {
	for _, keep := range []bool{false, true} {
		p := launch(t, redisproc.Options{KeepConfig: keep})
		for _, command := range []string{"CONFIG SET maxclients 77", "CONFIG REWRITE"} {
			answer, err := ask(t, p, command)
			require.NoError(t, err)
			require.Equal(t, "+OK", answer)
		}
		require.NoError(t, p.Restart(context.Background()))
		conf, err := os.ReadFile(filepath.Join(p.Dir(), "redis.conf"))
		require.NoError(t, err)
		require.Equal(t, keep, strings.Contains(string(conf), "maxclients 77"))
	}
}

// A cluster's node has a second port, that of the bus.
func TestTakenBusPortIsATakenPort(t *testing.T) {
	bus, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer bus.Close()
	port := bus.Addr().(*net.TCPAddr).Port - 10000
	cluster := []redisproc.Directive{{Key: "cluster-enabled", Value: "yes"}}
	_, err = redisproc.Launch(context.Background(), redisproc.Options{Port: port, Config: cluster})
	require.ErrorContains(t, err, "the port is taken")
	require.NoError(t, bus.Close())
	launch(t, redisproc.Options{Port: port, Config: cluster})
}

func TestTakenPortIsAnErrorWhereItWasAskedFor(t *testing.T) {
	p := launch(t, redisproc.Options{})
	_, err := redisproc.Launch(context.Background(), redisproc.Options{Port: p.Port()})
	require.ErrorContains(t, err, p.Addr())
	require.ErrorContains(t, err, "taken")

	require.NoError(t, p.Kill())
	l, err := net.Listen("tcp", p.Addr())
	require.NoError(t, err)
	require.ErrorContains(t, p.Restart(context.Background()), "taken")
	require.NoError(t, l.Close())
	require.NoError(t, p.Restart(context.Background()))
}

func TestBadConfigurationIsReportedInTheServersWords(t *testing.T) {
	dir := t.TempDir()
	_, err := redisproc.Launch(context.Background(), redisproc.Options{
		Dir: dir, Config: []redisproc.Directive{{Key: "no-such-directive", Value: "1"}},
	})
	require.ErrorContains(t, err, "no-such-directive")
	require.DirExists(t, dir)
}

func TestServerThatNeverGetsReadyIsEnded(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err := redisproc.Launch(ctx, redisproc.Options{ReadyLine: "a line that no server writes"})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	// That it was reaped is goleak's to see: a goroutine stays with each process until then.
}

func TestManyServersStartAtOnce(t *testing.T) {
	const n = 12
	errs := make(chan error, n)
	for range n {
		go func() {
			p, err := redisproc.Launch(context.Background(), redisproc.Options{})
			if err == nil {
				err = p.Close()
			}
			errs <- err
		}()
	}
	for range n {
		require.NoError(t, <-errs)
	}
}

// TestServerDiesWithTheProgramThatStartedIt runs this test binary again as that program and kills it.
func TestServerDiesWithTheProgramThatStartedIt(t *testing.T) {
	if os.Getenv("REDISPROC_TEST_PARENT") != "" {
		p, err := redisproc.Launch(context.Background(), redisproc.Options{Dir: os.Getenv("REDISPROC_TEST_PARENT")})
		require.NoError(t, err)
		_, err = os.Stdout.WriteString("pid " + strconv.Itoa(p.PID()) + "\n")
		require.NoError(t, err)
		select {} // until killed
	}
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, "-test.run=^"+t.Name()+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), "REDISPROC_TEST_PARENT="+t.TempDir())
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	pid := 0
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		if text, found := strings.CutPrefix(lines.Text(), "pid "); found {
			pid, err = strconv.Atoi(text)
			require.NoError(t, err)
		}
	}
	require.NotZero(t, pid, "the program did not start its server")
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.Eventually(t, func() bool { return ended(pid) }, 10*time.Second, time.Millisecond)
}

// ended says that a process which is not our child has ended, reaped or not.
func ended(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(rest, "Z") || strings.HasPrefix(rest, "X")
}
