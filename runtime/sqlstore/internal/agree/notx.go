package agree

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// wrapped is a transaction of another type, as sqlx has one.
type wrapped struct{ *sql.Tx }

// NoTransaction has a store refuse connections without a transaction, and accept transactions of another type.
func NoTransaction(t *testing.T, db *sql.DB, store *sqlstore.Store) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p := &runtime.Policy{Name: "in a transaction", Kind: runtime.TokenBucket, Rate: 1,
		Period: runtime.MaxPeriod, Capacity: 1000}
	limits, key := limiter.New(store), runtime.KeyOf(runtime.Int(42))
	left := func(want int64, message string) {
		t.Helper()
		b, err := limits.Limit(p, key).Peek(ctx)
		require.NoError(t, err)
		require.Equal(t, want, b.Remaining, message)
	}
	left(1000, "a new key")
	conn, err := db.Conn(ctx)
	require.NoError(t, err)
	defer conn.Close()
	run := func(text string) {
		t.Helper()
		_, err := conn.ExecContext(ctx, text)
		require.NoError(t, err)
	}
	in := limits.WithConn(conn)
	refused := func(name string) {
		t.Helper()
		d, err := in.Limit(p, key).AllowN(ctx, 3)
		assert.ErrorIs(t, err, runtime.ErrNoTx, name)
		assert.False(t, d.Allowed, name)
		_, err = in.All(ctx, in.Limit(p, key).N(3), in.Limit(p, runtime.KeyOf(runtime.Int(43))))
		assert.ErrorIs(t, err, runtime.ErrNoTx, name)
		assert.ErrorIs(t, in.Limit(p, key).Erase(ctx), runtime.ErrNoTx, name)
		assert.Equal(t, runtime.OriginProgram, runtime.OriginOf(err))
		left(1000, name)
	}
	refused("no transaction was begun")
	run("BEGIN")
	run("COMMIT")
	refused("it has ended")

	// The refusals have changed nothing in the session, and the limits may be made before the transaction is begun.
	run("BEGIN")
	require.NoError(t, in.Limit(p, key).RequireN(ctx, 3))
	require.NoError(t, limits.WithConn(conn).Limit(p, key).RequireN(ctx, 4))
	run("ROLLBACK")
	left(1000, "rolled back")
	run("BEGIN")
	require.NoError(t, in.Limit(p, key).RequireN(ctx, 5))
	run("COMMIT")
	left(995, "committed")
	tx, err := db.BeginTx(ctx, nil)
	require.NoError(t, err)
	require.NoError(t, limits.WithTx(wrapped{tx}).Limit(p, key).RequireN(ctx, 5))
	require.NoError(t, tx.Rollback())
	left(995, "rolled back in another type")
	assert.ErrorIs(t, limits.WithTx(wrapped{tx}).Limit(p, key).RequireN(ctx, 5), sql.ErrTxDone)
	left(995, "after its end")
}
