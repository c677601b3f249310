// Testaudit judges a finished test run by its record, a file that `go test -json` or `gotestsum --jsonfile` wrote.
//
//	testaudit [-allow FILE] [-require REGEXP] RECORD
//
// It exits 1 when
//
//   - a test was skipped that the allow list does not name: a skipped test proves nothing, and a missing server or JDK
//     must be seen as the failure it is;
//   - no test ran at all, or none whose name matches the regular expression of -require.
//
// The allow list holds one "import/path TestName" per line; what follows a # is a comment. Testaudit prints nothing
// when all is well, so that the runner's own summary stays the last thing on the screen.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/redlatch/redlatch/tools/internal/events"
)

func main() {
	allow := flag.String("allow", "", "`file` that names the tests which may be skipped")
	require := flag.String("require", "", "`regexp` that the name of at least one test which ran must match")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: testaudit [-allow FILE] [-require REGEXP] RECORD")
		os.Exit(2)
	}
	faults, err := audit(flag.Arg(0), *allow, *require)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testaudit:", err)
		os.Exit(2)
	}
	for _, fault := range faults {
		fmt.Fprintln(os.Stderr, "testaudit:", fault)
	}
	if len(faults) > 0 {
		os.Exit(1)
	}
}

// audit returns what is wrong with the run, in the order in which it happened. An error means that the run could not
// be judged.
func audit(record, allow, require string) ([]string, error) {
	required, err := regexp.Compile(require)
	if err != nil {
		return nil, fmt.Errorf("-require: %w", err)
	}
	allowed, err := readAllowed(allow)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(record)
	if err != nil {
		return nil, fmt.Errorf("open the record of the run: %w", err)
	}
	defer file.Close()
	return judge(file, allowed, required)
}

func judge(record io.Reader, allowed map[string]bool, required *regexp.Regexp) ([]string, error) {
	var faults []string
	ran := 0
	err := events.Read(record, func(e events.Event) {
		if e.Test == "" {
			return // a package without tests "skips" as well
		}
		switch e.Action {
		case events.Pass, events.Fail:
			if required.MatchString(e.Test) {
				ran++
			}
		case events.Skip:
			if !allowed[e.Package+" "+e.Test] {
				faults = append(faults, fmt.Sprintf("%s %s was skipped; a test that cannot run must fail", e.Package, e.Test))
			}
		}
	})
	switch {
	case ran == 0 && required.String() == "":
		faults = append(faults, "no test ran")
	case ran == 0:
		faults = append(faults, fmt.Sprintf("no test ran whose name matches %q", required))
	}
	return faults, err
}

func readAllowed(path string) (map[string]bool, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the allow list: %w", err)
	}
	defer file.Close()

	allowed := map[string]bool{}
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		entry, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(entry)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 2 {
			return nil, fmt.Errorf("%s:%d: %q is not of the form \"import/path TestName\"", path, number, entry)
		}
		allowed[fields[0]+" "+fields[1]] = true
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the allow list: %w", err)
	}
	return allowed, nil
}
