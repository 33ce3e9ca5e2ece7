package runtime_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/stretchr/testify/require"
)

func TestMemTxTakesIfAndOnlyIfItCommits(t *testing.T) {
	store := still()
	limiter := runtime.NewLimiter(store)
	p := reservable(5)
	outside := limiter.Reservable(p, runtime.Key{})
	for _, row := range []struct {
		end  func(tx *runtime.MemTx) error
		left float64
	}{
		{(*runtime.MemTx).Rollback, 5},
		{(*runtime.MemTx).Commit, 2},
	} {
		tx := store.Begin()
		l := limiter.WithTx(tx).Reservable(p, runtime.Key{})
		require.NoError(t, l.RequireN(t.Context(), 2))
		require.NoError(t, l.Require(t.Context()))
		require.Equal(t, 2.0, value(t, l), "the transaction counts its own tokens")
		denied, err := l.AllowN(t.Context(), 3)
		require.NoError(t, err)
		require.False(t, denied.Allowed, "a denial leaves the transaction usable")
		require.Equal(t, 5.0, value(t, outside), "nobody else sees them before the commit")
		require.NoError(t, row.end(tx))
		require.Equal(t, row.left, value(t, outside))
		for _, end := range []func(*runtime.MemTx) error{(*runtime.MemTx).Commit, (*runtime.MemTx).Rollback} {
			require.ErrorIs(t, end(tx), sql.ErrTxDone)
		}
		require.ErrorIs(t, l.Require(t.Context()), sql.ErrTxDone)
		require.Equal(t, row.left, value(t, outside))
	}

	tx := store.Begin()
	require.NoError(t, limiter.WithTx(tx).Reservable(p, runtime.Key{}).Reset(t.Context()))
	require.Equal(t, 2.0, value(t, outside))
	require.NoError(t, tx.Commit())
	require.Equal(t, 5.0, value(t, outside))
	require.Equal(t, 1, store.Len())
}

// Two transactions that take the last token: one commits, and the other must be run again.
func TestMemTxCommitsOnlyUnchangedKeys(t *testing.T) {
	store := still()
	limiter := runtime.NewLimiter(store)
	p, other := bucket("limit", 1), bucket("other", 1)
	begin := func() (*runtime.MemTx, runtime.Limit) {
		tx := store.Begin()
		return tx, limiter.WithTx(tx).Limit(p, runtime.Key{})
	}
	first, a := begin()
	second, b := begin()
	require.NoError(t, a.Require(t.Context()))
	require.NoError(t, b.Require(t.Context()))
	require.NoError(t, limiter.Limit(other, runtime.Key{}).Require(t.Context()), "another key is no conflict")
	require.NoError(t, first.Commit())
	require.ErrorIs(t, second.Commit(), runtime.ErrTxConflict)
	third, c := begin()
	require.ErrorIs(t, c.Require(t.Context()), runtime.ErrLimited)
	require.NoError(t, third.Commit())
}

func TestConcurrentMemTxsTakeExactlyTheCapacity(t *testing.T) {
	store := still()
	limiter := runtime.NewLimiter(store)
	p := bucket("limit", 100)
	var taken atomic.Int64
	take := func() error {
		tx := store.Begin()
		d, err := limiter.WithTx(tx).Limit(p, runtime.Key{}).Allow(t.Context())
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
				for errors.Is(take(), runtime.ErrTxConflict) {
				}
			}
		})
	}
	all.Wait()
	require.Equal(t, int64(100), taken.Load())
}

func TestMemStoreRefusesOtherTransactions(t *testing.T) {
	store := still()
	limiter := runtime.NewLimiter(store)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, row := range map[string]struct {
		ctx  context.Context
		tx   runtime.Tx
		want error
	}{
		"nil":             {t.Context(), nil, runtime.ErrNilTx},
		"a nil MemTx":     {t.Context(), (*runtime.MemTx)(nil), runtime.ErrNilTx},
		"another store":   {t.Context(), still().Begin(), runtime.ErrNoTx},
		"of a database":   {t.Context(), &sql.Tx{}, runtime.ErrNoTx},
		"an ended caller": {ended, store.Begin(), context.Canceled},
	} {
		require.ErrorIs(t, limiter.WithTx(row.tx).Limit(bucket("limit", 1), runtime.Key{}).Require(row.ctx), row.want, name)
	}
	require.Zero(t, store.Len())
}

func TestMemTxHasNoSQL(t *testing.T) {
	tx := still().Begin()
	_, exec := tx.ExecContext(t.Context(), "DELETE FROM orders")
	_, query := tx.QueryContext(t.Context(), "SELECT 1")
	for _, err := range []error{exec, query, tx.QueryRowContext(t.Context(), "SELECT 1").Scan(new(int))} {
		require.ErrorContains(t, err, "a runtime.MemTx has no database")
	}
}
