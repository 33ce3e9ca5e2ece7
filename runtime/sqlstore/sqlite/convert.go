package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
)

// The statements of a conversion. {converted} is the new table until it has the name of the old one.
const (
	// hasNoNumbers selects whether the table is WITHOUT ROWID, as earlier versions have made it, so that its rows have no
	// numbers.
	hasNoNumbers = `SELECT COALESCE(max(wr), 0) FROM pragma_table_list('{name}') WHERE schema = '{schema}'`
	copyRows     = `INSERT INTO {converted} (name, {key}, shard, value, at_ns, prev, log)
SELECT name, {key}, shard, value, at_ns, prev, log FROM {table} ORDER BY name, {key}, shard`
	dropTable   = `DROP TABLE {table}`
	renameTable = `ALTER TABLE {converted} RENAME TO "{name}"`
	// otherColumns selects the columns that are not of this package.
	otherColumns = `SELECT group_concat(name, ', ') FROM pragma_table_info('{name}', '{schema}')
WHERE name NOT IN ('name', 'key', 'shard', 'value', 'at_ns', 'prev', 'log')`
	// attached selects the statements of the indexes and triggers that users have added to the table, which are dropped with
	// it.
	attached = `SELECT sql FROM {schema.}sqlite_schema WHERE tbl_name = '{name}' AND type IN ('index', 'trigger') AND sql IS NOT NULL`
)

// convert gives the rows of a table numbers. To the statements of all versions, the table is what it was, so programs of
// earlier versions may use it before and after that.
func convert(ctx context.Context, db *sql.DB, table string) error {
	err := conn.Retry(ctx, func(ctx context.Context) error {
		on, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		defer on.Close()
		c := conversion{on, table}
		var old bool
		if err := on.QueryRowContext(ctx, c.text(hasNoNumbers)).Scan(&old); err != nil || !old {
			return err
		}
		// Otherwise the new table could not get its name while a view selects from the old one.
		if _, err := on.ExecContext(ctx, "PRAGMA legacy_alter_table = ON"); err != nil {
			return err
		}
		defer on.ExecContext(context.WithoutCancel(ctx), "PRAGMA legacy_alter_table = OFF")
		return c.run(ctx)
	})
	if err != nil {
		err = fmt.Errorf("give the rows of table %q numbers: %w", table, err)
	}
	return err
}

// conversion is of a table on a connection.
type conversion struct {
	on    *sql.Conn
	table string
}

func (c conversion) run(ctx context.Context) error {
	tx, err := c.on.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	// Again, because another process may have converted the table meanwhile.
	var old bool
	if err := tx.QueryRowContext(ctx, c.text(hasNoNumbers)).Scan(&old); err != nil || !old {
		return err
	}
	var others sql.NullString
	if err := tx.QueryRowContext(ctx, c.text(otherColumns)).Scan(&others); err != nil {
		return err
	}
	if others.Valid {
		return fmt.Errorf("the table must be replaced, and has columns that the new one would not have: drop %s", others.String)
	}
	statements := []string{c.text(strings.Replace(dialect.SQLite.Create, "{table}", "{converted}", 1)), c.text(copyRows)}
	again, err := c.attached(ctx, tx)
	if err != nil {
		return err
	}
	for _, statement := range append(append(statements, c.text(dropTable), c.text(renameTable)), again...) {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// text returns a statement about the table.
func (c conversion) text(statement string) string {
	// No name of a table has a space in it. The name was checked before.
	statement = strings.ReplaceAll(statement, "{converted}", `{schema.}"{name} converted"`)
	filled, _ := dialect.SQLite.TextIn(schemaOf(c.table), statement, c.table)
	return filled
}

func (c conversion) attached(ctx context.Context, tx *sql.Tx) (statements []string, err error) {
	rows, err := tx.QueryContext(ctx, c.text(attached))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var statement string
		if err := rows.Scan(&statement); err != nil {
			return nil, err
		}
		statements = append(statements, statement)
	}
	return statements, rows.Err()
}
