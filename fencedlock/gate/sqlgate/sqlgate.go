package sqlgate

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redlatch/redlatch/fencedlock/gate"
)

// ErrNoRow tells that there is no row with that key. Nothing was written.
var ErrNoRow = errors.New("no such row")

// DB is where the statements go: a *sql.DB, *sql.Conn or *sql.Tx.
type DB interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

var _, _, _ DB = (*sql.DB)(nil), (*sql.Conn)(nil), (*sql.Tx)(nil)

// Values are columns and what they are set to. Names of columns belong to the program, not to its input, although they are checked.
type Values map[string]any

// Gate refuses late writers of one table's rows. It holds no connection and is safe for concurrent use.
type Gate struct{ table Table }

// New describes the gate of a table. It sends nothing; its error names everything that is wrong with the description.
func New(t Table) (*Gate, error) {
	t, err := t.check()
	if err != nil {
		return nil, err
	}
	return &Gate{t}, nil
}

// Admit checks the token against the row and sets the row's fence to it; see Update for its errors. Within a transaction the row stays
// locked until its end, and what the transaction does after Admit is safe from late writers. On a *sql.DB it says no more
// than that no newer one had been there at that moment.
func (g *Gate) Admit(ctx context.Context, db DB, key any, token int64) error {
	return g.Update(ctx, db, key, token, nil)
}

// Update sets columns of the row with that key, and its fence to the token, if the row's fence is not greater.
//
// Errors: *gate.StaleError (gate.ErrStale), ErrNoRow, gate.ErrNoToken, what is wrong with the table (a null fence, a Key that several rows
// have), or what the driver said. Nothing was written then, but for two cases: a Key that several rows have is found when they have been
// written, and an error of the driver can stand for an answer that was lost; the same call can be made again. A transaction is
// for the caller to roll back. ctx governs the statements.
func (g *Gate) Update(ctx context.Context, db DB, key any, token int64, set Values) error {
	if err := gate.CheckToken(token); err != nil {
		return err
	}
	columns := slices.Sorted(maps.Keys(set)) // one statement for one set of columns, for who caches prepared ones
	query, err := g.Statement(columns...)
	if err != nil {
		return err
	}
	args := make([]any, 0, len(columns)+3)
	args = append(args, token)
	for _, column := range columns {
		args = append(args, set[column])
	}
	return g.run(ctx, db, query, append(args, key, token), key, token)
}

// Statement is the statement that Update sends, for who sends it by other means than database/sql. Its arguments are the token, the
// values in the order of the columns, the key, and the token again. When no row was affected, there is none or its fence is
// greater. (MySQL must count the rows found: go-sql-driver's clientFoundRows=true.)
func (g *Gate) Statement(columns ...string) (string, error) {
	for i, column := range columns {
		if err := checkName("the column", column); err != nil {
			return "", err
		}
		// Names of columns do not depend on case, but in PostgreSQL between quotes.
		same := func(other string) bool { return strings.EqualFold(column, other) }
		if same(g.table.Fence) || same(g.table.Key) {
			return "", fmt.Errorf("sqlgate: the column %q is the gate's own; leave it out", column)
		}
		if slices.ContainsFunc(columns[:i], same) {
			return "", fmt.Errorf("sqlgate: the column %q is set twice", column)
		}
	}
	return g.table.update(columns), nil
}

// patience is how many times a row is tried that is not there for the statement and then is.
const patience = 3

func (g *Gate) run(ctx context.Context, db DB, query string, args []any, key any, token int64) error {
	var seen int64
	for range patience {
		result, err := db.ExecContext(ctx, query, args...)
		if err != nil {
			return fmt.Errorf("sqlgate: write %s: %w", g.row(key), err)
		}
		affected, err := result.RowsAffected()
		if err != nil {
			return fmt.Errorf("sqlgate: the driver does not tell whether %s was written, which the gate depends on: %w", g.row(key), err)
		}
		if affected == 1 {
			return nil
		}
		if affected > 1 {
			return fmt.Errorf("sqlgate: %d rows were written as %s; the column Key must be unique", affected, g.row(key))
		}
		before := seen
		if seen, err = g.refusal(ctx, db, key, token); err != nil {
			return err
		}
		// MySQL counts the rows changed, unless told otherwise, and equal values are no change. That the row was there with this very
		// token before the second try proves that this one found it.
		if g.table.Dialect == MySQL && before == token && seen == token {
			return nil
		}
	}
	return fmt.Errorf("sqlgate: %s was not written although its fence, %d, admits token %d: it was inserted, or its fence lowered, "+
		"just after the attempt, %d times in a row", g.row(key), seen, token, patience)
}

// refusal finds out why the statement changed no row. Without an error the row is there and its fence, which is returned, would admit the token.
func (g *Gate) refusal(ctx context.Context, db DB, key any, token int64) (int64, error) {
	var fence sql.NullInt64
	err := db.QueryRowContext(ctx, g.table.fence(), key).Scan(&fence)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, fmt.Errorf("sqlgate: %s: %w", g.row(key), ErrNoRow)
	case err != nil:
		return 0, fmt.Errorf("sqlgate: %s was not written; read its fence to find out why: %w", g.row(key), err)
	case !fence.Valid:
		return 0, fmt.Errorf("sqlgate: the fence of %s is null, which compares with nothing; make the column %q not null with default 0",
			g.row(key), g.table.Fence)
	case fence.Int64 > token:
		return 0, &gate.StaleError{Resource: g.row(key), Token: token, Newest: fence.Int64}
	}
	return fence.Int64, nil
}

// row names a row in errors.
func (g *Gate) row(key any) string {
	const limit = 96
	text := fmt.Sprint(key)
	if raw, isBytes := key.([]byte); isBytes {
		text = hex.EncodeToString(raw)
	}
	if len(text) > limit {
		text = text[:limit] + "…"
	}
	return g.table.Name + "[" + g.table.Key + "=" + text + "]"
}
