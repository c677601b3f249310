package redlatch_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/locktest/probe"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/internal/redistest/redisproc"
	"github.com/redlatch/redlatch/rlock"
)

// refused opens a client in vain and returns why. It must not take longer than a connection is given.
func refused(t *testing.T, cfg config.Config, opts ...redlatch.Option) error {
	t.Helper()
	began := time.Now()
	c, err := redlatch.Open(context.Background(), cfg, opts...)
	require.Error(t, err)
	require.Nil(t, c)
	require.Less(t, time.Since(began), 10*time.Second)
	var typed *redlatch.Error
	require.ErrorAs(t, err, &typed)
	require.Equal(t, "open", typed.Op)
	require.NotContains(t, err.Error(), "s3cret", "a password in an error")
	return err
}

func impatient(url string) config.Config {
	return config.Config{Servers: config.Single(url), ConnectTimeout: 300 * time.Millisecond, Timeout: 300 * time.Millisecond}
}

// listenWith serves every connection by a function, for the length of the test, and returns the address.
func listenWith(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			serve(conn)
		}
	}()
	return l.Addr().String()
}

func TestOpenRefusesWhatIsWrongInTheConfig(t *testing.T) {
	t.Parallel()
	for words, cfg := range map[string]config.Config{
		"Servers":             {},
		"LockWatchdogTimeout": {Servers: config.Single("redis://127.0.0.1:1"), LockWatchdogTimeout: time.Millisecond},
		"Database":            {Servers: config.Single("redis://127.0.0.1:1"), Database: -1},
		"RetryAttempts":       {Servers: config.Single("redis://127.0.0.1:1"), RetryAttempts: -7},
		"address":             {Servers: config.Single("http://127.0.0.1:1")},
	} {
		err := refused(t, cfg)
		require.ErrorContains(t, err, words)
		var field *config.FieldError
		require.ErrorAs(t, err, &field, words)
		require.NotEmpty(t, field.Allowed)
	}
	require.ErrorContains(t, refused(t, config.Config{}, redlatch.WithRedis(nil)), "nil")
}

func TestOpenSaysThatNobodyListens(t *testing.T) {
	t.Parallel()
	port, err := redisproc.FreePort()
	require.NoError(t, err)
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	err = refused(t, impatient("redis://"+address))
	require.ErrorContains(t, err, address)
	require.ErrorContains(t, err, "refused")
	var op *net.OpError
	require.ErrorAs(t, err, &op)
}

func TestOpenSaysThatTheServerIsNoRedis(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	greeter := listenWith(t, func(c net.Conn) { _, _ = c.Write([]byte("220 mail.example.org ESMTP\r\n")) })
	closer := listenWith(t, func(c net.Conn) { _ = c.Close() })
	for name, address := range map[string]string{"http": web.Listener.Addr().String(), "smtp": greeter, "closer": closer} {
		err := refused(t, impatient("redis://"+address))
		require.ErrorContains(t, err, "Redis server", name)
		require.ErrorContains(t, err, address, name)
	}
}

func TestOpenDoesNotWaitForASilentServer(t *testing.T) {
	t.Parallel()
	silent := listenWith(t, func(net.Conn) {})
	err := refused(t, impatient("redis://"+silent))
	require.ErrorContains(t, err, "no answer in time")

	ctx, cancel := context.WithCancelCause(context.Background())
	began := time.Now()
	time.AfterFunc(50*time.Millisecond, func() { cancel(errCustomerLeft) })
	_, err = redlatch.Open(ctx, config.Config{Servers: config.Single("redis://" + silent)})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, errCustomerLeft)
	require.Less(t, time.Since(began), 5*time.Second)
}

func TestOpenWithADoneContextConnectsToNothing(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 10)
	address := listenWith(t, func(net.Conn) { asked <- struct{}{} })
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := redlatch.Open(ctx, impatient("redis://"+address))
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, asked)
}

func TestOpenSaysThatTheLoginIsWrong(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithPassword("s3cret-of-the-server"), redistest.WithUser("app on >s3cret ~* &* +@all"))
	for name, c := range map[string]struct {
		cfg  config.Config
		says string
	}{
		"none":          {config.Config{}, "demands a log-in; set Password"},
		"wrong":         {config.Config{Password: "s3cret-but-wrong"}, "check Username and Password"},
		"unknown user":  {config.Config{Username: "nobody", Password: "s3cret"}, "check Username and Password"},
		"wrong of user": {config.Config{Username: "app", Password: "s3cret-but-wrong"}, "check Username and Password"},
	} {
		c.cfg.Servers = config.Single("redis://" + server.Addr())
		require.ErrorContains(t, refused(t, c.cfg), c.says, name)
	}
	c := probe.Open(t, "redis://app:s3cret@"+server.Addr())
	h, err := rlock.New(c, lockName).TryLock(context.Background())
	require.NoError(t, err)
	require.NoError(t, h.Unlock(context.Background()))
}

