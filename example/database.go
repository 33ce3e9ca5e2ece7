package main

import (
	"context"
	"database/sql"
	"errors"
	"net/url"

	limits "github.com/ratelimitgen/ratelimitgen/example/gen"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/dialect"
	_ "modernc.org/sqlite"
)

// schema is the program's own. Migrate adds the table of the limits.
const schema = `
CREATE TABLE IF NOT EXISTS messages (user INTEGER NOT NULL, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS organizations (id INTEGER PRIMARY KEY, plan TEXT NOT NULL);
INSERT OR IGNORE INTO organizations (id, plan) VALUES (1, 'free'), (2, 'pro'), (3, 'enterprise');
`

// openDatabase opens an SQLite file with the program's data, and a store for limits in the same file.
func openDatabase(ctx context.Context, path string) (*sql.DB, *sqlstore.Store, error) {
	// Transactions that take tokens must be immediate.
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)")
	if err != nil {
		return nil, nil, err
	}
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	store, err := sqlstore.New(db, dialect.SQLite, sqlstore.Options{})
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	if err := store.Start(ctx, limits.Policies()...); err != nil {
		return nil, nil, errors.Join(err, store.Close(), db.Close())
	}
	return db, store, nil
}
