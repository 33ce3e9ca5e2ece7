package livetest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
)

// TestRefusedKeyFailsOnlyItsCall has a table that refuses one key, and calls for it among many others: only those fail,
// whether statements take or a transaction does.
func TestRefusedKeyFailsOnlyItsCall(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		db, table := s.open(t), newTable()
		store := s.storeIn(t, db, table, nil)
		key, err := s.dialect.Text("{key}", table)
		require.NoError(t, err)
		_, err = db.Exec(fmt.Sprintf("ALTER TABLE %s ADD CONSTRAINT %s_guilty CHECK (%s <> '%s')", table, table, key, agree.Guilty))
		require.NoError(t, err)
		agree.Innocents(t, store)
		require.NoError(t, store.Ready(t.Context()))
	})
}

// TestRefusedKeyInTriggers does so with errors that a trigger of Postgres raises.
func TestRefusedKeyInTriggers(t *testing.T) {
	for _, s := range servers[:2] {
		t.Run(s.name, func(t *testing.T) {
			db, table := s.open(t), newTable()
			store := s.storeIn(t, db, table, nil)
			for _, text := range []string{
				`CREATE FUNCTION %[1]s_f() RETURNS trigger LANGUAGE plpgsql AS
					'BEGIN IF NEW.key = ''%[2]s'' THEN RAISE EXCEPTION ''no''; END IF; RETURN NEW; END'`,
				`CREATE TRIGGER guilty BEFORE INSERT OR UPDATE ON %[1]s FOR EACH ROW EXECUTE FUNCTION %[1]s_f() -- %[2]s`,
			} {
				_, err := db.Exec(fmt.Sprintf(text, table, agree.Guilty))
				require.NoError(t, err)
			}
			t.Cleanup(func() { db.Exec("DROP FUNCTION " + table + "_f() CASCADE") })
			agree.Innocents(t, store)
		})
	}
}
