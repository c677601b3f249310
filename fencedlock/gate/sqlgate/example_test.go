package sqlgate_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "modernc.org/sqlite"

	"github.com/redlatch/redlatch/fencedlock/gate"
	"github.com/redlatch/redlatch/fencedlock/gate/sqlgate"
)

// shop is the database of the examples.
func shop() *sql.DB {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		panic(err)
	}
	db.SetMaxOpenConns(1) // each connection would have a database of its own
	_, err = db.ExecContext(context.Background(), `
		CREATE TABLE accounts (id INTEGER PRIMARY KEY, owner TEXT, balance INTEGER, fence BIGINT NOT NULL DEFAULT 0);
		INSERT INTO accounts (id, owner, balance) VALUES (7, 'Ada', 100)`)
	if err != nil {
		panic(err)
	}
	return db
}

// The tokens are those of two holds of a fencedlock; the one with 33 was paused until its lock had passed to the one with 34.
func ExampleGate_Update() {
	db := shop()
	defer db.Close()
	ctx := context.Background()
	accounts, err := sqlgate.New(sqlgate.Table{Dialect: sqlgate.SQLite, Name: "accounts"})
	if err != nil {
		fmt.Println(err)
		return
	}

	fmt.Println(accounts.Update(ctx, db, 7, 34, sqlgate.Values{"owner": "Grace", "balance": 80}))
	err = accounts.Update(ctx, db, 7, 33, sqlgate.Values{"balance": 90})
	fmt.Println(errors.Is(err, gate.ErrStale), err)
	err = accounts.Update(ctx, db, 8, 33, sqlgate.Values{"balance": 90})
	fmt.Println(errors.Is(err, sqlgate.ErrNoRow), err)

	var balance int
	err = db.QueryRowContext(ctx, "SELECT balance FROM accounts WHERE id = 7").Scan(&balance)
	fmt.Println(balance, err)
	// Output:
	// <nil>
	// true gate: token 33 is refused for "accounts[id=7]": the fencing token is stale, 34 has been admitted
	// true sqlgate: accounts[id=8]: no such row
	// 80 <nil>
}

// What Values can't express follows Admit in a transaction.
func ExampleGate_Admit() {
	db := shop()
	defer db.Close()
	accounts, err := sqlgate.New(sqlgate.Table{Dialect: sqlgate.SQLite, Name: "accounts"})
	if err != nil {
		fmt.Println(err)
		return
	}
	withdraw := func(ctx context.Context, token int64, amount int) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // does nothing after Commit
		if err := accounts.Admit(ctx, tx, 7, token); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - ? WHERE id = 7", amount); err != nil {
			return err
		}
		return tx.Commit()
	}

	ctx := context.Background()
	fmt.Println(withdraw(ctx, 34, 20))
	fmt.Println(errors.Is(withdraw(ctx, 33, 20), gate.ErrStale))

	var balance int
	err = db.QueryRowContext(ctx, "SELECT balance FROM accounts WHERE id = 7").Scan(&balance)
	fmt.Println(balance, err)
	// Output:
	// <nil>
	// true
	// 80 <nil>
}
