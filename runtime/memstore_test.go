package runtime_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

func TestMemTxTakesIfAndOnlyIfItCommits(t *testing.T) {
	store := still()
	limits := limiter.New(store)
	p := reservable(5)
	outside := limits.Reservable(p, runtime.Key{})
	for _, row := range []struct {
		end  func(tx *memstore.Tx) error
		left float64
	}{
		{(*memstore.Tx).Rollback, 5},
		{(*memstore.Tx).Commit, 2},
	} {
		tx := store.Begin()
		l := limits.WithTx(tx).Reservable(p, runtime.Key{})
		require.NoError(t, l.RequireN(t.Context(), 2))
		require.NoError(t, l.Require(t.Context()))
		require.Equal(t, 2.0, value(t, l), "the transaction counts its own tokens")
		denied, err := l.AllowN(t.Context(), 3)
		require.NoError(t, err)
		require.False(t, denied.Allowed, "a denial leaves the transaction usable")
		require.Equal(t, 5.0, value(t, outside), "nobody else sees them before the commit")
		require.NoError(t, row.end(tx))
		require.Equal(t, row.left, value(t, outside))
		for _, end := range []func(*memstore.Tx) error{(*memstore.Tx).Commit, (*memstore.Tx).Rollback} {
			require.ErrorIs(t, end(tx), sql.ErrTxDone)
		}
		require.ErrorIs(t, l.Require(t.Context()), sql.ErrTxDone)
		require.Equal(t, row.left, value(t, outside))
	}

	tx := store.Begin()
	require.NoError(t, limits.WithTx(tx).Reservable(p, runtime.Key{}).Reset(t.Context()))
	require.Equal(t, 2.0, value(t, outside))
	require.NoError(t, tx.Commit())
	require.Equal(t, 5.0, value(t, outside))
	require.Equal(t, 1, store.Len())
}

// Two transactions that take the last token: one commits, and the other must be run again.
func TestMemTxCommitsOnlyUnchangedKeys(t *testing.T) {
	store := still()
	limits := limiter.New(store)
	p, other := bucket("limit", 1), bucket("other", 1)
	begin := func() (*memstore.Tx, limiter.Limit) {
		tx := store.Begin()
		return tx, limits.WithTx(tx).Limit(p, runtime.Key{})
	}
	first, a := begin()
	second, b := begin()
	require.NoError(t, a.Require(t.Context()))
	require.NoError(t, b.Require(t.Context()))
	require.NoError(t, limits.Limit(other, runtime.Key{}).Require(t.Context()), "another key is no conflict")
	require.NoError(t, first.Commit())
	require.ErrorIs(t, second.Commit(), memstore.ErrTxConflict)
	third, c := begin()
	require.ErrorIs(t, c.Require(t.Context()), runtime.ErrLimited)
	require.NoError(t, third.Commit())
}

func TestConcurrentMemTxsTakeExactlyTheCapacity(t *testing.T) {
	store := still()
	limits := limiter.New(store)
	p := bucket("limit", 100)
	var taken atomic.Int64
	take := func() error {
		tx := store.Begin()
		d, err := limits.WithTx(tx).Limit(p, runtime.Key{}).Allow(t.Context())
		if err != nil {
			return err
		}
		if err = tx.Commit(); err == nil && d.Allowed {
			taken.Add(1)
		}
		return err
	}
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 20 {
				for errors.Is(take(), memstore.ErrTxConflict) {
				}
			}
		})
	}
	all.Wait()
	require.Equal(t, int64(100), taken.Load())
}

func TestMemStoreRefusesOtherTransactions(t *testing.T) {
	store := still()
	limits := limiter.New(store)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, row := range map[string]struct {
		ctx  context.Context
		tx   runtime.Tx
		want error
	}{
		"nil":             {t.Context(), nil, runtime.ErrNilTx},
		"a nil Tx":        {t.Context(), (*memstore.Tx)(nil), runtime.ErrNilTx},
		"another store":   {t.Context(), still().Begin(), runtime.ErrNoTx},
		"of a database":   {t.Context(), &sql.Tx{}, runtime.ErrNoTx},
		"an ended caller": {ended, store.Begin(), context.Canceled},
	} {
		require.ErrorIs(t, limits.WithTx(row.tx).Limit(bucket("limit", 1), runtime.Key{}).Require(row.ctx), row.want, name)
	}
	require.Zero(t, store.Len())
}

func TestMemTxHasNoSQL(t *testing.T) {
	tx := still().Begin()
	_, exec := tx.ExecContext(t.Context(), "DELETE FROM orders")
	_, query := tx.QueryContext(t.Context(), "SELECT 1")
	for _, err := range []error{exec, query, tx.QueryRowContext(t.Context(), "SELECT 1").Scan(new(int))} {
		require.ErrorContains(t, err, "a memstore.Tx has no database")
	}
}
