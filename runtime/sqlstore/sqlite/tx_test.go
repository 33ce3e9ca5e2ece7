package sqlite_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// app is the database of an app: one connection, immediate transactions, and a table beside the counts.
func app(t *testing.T) (*sql.DB, *sqlstore.Store) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "app.db")+"?_txlock=immediate&_pragma=journal_mode(WAL)")
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	_, err = db.Exec("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
	require.NoError(t, err)
	store, err := sqlstore.New(db, sqlstore.SQLite, sqlstore.Options{})
	require.NoError(t, err)
	require.NoError(t, store.Migrate(t.Context()))
	return db, store
}

// The caller's transaction has the only connection.
func TestTxTakesIfAndOnlyIfItCommits(t *testing.T) {
	db, store := app(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	limiter := runtime.NewLimiter(store)
	place := func(id int) (runtime.Decision, *sql.Tx) {
		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(ctx, "INSERT INTO orders VALUES (?)", id)
		require.NoError(t, err)
		d, err := limiter.WithTx(tx).Limit(counted, runtime.Key{}).Allow(ctx)
		require.NoError(t, err)
		return d, tx
	}
	_, tx := place(1)
	require.NoError(t, tx.Rollback())
	d, tx := place(2)
	assert.Equal(t, counted.Capacity-1, d.Remaining, "a rollback gives the token back")
	require.NoError(t, tx.Commit())

	b, err := limiter.Limit(counted, runtime.Key{}).Peek(ctx)
	require.NoError(t, err)
	assert.Equal(t, counted.Capacity-1, b.Remaining)
	var orders int
	require.NoError(t, db.QueryRowContext(ctx, "SELECT count(*) FROM orders").Scan(&orders))
	assert.Equal(t, 1, orders)
}

func TestDenialLeavesTheTransactionUsable(t *testing.T) {
	db, store := app(t)
	p := once("scarce", runtime.TokenBucket, 1, 0)
	require.NoError(t, sqlstore.RunInTx(t.Context(), db, func(tx *sql.Tx) error {
		limit := runtime.NewLimiter(store).WithTx(tx).Limit(p, runtime.Key{})
		require.NoError(t, limit.Require(t.Context()))
		assert.ErrorIs(t, limit.Require(t.Context()), runtime.ErrLimited)
		_, err := tx.Exec("INSERT INTO orders VALUES (1)")
		return err
	}))
	var orders int
	require.NoError(t, db.QueryRow("SELECT count(*) FROM orders").Scan(&orders))
	assert.Equal(t, 1, orders)
}

func TestNilTxIsAnError(t *testing.T) {
	_, store := app(t)
	for _, tx := range []runtime.Tx{nil, (*sql.Tx)(nil), (*sql.Conn)(nil)} {
		d, err := runtime.NewLimiter(store).WithTx(tx).Limit(counted, runtime.Key{}).Allow(t.Context())
		require.ErrorIs(t, err, runtime.ErrNilTx)
		require.EqualError(t, err, `limit "counted": the transaction is nil`)
		assert.False(t, d.Allowed)
	}
}

func TestTxOfAnotherDatabaseNamesTheMissingTable(t *testing.T) {
	_, store := app(t)
	limiter := runtime.NewLimiter(store)
	require.NoError(t, limiter.Limit(counted, runtime.Key{}).Require(t.Context()))

	other, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "other.db"))
	require.NoError(t, err)
	defer other.Close()
	err = sqlstore.RunInTx(t.Context(), other, func(tx *sql.Tx) error {
		return limiter.WithTx(tx).Limit(counted, runtime.Key{}).Require(t.Context())
	})
	assert.ErrorContains(t, err, `limit "counted": there is no table "rate_limits" where the transaction was begun: begin it in the database that holds the counts, or create the table there: call Migrate, or run what "ratelimitgen sql -dialect sqlite" prints: `)
	assert.ErrorContains(t, err, "no such table: rate_limits")
}

// A group takes from all of its limits in the caller's transaction, or from none, and its reservations end with a rollback.
func TestGroupsInATransaction(t *testing.T) {
	db, store := app(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tokens := &runtime.Policy{Name: "tokens", Kind: runtime.TokenBucket, Rate: 10, Period: time.Hour, Capacity: 10, MaxReserved: 10}
	gate := &runtime.Policy{Name: "gate", Kind: runtime.FixedWindow, Rate: 1, Period: runtime.MaxPeriod, Capacity: 1}
	limiter := runtime.NewLimiter(store)
	left := func() (all [2]int64) {
		for i, p := range []*runtime.Policy{tokens, gate} {
			b, err := limiter.Limit(p, runtime.Key{}).Peek(ctx)
			require.NoError(t, err)
			all[i] = b.Remaining
		}
		return all
	}
	reserve := func(tx *sql.Tx) *runtime.Reservations {
		l := limiter.WithTx(tx)
		rs, err := l.ReserveAll(ctx, l.Reservable(tokens, runtime.Key{}).N(4), l.Limit(gate, runtime.Key{}).Checked())
		require.NoError(t, err)
		return rs
	}
	for _, row := range []struct {
		name string
		do   func(tx *sql.Tx) error
		left [2]int64
	}{
		{"roll back", func(tx *sql.Tx) error { reserve(tx); return tx.Rollback() }, [2]int64{10, 1}},
		{"cancel and commit", func(tx *sql.Tx) error {
			require.NoError(t, reserve(tx).Cancel(ctx))
			return tx.Commit()
		}, [2]int64{10, 1}},
		{"settle and commit", func(tx *sql.Tx) error {
			require.NoError(t, reserve(tx).At(0).Settle(ctx, 3))
			return tx.Commit()
		}, [2]int64{7, 1}},
		{"denied by the check", func(tx *sql.Tx) error {
			require.NoError(t, limiter.WithTx(tx).Limit(gate, runtime.Key{}).Require(ctx))
			require.Equal(t, []string{"gate"}, reserve(tx).DeniedBy())
			_, err := tx.ExecContext(ctx, "INSERT INTO orders VALUES (1)")
			require.NoError(t, err, "a denial leaves the transaction usable")
			return tx.Commit()
		}, [2]int64{7, 0}},
	} {
		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		require.NoError(t, row.do(tx), row.name)
		require.Equal(t, row.left, left(), row.name)
	}
}
