package interop

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/interop/javaagent"
)

// agent is the JVM of all tests of this package; a client of it for each test keeps them apart.
var agent *javaagent.Agent

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	// The version is a variable of the environment, so that a matrix of versions can be run.
	agent, err = javaagent.Start(context.Background(), javaagent.Options{RedissonVersion: os.Getenv("REDLATCH_REDISSON_VERSION")})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	for _, closing := range []func() error{agent.Close, cluster.end, sentinels.end} {
		if err := closing(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}
