package livetest

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
)

// The server waits at each durable commit for a standby that does not exist. Only relaxed limits can write, and a
// transaction of the caller is as durable as its owner has chosen.
func TestPostgresRelaxedDoesNotWaitForStandby(t *testing.T) {
	postgres := own{script: "./postgres.sh"}
	defer postgres.remove()
	needOwn(t, postgres.start())
	dsn := fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", postgres.port(0))
	for _, driver := range []string{"pgx", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			s := server{"own postgres", driver, dsn, dialect.Postgres}
			db := s.open(t)
			store := s.store(t, db, nil)
			require.NoError(t, store.Migrate(t.Context(), relaxed()...))
			require.NoError(t, store.Ready(t.Context(), relaxed()...))
			awaitStandby(t, db, "nobody")
			takesEveryWay(t, store)
			if driver == "pgx" { // lib/pq does not abort a statement when its context ends
				waitsForStandby(t, db, store)
			}
		})
	}
}

// awaitStandby makes commits wait for a standby of this name until the test ends.
func awaitStandby(t *testing.T, db *sql.DB, name string) {
	set := func(name string) {
		for _, statement := range []string{"ALTER SYSTEM SET synchronous_standby_names = '" + name + "'", "SELECT pg_reload_conf()"} {
			execute(t, db, statement)
		}
		require.Eventually(t, func() bool {
			var is string
			return db.QueryRow("SHOW synchronous_standby_names").Scan(&is) == nil && is == name
		}, 10*time.Second, 10*time.Millisecond)
	}
	set(name)
	t.Cleanup(func() { set("") })
}

// relaxed returns limits of every kind, with one row and with several, with durability: relaxed.
func relaxed() []*runtime.Policy {
	all := granting(8)
	for _, p := range all {
		p.Durability = runtime.DurabilityRelaxed
	}
	return all
}

// takesEveryWay takes tokens by each of the ways in which the store writes.
func takesEveryWay(t *testing.T, store runtime.Store) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	limits := limiter.New(store)
	for _, p := range relaxed() {
		for range 3 { // the first creates the row
			require.NoError(t, limits.Limit(p, keyOf(0)).Require(ctx), p.Name)
		}
	}
	bucket, window := limits.Limit(relaxed()[0], keyOf(0)), limits.Limit(relaxed()[2], keyOf(0))
	ds := must(limits.All(ctx, bucket.N(1), window.N(1)))(t)
	must(bucket.Refund(ctx, ds.Each[0]))(t)
	require.NoError(t, bucket.Reset(ctx))
}

// waitsForStandby requires that calls for other limits time out.
func waitsForStandby(t *testing.T, db *sql.DB, store runtime.TxStore) {
	const moment = 300 * time.Millisecond
	for _, d := range []runtime.Durability{runtime.DurabilityDefault, runtime.DurabilityFull} {
		p := *granting(8)[0]
		p.Durability, p.Timeout = d, moment
		err := limiter.New(store).Limit(&p, keyOf(0)).Require(t.Context())
		assert.ErrorIs(t, err, context.DeadlineExceeded, d)
	}
	ctx, cancel := context.WithTimeout(t.Context(), moment)
	defer cancel()
	err := sqlstore.RunInTx(ctx, db, func(tx *sql.Tx) error {
		return limiter.New(store).WithTx(tx).Limit(relaxed()[0], keyOf(0)).Require(ctx)
	})
	assert.Error(t, err, "the caller's transaction waits")
}

// Whatever synchronous_commit is by default: with full, the store waits at least for the disk of a standby, and
// otherwise as long as the server waits by default.
func TestDurabilityNeverLowers(t *testing.T) {
	db := servers[0].open(t)
	table := newTable()
	servers[0].storeIn(t, db, table, nil)
	for _, text := range []string{
		"CREATE TABLE %[1]s_log (setting text)",
		"CREATE FUNCTION %[1]s_f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO %[1]s_log VALUES (current_setting(''synchronous_commit'')); RETURN NULL; END'",
		"CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT OR UPDATE OR DELETE ON %[1]s DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION %[1]s_f()",
	} {
		execute(t, db, fmt.Sprintf(text, table))
	}
	t.Cleanup(func() { db.Exec(fmt.Sprintf("DROP TABLE %[1]s_log; DROP FUNCTION %[1]s_f() CASCADE", table)) })
	for _, s := range servers[:2] {
		for is, full := range map[string]string{
			"off": "on", "local": "on", "remote_write": "on", "on": "on", "remote_apply": "remote_apply",
		} {
			store := s.with("synchronous_commit="+is).visit(t, table)
			for durability, want := range map[runtime.Durability]string{
				runtime.DurabilityDefault: is, runtime.DurabilityRelaxed: "off", runtime.DurabilityFull: full,
			} {
				for _, kind := range []runtime.Kind{runtime.TokenBucket, runtime.SlidingWindow} {
					p := once(fmt.Sprint(s.name, is, durability, kind), 9)
					p.Kind, p.Rate, p.Durability = kind, 9, durability
					limit := limiter.New(store).Limit(p, runtime.Key{})
					for range 2 {
						require.NoError(t, limit.Require(t.Context()))
					}
					require.NoError(t, limit.Reset(t.Context()))
					var settings string
					require.NoError(t, db.QueryRow("SELECT string_agg(DISTINCT setting, ', ') FROM "+table+"_log").Scan(&settings))
					assert.Equal(t, want, settings, "%s, durability %v, %v", is, durability, kind)
					execute(t, db, "TRUNCATE "+table+"_log")
				}
			}
		}
	}
}
