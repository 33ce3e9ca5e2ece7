package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
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
	return t, t.setUp(ctx, l, s, serverConns)
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
	if err := errors.Join(err, t.db.Close()); err != nil {
		logf("table %s was not dropped: %v", t.name, err)
	}
}

// insertInto begins the statements that write rows, and setRow ends them.
const insertInto = "INSERT INTO {table} (name, {key}, shard, value, at_ns, prev) "

func (t *table) setRow() string {
	if t.dialect == dialect.MariaDB || t.dialect == dialect.MySQL {
		// MariaDB does not have the row alias that MySQL recommends instead of VALUES.
		return " ON DUPLICATE KEY UPDATE value = VALUES(value), at_ns = VALUES(at_ns), prev = VALUES(prev)"
	}
	return " ON CONFLICT (name, {key}, shard) DO UPDATE SET value = excluded.value, at_ns = excluded.at_ns, prev = excluded.prev"
}

// upsertOne is a statement that writes a row. Its parameters are name, key, value and at_ns.
func (t *table) upsertOne() string { return insertInto + "VALUES (?, ?, 0, ?, ?, 0)" + t.setRow() }

// manyKeys selects the rows of upsertMany.
var manyKeys = map[dialect.Dialect]string{
	dialect.SQLite:   "SELECT '%s', value, 0, ?, ?, 0 FROM json_each(?) WHERE true",
	dialect.Postgres: "SELECT '%s', k, 0, CAST(? AS float8), CAST(? AS bigint), 0 FROM unnest(CAST(? AS text[])) k",
	dialect.MySQL:    "SELECT '%s', k, 0, ?, ?, 0 FROM JSON_TABLE(?, '$[*]' COLUMNS (k VARBINARY(255) PATH '$')) j",
	dialect.MariaDB:  "SELECT '%s', k, 0, ?, ?, 0 FROM JSON_TABLE(?, '$[*]' COLUMNS (k VARBINARY(255) PATH '$')) j",
}

// upsertMany is a statement that writes rows of a limit. Its parameters are value, at_ns and keyList of their keys.
func (t *table) upsertMany(l limit) string {
	return insertInto + fmt.Sprintf(manyKeys[t.dialect], l.name) + t.setRow()
}

func (t *table) keyList(keys []string) any {
	if t.dialect == dialect.Postgres {
		return keys
	}
	// A list of strings can always be encoded.
	list, _ := json.Marshal(keys)
	return string(list)
}

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
	text, err := t.named(statement)
	if t.dialect == dialect.Postgres {
		text = numbered(text)
	}
	return text, err
}

// named returns a statement with the quoted names of the table and of the column key.
func (t *table) named(statement string) (string, error) {
	name, err := t.dialect.Quoted(t.name)
	if err != nil {
		return "", err
	}
	key, err := t.dialect.Quoted("key")
	return strings.NewReplacer("{table}", name, "{key}", key).Replace(statement), err
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
var afterFill = map[dialect.Dialect]string{dialect.Postgres: "VACUUM (ANALYZE) {table}",
	dialect.SQLite: "PRAGMA wal_checkpoint(TRUNCATE)"}

// fill inserts full rows for the first keys of plenty, in the order of their keys. A key of another limit has its row from
// its first call.
func (t *table) fill(ctx context.Context, l limit, s *site) error {
	if l != plenty || s.rows == 0 {
		return nil
	}
	insert, err := t.prepare(t.upsertMany(l))
	if err != nil {
		return err
	}
	defer insert.Close()
	for keys := range slices.Chunk(keysOf(s.rows, s.rows), 10_000) {
		// A full key lacks no tokens.
		if _, err := insert.ExecContext(ctx, 0.0, time.Now().Add(-s.age).UnixNano(), t.keyList(keys)); err != nil {
			return fmt.Errorf("fill a table: %w", err)
		}
	}
	if after, ok := afterFill[t.dialect]; ok {
		return t.exec(ctx, after)
	}
	return nil
}

func (t *table) exec(ctx context.Context, statement string) error {
	text, err := t.named(statement)
	if err == nil {
		_, err = t.db.ExecContext(ctx, text)
	}
	return err
}
