package livetest

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// user creates a user, who is dropped when the test ends, and grants a right.
func (s server) user(t *testing.T, db *sql.DB, grants ...string) server {
	t.Helper()
	name, create := newTable(), "CREATE ROLE %s LOGIN PASSWORD 'secret'"
	drop := []string{"DROP OWNED BY " + name, "DROP ROLE " + name}
	if s.driver == "mysql" {
		create, drop = "CREATE USER %s IDENTIFIED BY 'secret'", []string{"DROP USER " + name}
	}
	_, err := db.Exec(fmt.Sprintf(create, name))
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, text := range drop {
			_, err := db.Exec(text)
			require.NoError(t, err)
		}
	})
	for _, grant := range grants {
		_, err := db.Exec(fmt.Sprintf("GRANT %s TO %s", grant, name))
		require.NoError(t, err)
	}
	return s.as(t, name, "secret")
}

// TestMissingPrivilege says what a user must be granted, and that it is enough.
func TestMissingPrivilege(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		db := s.open(t)
		schema := s.schema(t, db)
		table := schema + ".quotas"
		s.storeIn(t, db, table, nil)
		use := []string{"USAGE ON SCHEMA " + schema}
		if s.driver == "mysql" {
			s, use = s.database(t, schema), nil
		}
		says := fmt.Sprintf("lacks a privilege: on table %q it needs SELECT, INSERT, UPDATE and DELETE", table)
		for _, granted := range []string{"SELECT", "INSERT, UPDATE, DELETE", "SELECT, UPDATE, DELETE", "SELECT, INSERT, DELETE", "SELECT, INSERT, UPDATE"} {
			t.Run(granted, func(t *testing.T) {
				user := s.user(t, db, append(use, granted+" ON "+table)...)
				store := user.visit(t, table)
				said(t, store.Ready(t.Context()), says)
				if granted == "SELECT" {
					said(t, store.Migrate(t.Context()), "lacks a privilege")
					said(t, take(t.Context(), store), `limit "limit": the database user `+says)
				}
			})
		}
		store := s.user(t, db, append(use, "SELECT, INSERT, UPDATE, DELETE ON "+table)...).visit(t, table)
		require.NoError(t, store.Ready(t.Context()))
		require.NoError(t, take(t.Context(), store))
		require.NoError(t, sweep(t.Context(), store))
	})
}
