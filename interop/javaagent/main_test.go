package javaagent_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/interop/javaagent"
)

// buildBound is long because the first start on a machine downloads Redisson and Maven's plugins.
const buildBound = 8 * time.Minute

// One server and one JVM serve the whole package; each test has clients and names of its own.
var (
	server *redistest.Server
	jvm    *javaagent.Agent
)

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) (code int) {
	if err := setUp(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code = m.Run()
	for _, closing := range []func() error{jvm.Close, server.Close} {
		if err := closing(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

func setUp() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), buildBound)
	defer cancel()
	if server, err = redistest.Launch(ctx, redistest.Options{}); err != nil {
		return err
	}
	jvm, err = javaagent.Start(ctx, javaagent.Options{Stderr: os.Stderr})
	return err
}

// bounded is the context of one test's calls to the JVM.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// open opens a client of the test's own.
func open(t *testing.T, topLevel ...string) *javaagent.Client {
	t.Helper()
	return openAs(t, "main", javaagent.YAMLSingle(server.Addr(), topLevel...))
}

func openAs(t *testing.T, suffix, yaml string, opts ...javaagent.OpenOption) *javaagent.Client {
	t.Helper()
	client, err := jvm.Open(bounded(t), t.Name()+"/"+suffix, yaml, opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, client.Close(ctx))
		// So that a second round (-count) starts like the first. No test of this package runs beside another.
		server.FlushAll(t)
	})
	return client
}

// thread is a thread of the test's own.
func thread(t *testing.T, client *javaagent.Client, name string) *javaagent.Thread {
	t.Helper()
	return client.Thread(t.Name() + "/" + name)
}

// key is a name of the test's own, without braces.
func key(t *testing.T, suffix string) string {
	t.Helper()
	return strings.NewReplacer("/", ":", "{", "", "}", "").Replace(t.Name()) + ":" + suffix
}

// awaitSubscribed returns when somebody listens to the channel of the lock, and so waits for it.
func awaitSubscribed(t *testing.T, lockName string) {
	t.Helper()
	require.Eventually(t, func() bool {
		counts := server.Do(t, "PUBSUB", "NUMSUB", "redisson_lock__channel:{"+lockName+"}").List()
		return len(counts) == 2 && counts[1].Int() > 0
	}, 10*time.Second, 5*time.Millisecond, "nobody has subscribed to the channel of %s", lockName)
}
