package sqlgate_test

import (
	"context"
	"database/sql"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the driver

	"github.com/redlatch/redlatch/fencedlock/gate"
	"github.com/redlatch/redlatch/fencedlock/gate/sqlgate"
)

// schema also notes each write in the order in which the database did it.
const schema = `
CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT, total REAL, fence BIGINT NOT NULL DEFAULT 0);
CREATE TABLE writes (n INTEGER PRIMARY KEY AUTOINCREMENT, fence BIGINT, state TEXT);
CREATE TRIGGER note AFTER UPDATE ON orders BEGIN INSERT INTO writes (fence, state) VALUES (new.fence, new.state); END;
INSERT INTO orders (id, state) VALUES (1001, 'new'), (1002, 'new');`

// open makes a database in a file, which several connections share.
func open(t *testing.T) *sql.DB {
	t.Helper()
	file := filepath.Join(t.TempDir(), "shop.db")
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)&_txlock=immediate")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	exec(t, db, schema)
	return db
}

func exec(t *testing.T, db sqlgate.DB, query string, args ...any) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), query, args...)
	require.NoError(t, err)
}

// orders is the gate of the table of the tests.
func orders(t *testing.T) *sqlgate.Gate {
	t.Helper()
	g, err := sqlgate.New(sqlgate.Table{Dialect: sqlgate.SQLite, Name: "orders"})
	require.NoError(t, err)
	return g
}

// row reads a row.
func row(t *testing.T, db sqlgate.DB, id any) (state string, fence int64) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT state, fence FROM orders WHERE id = ?", id).Scan(&state, &fence))
	return state, fence
}

func hasRow(t *testing.T, db sqlgate.DB, id any, state string, fence int64) {
	t.Helper()
	gotState, gotFence := row(t, db, id)
	require.Equal(t, state, gotState)
	require.Equal(t, fence, gotFence)
}

// isStale says that a token was refused because of a newer one.
func isStale(t *testing.T, err error, token, newest int64) {
	t.Helper()
	var stale *gate.StaleError
	require.ErrorAs(t, err, &stale)
	require.Equal(t, gate.StaleError{Resource: "orders[id=1001]", Token: token, Newest: newest}, *stale)
	require.NotErrorIs(t, err, sqlgate.ErrNoRow)
}

// FE-08
func TestLateWriterChangesNothing(t *testing.T) {
	db, g := open(t), orders(t)
	require.NoError(t, g.Update(t.Context(), db, 1001, 34, sqlgate.Values{"state": "shipped", "total": 12.5}))
	isStale(t, g.Update(t.Context(), db, 1001, 33, sqlgate.Values{"state": "cancelled"}), 33, 34)
	isStale(t, g.Admit(t.Context(), db, 1001, 33), 33, 34)
	hasRow(t, db, 1001, "shipped", 34)
	hasRow(t, db, 1002, "new", 0)
}

func TestHolderWritesAsOftenAsItLikes(t *testing.T) {
	db, g := open(t), orders(t)
	for _, state := range []string{"packed", "packed", "shipped"} {
		require.NoError(t, g.Update(t.Context(), db, 1001, 34, sqlgate.Values{"state": state}))
		hasRow(t, db, 1001, state, 34)
	}
	require.NoError(t, g.Update(t.Context(), db, 1001, math.MaxInt64, sqlgate.Values{"state": nil}))
	isStale(t, g.Admit(t.Context(), db, 1001, math.MaxInt64-1), math.MaxInt64-1, math.MaxInt64)
}

func TestMissingRowIsNotStale(t *testing.T) {
	db, g := open(t), orders(t)
	err := g.Update(t.Context(), db, 7, 34, sqlgate.Values{"state": "shipped"})
	require.ErrorIs(t, err, sqlgate.ErrNoRow)
	require.NotErrorIs(t, err, gate.ErrStale)
	require.ErrorContains(t, err, "orders[id=7]")
	require.ErrorIs(t, g.Admit(t.Context(), db, nil, 34), sqlgate.ErrNoRow, "null equals nothing")
}

func TestWhatIsNoTokenIsNotSent(t *testing.T) {
	for _, token := range []int64{0, -1} {
		require.ErrorIs(t, orders(t).Update(t.Context(), nil, 1001, token, nil), gate.ErrNoToken)
	}
}

func TestAdmitSetsTheFenceAlone(t *testing.T) {
	db, g := open(t), orders(t)
	require.NoError(t, g.Admit(t.Context(), db, 1001, 34))
	hasRow(t, db, 1001, "new", 34)
}

// Values and keys are data, whatever they look like.
func TestValuesNeverBecomeText(t *testing.T) {
	db, g := open(t), orders(t)
	const evil = `'; DROP TABLE orders; --`
	require.NoError(t, g.Update(t.Context(), db, 1001, 34, sqlgate.Values{"state": evil}))
	hasRow(t, db, 1001, evil, 34)
	err := g.Update(t.Context(), db, `1001' OR '1'='1`, 35, sqlgate.Values{"state": evil})
	require.ErrorIs(t, err, sqlgate.ErrNoRow)
	hasRow(t, db, 1001, evil, 34)
	hasRow(t, db, 1002, "new", 0)
}

