package redistest_test

import (
	"testing"

	"go.uber.org/goleak"
)

// One test uses a cluster client of rueidis 1.0.79, in which a refresh of the slots that was put off by a second outlives Close.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo"))
}
