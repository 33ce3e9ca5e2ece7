package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/runtimetest"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
)

// app is the database of an app: one connection, immediate transactions, and a table beside the counts.
func app(t *testing.T) (*sql.DB, *sqlstore.Store) {
	db := must(sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "app.db")+"?_txlock=immediate&_pragma=journal_mode(WAL)"))(t)
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	must(db.Exec("CREATE TABLE orders (id INTEGER PRIMARY KEY)"))(t)
	store := must(sqlstore.New(db, dialect.SQLite, sqlstore.Options{}))(t)
	require.NoError(t, store.Migrate(t.Context()))
	return db, store
}

// The caller's transaction has the only connection.
func TestTxTakesIfAndOnlyIfItCommits(t *testing.T) {
	db, store := app(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	limits := limiter.New(store)
	place := func(id int) (runtime.Decision, *sql.Tx) {
		tx := must(db.BeginTx(ctx, nil))(t)
		must(tx.ExecContext(ctx, "INSERT INTO orders VALUES (?)", id))(t)
		d := must(limits.WithTx(tx).Limit(counted, runtime.Key{}).Allow(ctx))(t)
		return d, tx
	}
	_, tx := place(1)
	require.NoError(t, tx.Rollback())
	d, tx := place(2)
	assert.Equal(t, counted.Capacity-1, d.Remaining, "a rollback gives the token back")
	require.NoError(t, tx.Commit())

	b := must(limits.Limit(counted, runtime.Key{}).Peek(ctx))(t)
	assert.Equal(t, counted.Capacity-1, b.Remaining)
	var orders int
	require.NoError(t, db.QueryRowContext(ctx, "SELECT count(*) FROM orders").Scan(&orders))
	assert.Equal(t, 1, orders)
}

// A deferred transaction that has read cannot write once another one has, however long it would wait.
func TestDeferredTransactionIsBusyAfterAnotherWrite(t *testing.T) {
	for _, test := range []struct {
		txlock string
		busy   bool
	}{{"deferred", true}, {"immediate", false}} {
		db := must(sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "app.db")+"?_txlock="+test.txlock+
			"&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)"))(t)
		t.Cleanup(func() { db.Close() })
		store := must(sqlstore.New(db, dialect.SQLite, sqlstore.Options{}))(t)
		require.NoError(t, store.Migrate(t.Context()))
		limits := limiter.New(store)
		tx := must(db.BeginTx(t.Context(), nil))(t)
		var rows int
		require.NoError(t, tx.QueryRow("SELECT count(*) FROM rate_limits").Scan(&rows))
		if test.busy {
			require.NoError(t, limits.Limit(counted, runtime.Key{}).Require(t.Context()))
		}
		_, err := limits.WithTx(tx).Limit(counted, runtime.Key{}).Allow(t.Context())
		var again *sqlstore.RetryTxError
		require.Equal(t, test.busy, errors.As(err, &again), "%s: %v", test.txlock, err)
		require.NoError(t, tx.Rollback())
		require.NoError(t, store.Close())
	}
}

// A denial that was cached before a transaction of this process has taken tokens is too short after its commit.
func TestTransactionEndsTheCachedDenial(t *testing.T) {
	db, store := app(t)
	p := &runtime.Policy{Name: "hourly", Kind: runtime.TokenBucket, Rate: 10, Period: 10 * time.Hour, Capacity: 10, DenyCache: time.Hour}
	limits := limiter.New(store)
	limit := limits.Limit(p, runtime.Key{})
	require.NoError(t, limit.RequireN(t.Context(), 5))
	denied := func(want time.Duration) {
		t.Helper()
		d := must(limit.AllowN(t.Context(), 8))(t)
		require.InDelta(t, want, d.RetryAfter, float64(10*time.Minute))
	}
	denied(3 * time.Hour)
	tx := must(db.BeginTx(t.Context(), nil))(t)
	require.NoError(t, limits.WithTx(tx).Limit(p, runtime.Key{}).RequireN(t.Context(), 5))
	require.NoError(t, tx.Commit())
	denied(8 * time.Hour)
	denied(8 * time.Hour)
}

