package topics_test

import (
	"testing"

	"github.com/redlatch/redlatch/tools/internal/topics"
)

func TestNamesAreTakenApart(t *testing.T) {
	t.Parallel()
	for test, want := range map[string]topics.Name{
		"TestInterop":                             {Test: "TestInterop"},
		"TestInterop/sentinel":                    {Test: "TestInterop/sentinel", Topology: "sentinel"},
		"TestInterop/both":                        {Test: "TestInterop/both", Topology: "single", Direction: "both"},
		"TestInterop/both/all_kinds:_x":           {"TestInterop/both/all_kinds:_x", "single", "both", "all kinds: x"},
		"TestInteropYAML/master-slave/both/x":     {"TestInteropYAML/master-slave/both/x", "master-slave", "both", "x"},
		"TestInteropMulti/cluster/go-to-java/a/b": {"TestInteropMulti/cluster/go-to-java/a", "cluster", "go-to-java", "a"},
	} {
		if got, ok := topics.Read(test); !ok || got != want {
			t.Errorf("%s: %+v, %v; want %+v", test, got, ok, want)
		}
	}
	for _, test := range []string{"", "TestAgent/cluster/both/x"} {
		if got, ok := topics.Read(test); ok {
			t.Errorf("%s: %+v", test, got)
		}
	}
}
