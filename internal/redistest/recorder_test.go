package redistest_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

func TestRecorderHasEveryMessageInOrder(t *testing.T) {
	for name, patterns := range map[string][]string{"all": nil, "some": {"lock:*"}} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t)
			rec := s.Record(t, patterns...)
			other := s.Record(t) // whose fences must stay invisible
			var want []redistest.Message
			for i := range 500 {
				s.Do(t, "PUBLISH", "lock:"+strconv.Itoa(i%3), strconv.Itoa(i))
				want = append(want, redistest.Message{Channel: "lock:" + strconv.Itoa(i%3), Payload: strconv.Itoa(i)})
			}
			require.Equal(t, want, other.Messages(t))
			require.Equal(t, want, rec.Messages(t))
			rec.Reset(t)
			require.Empty(t, rec.Messages(t))
			s.Do(t, "PUBLISH", "lock:9", "0")
			require.Equal(t, []redistest.Message{{Channel: "lock:9", Payload: "0"}}, rec.Wait(t, 1))
		})
	}
}

func TestRecorderHearsShardChannels(t *testing.T) {
	s := redistest.Start(t)
	rec := s.RecordSharded(t, "{a}:1", "{a}:2")
	s.Do(t, "SPUBLISH", "{a}:2", "0")
	s.Do(t, "SPUBLISH", "{a}:3", "0")
	s.Do(t, "PUBLISH", "{a}:1", "not sharded")
	require.Equal(t, []redistest.Message{{Channel: "{a}:2", Payload: "0"}}, rec.Messages(t))
}

func TestRecorderStopsBeforeTheTestEnds(t *testing.T) {
	s := redistest.Start(t)
	rec := s.Record(t)
	require.EqualValues(t, 1, s.Do(t, "PUBSUB", "NUMPAT").Int())
	rec.Stop()
	require.Eventually(t, func() bool { return s.Do(t, "PUBSUB", "NUMPAT").Int() == 0 }, 15*time.Second, time.Millisecond)
}
