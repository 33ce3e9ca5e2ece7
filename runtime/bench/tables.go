package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/dialect"
)

// table is a table as the store creates it, with a *sql.DB of its own.
type table struct {
	db      *sql.DB
	dialect dialect.Dialect
	name    string
	// also closes a connection that is not of db, if not nil.
	also func() error
}

var dialects = map[server]dialect.Dialect{
	postgres: dialect.Postgres, mariadb: dialect.MariaDB, mysqlDB: dialect.MySQL,
}

// serverConns is how many connections a contender has to a database server. It is more than a machine with two
// processors can use, and more than group commit has batches in flight.
const serverConns = 16

// openTable creates a table with rows in the database of a server, or without one in a new SQLite database.
func (s *site) openTable(ctx context.Context, of server, l limit) (t *table, err error) {
	if of == "" {
		return s.openFile(ctx, s.newFile(), l)
	}
	t = &table{dialect: dialects[of], name: newTable()}
	if t.db, err = s.openDB(of); err != nil {
		return nil, err
	}
	return t, t.setUp(ctx, l, s, s.connections(serverConns))
}

// openFile creates a table with rows in a new SQLite database, which has the settings of package sqlite.
func (s *site) openFile(ctx context.Context, path string, l limit) (t *table, err error) {
	options := url.Values{
		"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(NORMAL)", "wal_autocheckpoint(2048)", "journal_size_limit(16777216)"},
		"_txlock": {"immediate"},
	}
	t = &table{dialect: dialect.SQLite, name: dialect.DefaultTable}
	// Immediate transactions, because one that becomes a writer after a read fails with SQLITE_BUSY at once.
	if t.db, err = sql.Open("sqlite", "file:"+path+"?"+options.Encode()); err != nil {
		return nil, err
	}
	// SQLite has one writer. More connections would sleep in busy_timeout.
	return t, t.setUp(ctx, l, s, 1)
}

// setUp creates the table and its rows. If it fails, it drops the table and closes the database.
func (t *table) setUp(ctx context.Context, l limit, s *site, conns int) error {
	t.db.SetMaxOpenConns(conns)
	// By default only 2 connections stay open while idle, and contenders would measure the opening of others.
	t.db.SetMaxIdleConns(conns)
	create, err := t.dialect.DDL(t.name)
	if err == nil {
		err = withSetupTimeout(func(ctx context.Context) error { return t.exec(ctx, create) })
	}
	if err != nil {
		return errors.Join(err, t.db.Close())
	}
	if err := t.fill(ctx, l, s); err != nil {
		t.drop()
		return err
	}
	return nil
}

// drop drops the tables and closes the database. SQLite files are removed with their directory.
func (t *table) drop() {
	// Not with the context of the run: after Ctrl-C the table must still be dropped.
	err := withSetupTimeout(func(ctx context.Context) error {
		var errs []error
		for _, name := range []string{t.name, dialect.OverridesTable(t.name), dialect.RegistryTable(t.name)} {
			_, err := t.db.ExecContext(ctx, "DROP TABLE IF EXISTS "+name)
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	if t.also != nil {
		err = errors.Join(err, t.also())
	}
	if err := errors.Join(err, t.db.Close()); err != nil {
		logf("table %s was not dropped: %v", t.name, err)
	}
}

// An upsert begins with insertInto or insertOne, and ends with setRow. The parameters of insertOne are name, key, shard, value, at_ns
// and prev.
const (
	insertInto = "INSERT INTO {table} (name, {key}, shard, value, at_ns, prev) "
	insertOne  = insertInto + "VALUES (?, ?, ?, ?, ?, ?)"
)

func (t *table) setRow() string {
	if t.dialect.Quote == "`" {
		// MariaDB does not have the row alias that MySQL recommends instead of VALUES.
		return " ON DUPLICATE KEY UPDATE value = VALUES(value), at_ns = VALUES(at_ns), prev = VALUES(prev)"
	}
	return " ON CONFLICT (name, {key}, shard) DO UPDATE SET value = excluded.value, at_ns = excluded.at_ns, prev = excluded.prev"
}

// prepareUpsert prepares the statement that inserts or updates one row.
func (t *table) prepareUpsert() (*sql.Stmt, error) { return t.prepare(insertOne + t.setRow()) }

// prepare prepares a statement whose parameters are written "?".
func (t *table) prepare(statement string) (*sql.Stmt, error) {
	text, err := t.text(statement)
	if err != nil {
		return nil, err
	}
	return t.db.Prepare(text)
}

// text returns a statement whose parameters are written "?" for the database.
func (t *table) text(statement string) (string, error) {
	text, err := t.dialect.Text(statement, t.name)
	if t.dialect.Numbered {
		text = numbered(text)
	}
	return text, err
}

// numbered replaces the parameters "?" by $1, $2 and so on.
func numbered(text string) string {
	parts := strings.Split(text, "?")
	for i := range parts[1:] {
		parts[i] += "$" + strconv.Itoa(i+1)
	}
	return strings.Join(parts, "")
}

// afterFill runs after a table was filled: otherwise autovacuum would run during the measurement, and the first measured
// commits would write the log of the fill to SQLite's file.
var afterFill = map[string]string{"postgres": "VACUUM (ANALYZE) {table}", "sqlite": "PRAGMA wal_checkpoint(TRUNCATE)"}

// fill inserts full rows for the first keys of plenty, in the order of their keys. A key of another limit has its row from its
// first call.
func (t *table) fill(ctx context.Context, l limit, s *site) error {
	if l != plenty || s.rows == 0 {
		return nil
	}
	insert := fmt.Sprintf(insertInto+`SELECT '%s', CONCAT('%s', SUBSTR(CONCAT(100000000 + n), 2)), 0, %d, %d, 0
		FROM (%s) numbers WHERE n < %d ORDER BY n`,
		l.name, keyPrefix, l.capacity, time.Now().Add(-s.age).UnixNano(), numbers(s.rows), s.rows)
	if err := t.exec(ctx, insert); err != nil {
		return fmt.Errorf("fill a table: %w", err)
	}
	if after, ok := afterFill[t.dialect.Name]; ok {
		return t.exec(ctx, after)
	}
	return nil
}

func (t *table) exec(ctx context.Context, statement string) error {
	text, err := t.dialect.Text(statement, t.name)
	if err == nil {
		_, err = t.db.ExecContext(ctx, text)
	}
	return err
}

// numbers returns a query for the numbers n from 0 to at least rows - 1: a product of tables of ten digits, because databases
// have no common function for it.
func numbers(rows int) string {
	const digits = `SELECT 0 AS d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4
		UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9`
	n, from := "0", "(SELECT 0) AS t"
	for i, place := 0, 1; place < rows; i, place = i+1, place*10 {
		n += fmt.Sprintf(" + %d * t%d.d", place, i)
		from += fmt.Sprintf(", (%s) AS t%d", digits, i)
	}
	return fmt.Sprintf("SELECT %s AS n FROM %s", n, from)
}