func TestTransactionOfTheCallerCarriesTheWrite(t *testing.T) {
	db, g := open(t), orders(t)
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, g.Update(t.Context(), tx, 1001, 34, sqlgate.Values{"state": "shipped"}))
	require.ErrorIs(t, g.Admit(t.Context(), tx, 7, 34), sqlgate.ErrNoRow)
	isStale(t, g.Admit(t.Context(), tx, 1001, 33), 33, 34)
	hasRow(t, tx, 1001, "shipped", 34) // a refusal does not end the transaction
	require.NoError(t, tx.Rollback())
	hasRow(t, db, 1001, "new", 0)
	require.NoError(t, g.Admit(t.Context(), db, 1001, 33), "what was rolled back is not remembered")
}

// What follows Admit in a transaction is under its protection: a newer holder waits for the end of the transaction, and an older
// one never gets in.
func TestAdmitKeepsTheRowUntilTheTransactionEnds(t *testing.T) {
	db, g := open(t), orders(t)
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, g.Admit(t.Context(), tx, 1001, 33))
	newer := make(chan error, 1)
	go func() { newer <- g.Update(t.Context(), db, 1001, 34, sqlgate.Values{"state": "newer"}) }()
	exec(t, tx, "UPDATE orders SET state = state || ' and paid' WHERE id = 1001")
	require.Empty(t, newer)
	require.NoError(t, tx.Commit())
	require.NoError(t, <-newer)
	hasRow(t, db, 1001, "newer", 34)
	isStale(t, g.Update(t.Context(), db, 1001, 33, sqlgate.Values{"state": "late"}), 33, 34)
}

func TestConnectionOfItsOwnWillDo(t *testing.T) {
	db, g := open(t), orders(t)
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, g.Update(t.Context(), conn, 1001, 34, sqlgate.Values{"state": "shipped"}))
	isStale(t, g.Admit(t.Context(), conn, 1001, 1), 1, 34)
}

func TestErrorOfTheDriverStaysVisible(t *testing.T) {
	db, g := open(t), orders(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := g.Admit(ctx, db, 1001, 34)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "orders[id=1001]")
	require.ErrorContains(t, g.Update(t.Context(), db, 1001, 34, sqlgate.Values{"stat": "x"}), "stat")
	hasRow(t, db, 1001, "new", 0)
}

// A column that is not there must be an error: in double quotes SQLite takes it for a text, and the condition for true.
func TestMisspeltColumnIsAnErrorAndNotEveryRow(t *testing.T) {
	db := open(t)
	for _, table := range []sqlgate.Table{
		{Name: "orders", Key: "idd"}, {Name: "orders", Fence: "fense"}, {Name: "order"},
	} {
		table.Dialect = sqlgate.SQLite
		g, err := sqlgate.New(table)
		require.NoError(t, err)
		err = g.Update(t.Context(), db, "idd", 34, sqlgate.Values{"state": "shipped"})
		require.ErrorContains(t, err, "no such")
		require.NotErrorIs(t, err, sqlgate.ErrNoRow)
	}
	hasRow(t, db, 1001, "new", 0)
	hasRow(t, db, 1002, "new", 0)
}

// The names of a table can be words of the language.
func TestKeywordsAreNames(t *testing.T) {
	db := open(t)
	exec(t, db, "CREATE TABLE `order` (`key` TEXT PRIMARY KEY, `select` INTEGER NOT NULL DEFAULT 0, `from` TEXT)")
	exec(t, db, "INSERT INTO `order` (`key`) VALUES ('a')")
	g, err := sqlgate.New(sqlgate.Table{Dialect: sqlgate.SQLite, Name: "main.order", Key: "key", Fence: "select"})
	require.NoError(t, err)
	require.NoError(t, g.Update(t.Context(), db, "a", 34, sqlgate.Values{"from": "here"}))
	require.ErrorIs(t, g.Admit(t.Context(), db, "a", 33), gate.ErrStale)
}

func TestNullFenceIsAFaultOfTheTable(t *testing.T) {
	db := open(t)
	exec(t, db, "CREATE TABLE loose (id INTEGER PRIMARY KEY, fence BIGINT)")
	exec(t, db, "INSERT INTO loose (id) VALUES (1)")
	g, err := sqlgate.New(sqlgate.Table{Dialect: sqlgate.SQLite, Name: "loose"})
	require.NoError(t, err)
	err = g.Admit(t.Context(), db, 1, 34)
	require.ErrorContains(t, err, "not null")
	require.NotErrorIs(t, err, gate.ErrStale)
	require.NotErrorIs(t, err, sqlgate.ErrNoRow)
}

func TestKeyThatIsNotUniqueIsAFaultOfTheTable(t *testing.T) {
	db := open(t)
	g, err := sqlgate.New(sqlgate.Table{Dialect: sqlgate.SQLite, Name: "orders", Key: "state"})
	require.NoError(t, err)
	require.ErrorContains(t, g.Admit(t.Context(), db, "new", 34), "unique")
}
