package redisproc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// startTimeout bounds how long one start may take, from exec to the first answer. A server without data needs a few
// milliseconds; a machine under heavy load some seconds.
const startTimeout = 30 * time.Second

// portAttempts is how many ports Launch tries before it believes that the fault is not the port.
const portAttempts = 20

var (
	// ErrNotRunning is returned by what needs a live process after Kill or Close.
	ErrNotRunning = errors.New("redisproc: the server process is not running")

	errPortTaken = errors.New("the port is taken")
)

// Options says how a server is started. The zero value starts the default version on any free port.
type Options struct {
	// Binary is the path of a redis-server. Empty means Binary(ctx, Version).
	Binary string
	// Version picks the binary where Binary is empty.
	Version Version
	// Dir is the server's working folder; it must exist. Empty means a temporary folder that Close removes.
	Dir string
	// Port is the TCP port on 127.0.0.1. 0 means a free one, and then another if that turns out to be taken.
	Port int
	// TLS makes the port speak TLS alone, without asking clients for a certificate.
	TLS *KeyPair
	// Config holds further lines of redis.conf. They come last, so that they override the lines of this package.
	Config []Directive
	// Args follow the configuration file on the command line, for example "--sentinel".
	Args []string
	// ReadyLine is the text in the server's output that says that it accepts connections. Empty means the line that a
	// data node of Redis or Valkey writes.
	ReadyLine string
	// KeepConfig lets Restart start from redis.conf as the server itself has left it, which is where a sentinel keeps what it
	// knows and CONFIG REWRITE what was set. Otherwise the file is written anew.
	KeepConfig bool
}

// KeyPair is what a server needs to speak TLS, each part in PEM.
type KeyPair struct {
	CA, Cert, Key []byte
}

// Directive is one line of redis.conf: a key and its value, which is taken as it stands (quotes are the caller's).
type Directive struct {
	Key, Value string
}

// Process is one redis-server. It is safe for concurrent use.
type Process struct {
	opts    Options
	binary  string
	dir     string
	ownDir  bool
	port    int
	log     *tail
	closing sync.Once

	mu  sync.Mutex // guards run
	run *run       // nil after Kill and Close, until Restart
}

// Launch starts a server and returns when it answers. ctx bounds the search for the binary, with its possible
// download, and the start; it does not govern the server's life, which ends with Close. On failure nothing is left
// behind, and the error carries the server's last words.
func Launch(ctx context.Context, opts Options) (*Process, error) {
	binary := opts.Binary
	if binary == "" {
		var err error
		if binary, err = Binary(ctx, opts.Version); err != nil {
			return nil, err
		}
	}
	p := &Process{opts: opts, binary: binary, dir: opts.Dir, log: newTail()}
	if p.dir == "" {
		dir, err := os.MkdirTemp("", "redisproc-")
		if err != nil {
			return nil, fmt.Errorf("redisproc: make the server's folder: %w", err)
		}
		p.dir, p.ownDir = dir, true
	}
	if err := p.startSomewhere(ctx); err != nil {
		p.removeDir()
		return nil, err
	}
	return p, nil
}

// startSomewhere starts the server on the port that was asked for, or on the first of several that is really free.
func (p *Process) startSomewhere(ctx context.Context) error {
	if p.opts.Port != 0 {
		p.port = p.opts.Port
		return p.startAnew(ctx)
	}
	var err error
	for range portAttempts {
		if p.port, err = FreePort(); err != nil {
			return err
		}
		if err = p.startAnew(ctx); !errors.Is(err, errPortTaken) {
			return err
		}
	}
	return fmt.Errorf("redisproc: no free port in %d attempts: %w", portAttempts, err)
}

// startAnew is start with a new configuration file.
func (p *Process) startAnew(ctx context.Context) error {
	if err := p.writeConfig(p.configFile()); err != nil {
		return err
	}
	return p.start(ctx)
}

// start runs the server on p.port and waits until it answers.
func (p *Process) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()

	cmd := exec.Command(p.binary, append([]string{p.configFile()}, p.opts.Args...)...)
	cmd.Dir = p.dir
	r, err := startRun(cmd, p.log, p.readyLine())
	if err != nil {
		return fmt.Errorf("redisproc: start %s: %w", p.binary, err)
	}
	if err := p.awaitReady(ctx, r); err != nil {
		r.kill()
		return err
	}
	p.mu.Lock()
	p.run = r
	p.mu.Unlock()
	return nil
}

// awaitReady waits for the ready line and then for an answer on the port. The line comes first because only it proves
// that the answer is this server's and not that of a stranger on the same port.
func (p *Process) awaitReady(ctx context.Context, r *run) error {
	select {
	case <-r.ready:
	case <-r.exited:
		if strings.Contains(r.output.String(), "Address already in use") {
			return fmt.Errorf("redisproc: listen on %s: %w", p.Addr(), errPortTaken)
		}
		return fmt.Errorf("redisproc: %s ended before it was ready (%s); its output:\n%s", p.binary, r.end(), r.output.String())
	case <-ctx.Done():
		return fmt.Errorf("redisproc: %s was not ready on %s: %w; its output:\n%s", p.binary, p.Addr(), ctx.Err(), r.output.String())
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", p.Addr())
	if err != nil {
		return fmt.Errorf("redisproc: the server said that it is ready: %w", err)
	}
	defer conn.Close()
	if p.opts.TLS != nil {
		return nil // the handshake needs keys that only the caller has
	}
	return ping(ctx, conn)
}

// ping sends PING and takes any answer for a sign of life: a server that wants a password answers with an error.
func ping(ctx context.Context, conn net.Conn) error {
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return fmt.Errorf("redisproc: bound the first PING: %w", err)
		}
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return fmt.Errorf("redisproc: send the first PING: %w", err)
	}
	if _, err := conn.Read(make([]byte, 64)); err != nil {
		return fmt.Errorf("redisproc: await the answer to the first PING: %w", err)
	}
	return nil
}

