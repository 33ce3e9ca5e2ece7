package conformance

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// changes are changes that an owner may make to a table, and part of the error on MySQL.
var changes = []struct{ name, statement, says string }{
	{"numbered", "ALTER TABLE %s ADD COLUMN id BIGINT NOT NULL AUTO_INCREMENT UNIQUE", `auto_increment is "id" instead of "none"`},
	{"before insert", "CREATE TRIGGER %[1]s_t BEFORE INSERT ON %[1]s FOR EACH ROW SET @x = new.value", `triggers is "rl_`},
	{"after insert", "CREATE TRIGGER %[1]s_t AFTER INSERT ON %[1]s FOR EACH ROW INSERT INTO %[1]s_log (v) VALUES (new.value)", `triggers is "rl_`},
	{"before update", "CREATE TRIGGER %[1]s_t BEFORE UPDATE ON %[1]s FOR EACH ROW SET @x = LAST_INSERT_ID(5)", `triggers is "rl_`},
	{"after update", "CREATE TRIGGER %[1]s_t AFTER UPDATE ON %[1]s FOR EACH ROW INSERT INTO %[1]s_log (v) VALUES (new.value)", `triggers is "rl_`},
}

// These changes make MySQL lose the insert id from which the store decodes the number of tokens taken, or replace it. A
// lost id is an error and never a wrong decision, and a store that starts refuses the table.
func TestLostInsertIDIsNeverAWrongDecision(t *testing.T) {
	for _, parameter := range []string{"clientFoundRows=false", "clientFoundRows=true"} {
		s := named(t, "mysql")[0].With(parameter)
		for _, change := range changes {
			t.Run(parameter+"/"+change.name, func(t *testing.T) {
				db, table := s.Open(t), live.NewTable()
				store := s.StoreIn(t, db, table, storetest.NewClock().Now)
				require.NoError(t, store.Ready(t.Context()))
				alter(t, db, table, change.statement)
				admitted, failed := admits(t, store, db, table)
				t.Log(admitted, "admitted,", failed, "failed")
				assert.NotZero(t, failed)

				fresh := s.StoreWith(t, db, sqlstore.Options{Table: table})
				assert.ErrorContains(t, fresh.Ready(t.Context()), change.says)
				refuses(t, fresh, change.says)
			})
		}
	}
}

// alter changes a table, after creating the log table that some changes need.
func alter(t *testing.T, db *sql.DB, table string, statement string) {
	t.Helper()
	needAdmin(t)
	live.Execute(t, db, "CREATE TABLE "+table+"_log (id BIGINT AUTO_INCREMENT PRIMARY KEY, v DOUBLE)")
	t.Cleanup(func() { db.Exec("DROP TABLE " + table + "_log") })
	live.Execute(t, db, fmt.Sprintf(statement, table))
}

// admits takes from a limit of 3 until it has nothing. It requires that each call took one token and returned so, took
// at most one and failed, or took none and was denied. It returns how many calls were allowed and how many failed.
func admits(t *testing.T, store *sqlstore.Store, db *sql.DB, table string) (admitted, failed int) {
	t.Helper()
	limit := limiter.New(store).Limit(live.Once("limit", 3), runtime.Key{})
	left := 3.0
	for range 6 {
		d, err := limit.Allow(t.Context())
		before := left
		require.NoError(t, db.QueryRow("SELECT 3 + value FROM "+table).Scan(&left))
		switch {
		case err != nil:
			assert.ErrorContains(t, err, "the server has lost the result of a statement that takes tokens")
			assert.Contains(t, []float64{0, 1}, before-left)
			failed++
		case d.Allowed:
			assert.Equal(t, 1.0, before-left)
			assert.EqualValues(t, left, d.Remaining)
			admitted++
		default:
			assert.Equal(t, before, left)
			assert.Zero(t, left)
		}
	}
	return admitted, failed
}

// MariaDB returns the rows that it has written, so the same changes do not affect it.
func TestMariaDBAgreesOnChangedTables(t *testing.T) {
	s := named(t, "mariadb")[0]
	for _, change := range changes {
		t.Run(change.name, func(t *testing.T) {
			db, table, clock := s.Open(t), live.NewTable(), storetest.NewClock()
			store := s.StoreIn(t, db, table, clock.Now)
			alter(t, db, table, change.statement)
			require.NoError(t, store.Ready(t.Context()))
			subject := agree.Subject{Store: store, DB: db, Dialect: s.Dialect, Table: table, Clock: clock}
			agree.Test(t, subject, 10)
			agree.Singly(t, subject, 10)
		})
	}
}

// A constraint of the table refuses one key. Of many calls in one Do, only those for that key fail, by single
// statements and in transactions.
func TestRefusedKeyFailsOnlyItsCall(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		db, table := s.Open(t), live.NewTable()
		store := s.StoreIn(t, db, table, nil)
		key := live.Must(s.Dialect.Text("{key}", table))(t)
		live.Execute(t, db, fmt.Sprintf("ALTER TABLE %s ADD CONSTRAINT %s_guilty CHECK (%s <> '%s')", table, table, key, agree.Guilty))
		agree.Innocents(t, store)
		require.NoError(t, store.Ready(t.Context()))
	})
}

// On Postgres, a trigger that raises an error refuses the key.
func TestRefusedKeyInTriggersFailsOnlyItsCall(t *testing.T) {
	for _, s := range named(t, "postgres-pgx", "postgres-pq") {
		t.Run(s.Name, func(t *testing.T) {
			needAdmin(t)
			db, table := s.Open(t), live.NewTable()
			store := s.StoreIn(t, db, table, nil)
			for _, text := range []string{
				`CREATE FUNCTION %[1]s_f() RETURNS trigger LANGUAGE plpgsql AS
					'BEGIN IF NEW.key = ''%[2]s'' THEN RAISE EXCEPTION ''no''; END IF; RETURN NEW; END'`,
				`CREATE TRIGGER guilty BEFORE INSERT OR UPDATE ON %[1]s FOR EACH ROW EXECUTE FUNCTION %[1]s_f() -- %[2]s`,
			} {
				live.Execute(t, db, fmt.Sprintf(text, table, agree.Guilty))
			}
			t.Cleanup(func() { db.Exec("DROP FUNCTION " + table + "_f() CASCADE") })
			agree.Innocents(t, store)
		})
	}
}
