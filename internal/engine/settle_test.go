package engine

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/config"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/internal/topology"
)

// shortest is the shortest pause of a settler with its jitter.
const shortest = 75 * time.Millisecond

// stalePace is a settler's pace after a server has failed to settle for long.
func stalePace() *rounds {
	r := newRounds()
	<-r.due.C
	for range 20 {
		r.again(false)
	}
	return r
}

func TestServerThatCanNotSettleIsAskedMoreAndMoreSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, began := stalePace(), time.Now()
		<-r.due.C
		require.Greater(t, time.Since(began), 2*time.Second)
	})
}

func TestNewDebtorDoesNotWaitForThePaceOfTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, began := stalePace(), time.Now()
		r.hurry()
		<-r.due.C
		require.LessOrEqual(t, time.Since(began), shortest)
		require.Positive(t, time.Since(began), "not in a loop")
	})
}

// However many debts come one after the other, the next round comes.
func TestStreamOfDebtsDoesNotPutOffTheSettling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, began := stalePace(), time.Now()
		for {
			select {
			case <-r.due.C:
				require.LessOrEqual(t, time.Since(began), shortest)
				return
			default:
			}
			require.LessOrEqual(t, time.Since(began), shortest)
			r.hurry()
			time.Sleep(time.Millisecond)
		}
	})
}

// mute is a server that never settles anything. It tells how many debts it was asked to settle.
type mute struct {
	rueidis.Client // makes the commands
	asked          func(debts int)
}

func (mute) Do(context.Context, rueidis.Completed) (r rueidis.RedisResult) { return r }

func (m mute) DoMulti(_ context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	m.asked(len(commands))
	return make([]rueidis.RedisResult, len(commands))
}

// However long a server has failed to settle what others owe, it is asked soon for what is owed anew.
func TestNewDebtReachesTheSettlerThatIsAtWork(t *testing.T) {
	client := redistest.Start(t).Client(t)
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		cfg, err := config.Config{Servers: config.External()}.WithDefaults()
		require.NoError(t, err)
		log := slog.New(slog.DiscardHandler)
		servers, err := topology.Open(t.Context(), cfg, topology.Options{Log: log, Redis: mute{client, func(n int) { asked.Store(int64(n)) }}})
		require.NoError(t, err)
		e := &Engine{
			cfg: cfg, log: log, servers: servers, debtCame: make(chan struct{}, 1),
			tenures: make(map[place]*tenure), debtors: make(map[*tenure]struct{}),
		}
		e.life, e.end = context.WithCancel(t.Context())
		e.workers.Go(e.settleDebts)
		e.owing("old")
		for debts := range int64(5) {
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Equal(t, debts+1, asked.Load())
			e.owing("new")
			time.Sleep(shortest)
			synctest.Wait()
			require.Equal(t, debts+2, asked.Load())
		}
		e.end()
		e.workers.Wait()
		servers.Close()
	})
}

// A dead server costs a round one portion of what is to be settled there, and so one timeout.
func TestWhenNothingIsAnsweredTheOtherDebtsAreNotSent(t *testing.T) {
	t.Parallel()
	line := lineTo(t, redistest.Start(t))
	e, _ := still(t, config.Config{Servers: config.Single(line.URL())})
	const debtors = 2*scriptsAtOnce + 1
	for _, name := range names(debtors) {
		e.owing(name)
	}
	settles := func() int {
		before, left := e.settleRound(e.servers.Masters()[0])
		require.Equal(t, debtors, before)
		return before - left
	}
	var scripts atomic.Int32
	count := func(action redistest.Action) func([]string) redistest.Action {
		return func(cmd []string) redistest.Action {
			if redistest.SendsScript()(cmd) {
				scripts.Add(1)
				return action
			}
			return redistest.Pass()
		}
	}
	line.OnRequest(count(redistest.Pass()))
	speak := line.PauseReplies()
	require.Zero(t, settles())
	require.Positive(t, scripts.Load())
	require.LessOrEqual(t, scripts.Swap(0), int32(scriptsAtOnce))
	speak()
	line.OnRequest(count(redistest.CutRequest())) // and with it all of the portion
	require.Zero(t, settles())
	require.Equal(t, int32(1), scripts.Load(), "portions")
	line.OnRequest(nil)
	require.Equal(t, debtors, settles())
	require.Empty(t, e.tenures)
}

