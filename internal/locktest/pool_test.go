package locktest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { Main(m, 1) }

func TestServersOnLoanComeBackAsTheyWere(t *testing.T) {
	p := newPool(launchMasterSlave)
	t.Cleanup(func() { require.NoError(t, p.end()) })
	const script = "return 'known'"
	var master string
	t.Run("first", func(t *testing.T) {
		site := p.lend(t)
		master = site.Servers[0].Addresses()[0].Addr
		site.Do(t, "SET", "left", "behind")
		site.Do(t, "EVAL", script, "0")
		require.Equal(t, []string{"left"}, site.Keys(t))
		require.Equal(t, map[string]int64{"set": 1, "eval": 1}, only(site.Commands(t), "set", "eval"))
	})
	t.Run("second", func(t *testing.T) {
		site := p.lend(t)
		require.Equal(t, master, site.Servers[0].Addresses()[0].Addr, "the servers of the first are there for the second")
		require.Empty(t, site.Keys(t))
		site.ResetCommands(t)
		require.Empty(t, site.Commands(t))
	})
	require.Len(t, p.idle, 1)
	e := <-p.idle
	defer func() { p.idle <- e }()
	known, err := e.masters[0].TryDo("SCRIPT", "EXISTS", "7b0b00926452febb629166835c95133343f15b42")
	require.NoError(t, err)
	require.Zero(t, known.List()[0].Int())
}

func only(counts map[string]int64, names ...string) map[string]int64 {
	out := make(map[string]int64)
	for _, name := range names {
		out[name] = counts[name]
	}
	return out
}
