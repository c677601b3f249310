package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/demo"
)

const (
	demoLock       = "order:1001"
	demoLockShared = "redlatch-demo:order:1001" // on a server that may have an order 1001 of its own
	longestLease   = time.Second
)

type demoFlags struct {
	connection
	options       demo.Options
	kind          string
	plain, asJSON bool
}

func newDemo(std stdio) *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch several workers contend for one lock",
		Long: `demo lets several workers, each with a client of its own as if it were a
process of its own, contend for one lock, and shows live who holds it and who
waits. In each section a worker reads a counter from Redis, keeps it for a while
and writes it back plus one, which only works under a lock. One worker crashes
while it holds the lock: nobody unlocks it, and the others get it when its lease
is over. At the end the counter is compared with the sections, and the exit code
says whether the lock did its work.

Without --redis and --config it brings its own server: an embedded one, with --java a real
redis-server, since Redisson needs one. Ctrl-C ends it early.`,
		Example: "  redlatch demo\n  redlatch demo --workers 8 --for 10s\n  redlatch demo --kind read-write\n  redlatch demo --java\n  redlatch demo --redis redis://127.0.0.1:6379\n  redlatch demo --json | jq 'select(.event == \"verdict\")'",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), std) },
	}
	f.register(cmd, "`URL` of a server to use, instead of an own one ("+envRedis+" is not looked at)")
	o := &f.options
	cmd.Flags().IntVar(&o.Workers, "workers", 0, "`number` of Go workers (default: 4, with --java 2)")
	cmd.Flags().DurationVar(&o.For, "for", 5*time.Second, "how long the workers work")
	cmd.Flags().DurationVar(&o.Hold, "hold", 80*time.Millisecond, "how long a section takes, on average")
	cmd.Flags().DurationVar(&o.Lease, "lease", 0, "how long the lock of a crashed worker stays (default: a fifth of --for, at most 1s)")
	cmd.Flags().BoolVar(&o.Crash, "crash", true, "let one worker crash while it holds the lock")
	cmd.Flags().BoolVar(&o.Java, "java", false, "let a JVM with a real Redisson contend, too (needs a JDK 17 and Maven)")
	cmd.Flags().StringVar(&f.kind, "kind", "plain", "`kind` of lock: "+demo.KindNames())
	cmd.Flags().StringVar(&o.Name, "name", "", "`name` of the lock (default "+demoLock+", with --redis or --config "+demoLockShared+")")
	cmd.Flags().BoolVar(&f.plain, "plain", false, "print a line for each event, as when the output is no terminal")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print a JSON object for each event and for the verdict")
	cmd.MarkFlagsMutuallyExclusive("plain", "json")
	return cmd
}

// complete turns the flags into options.
func (f *demoFlags) complete(std stdio) error {
	o := &f.options
	var err error
	if o.Kind, err = demo.KindNamed(f.kind); err != nil {
		return usagef("--kind: %w", err)
	}
	if o.Name == "" {
		o.Name = demoLock
		if f.named() {
			o.Name = demoLockShared
		}
	}
	if o.Workers == 0 {
		o.Workers = 4
		if o.Java {
			o.Workers = 2 // so that the JVM is not the one of many who is always late
		}
	}
	if o.Lease == 0 {
		o.Lease = min(max(o.For/5, demo.MinLease), longestLease)
	}
	if f.named() {
		if o.Servers, err = f.config(std.err); err != nil {
			return err
		}
	} else if f.cluster || f.sentinel != "" || f.database != 0 || f.username != "" || f.passwordFile != "" || f.ca != "" {
		return usagef("--cluster, --sentinel, --database, --username, --password-file and --tls-ca are about a server: name it with --redis")
	}
	o.Progress = func(text string) { fmt.Fprintln(std.err, "redlatch: "+text) }
	return exit(exitUsage, o.Check())
}

func (f *demoFlags) run(ctx context.Context, std stdio) error {
	if err := f.complete(std); err != nil {
		return err
	}
	ctx, finish := interruptible(ctx)
	viewer, restore := f.viewer(std.out)
	verdict, err := demo.Run(ctx, f.options, viewer)
	restore()
	sig := finish()
	switch {
	case err != nil && sig != nil:
		return exit(sig.code(), errors.New("interrupted before there was a verdict"))
	case err != nil:
		return exit(exitUnavailable, err)
	case !verdict.OK():
		return &exitError{code: exitFailed} // the verdict has said why
	case sig != nil:
		return &exitError{code: sig.code()}
	}
	return nil
}

// viewer picks how the demo is shown; restore gives the terminal back, also when the demo failed.
func (f *demoFlags) viewer(out io.Writer) (v demo.Viewer, restore func()) {
	file, interactive := terminal(out)
	switch {
	case f.asJSON:
		return demo.NewJSON(out), func() {}
	case f.plain || !interactive || os.Getenv("TERM") == "dumb":
		return demo.NewLines(out), func() {}
	}
	screen := demo.NewScreen(file, func() (width, height int) {
		width, height, err := term.GetSize(int(file.Fd()))
		if err != nil {
			return 0, 0
		}
		return width, height
	}, styleOf(os.Getenv))
	return screen, screen.Close
}

// styleOf reads what the terminal can show from the environment: no colours with NO_COLOR (no-color.org), and letters of
// ASCII alone where the locale says so.
func styleOf(getenv func(string) string) demo.Style {
	s := demo.Style{Colour: getenv("NO_COLOR") == "", Unicode: true}
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := getenv(name); locale != "" {
			lower := strings.ToLower(locale)
			s.Unicode = strings.Contains(lower, "utf-8") || strings.Contains(lower, "utf8")
			break
		}
	}
	return s
}
