// Package sqlgate is the gate for rows of an SQL database: it refuses the write of a holder whose fencing token is older than one that
// has written the row. Package gate describes what gates are for.
//
// # Overview
//
// The row has a column for the token of its last writer:
//
//	ALTER TABLE orders ADD COLUMN fence BIGINT NOT NULL DEFAULT 0
//
// and every writer goes through the gate:
//
//	orders, err := sqlgate.New(sqlgate.Table{Dialect: sqlgate.Postgres, Name: "orders"})
//	…
//	err = orders.Update(ctx, db, 1001, hold.Token(), sqlgate.Values{"state": "shipped"})
//	if errors.Is(err, gate.ErrStale) {
//		return err // the lock has passed to somebody else: give up
//	}
//
// It works on a *sql.DB, a *sql.Conn and within a *sql.Tx. What Values can't express (balance = balance - 10, several tables, a
// DELETE) goes into a transaction that begins with Admit: that checks the token and keeps the row locked until the
// transaction's end, so that the statements after it are under its protection.
//
// # What is guaranteed
//
// Check and write are one statement, whatever the isolation level:
//
//	UPDATE orders SET fence = ?, state = ? WHERE id = ? AND fence <= ?
//
// Only when it has changed no row a second one reads the row, to tell why: *gate.StaleError with the newest token, ErrNoRow, or an
// error that says what is wrong with the table. Values travel as arguments, never as text; names of tables and columns are
// checked and quoted. With these quotes a name is what the database stores: PostgreSQL keeps names that were created without
// quotes in lower case.
//
// # What is not
//
// A new row has no fence yet. Insert it with the token in its fence column, or with 0 where the insertion needs no lock; a
// unique key decides between two inserters. A deleted row has forgotten its fence: a late holder that inserts would bring it back.
// Where that matters, mark rows as deleted, or keep the fences in a table of their own, with a row for each lock, and begin each
// transaction with Admit on that.
//
// At a level of isolation that works on a snapshot the database may refuse the statement because the row was changed meanwhile
// (PostgreSQL's 40001, SQLite's SQLITE_BUSY, anybody's deadlock). Nothing was written then; the error is the driver's, for
// errors.As, and the transaction has to be begun anew by who began it.
//
// # Databases
//
// SQLite, PostgreSQL, and MySQL with MariaDB, and whatever speaks as they do. The fence column must be an integer of 64 bits that is
// not null; the key column must be unique. In MySQL it makes no difference whether the driver counts the rows found or the
// rows changed (go-sql-driver's clientFoundRows); with rows changed, a second write of equal values costs three statements more.
package sqlgate
