package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/lua"
)

func newScripts(std stdio) *cobra.Command {
	var asJSON bool
	var source string
	cmd := &cobra.Command{
		Use:   "scripts",
		Short: "List the Lua scripts that Redlatch runs on the server",
		Long: "scripts lists every script that Redlatch sends, with the SHA-1 by which EVALSHA\n" +
			"names it, for those who review scripts or allow them one by one. No other script\nis ever sent.",
		Example: "  redlatch scripts\n  redlatch scripts --json\n  redlatch scripts --source acquire | sha1sum",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			switch {
			case source != "":
				return printSource(std.out, source)
			case asJSON:
				return printScriptsJSON(std.out)
			default:
				return printScripts(std.out)
			}
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array, with keys, arguments and replies")
	cmd.Flags().StringVar(&source, "source", "", "print the script of this `name`, byte for byte as it is sent")
	cmd.MarkFlagsMutuallyExclusive("json", "source")
	return cmd
}

func printScripts(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tSHA-1\tPURPOSE")
	for _, s := range lua.Catalog() {
		fmt.Fprintf(table, "%s\t%s\t%s\n", s.Name, s.SHA1, firstSentence(s.Purpose))
	}
	return exit(exitUnavailable, table.Flush())
}

// firstSentence keeps the table's lines short; --json has it all.
func firstSentence(text string) string {
	if end := strings.Index(text, ". "); end >= 0 {
		return text[:end+1]
	}
	return text
}

type scriptJSON struct {
	Name    string      `json:"name"`
	SHA1    string      `json:"sha1"`
	Purpose string      `json:"purpose"`
	Keys    []paramJSON `json:"keys"`
	Args    []paramJSON `json:"args"`
	Replies []paramJSON `json:"replies"`
}

type paramJSON struct {
	Name     string `json:"name"`
	Meaning  string `json:"meaning"`
	Variadic bool   `json:"variadic,omitempty"`
}

func printScriptsJSON(out io.Writer) error {
	var list []scriptJSON
	for _, s := range lua.Catalog() {
		list = append(list, scriptJSON{s.Name, s.SHA1, s.Purpose, paramsJSON(s.Keys), paramsJSON(s.Args), paramsJSON(s.Replies)})
	}
	return printJSON(out, list)
}

func paramsJSON(params []lua.Param) []paramJSON {
	list := make([]paramJSON, len(params))
	for i, p := range params {
		list[i] = paramJSON(p)
	}
	return list
}

func printJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return exit(exitUnavailable, enc.Encode(v))
}

func printSource(out io.Writer, name string) error {
	var names []string
	for _, s := range lua.Catalog() {
		if s.Name == name {
			_, err := io.WriteString(out, s.Source)
			return exit(exitUnavailable, err)
		}
		names = append(names, s.Name)
	}
	return usagef("there is no script %q; the scripts are: %s", name, strings.Join(names, ", "))
}