func TestNilTxIsAnError(t *testing.T) {
	_, store := app(t)
	limits := limiter.New(store)
	for _, in := range []*limiter.Limiter{limits.WithTx(nil), limits.WithTx((*sql.Tx)(nil)), limits.WithConn(nil)} {
		d, err := in.Limit(counted, runtime.Key{}).Allow(t.Context())
		require.ErrorIs(t, err, runtime.ErrNilTx)
		require.EqualError(t, err, `limit "counted": the transaction is nil`)
		assert.False(t, d.Allowed)
	}
}

func TestTxOfAnotherDatabaseNamesTheMissingTable(t *testing.T) {
	_, store := app(t)
	limits := limiter.New(store)
	require.NoError(t, limits.Limit(counted, runtime.Key{}).Require(t.Context()))

	other := must(sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "other.db")))(t)
	defer other.Close()
	err := sqlstore.RunInTx(t.Context(), other, func(tx *sql.Tx) error {
		return limits.WithTx(tx).Limit(counted, runtime.Key{}).Require(t.Context())
	})
	assert.ErrorContains(t, err, `limit "counted": there is no table "rate_limits" where the transaction was begun: begin it in the database that holds the counts, or create the table there: call Start or Migrate, or run what "ratelimitgen sql -dialect sqlite" prints: `)
	assert.ErrorContains(t, err, "no such table: main.rate_limits")
}

// A request for 0 tokens writes no row, on any path through the store.
func TestCountOfZeroWritesNoRow(t *testing.T) {
	r := newRig(t)
	limits := limiter.New(r.store)
	for _, kind := range runtimetest.TokenKinds() {
		for _, shards := range []int{1, 3} {
			p := once(fmt.Sprint(kind, shards), kind, 10, shards)
			l := limits.Limit(p, runtime.Key{})
			for name, call := range map[string]func() (runtime.Decision, error){
				"AllowN":    func() (runtime.Decision, error) { return l.AllowN(t.Context(), 0) },
				"AllowUpTo": func() (runtime.Decision, error) { return l.AllowUpTo(t.Context(), 0) },
				"Charge":    func() (runtime.Decision, error) { return l.Charge(t.Context(), 0) },
			} {
				d := must(call())(t)
				assert.True(t, d.Allowed, "%s of %s", name, p.Name)
			}
			ds := must(limits.All(t.Context(), l.N(0), limits.Limit(counted, runtime.Key{}).N(0)))(t)
			assert.True(t, ds.Allowed)
		}
	}
	assert.Zero(t, r.rows(t))
}

// A group takes from all of its limits in the caller's transaction, or from none, and its reservations end with a rollback.
func TestGroupsInATransaction(t *testing.T) {
	db, store := app(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tokens := &runtime.Policy{Name: "tokens", Kind: runtime.TokenBucket, Rate: 10, Period: time.Hour, Capacity: 10, MaxReserved: 10}
	gate := &runtime.Policy{Name: "gate", Kind: runtime.FixedWindow, Rate: 1, Period: runtime.MaxPeriod, Capacity: 1}
	limits := limiter.New(store)
	left := func() (all [2]int64) {
		for i, p := range []*runtime.Policy{tokens, gate} {
			b := must(limits.Limit(p, runtime.Key{}).Peek(ctx))(t)
			all[i] = b.Remaining
		}
		return all
	}
	reserve := func(tx *sql.Tx) *limiter.Reservations {
		l := limits.WithTx(tx)
		rs := must(l.ReserveAll(ctx, l.Reservable(tokens, runtime.Key{}).N(4), l.Limit(gate, runtime.Key{}).Checked()))(t)
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
			require.NoError(t, limits.WithTx(tx).Limit(gate, runtime.Key{}).Require(ctx))
			require.Equal(t, []string{"gate"}, reserve(tx).DeniedBy())
			_, err := tx.ExecContext(ctx, "INSERT INTO orders VALUES (1)")
			require.NoError(t, err, "a denial leaves the transaction usable")
			return tx.Commit()
		}, [2]int64{7, 0}},
	} {
		tx := must(db.BeginTx(ctx, nil))(t)
		require.NoError(t, row.do(tx), row.name)
		require.Equal(t, row.left, left(), row.name)
	}
}

func TestWithConnRefusesConnectionsWithoutTransaction(t *testing.T) {
	db := must(sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "app.db")+"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)"))(t)
	t.Cleanup(func() { db.Close() })
	store := must(sqlstore.New(db, dialect.SQLite, sqlstore.Options{}))(t)
	require.NoError(t, store.Migrate(t.Context()))
	agree.NoTransaction(t, db, store)
}
