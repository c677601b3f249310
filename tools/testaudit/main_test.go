package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	passed  = `{"Action":"pass","Package":"p","Test":"TestA"}` + "\n"
	failed  = `{"Action":"fail","Package":"p","Test":"TestA"}` + "\n"
	skipped = `{"Action":"skip","Package":"p","Test":"TestB/on_a_cluster"}` + "\n"
	empty   = `{"Action":"skip","Package":"q"}` + "\n"
)

func TestAuditFindsRunsThatProveNothing(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		record, allow, require string
		want                   []string
	}{
		"all ran":                        {record: passed},
		"package without tests":          {record: passed + empty},
		"failure is the runner's to say": {record: failed},
		"skip":                           {record: passed + skipped, want: []string{"p TestB/on_a_cluster was skipped"}},
		"allowed skip":                   {record: passed + skipped, allow: "# none\np TestB/on_a_cluster # why\n"},
		"skip of another package":        {record: passed + skipped, allow: "q TestB/on_a_cluster", want: []string{"was skipped"}},
		"nothing ran":                    {record: empty, want: []string{"no test ran"}},
		"required ran":                   {record: passed, require: "^TestA$"},
		"required missing":               {record: passed, require: "^TestSoak", want: []string{`matches "^TestSoak"`}},
		"required but skipped": {
			record: skipped, require: "^TestB",
			want: []string{"was skipped", `matches "^TestB"`},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := audit(write(t, tt.record), write(t, tt.allow), tt.require)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(tt.want) {
				t.Fatalf("got %q, want %q", got, tt.want)
			}
			for i, want := range tt.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("got %q, want it to contain %q", got[i], want)
				}
			}
		})
	}
}

func TestAuditRefusesWhatItCannotJudge(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "absent")
	tests := map[string]struct{ record, allow, require, want string }{
		"no record":        {record: missing, want: "open the record"},
		"no allow list":    {record: write(t, passed), allow: missing, want: "open the allow list"},
		"bad allow list":   {record: write(t, passed), allow: write(t, "\nTestB"), want: `:2: "TestB" is not of the form`},
		"bad requirement":  {record: write(t, passed), require: "(", want: "-require"},
		"record is folder": {record: t.TempDir(), want: "read test events"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := audit(tt.record, tt.allow, tt.require); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want an error that contains %q", err, tt.want)
			}
		})
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
