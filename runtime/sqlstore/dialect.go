package sqlstore

import (
	"fmt"
	"regexp"
	"strings"
)

// Dialect is what a database wants to be told: text, and nothing that runs. In each text, {table} stands
// for the quoted name of the table. Where a statement takes a row, its parameters are name, key and shard,
// in this order.
type Dialect struct {
	// Name is how the dialect is called: "sqlite".
	Name string
	// Quote is the character that stands before and after a quoted name.
	Quote string
	// Create creates the table, if there is none.
	Create string
	// Read selects value, ts and prev of a row, and keeps others from writing it until the transaction
	// ends.
	Read string
	// Write inserts or updates a row; after the row's own, its parameters are value, ts and prev.
	Write string
	// Delete deletes a row.
	Delete string
	// Page selects key, shard, value, ts and prev of the rows of one name that follow a key and shard,
	// in their order; its parameters are name, key, shard and how many.
	Page string
	// Forget deletes a row if it has not changed; after the row's own, its parameters are value, ts and
	// prev.
	Forget string
	// Retryable holds the error codes after which the same transaction may succeed.
	Retryable []int
}

// Text returns a statement for a table: what {table} in it stands for is the table's quoted name, that of
// [DefaultTable] for "". The error is about the name.
func (d Dialect) Text(statement, table string) (string, error) {
	if table == "" {
		table = DefaultTable
	}
	if !tableName.MatchString(table) {
		return "", fmt.Errorf("table %q: a name has only letters, digits and underscores, and at most one dot", table)
	}
	return strings.ReplaceAll(strings.TrimSpace(statement), "{table}", d.quoted(table)), nil
}

var tableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// DDL returns the statement that creates a table, for those who keep their migrations themselves. The
// error is about the table's name.
func (d Dialect) DDL(table string) (string, error) { return d.Text(d.Create, table) }

// quoted returns a table's name in quotes, and that of its schema too if it has one.
func (d Dialect) quoted(table string) string {
	return d.Quote + strings.ReplaceAll(table, ".", d.Quote+"."+d.Quote) + d.Quote
}
