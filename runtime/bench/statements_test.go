package main

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStatementsOfSQLiteAreCounted(t *testing.T) {
	s := &site{dir: t.TempDir()}
	statements.traced.Store(true)
	defer statements.traced.Store(false)
	db := openSQLite(t, s)
	insert, err := db.Prepare("INSERT INTO numbers VALUES (?)")
	require.NoError(t, err)

	for _, step := range []struct {
		what string
		do   func() error
		want int64
	}{
		{"a statement", func() error { _, err := db.Exec("DELETE FROM numbers"); return err }, 1},
		{"a prepared statement", func() error { _, err := insert.Exec(1); return err }, 1},
		{"again", func() error { _, err := insert.Exec(2); return err }, 1},
		{"a query", func() error { var sum int; return db.QueryRow("SELECT sum(n) FROM numbers").Scan(&sum) }, 1},
		{"a transaction", func() error { return inTx(db, insert) }, 3},
	} {
		before := statements.count.Load()
		require.NoError(t, step.do(), step.what)
		require.Equal(t, step.want, statements.count.Load()-before, step.what)
	}
}

func TestOnlyTracedConnectionsAreCounted(t *testing.T) {
	db := openSQLite(t, &site{dir: t.TempDir()})
	before := statements.count.Load()
	_, err := db.Exec("DELETE FROM numbers")
	require.NoError(t, err)
	require.Equal(t, before, statements.count.Load())
}

// openSQLite opens a database with a table numbers.
func openSQLite(t *testing.T, s *site) *sql.DB {
	db, err := sql.Open("sqlite", s.newFile())
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	_, err = db.Exec("CREATE TABLE numbers (n INTEGER)")
	require.NoError(t, err)
	return db
}

// inTx runs a statement in a transaction.
func inTx(db *sql.DB, insert *sql.Stmt) error {
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	if _, err := tx.Stmt(insert).Exec(3); err != nil {
		return err
	}
	return tx.Commit()
}
