package sqlstore

import (
	"database/sql"
	"fmt"
	"regexp"
	"strings"
)

// Dialect is what a database wants to be told: text, and nothing that runs. In each text, {table} stands
// for the quoted name of the table, {schema} and {name} for the two parts of it without quotes, and {key} for
// the quoted name of the column key, which is a word of SQL. Where a statement takes a row, its parameters
// are name, key and shard, in this order. A dialect of your own is a value of this type.
type Dialect struct {
	// Name is how the dialect is called: "sqlite".
	Name string
	// Quote is the character that stands before and after a quoted name.
	Quote string
	// Isolation is that of the store's own transactions. Under it, Read must return what others have
	// committed before Read had its lock, and not what was there when the transaction began.
	Isolation sql.IsolationLevel
	// Create creates the table, if there is none.
	Create string
	// Describe selects of each part of the table its name and what it is, such as "value" and "double", or
	// "primary key" and "name, key, shard", and nothing if there is no table. If it is empty, the table is
	// not checked before it is used.
	Describe string
	// Parts are the parts that the table must have as Describe tells them, one a line: its name, and what
	// it may be, "ts: bigint | int8". What is first is what Create makes.
	Parts string
	// Read selects value, ts and prev of a row, and locks it until the transaction ends.
	Read string
	// Seed inserts a row with the ts of one never seen, the smallest there is, unless the row is there,
	// and locks it in any case. It is empty for a database in which one transaction writes at a time.
	Seed string
	// Write inserts or updates a row; after the row's own, its parameters are value, ts and prev.
	Write string
	// Delete deletes a row.
	Delete string
	// Page selects key, shard, value, ts and prev of the rows of one name that follow a key and shard,
	// in their order; its parameters are name, key, key again, shard and how many.
	Page string
	// Forget deletes a row if it has not changed; after the row's own, its parameters are value, ts and
	// prev.
	Forget string
	// Now selects the database's clock, in microseconds since 1970 UTC. It is empty for a database that
	// has no clock but the process's.
	Now string
}

// Text returns a statement for a table, [DefaultTable] for "", with what its placeholders stand for. The
// error is about the table's name.
func (d Dialect) Text(statement, table string) (string, error) {
	if table == "" {
		table = DefaultTable
	}
	if !tableName.MatchString(table) {
		return "", fmt.Errorf("table %q: a name has only letters, digits and underscores, and at most one dot", table)
	}
	schema, name, ok := strings.Cut(table, ".")
	if !ok {
		schema, name = "", table
	}
	names := strings.NewReplacer(
		"{table}", d.quoted(table), "{schema}", schema, "{name}", name, "{key}", d.quoted("key"))
	return names.Replace(strings.TrimSpace(statement)), nil
}

var tableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// DDL returns the statement that creates a table, for those who keep their migrations themselves; ratelimitgen
// sql prints it. The error is about the table's name.
func (d Dialect) DDL(table string) (string, error) { return d.Text(d.Create, table) }

// quoted returns a name in quotes, both parts of it if it is that of a schema's table.
func (d Dialect) quoted(name string) string {
	return d.Quote + strings.ReplaceAll(name, ".", d.Quote+"."+d.Quote) + d.Quote
}
