package main

import (
	"context"
	"database/sql"
	"errors"
	"net/url"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// table is a table for counts, as the store makes it, in a database that has been opened for it.
type table struct {
	db      *sql.DB
	dialect sqlstore.Dialect
	name    string
}

// dialects are what the servers speak.
var dialects = map[server]sqlstore.Dialect{
	postgres: sqlstore.Postgres, mariadb: sqlstore.MariaDB, mysqlDB: sqlstore.MySQL,
}

// driverOf returns the driver for a server.
func driverOf(of server) string {
	if of == postgres {
		return "pgx"
	}
	return "mysql"
}

// serverConns is how many connections everybody has in a database server. It is more than a machine with two
// processors can use, and more than group commit has batches under way.
const serverConns = 16

// openTable opens the database of a server, and creates a table in it, with rows.
func (s *site) openTable(ctx context.Context, of server, l limit) (*table, error) {
	dsn, err := s.servers.dsn(of)
	if err != nil {
		return nil, err
	}
	t := &table{dialect: dialects[of], name: newTable()}
	if t.db, err = sql.Open(driverOf(of), dsn); err != nil {
		return nil, err
	}
	return t, t.begin(ctx, l, s.rows, s.connections(serverConns))
}

// openFile opens a new SQLite database with the settings of package sqlite, and creates a table with rows.
func (s *site) openFile(ctx context.Context, path string, l limit) (t *table, err error) {
	options := url.Values{
		"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(NORMAL)", "wal_autocheckpoint(2048)", "journal_size_limit(16777216)"},
		"_txlock": {"immediate"},
	}
	t = &table{dialect: sqlstore.SQLite, name: sqlstore.DefaultTable}
	if t.db, err = sql.Open("sqlite", "file:"+path+"?"+options.Encode()); err != nil {
		return nil, err
	}
	return t, t.begin(ctx, l, s.rows, 1)
}

// begin creates the table and its rows, or leaves nothing behind.
func (t *table) begin(ctx context.Context, l limit, rows, conns int) error {
	t.db.SetMaxOpenConns(conns)
	t.db.SetMaxIdleConns(conns)
	if err := patiently(t.create); err != nil {
		return errors.Join(err, t.db.Close())
	}
	if err := t.fill(ctx, l, rows); err != nil {
		t.end()
		return err
	}
	return nil
}

func (t *table) create(ctx context.Context) error {
	text, err := t.dialect.DDL(t.name)
	if err != nil {
		return err
	}
	_, err = t.db.ExecContext(ctx, text)
	return err
}

// end drops the table and closes the database. A file goes with its folder.
func (t *table) end() {
	err := patiently(func(ctx context.Context) error {
		_, err := t.db.ExecContext(ctx, "DROP TABLE "+t.name)
		return err
	})
	if err := errors.Join(err, t.db.Close()); err != nil {
		say("table %s is still there: %v", t.name, err)
	}
}
