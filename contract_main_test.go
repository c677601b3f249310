package redlatch_test

import (
	"flag"
	"net"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain also serves as the program that TestStoppedProcessWakesUpWithoutBelief stops and continues. It lets more tests run
// at a time than there are processors: most of them wait for a server, a timeout or a lease.
func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		os.Exit(runChild(name))
	}
	net.DefaultResolver = names.resolver() // before anybody looks at it
	flag.Parse()
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