// A refusal is an answer, and what is sent on to a dead server says nothing of this one: it lives, and may settle the others.
func TestWhenAnythingIsAnsweredTheOtherDebtsAreSent(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.WithMasters(1), redistest.WithReplicas(0))
	cfg, lines := through(t, cluster)
	e, _ := still(t, cfg)
	line, dead := lines[cluster.Nodes()[0]], redistest.NewRelay(t, cluster.Nodes()[0])
	dead.Down()
	const debtors = 2*scriptsAtOnce + 1
	for _, name := range names(debtors) {
		e.owing(name)
	}
	var scripts atomic.Int32
	line.OnRequest(func(cmd []string) redistest.Action {
		if redistest.SendsScript()(cmd) {
			scripts.Add(1)
			return redistest.AnswerError(loading)
		}
		return redistest.Pass()
	})
	_, left := e.settleRound(e.servers.Masters()[0])
	require.Equal(t, debtors, left)
	require.Equal(t, int32(debtors), scripts.Load())

	line.OnRequest(nil)
	line.Next(redistest.SendsScript(), redistest.AnswerError("MOVED 0 "+dead.Addr()))
	_, left = e.settleRound(e.servers.Masters()[0])
	require.Equal(t, 1, left)
}

// Who is busy is left for the next round, whose order of requests would be upset otherwise, and keeps nobody else from being settled: also where
// all of a portion are busy.
func TestBusyDebtorIsLeftForTheNextRound(t *testing.T) {
	t.Parallel()
	line := lineTo(t, redistest.Start(t))
	e, _ := still(t, config.Config{Servers: config.Single(line.URL())})
	var busy []*tenure
	for _, name := range names(2 * scriptsAtOnce) {
		busy = append(busy, e.owing(name))
		require.True(t, busy[len(busy)-1].take(nil))
	}
	var scripts atomic.Int32
	line.OnRequest(func(cmd []string) redistest.Action {
		if redistest.SendsScript()(cmd) {
			scripts.Add(1)
		}
		return redistest.Pass()
	})
	for round := range int32(20) { // the one that is idle is in any portion
		e.owing("idle")
		before, left := e.settleRound(e.servers.Masters()[0])
		require.Equal(t, len(busy)+1, before)
		require.Equal(t, len(busy), left)
		require.Equal(t, round+1, scripts.Load())
	}
	for _, d := range busy {
		require.True(t, d.busy, "its turn is still that of who has taken it")
		d.give()
	}
	_, left := e.settleRound(e.servers.Masters()[0])
	require.Zero(t, left)
	require.Empty(t, e.tenures)
}

// A new debt makes nobody look at the debtors of other masters, and none is told of it twice.
func TestNewDebtIsToldToTheSettlerOfItsMasterAlone(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.WithReplicas(0))
	e, _ := still(t, config.Config{Servers: cluster.Servers()})
	all := make(map[*topology.Node]bool)
	for _, name := range names(20) {
		all[e.servers.MasterOf(e.owing(name).lock.slot)] = true
	}
	require.Len(t, all, 3)
	masters, owing := e.creditors(true)
	require.True(t, owing)
	require.Equal(t, all, masters)
	last := e.owing("last")
	masters, _ = e.creditors(true)
	require.Equal(t, map[*topology.Node]bool{e.servers.MasterOf(last.lock.slot): true}, masters)
	masters, owing = e.creditors(true)
	require.True(t, owing)
	require.Empty(t, masters)
	masters, _ = e.creditors(false)
	require.Equal(t, all, masters)
	for n := range all {
		before, left := e.settleRound(n)
		require.Positive(t, before)
		require.Zero(t, left)
	}
	require.Empty(t, e.debtors)
}

// WD-14: whose slot has moved away from a master that settles nothing is settled by the new one, however many new debts the old one gets meanwhile.
func TestDebtorWhoseSlotMovesIsSettledAtItsNewMaster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.WithReplicas(0))
	cfg, lines := through(t, cluster)
	e, _ := open(t, cfg)
	const moving = "order:1001"
	from, to := cluster.MasterOf(t, moving), cluster.Nodes()[0]
	if to == from {
		to = cluster.Nodes()[1]
	}
	staying := names(1000)
	for cluster.Slot(staying[0]) == cluster.Slot(moving) || cluster.MasterOf(t, staying[0]) != from {
		staying = staying[1:]
	}
	line := lines[from]
	line.OnRequest(func(cmd []string) redistest.Action {
		if redistest.SendsScript()(cmd) {
			return redistest.AnswerError(loading)
		}
		return redistest.Pass()
	})
	asked := lines[to].Next(redistest.SendsScript(moving), redistest.Pass())
	e.owing(moving)
	e.owing(staying[0])
	line.Next(redistest.SendsScript(moving), redistest.AnswerError(loading)).AwaitRequest(t) // its settler is at work
	cluster.MoveSlot(t, cluster.Slot(moving), to)
	require.Eventually(t, func() bool {
		e.owing(staying[0])
		select {
		case <-asked.Answered():
			return true
		default:
			return false
		}
	}, 20*time.Second, 20*time.Millisecond)
	line.OnRequest(nil)
	for range 2 { // again when the settlers have ended
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		require.True(t, e.waitFor(func() bool { return len(e.debtors) == 0 }, ctx.Done()))
		cancel()
		e.owing(moving)
	}
}
