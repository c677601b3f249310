package engine

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/redistest"
)

// eachAlone has each lock be renewed by a script of its own, so that many locks are many scripts.
func eachAlone(cfg config.Config) config.Config {
	cfg.LockWatchdogBatchSize = 1
	return cfg
}

// WD-14: a dead server costs a round one timeout, and not one for each portion of what is to be renewed there; and one line in the log.
func TestWhenTheConnectionBreaksTheOtherRenewalsAreNotSent(t *testing.T) {
	t.Parallel()
	line := lineTo(t, redistest.Start(t))
	e, logs := still(t, eachAlone(config.Config{Servers: config.Single(line.URL())}))
	due := e.take(t, names(2*scriptsAtOnce+1)...)
	var portions atomic.Int32
	line.OnRequest(func([]string) redistest.Action {
		portions.Add(1)
		return redistest.CutRequest() // and with it what is behind it
	})
	e.renewAll(due)
	require.Equal(t, int32(1), portions.Load())
	for _, d := range due {
		require.Equal(t, 1, d.renewal.failures, "each is tried again by itself")
	}
	told := logs.linesWith("could not be renewed")
	require.Len(t, told, 1)
	require.Contains(t, told[0], fmt.Sprintf("locks=%d ", len(due)))
}

// What is refused, or was sent on to a dead server, is no reason to renew nothing else.
func TestWhenAServerAnswersTheOtherRenewalsAreSent(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.WithMasters(1), redistest.WithReplicas(0))
	cfg, lines := through(t, cluster)
	e, logs := still(t, eachAlone(cfg))
	line, dead := lines[cluster.Nodes()[0]], redistest.NewRelay(t, cluster.Nodes()[0])
	dead.Down()
	due := e.take(t, names(2*scriptsAtOnce+1)...)
	line.Next(redistest.SendsScript(), redistest.AnswerError(loading))
	line.Next(redistest.SendsScript(), redistest.AnswerError("MOVED 0 "+dead.Addr()))
	e.renewAll(due)
	failed := slices.DeleteFunc(due, func(d *tenure) bool { return d.renewal.failures == 0 })
	require.Len(t, failed, 2)
	told := logs.linesWith("could not be renewed")
	require.Len(t, told, 1)
	require.Contains(t, told[0], "locks=2 ")
}

// What moves to a dead server is not tried there lock after lock, and is told of together with all else that failed.
func TestWhenTheTargetOfAMoveIsDeadTheOtherLocksAreNotSentThere(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.WithMasters(1), redistest.WithReplicas(0))
	cfg, lines := through(t, cluster)
	e, logs := still(t, cfg)
	line, dead := lines[cluster.Nodes()[0]], redistest.NewRelay(t, cluster.Nodes()[0])
	dead.Down()
	var moving, resting []string
	for _, name := range names(200) {
		moving = append(moving, "{moving}:"+name)
	}
	for _, name := range names(3) {
		resting = append(resting, "{resting}:"+name)
	}
	due := append(e.take(t, moving...), e.take(t, resting...)...)
	var sent atomic.Int32
	line.OnRequest(func(cmd []string) redistest.Action {
		switch {
		case redistest.SendsScript("{resting}")(cmd):
			return redistest.AnswerError(loading)
		case redistest.SendsScript("{moving}")(cmd):
			sent.Add(1)
			return redistest.AnswerError(fmt.Sprintf("ASK %d %s", cluster.Slot(moving[0]), dead.Addr()))
		default:
			return redistest.Pass()
		}
	})
	e.renewAll(due)
	require.Less(t, int(sent.Load()), 2*len(moving), "each is asked for here, and only some there")
	for _, d := range due {
		require.Equal(t, 1, d.renewal.failures, "each is tried again by itself")
	}
	told := logs.linesWith("could not be renewed")
	require.Len(t, told, 1)
	require.Contains(t, told[0], fmt.Sprintf("locks=%d ", len(due)))
}

// Only what waits for its usual renewal goes along with another one of its slot. What has failed has a pace of its own: with that of a lock that is
// renewed as ever, it would hardly be tried again before its trust ends.
func TestOnlyWhatWaitsForItsUsualRenewalGoesAlong(t *testing.T) {
	cfg, err := config.Config{Servers: config.External()}.WithDefaults()
	require.NoError(t, err)
	now := time.Now()
	soon, late := now.Add(cfg.LockWatchdogTimeout/6-time.Second), now.Add(cfg.LockWatchdogTimeout/6+time.Second)
	for name, c := range map[string]struct {
		along   bool
		slot    uint16
		kind    string
		renewal renewal
		hold    Hold
	}{
		"Waits":        {true, 7, "plain", renewal{due: soon}, Hold{watched: true}},
		"HasFailed":    {false, 7, "plain", renewal{due: soon, failures: 1}, Hold{watched: true}},
		"IsInFlight":   {false, 7, "plain", renewal{due: soon, inFlight: true}, Hold{watched: true}},
		"OfOtherKind":  {false, 7, "read", renewal{due: soon}, Hold{watched: true}},
		"OfOtherSlot":  {false, 8, "plain", renewal{due: soon}, Hold{watched: true}},
		"IsNotDueSoon": {false, 7, "plain", renewal{due: late}, Hold{watched: true}},
		"HasItsLease":  {false, 7, "plain", renewal{due: soon}, Hold{}},
		"IsNotRenewed": {false, 7, "plain", renewal{}, Hold{watched: true}},
		"HasItsMax":    {false, 7, "plain", renewal{due: soon}, Hold{watched: true, renewUntil: now}},
	} {
		t.Run(name, func(t *testing.T) {
			e := &Engine{cfg: cfg, slots: make(slots, config.Slots)}
			held := func(slot uint16, kind string, r renewal, h Hold) *tenure {
				d := &tenure{engine: e, lock: &Lock{slot: slot}, place: place{kind: kind}, holds: []*Hold{&h}, renewal: r, index: -1}
				d.trust.confirm(now.Add(time.Minute))
				e.scheduleLocked(d)
				return d
			}
			first := held(7, "plain", renewal{due: now}, Hold{watched: true})
			other := held(c.slot, c.kind, c.renewal, c.hold)
			_, due := e.eventsLocked(now)
			require.Equal(t, []*tenure{first}, due)
			due = e.alongLocked(now, due)
			if c.along {
				require.Equal(t, []*tenure{first, other}, due)
				require.True(t, other.renewal.inFlight)
			} else {
				require.Equal(t, []*tenure{first}, due)
				require.Equal(t, c.renewal, other.renewal)
			}
		})
	}
}
