// Package sqlite keeps the counts of rate limits in an embedded SQLite database, a file that any number of
// processes on one machine may share. It is pure Go, and the only package of this module that imports the
// driver modernc.org/sqlite.
//
// # Durability
//
// A process that is killed loses nothing that it was told is taken. The database is in WAL mode with
// synchronous NORMAL: if the machine itself loses power, the last moments of counts may be lost, so that
// limits start these moments anew. In exchange a decision costs some ten microseconds, not a disk flush. That is
// the default because a machine without power admits nobody, and what its callers do when it is back is bounded by
// the limits again; a limit that must not forget even then has the durability full.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// Store is an [sqlstore.Store] with a database of its own.
type Store struct {
	*sqlstore.Store
	db    *sql.DB
	taker *taker
}

// Open opens the database file at path, and creates it and its table if there is none. The folder must
// exist. A path is a path: what looks like a URI is none. The path ":memory:" is a database in memory, gone
// when it is closed.
func Open(path string) (*Store, error) { return OpenWith(path, sqlstore.Options{}) }

// OpenWith is Open with options.
func OpenWith(path string, o sqlstore.Options) (*Store, error) {
	s, err := open(path, o)
	if err != nil {
		return nil, fmt.Errorf("open rate limits in %q: %w", path, err)
	}
	return s, nil
}

func open(path string, o sqlstore.Options) (*Store, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", dsn(path))
	if err != nil {
		return nil, err
	}
	// SQLite has one writer at a time. With one connection, goroutines wait for it in the order in which
	// they came, and not in SQLite's busy loop.
	db.SetMaxOpenConns(1)
	t := &taker{db: db, table: o.Table}
	if o.Taker == nil {
		o.Taker = t
	}
	s, err := prepare(db, o)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Store{s, db, t}, nil
}

// prepare returns a store in db that is ready.
func prepare(db *sql.DB, o sqlstore.Options) (*sqlstore.Store, error) {
	ctx := context.Background()
	s, err := sqlstore.New(db, sqlstore.SQLite, o)
	if err != nil {
		return nil, err
	}
	if err := s.Migrate(ctx); err != nil {
		return nil, err
	}
	return s, s.Ready(ctx)
}

// Close closes the database. Counts are kept, but those of ":memory:".
func (s *Store) Close() error {
	err := s.Store.Close()
	s.taker.close()
	return errors.Join(err, s.db.Close())
}

const memory = ":memory:"

// checkPath returns a clearer error than SQLite for a path that cannot be a file.
func checkPath(path string) error {
	if path == "" {
		return errors.New("the path is empty")
	}
	if path == memory {
		return nil
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return errors.New("it is not a regular file")
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return fmt.Errorf("its folder cannot be used: %w", err)
	}
	return nil
}

// dsn returns the name by which the driver opens a path, whatever characters are in it: transactions lock
// when they begin, and another process's lock is waited for. SQLite waits but a moment, for it does not
// know of contexts; the store tries again.
//
// The log goes to the disk and into the file when it has 4,000 pages, 16 MB, instead of 1,000: that waits for the disk a
// quarter as often, and a page is still found in the first block of the log's index.
func dsn(path string) string {
	options := url.Values{
		"_pragma": {"busy_timeout(10)", "journal_mode(WAL)", "synchronous(NORMAL)", "wal_autocheckpoint(4000)"},
		"_txlock": {"immediate"},
	}
	if path != memory {
		path = (&url.URL{Path: filepath.ToSlash(filepath.Clean(path))}).EscapedPath()
	}
	return "file:" + path + "?" + options.Encode()
}
