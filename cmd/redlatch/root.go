package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// stdio is where a command reads and writes; a child of "run" inherits what is a file.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

// terminal returns the file behind a writer when it is a terminal.
func terminal(w io.Writer) (*os.File, bool) {
	f, ok := w.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

// execute runs one command line and returns the exit code. It is all that main does, so that tests can do it without a process.
func execute(ctx context.Context, args []string, std stdio) int {
	root := newRoot(std)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil {
		if text := message(err); text != "" {
			fmt.Fprintln(std.err, text)
		}
	}
	return codeOf(err)
}

func newRoot(std stdio) *cobra.Command {
	root := &cobra.Command{
		Use:   "redlatch",
		Short: "Distributed locks on Redis, shared with Redisson",
		Long: "redlatch shows a lock pass between processes, runs commands under a lock that\n" +
			"Java services with Redisson respect, and lists the scripts that Redlatch runs\non the server.\n\n" + exitCodesHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(std.in)
	root.SetOut(std.out)
	root.SetErr(std.err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w; see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(newDemo(std), newRun(std), newScripts(std), newVersion(std))
	return root
}

// noArgs is cobra.NoArgs with an error that says what to do.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no arguments, but got %q; see %s --help", cmd.CommandPath(), args[0], cmd.CommandPath())
	}
	return nil
}
