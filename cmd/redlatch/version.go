package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build is what a binary knows of its origin.
type build struct {
	Version  string `json:"version"` // the module's, "(devel)" for a build from a working tree without one
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"` // of the revision
	Modified bool   `json:"modified"`       // the working tree had changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersion(std stdio) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say what this program was built from",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			info, _ := debug.ReadBuildInfo()
			return printVersion(std.out, buildOf(info), asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

// buildOf reads what the Go tool has written into the binary; nil stands for a binary without it.
func buildOf(info *debug.BuildInfo) build {
	b := build{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info == nil {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func printVersion(out io.Writer, b build, asJSON bool) error {
	if asJSON {
		return printJSON(out, b)
	}
	line := "redlatch " + b.Version
	if b.Revision != "" {
		line += " (revision " + b.Revision
		if b.Time != "" {
			line += " of " + b.Time
		}
		if b.Modified {
			line += ", with changes"
		}
		line += ")"
	}
	_, err := fmt.Fprintf(out, "%s, %s, %s\n", line, b.Go, b.Platform)
	return exit(exitUnavailable, err)
}
