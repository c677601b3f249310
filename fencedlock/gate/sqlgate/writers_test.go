package sqlgate_test

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/fencedlock/gate"
	"github.com/redlatch/redlatch/fencedlock/gate/sqlgate"
)

// write is how a writer of the test below writes one row.
type write func(ctx context.Context, db *sql.DB, g *sqlgate.Gate, token int64) error

func atOnce(ctx context.Context, db *sql.DB, g *sqlgate.Gate, token int64) error {
	return g.Update(ctx, db, 1001, token, sqlgate.Values{"state": strconv.FormatInt(token, 10)})
}

func inTransaction(ctx context.Context, db *sql.DB, g *sqlgate.Gate, token int64) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // fails after the commit
	if err := g.Admit(ctx, tx, 1001, token); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE orders SET state = ? WHERE id = 1001", strconv.FormatInt(token, 10)); err != nil {
		return err
	}
	return tx.Commit()
}

// Many writers at a time, on connections of their own: what the row went through never fell, each admitted write is among it, and no
// refused one is.
func TestFenceNeverFallsUnderConcurrentWriters(t *testing.T) {
	for name, write := range map[string]write{"update": atOnce, "transaction": inTransaction} {
		t.Run(name, func(t *testing.T) {
			const writers, tokens = 8, 240
			db, g := open(t), orders(t)
			db.SetMaxOpenConns(writers)
			order := almostSorted(tokens)
			var next, admitted, refused atomic.Int64
			var wg sync.WaitGroup
			for range writers {
				wg.Go(func() {
					for i := next.Add(1); i <= tokens; i = next.Add(1) {
						switch err := write(t.Context(), db, g, order[i-1]); {
						case err == nil:
							admitted.Add(1)
						case errors.Is(err, gate.ErrStale):
							refused.Add(1)
						default:
							t.Errorf("write with token %d: %v", order[i-1], err)
						}
					}
				})
			}
			wg.Wait()
			hasRow(t, db, 1001, strconv.Itoa(tokens), tokens)
			require.EqualValues(t, tokens, admitted.Load()+refused.Load())
			require.NotZero(t, refused.Load())
			fences := history(t, db)
			require.IsNonDecreasing(t, fences)
			if name == "update" {
				require.Len(t, fences, int(admitted.Load()))
			} else {
				require.Len(t, fences, 2*int(admitted.Load()), "the admission and the write")
			}
		})
	}
}

// almostSorted are the tokens from 1 to n, most of them a little out of order: some are admitted, and some are late.
func almostSorted(n int) []int64 {
	tokens, at := make([]int64, n), make(map[int64]int, n)
	for i := range tokens {
		tokens[i] = int64(i) + 1
		at[tokens[i]] = i + rand.IntN(12)
	}
	slices.SortStableFunc(tokens, func(a, b int64) int { return cmp.Compare(at[a], at[b]) })
	return tokens
}

// history is the row's fence after each write, in order.
func history(t *testing.T, db *sql.DB) []int64 {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT fence FROM writes ORDER BY n")
	require.NoError(t, err)
	defer rows.Close()
	var fences []int64
	for rows.Next() {
		var fence int64
		require.NoError(t, rows.Scan(&fence))
		fences = append(fences, fence)
	}
	require.NoError(t, rows.Err())
	return fences
}

// The check is in the statement and nowhere else: a writer that was told the row's state beforehand by whatever means can't get by.
func TestUpdateIsOneStatement(t *testing.T) {
	db, g := open(t), orders(t)
	counted := &hooked{DB: db}
	require.NoError(t, g.Update(t.Context(), counted, 1001, 34, sqlgate.Values{"state": "shipped"}))
	require.Equal(t, 1, counted.execs)
	require.Zero(t, counted.queries)
	require.ErrorIs(t, g.Admit(t.Context(), counted, 1001, 33), gate.ErrStale)
	require.Equal(t, 2, counted.execs)
	require.Equal(t, 1, counted.queries, "why it was refused")
}

// A row that another one inserts between the statement and the question why it changed nothing is written all the same.
func TestRowThatAppearsMeanwhileIsTriedAgain(t *testing.T) {
	db, g := open(t), orders(t)
	late := &hooked{DB: db, beforeQuery: func(n int) {
		if n == 1 {
			exec(t, db, "INSERT INTO orders (id, state) VALUES (1003, 'new')")
		}
	}}
	require.NoError(t, g.Update(t.Context(), late, 1003, 34, sqlgate.Values{"state": "shipped"}))
	hasRow(t, db, 1003, "shipped", 34)
	require.Equal(t, 2, late.execs)
}

func TestRowThatComesAndGoesIsAnErrorInTheEnd(t *testing.T) {
	db, g := open(t), orders(t)
	restless := &hooked{DB: db}
	restless.beforeExec = func(int) { exec(t, db, "DELETE FROM orders WHERE id = 1001") }
	restless.beforeQuery = func(int) { exec(t, db, "INSERT INTO orders (id, state) VALUES (1001, 'new')") }
	err := g.Update(t.Context(), restless, 1001, 34, sqlgate.Values{"state": "shipped"})
	require.ErrorContains(t, err, "in a row")
	require.NotErrorIs(t, err, gate.ErrStale)
}

// hooked counts the statements and lets others do something before each.
type hooked struct {
	sqlgate.DB
	execs, queries          int
	beforeExec, beforeQuery func(n int)
}

func (h *hooked) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	h.execs++
	if h.beforeExec != nil {
		h.beforeExec(h.execs)
	}
	return h.DB.ExecContext(ctx, query, args...)
}

func (h *hooked) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	h.queries++
	if h.beforeQuery != nil {
		h.beforeQuery(h.queries)
	}
	return h.DB.QueryRowContext(ctx, query, args...)
}
