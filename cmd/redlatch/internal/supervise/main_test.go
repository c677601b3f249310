//go:build unix

package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// The test binary plays the commands, too: "<binary> child <part> …".
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "child" {
		os.Exit(playChild(os.Args[2], os.Args[3:]))
	}
	goleak.VerifyTestMain(m)
}

// playChild returns the exit code of a part.
func playChild(part string, args []string) int {
	switch part {
	case "exit":
		code, _ := strconv.Atoi(args[0])
		return code
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "obey": // says what signal it gets, and ends at SIGTERM
		return obey(syscall.SIGTERM)
	case "stubborn": // never ends
		return obey(nil)
	case "parent": // has a child that never ends, and dies of SIGTERM itself
		return parent("stubborn")
	default:
		fmt.Println("no such part:", part)
		return 99
	}
}

func obey(last os.Signal) int {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded...)
	fmt.Println("ready")
	for sig := range signals {
		fmt.Println(sig)
		if sig == last {
			return 5
		}
	}
	return 0
}

// parent lets its child write to its own output, so that the child outlives it.
func parent(part string) int {
	cmd := exec.Command(os.Args[0], "child", part)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return 98
	}
	return 0
}
