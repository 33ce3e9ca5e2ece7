package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"strconv"
	"strings"

	"modernc.org/sqlite"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
)

// sqliteConn is what the driver's connections implement for package database/sql.
type sqliteConn interface {
	driver.Conn
	driver.ConnPrepareContext
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
	sqlite.FileControl
}

// sqliteStmt is what the driver's statements implement.
type sqliteStmt interface {
	driver.Stmt
	driver.StmtExecContext
}

// connection is a connection of the driver with the statements that decide. They are not those of package database/sql,
// because a transaction of these costs nearly twice as much there.
type connection struct {
	sqliteConn
	table string
	// record is that of the statement in flight; a connection has one at a time.
	record callRecord
	number int64
	stmts  [statements]sqliteStmt
	args   []driver.NamedValue
	cache  rowCache
	// stored are the rows of the batch in flight, as they are before it, and states their states.
	stored []storedRow
	states []runtime.State
	// fresh are those that it inserts.
	fresh []runtime.StoredRow
	// broken means that a transaction could not be ended.
	broken bool
}

// statement is one of those that decide.
type statement int

const (
	beginRead statement = iota
	begin
	commit
	rollback
	readOne
	readNumber
	readShards
	readMany
	insertOne
	insertMissing
	insertMany
	update
	remove
	deletePage
	statements
)

// texts are the statements. One for many rows has the name of the limit, whose rows have the shard 0, and their keys, in
// JSON. It gets all other columns of a row by its place in the list, which json_each calls key: for each row that is two
// thirds of a statement for one row, and less than half of what it is with all columns in JSON. JSON would make shards no
// cheaper: consecutive ones of a key are read as a range.
var texts = [statements]string{
	beginRead: "BEGIN",
	begin:     "BEGIN IMMEDIATE",
	commit:    "COMMIT",
	rollback:  "ROLLBACK",
	readOne: `SELECT ratelimitgen_read({record}, ?, _rowid_, value, at_ns, prev, log) FROM {table}
WHERE name = ? AND {key} = ? AND shard = ?`,
	readNumber: `SELECT ratelimitgen_read({record}, ?, _rowid_, value, at_ns, prev, log) FROM {table}
WHERE _rowid_ = ? AND name = ? AND {key} = ? AND shard = ?`,
	readShards: `SELECT count(ratelimitgen_read({record}, shard + ?, _rowid_, value, at_ns, prev, log)) FROM {table}
WHERE name = ? AND {key} = ? AND shard >= ? AND shard < ?`,
	readMany: `SELECT count(ratelimitgen_read({record}, k.key + ?, r._rowid_, r.value, r.at_ns, r.prev, r.log))
FROM json_each(?) k CROSS JOIN {table} r ON r.name = ? AND r.{key} = k.value AND r.shard = 0`,
	insertOne:     `INSERT INTO {table} (name, {key}, shard, value, at_ns, prev, log) VALUES (?, ?, ?, ?, ?, ?, ?)`,
	insertMissing: `INSERT INTO {table} (name, {key}, shard, value, at_ns, prev, log) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
	insertMany: `INSERT INTO {table} (name, {key}, shard, value, at_ns, prev, log)
SELECT ?, value, 0, ratelimitgen_value({record}, key), ratelimitgen_at({record}, key), ratelimitgen_prev({record}, key),
	ratelimitgen_log({record}, key) FROM json_each(?)`,
	update: `UPDATE {table} SET value = ?, at_ns = ?, prev = ?, log = ? WHERE _rowid_ = ?`,
	remove: `DELETE FROM {table} WHERE _rowid_ = ?`,
	// The LIMIT is an expression because SQLite would prepare the statement again for each value bound to a bare parameter.
	deletePage: `DELETE FROM {table} WHERE _rowid_ IN (
	SELECT _rowid_ FROM {table} WHERE name = ? AND {key} >= ? AND ({key} > ? OR shard > ?) ORDER BY {key}, shard LIMIT ? + 0
) AND ratelimitgen_sweep({record}, {key}, shard, _rowid_, value, at_ns, prev, log)`,
}

// schemaOf returns the schema of a table, which is that of the file if its name has none.
func schemaOf(table string) string {
	schema, _, ok := strings.Cut(table, ".")
	if !ok {
		return "main"
	}
	return schema
}

// exec runs a statement, which is prepared at its first use, when the table exists.
func (c *connection) exec(s statement, args ...driver.Value) (driver.Result, error) {
	if c.stmts[s] == nil {
		if c.number == 0 {
			c.number = addRecord(&c.record)
		}
		text, err := dialect.SQLite.Text(texts[s], c.table)
		if err != nil {
			return nil, err
		}
		text = strings.ReplaceAll(text, "{record}", strconv.FormatInt(c.number, 10))
		stmt, err := c.Prepare(text)
		if err != nil {
			return nil, err
		}
		c.stmts[s] = stmt.(sqliteStmt)
	}
	c.args = c.args[:0]
	for i, arg := range args {
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: arg})
	}
	// A canceled statement may have written although its result is lost.
	return c.stmts[s].ExecContext(context.Background(), c.args)
}

// query runs a statement that reads into the record.
func (c *connection) query(s statement, args ...driver.Value) error {
	_, err := c.exec(s, args...)
	return err
}

// version returns the version of the database, as this connection sees it.
func (c *connection) version() (uint32, error) { return c.FileControlDataVersion(schemaOf(c.table)) }

// tx runs fn in a transaction, and commits it if fn returns true.
func (c *connection) tx(by statement, fn func() (bool, error)) error {
	if _, err := c.exec(by); err != nil {
		return err
	}
	// Also after a panic.
	ended := false
	defer func() {
		if !ended {
			c.rollback()
		}
	}()
	keep, err := fn()
	if err != nil || !keep {
		return err
	}
	_, err = c.exec(commit)
	ended = err == nil
	return err
}

// rollback rolls the transaction back, unless SQLite has after an error. If it cannot, the connection is no longer valid.
func (c *connection) rollback() {
	const noTransaction = 1 // SQLITE_ERROR
	_, err := c.exec(rollback)
	if failed := new(sqlite.Error); err != nil && !(errors.As(err, &failed) && failed.Code() == noTransaction) {
		c.broken = true
	}
}

// IsValid implements [driver.Validator].
func (c *connection) IsValid() bool { return !c.broken && c.sqliteConn.IsValid() }

// Close closes the statements before the connection, which would otherwise stay open for them.
func (c *connection) Close() error {
	records.Delete(c.number)
	var errs []error
	for _, stmt := range c.stmts {
		if stmt != nil {
			errs = append(errs, stmt.Close())
		}
	}
	return errors.Join(append(errs, c.sqliteConn.Close())...)
}