func TestOpenSaysThatTheDatabaseIsNotThere(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	err := refused(t, config.Config{Servers: config.Single(server.URL()), Database: 16})
	require.ErrorContains(t, err, "check Database")

	third := probe.Open(t, server.URL()+"/3")
	zero := probe.Open(t, server.URL())
	hold, err := rlock.New(third, lockName).TryLock(context.Background())
	require.NoError(t, err)
	other, err := rlock.New(zero, lockName).TryLock(context.Background())
	require.NoError(t, err, "locks of different databases do not exclude each other")
	require.NoError(t, other.Unlock(context.Background()))
	require.NoError(t, hold.Unlock(context.Background()))
}

func TestOpenSaysThatTLSIsOnAtOneSideOnly(t *testing.T) {
	t.Parallel()
	encrypted, plain := redistest.Start(t, redistest.WithTLS()), redistest.Start(t)
	with := func(url string) config.Config {
		return config.Config{Servers: config.Single(url), ConnectTimeout: 5 * time.Second}
	}
	require.ErrorContains(t, refused(t, with("redis://"+encrypted.Addr())), "TLS")

	cfg := with("rediss://" + plain.Addr())
	cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	require.Error(t, refused(t, cfg))

	cfg = with("rediss://" + encrypted.Addr())
	require.ErrorContains(t, refused(t, cfg), "certificate", "it is not one that the system trusts")
	cfg.TLS = encrypted.TLS()
	c, err := redlatch.Open(context.Background(), cfg)
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

// HA-19: a provider that forbids scripts is found out at the start.
func TestOpenSaysThatScriptsMayNotRun(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithUser("noeval on >s3cret ~* &* +@all -eval -evalsha"),
		redistest.WithUser("nothing on >s3cret ~* &* -@all +hello +auth"))
	for _, user := range []string{"noeval", "nothing"} {
		err := refused(t, config.Config{Servers: config.Single("redis://" + server.Addr()), Username: user, Password: "s3cret"})
		require.ErrorContains(t, err, "ACL", user)
		require.ErrorContains(t, err, "script", user)
	}
}

// NM-04: rights for the application's own keys are too few: that is told when the lock is taken, not when it is to be released.
func TestAclOfTheLocksKeyAloneIsToldAtTheFirstAcquisition(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithUser("app on >s3cret ~order:* &* +@all"))
	c := probe.Open(t, "redis://app:s3cret@"+server.Addr())
	for _, l := range []*rlock.Lock{rlock.New(c, lockName), rlock.New(c, "invoice:1")} {
		began := time.Now()
		_, err := l.Lock(context.Background())
		require.ErrorContains(t, err, "ACL")
		require.ErrorContains(t, err, "redisson_*")
		require.NotErrorIs(t, err, redlatch.ErrNotAcquired)
		require.Less(t, time.Since(began), 10*time.Second)
	}
	require.Empty(t, server.Snapshot(t).Entries)
}

// Nothing that a client is told of passwords comes out of it again.
func TestErrorsOfAClientShowNoPassword(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithPassword("s3cret"))
	r := &rig{T: t, server: server}
	c := probe.Open(t, server.URL(), hasty)
	hold := r.take(context.Background(), rlock.New(c, lockName))
	server.Kill(t)
	_, err := rlock.New(c, lockName).TryLock(context.Background())
	require.Error(t, err)
	require.NotContains(t, err.Error(), "s3cret")
	dead, cancel := context.WithCancel(context.Background())
	cancel()
	err = hold.Unlock(dead)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "s3cret")
	require.NotContains(t, err.Error(), "\n")
}

// A connection that is not ours stays open, also when the opening with it is given up.
func TestEndedOpeningLeavesABorrowedConnectionOpen(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 {
		borrowed := server.Client(t)
		_, err := redlatch.Open(ended, config.Config{}, redlatch.WithRedis(borrowed))
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, borrowed.Do(t.Context(), borrowed.B().Ping().Build()).Error())
	}
}
