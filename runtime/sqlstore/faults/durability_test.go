package faults

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
			s := live.Server{Name: "own postgres", Driver: driver, DSN: dsn, Dialect: dialect.Postgres}
			db := s.Open(t)
			store := s.Store(t, db, nil)
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
			live.Execute(t, db, statement)
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
	all := live.Granting(8)
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
			require.NoError(t, limits.Limit(p, live.KeyOf(0)).Require(ctx), p.Name)
		}
	}
	bucket, window := limits.Limit(relaxed()[0], live.KeyOf(0)), limits.Limit(relaxed()[2], live.KeyOf(0))
	ds := live.Must(limits.All(ctx, bucket.N(1), window.N(1)))(t)
	live.Must(bucket.Refund(ctx, ds.Each[0]))(t)
	require.NoError(t, bucket.Reset(ctx))
}

// waitsForStandby requires that calls for other limits time out.
func waitsForStandby(t *testing.T, db *sql.DB, store runtime.TxStore) {
	const moment = 300 * time.Millisecond
	for _, d := range []runtime.Durability{runtime.DurabilityDefault, runtime.DurabilityFull} {
		p := *live.Granting(8)[0]
		p.Durability, p.Timeout = d, moment
		err := limiter.New(store).Limit(&p, live.KeyOf(0)).Require(t.Context())
		assert.ErrorIs(t, err, context.DeadlineExceeded, d)
	}
	ctx, cancel := context.WithTimeout(t.Context(), moment)
	defer cancel()
	err := sqlstore.RunInTx(ctx, db, func(tx *sql.Tx) error {
		return limiter.New(store).WithTx(tx).Limit(relaxed()[0], live.KeyOf(0)).Require(ctx)
	})
	assert.Error(t, err, "the caller's transaction waits")
}
