package sqlgate

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Dialect is how a database wants its statements.
type Dialect int

// There is no default: what quotes mean differs too much to guess.
const (
	SQLite   Dialect = iota + 1 // also what speaks its dialect, such as libSQL
	Postgres                    // also CockroachDB
	MySQL                       // also MariaDB
)

func (d Dialect) String() string {
	switch d {
	case SQLite:
		return "SQLite"
	case Postgres:
		return "Postgres"
	case MySQL:
		return "MySQL"
	}
	return "Dialect(" + strconv.Itoa(int(d)) + ")"
}

// Table is a table whose rows are fenced.
type Table struct {
	// Dialect must be given.
	Dialect Dialect
	// Name must be given: "orders", or with its schema or database "shop.orders".
	Name string
	// Key is the column by which a row is found, which must be unique; "" is "id".
	Key string
	// Fence is the column that holds the token of the last writer, a 64-bit integer, not null; "" is "fence".
	Fence string
}

// maxName is what all three databases take; PostgreSQL cuts off what is longer.
const maxName = 63

var nameForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func checkName(what, name string) error {
	if len(name) <= maxName && nameForm.MatchString(name) {
		return nil
	}
	return fmt.Errorf("sqlgate: %s %q can't be used; allowed are letters A to Z, digits and _, not a digit first, 1 to %d of them", what, name, maxName)
}

// check returns the table with its defaults, or everything that is wrong with it.
func (t Table) check() (Table, error) {
	if t.Key == "" {
		t.Key = "id"
	}
	if t.Fence == "" {
		t.Fence = "fence"
	}
	var errs []error
	if t.Dialect < SQLite || t.Dialect > MySQL {
		errs = append(errs, fmt.Errorf("sqlgate: Dialect is %d; set it to SQLite, Postgres or MySQL", int(t.Dialect)))
	}
	if schema, table, qualified := strings.Cut(t.Name, "."); qualified {
		errs = append(errs, checkName("the schema of Name", schema), checkName("the table of Name", table))
	} else {
		errs = append(errs, checkName("Name", t.Name))
	}
	errs = append(errs, checkName("the column Key", t.Key), checkName("the column Fence", t.Fence))
	if strings.EqualFold(t.Key, t.Fence) {
		errs = append(errs, fmt.Errorf("sqlgate: Key and Fence are both %q; the token needs a column of its own", t.Key))
	}
	return t, errors.Join(errs...)
}

// quote makes a checked name one that no keyword can be mistaken for. Not with double quotes for SQLite, which takes
// "misspelt" for a text when there is no such column: WHERE "idd" = 'idd' would be every row.
func (d Dialect) quote(name string) string {
	mark := "`"
	if d == Postgres {
		mark = `"`
	}
	parts := strings.Split(name, ".")
	for i, part := range parts {
		parts[i] = mark + part + mark
	}
	return strings.Join(parts, ".")
}

// placeholder is how the statement's argument number n, from 1, is written.
func (d Dialect) placeholder(n int) string {
	if d == Postgres {
		return "$" + strconv.Itoa(n)
	}
	return "?"
}

// update is the one statement that checks and writes. Its arguments: the token, the columns' values, the key, the token.
func (t Table) update(columns []string) string {
	d, n := t.Dialect, 0
	next := func() string {
		n++
		return d.placeholder(n)
	}
	var b strings.Builder
	b.WriteString("UPDATE " + d.quote(t.Name) + " SET " + d.quote(t.Fence) + " = " + next())
	for _, column := range columns {
		b.WriteString(", " + d.quote(column) + " = " + next())
	}
	b.WriteString(" WHERE " + d.quote(t.Key) + " = " + next() + " AND " + d.quote(t.Fence) + " <= " + next())
	return b.String()
}

// fence is the statement that reads a row's fence, as it stands now: MySQL shows a transaction the past unless it locks.
func (t Table) fence() string {
	d := t.Dialect
	query := "SELECT " + d.quote(t.Fence) + " FROM " + d.quote(t.Name) + " WHERE " + d.quote(t.Key) + " = " + d.placeholder(1)
	if d == MySQL {
		query += " FOR UPDATE"
	}
	return query
}
