package sqlgate_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/fencedlock/gate"
	"github.com/redlatch/redlatch/fencedlock/gate/sqlgate"
)

func TestStatementIsWrittenAsTheDatabaseWantsIt(t *testing.T) {
	for dialect, want := range map[sqlgate.Dialect]string{
		sqlgate.SQLite:   "UPDATE `shop`.`orders` SET `seen` = ?, `state` = ?, `total` = ? WHERE `number` = ? AND `seen` <= ?",
		sqlgate.MySQL:    "UPDATE `shop`.`orders` SET `seen` = ?, `state` = ?, `total` = ? WHERE `number` = ? AND `seen` <= ?",
		sqlgate.Postgres: `UPDATE "shop"."orders" SET "seen" = $1, "state" = $2, "total" = $3 WHERE "number" = $4 AND "seen" <= $5`,
	} {
		g, err := sqlgate.New(sqlgate.Table{Dialect: dialect, Name: "shop.orders", Key: "number", Fence: "seen"})
		require.NoError(t, err)
		got, err := g.Statement("state", "total")
		require.NoError(t, err)
		require.Equal(t, want, got, dialect)
	}
	g, err := sqlgate.New(sqlgate.Table{Dialect: sqlgate.Postgres, Name: "orders"})
	require.NoError(t, err)
	got, err := g.Statement()
	require.NoError(t, err)
	require.Equal(t, `UPDATE "orders" SET "fence" = $1 WHERE "id" = $2 AND "fence" <= $3`, got)
}

// badNames are what would end the quotes, or be cut off, or is no name of a column.
var badNames = []string{
	"a b", "a;b", "a--", "a`b", `a"b`, "a'b", "a]b", "1a", "ä", "a\x00b", "a.b.c", ".", "a.", ".a", "*", "a,b", "a=b", strings.Repeat("a", 64),
}

func TestNamesThatCouldBeMoreThanNamesAreRefused(t *testing.T) {
	for _, bad := range badNames {
		for part, table := range map[string]sqlgate.Table{
			"Name": {Name: bad}, "Key": {Name: "orders", Key: bad}, "Fence": {Name: "orders", Fence: bad},
		} {
			table.Dialect = sqlgate.SQLite
			g, err := sqlgate.New(table)
			require.ErrorContains(t, err, part, "%q", bad)
			require.Nil(t, g)
		}
		_, err := orders(t).Statement("state", bad)
		require.ErrorContains(t, err, "column", "%q", bad)
		err = orders(t).Update(t.Context(), nil, 1001, 34, sqlgate.Values{bad: 1})
		require.ErrorContains(t, err, "column", "%q", bad)
	}
	_, err := orders(t).Statement("")
	require.Error(t, err)
	_, err = orders(t).Statement("shop.state")
	require.Error(t, err)
}

func TestEverythingThatIsWrongWithATableIsToldAtOnce(t *testing.T) {
	_, err := sqlgate.New(sqlgate.Table{Key: "a b", Fence: "c d"})
	for _, part := range []string{"Dialect", "Name", "Key", "Fence"} {
		require.ErrorContains(t, err, part)
	}
	_, err = sqlgate.New(sqlgate.Table{Dialect: 4, Name: "orders"})
	require.ErrorContains(t, err, "Dialect is 4")
	_, err = sqlgate.New(sqlgate.Table{Dialect: sqlgate.MySQL, Name: "orders", Key: "Fence"})
	require.ErrorContains(t, err, "column of its own")
}

func TestGatesOwnColumnsAreNotTheCallers(t *testing.T) {
	for _, columns := range [][]string{{"fence"}, {"id"}, {"state", "FENCE"}, {"Id"}, {"state", "total", "State"}} {
		_, err := orders(t).Statement(columns...)
		require.Error(t, err, "%q", columns)
	}
}

// changedRows is a database that counts the rows changed, as MySQL's drivers do: a row that is found and has these values already
// is not counted.
type changedRows struct{ hooked }

func (c *changedRows) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	_, where, _ := strings.Cut(query, " WHERE ")
	set, _, _ := strings.Cut(strings.TrimPrefix(query, "UPDATE `orders` SET "), " WHERE ")
	var same int
	check := "SELECT COUNT(*) FROM orders WHERE " + strings.ReplaceAll(set, ", ", " AND ") + " AND " + where
	if err := c.DB.QueryRowContext(ctx, check, args...).Scan(&same); err != nil {
		return nil, err
	}
	result, err := c.hooked.ExecContext(ctx, query, args...)
	if same > 0 && err == nil {
		return driver.RowsAffected(0), nil
	}
	return result, err
}

func (c *changedRows) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return c.hooked.QueryRowContext(ctx, strings.TrimSuffix(query, " FOR UPDATE"), args...)
}

func TestEqualValuesAreAdmittedWhereOnlyChangesCount(t *testing.T) {
	db := open(t)
	g, err := sqlgate.New(sqlgate.Table{Dialect: sqlgate.MySQL, Name: "orders"})
	require.NoError(t, err)
	mysql := &changedRows{hooked{DB: db}}
	for range 3 {
		require.NoError(t, g.Update(t.Context(), mysql, 1001, 34, sqlgate.Values{"state": "shipped"}))
		require.NoError(t, g.Admit(t.Context(), mysql, 1001, 34))
	}
	require.Equal(t, 11, mysql.execs, "the first write once, each of the others twice")
	isStale(t, g.Admit(t.Context(), mysql, 1001, 33), 33, 34)
	require.ErrorIs(t, g.Admit(t.Context(), mysql, 7, 34), sqlgate.ErrNoRow)

	// A row that somebody inserts meanwhile, with this very token, has not been written: it is, at the second try.
	late := &changedRows{hooked{DB: db, beforeQuery: func(n int) {
		if n == 1 {
			exec(t, db, "INSERT INTO orders (id, state, fence) VALUES (1003, 'new', 34)")
		}
	}}}
	require.NoError(t, g.Update(t.Context(), late, 1003, 34, sqlgate.Values{"state": "shipped"}))
	hasRow(t, db, 1003, "shipped", 34)
	// A newer holder may come between the tries.
	newer := &changedRows{hooked{DB: db, beforeExec: func(n int) {
		if n == 2 {
			exec(t, db, "UPDATE orders SET fence = 35 WHERE id = 1001")
		}
	}}}
	err = g.Admit(t.Context(), newer, 1001, 34)
	isStale(t, err, 34, 35)
	require.ErrorIs(t, err, gate.ErrStale)
}
