package figures_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/bench/internal/figures"
)

func TestFiguresArePrintedAsTheyComeAndThenSideBySide(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	sheet := figures.New(&out)
	sheet.Count("lost", "redlatch", 0, "holds")
	sheet.Number("took", "redlatch", 1.234, "s")
	sheet.Count("lost", "redisson", 2000, "holds")
	require.Equal(t, "FIGURE\tlost\tredlatch\t0\tholds\nFIGURE\ttook\tredlatch\t1.23\ts\nFIGURE\tlost\tredisson\t2000\tholds\n", out.String())

	out.Reset()
	sheet.Table()
	var cells [][]string
	for line := range strings.Lines(out.String()) {
		cells = append(cells, strings.Fields(line))
	}
	require.Equal(t, [][]string{{"redlatch", "redisson"}, {"lost", "(holds)", "0", "2000"}, {"took", "(s)", "1.23", "-"}}, cells)
}