// writeConfig writes the server's redis.conf.
func (p *Process) writeConfig(path string) error {
	lines := []Directive{
		{"bind", "127.0.0.1"},
		{"dir", strconv.Quote(p.dir)},
		{"daemonize", "no"},
		{"logfile", `""`},
	}
	if p.opts.TLS == nil {
		lines = append(lines, Directive{"port", strconv.Itoa(p.port)})
	} else {
		if err := p.writeKeyPair(); err != nil {
			return err
		}
		lines = append(lines,
			Directive{"port", "0"},
			Directive{"tls-port", strconv.Itoa(p.port)},
			Directive{"tls-ca-cert-file", strconv.Quote(p.inDir("ca.pem"))},
			Directive{"tls-cert-file", strconv.Quote(p.inDir("cert.pem"))},
			Directive{"tls-key-file", strconv.Quote(p.inDir("key.pem"))},
			Directive{"tls-auth-clients", "no"},
		)
	}
	if p.opts.ReadyLine == "" { // a data node; a sentinel refuses these
		lines = append(lines, Directive{"save", `""`}, Directive{"appendonly", "no"})
	}
	var b strings.Builder
	for _, d := range append(lines, p.opts.Config...) {
		fmt.Fprintf(&b, "%s %s\n", d.Key, d.Value)
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		return fmt.Errorf("redisproc: write the server's configuration: %w", err)
	}
	return nil
}

func (p *Process) writeKeyPair() error {
	parts := map[string][]byte{"ca.pem": p.opts.TLS.CA, "cert.pem": p.opts.TLS.Cert, "key.pem": p.opts.TLS.Key}
	for name, pem := range parts {
		if err := os.WriteFile(p.inDir(name), pem, 0o600); err != nil {
			return fmt.Errorf("redisproc: write the server's key pair: %w", err)
		}
	}
	return nil
}

func (p *Process) configFile() string { return p.inDir("redis.conf") }

func (p *Process) inDir(name string) string { return filepath.Join(p.dir, name) }

func (p *Process) readyLine() string {
	if p.opts.ReadyLine != "" {
		return p.opts.ReadyLine
	}
	return "eady to accept connections" // "Ready" since 2.x, after a timestamp and the role's letter
}

// Addr is the server's address, 127.0.0.1:port. It stays the same over Kill and Restart.
func (p *Process) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)) }

// Port is the server's TCP port.
func (p *Process) Port() int { return p.port }

// Dir is the server's working folder.
func (p *Process) Dir() string { return p.dir }

// Binary is the path of the program that runs.
func (p *Process) Binary() string { return p.binary }

// Log is the end of what the server wrote, over all its starts.
func (p *Process) Log() string { return p.log.String() }

// PID is the process id, 0 when the process is not running.
func (p *Process) PID() int {
	r := p.current()
	if r == nil {
		return 0
	}
	return r.pid
}

// Stop sends SIGSTOP: the server keeps its connections and its port, accepts what the kernel accepts for it, and answers
// nothing until Cont. When Stop returns the process has really stopped.
func (p *Process) Stop() error {
	r := p.current()
	if r == nil {
		return ErrNotRunning
	}
	return r.pause()
}

// Cont sends SIGCONT.
func (p *Process) Cont() error {
	r := p.current()
	if r == nil {
		return ErrNotRunning
	}
	return r.resume()
}

// Kill sends SIGKILL and waits until the process is reaped. Its port and its folder stay for Restart. Killing a
// process that is not running does nothing. The error is always nil.
func (p *Process) Kill() error {
	p.mu.Lock()
	r := p.run
	p.run = nil
	p.mu.Unlock()
	if r != nil {
		r.kill()
	}
	return nil
}

// Restart kills the process if it runs and starts it again, on the same port, in the same folder, with the same
// configuration (see Options.KeepConfig). It returns when the server answers. What the server had written to disk is all
// that it remembers.
func (p *Process) Restart(ctx context.Context) error {
	if err := p.Kill(); err != nil {
		return err
	}
	if p.opts.KeepConfig {
		return p.start(ctx)
	}
	return p.startAnew(ctx)
}

// Close kills the process, waits until it is reaped and removes the folder if Launch made it. It is idempotent.
func (p *Process) Close() error {
	var err error
	p.closing.Do(func() {
		err = p.Kill()
		p.removeDir()
	})
	return err
}

func (p *Process) current() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run
}

func (p *Process) removeDir() {
	if p.ownDir {
		// A folder that cannot be removed is litter in the temporary folder and no reason to fail.
		_ = os.RemoveAll(p.dir)
	}
}
