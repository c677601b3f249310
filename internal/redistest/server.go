package redistest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/redistest/redisproc"
)

// launchTimeout bounds one Start or Restart, with the download of a server where the machine has none.
const launchTimeout = 5 * time.Minute

// Server is a running Redis. It is safe for concurrent use.
type Server struct {
	Endpoint
	backend backend
	stopped atomic.Bool // by Stop

	statsMu sync.Mutex
	looks   map[string]int64 // guarded by statsMu: calls in INFO commandstats that CommandStats itself has caused
}

// backend is what differs between a process and a container.
type backend interface {
	Addr() string
	Log() string
	PID() int
	Stop() error
	Cont() error
	Kill() error
	Restart(ctx context.Context) error
	Close() error
}

var _ backend = (*redisproc.Process)(nil)

// Start runs a server for the length of the test. The test fails, with the reason and what to install, when there is no
// server to be had; its output is shown when the test has failed.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	var o Options
	for _, opt := range opts {
		opt(&o)
	}
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	ctx, cancel := context.WithTimeout(context.Background(), launchTimeout)
	defer cancel()
	s, err := Launch(ctx, o)
	if err != nil {
		t.Fatalf("redistest: start a Redis for the test: %v", err)
	}
	s.endWith(t)
	return s
}

// endWith closes the server with the test, and shows its output when the test has failed.
func (s *Server) endWith(t testing.TB) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("output of the Redis at %s:\n%s", s.Addr(), s.Log())
		}
		if err := s.Close(); err != nil {
			t.Errorf("redistest: end the Redis at %s: %v", s.Addr(), err)
		}
	})
}

// Launch runs a server without a test. ctx bounds the start, not the server's life, which ends with Close. On failure
// nothing is left behind.
func Launch(ctx context.Context, o Options) (*Server, error) {
	running, clients, err := o.launch(ctx)
	if err != nil {
		return nil, err
	}
	return &Server{
		Endpoint: Endpoint{addr: running.Addr(), password: o.Password, tls: clients},
		backend:  running,
		looks:    make(map[string]int64),
	}, nil
}

// Close ends the server and waits for its end. It is idempotent.
func (s *Server) Close() error { return s.backend.Close() }

// Log is the end of what the server wrote.
func (s *Server) Log() string { return s.backend.Log() }

// PID is the server's process id; 0 when it does not run or runs in a container.
func (s *Server) PID() int { return s.backend.PID() }

// Stop stops the process with SIGSTOP: connections stay open, the kernel accepts new ones, nothing is answered. When it
// returns the process has really stopped. It fails the test where there is no process to stop.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if err := s.backend.Stop(); err != nil {
		t.Fatalf("redistest: stop the server: %v", err)
	}
	s.stopped.Store(true)
}

// Cont lets a stopped process go on.
func (s *Server) Cont(t testing.TB) {
	t.Helper()
	if err := s.backend.Cont(); err != nil {
		t.Fatalf("redistest: continue the server: %v", err)
	}
	s.stopped.Store(false)
}

// Kill ends the process with SIGKILL, as a crash would, and returns when it is gone. Its address refuses connections
// until Restart.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	if err := s.backend.Kill(); err != nil {
		t.Fatalf("redistest: kill the server: %v", err)
	}
	s.stopped.Store(false)
}

// Restart kills the server if it runs and starts it again at the same address; it has then forgotten everything that it
// had not written to disk. It returns when the server answers.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), launchTimeout)
	defer cancel()
	if err := s.backend.Restart(ctx); err != nil {
		t.Fatalf("redistest: restart the server: %v", err)
	}
	s.stopped.Store(false)
}
