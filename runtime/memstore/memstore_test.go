package memstore_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/runtimetest"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

var bucket, reservable = runtimetest.Bucket, runtimetest.Reservable

// clocked returns a store with a clock that shows *now.
func clocked(now *time.Time) *memstore.Store {
	return &memstore.Store{Clock: func() time.Time { return *now }}
}

// still returns a store whose clock stands still.
func still() *memstore.Store { return clocked(&runtimetest.Epoch) }

// value returns the number of tokens left, with the fraction.
func value(t *testing.T, l limiter.ReservableLimit) float64 {
	t.Helper()
	b, err := l.Peek(t.Context())
	require.NoError(t, err)
	return b.Value
}

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
	require.ErrorIs(t, limits.WithConn(nil).Limit(bucket("limit", 1), runtime.Key{}).Require(t.Context()), runtime.ErrNilTx)
	require.ErrorIs(t, limits.WithConn(&sql.Conn{}).Limit(bucket("limit", 1), runtime.Key{}).Require(t.Context()), runtime.ErrNoTx)
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

// TestVectors compares the store, and so the rules of package meter, with the decisions of the reference
// implementation.
func TestVectors(t *testing.T) {
	traces, err := os.Open("../../testdata/convex.jsonl")
	require.NoError(t, err)
	defer traces.Close()
	clock := storetest.NewClock()
	store := &memstore.Store{Clock: clock.Now}
	agreed := storetest.Vectors(t, store, clock, func(row runtime.Row) runtime.State {
		row.Shard = -1 // Rows returns those after it
		rows, _, err := store.Rows(t.Context(), row, 1)
		require.NoError(t, err)
		return rows[0].State
	}, traces)
	require.Equal(t, 4800, agreed)
}

// Each row is about a new store: what is taken from it, and which sweeps delete how many rows.
func TestSweepDeletesRowsFullForAnHour(t *testing.T) {
	p, other := bucket("limit", 2), bucket("other", 2)
	// During a rolling deploy that lowers a rate, a row that is full for the old limit lacks 90,000 tokens for the new
	// one.
	fast, slow := bucket("limit", 100_000), bucket("limit", 100_000)
	fast.Rate, fast.Period = 100_000, time.Second
	slow.Rate, slow.Period = 1, runtime.MaxPeriod
	unlimited := &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Mode: runtime.ModeUnlimited}
	precise := &runtime.Policy{Name: "precise", Kind: runtime.SlidingWindow, Rate: 5, Period: time.Hour, Capacity: 5, Precise: true}
	type policies = []*runtime.Policy
	type taken struct {
		at     time.Duration
		policy *runtime.Policy
		n      int64
	}
	type swept struct {
		at       time.Duration
		policies policies
		deleted  int
	}
	for name, row := range map[string]struct {
		takes  []taken
		sweeps []swept
	}{
		"full for an hour, and another limit": {[]taken{{0, p, 2}, {0, other, 2}},
			[]swept{{0, policies{p}, 0}, {time.Hour, policies{p}, 0}, {time.Hour + 2*time.Second, policies{p}, 1}, {2 * time.Hour, policies{p}, 0}, {2 * time.Hour, policies{other}, 1}}},
		"needed by one of the policies of its name": {[]taken{{0, slow, 90_000}},
			[]swept{{2 * time.Hour, policies{fast, slow}, 0}, {2 * time.Hour, policies{slow, fast}, 0}, {2 * time.Hour, policies{fast}, 1}}},
		"left by another plan than the unlimited one, which does not judge": {[]taken{{0, p, 1}},
			[]swept{{0, policies{unlimited}, 0}, {0, policies{unlimited, p}, 0}, {2 * time.Hour, policies{unlimited}, 0}, {2 * time.Hour, policies{unlimited, p}, 1}}},
		"a log whose newest token has been back for an hour": {[]taken{{0, precise, 1}, {10 * time.Minute, precise, 1}, {20 * time.Minute, precise, 1}},
			[]swept{{139 * time.Minute, policies{precise}, 0}, {140 * time.Minute, policies{precise}, 1}}},
	} {
		now := runtimetest.Epoch
		store := clocked(&now)
		for _, take := range row.takes {
			now = runtimetest.Epoch.Add(take.at)
			require.True(t, runtimetest.Decide(t, store, take.policy, runtimetest.Take(take.n)).Allowed)
		}
		for _, sweep := range row.sweeps {
			now = runtimetest.Epoch.Add(sweep.at)
			deleted, err := store.Sweep(t.Context(), sweep.policies...)
			require.NoError(t, err)
			require.Equal(t, sweep.deleted, deleted, "%s, after %v", name, sweep.at)
		}
	}
}

func TestSweepOfBadArgumentsDeletesNothing(t *testing.T) {
	now := runtimetest.Epoch
	store, p := clocked(&now), bucket("limit", 2)
	runtimetest.Decide(t, store, p, runtimetest.Reset())
	require.Zero(t, store.Len(), "a new key needs no reset")
	runtimetest.Decide(t, store, p, runtimetest.Take(2))
	runtimetest.Decide(t, store, p, runtimetest.Reset())
	require.Equal(t, 2.0, runtimetest.Left(t, store, p))
	now = now.Add(time.Hour)
	deleted, err := store.Sweep(t.Context(), p, nil)
	require.ErrorIs(t, err, runtime.ErrInvalidPolicy)
	require.Zero(t, deleted)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = store.Sweep(ended, p)
	require.ErrorIs(t, err, context.Canceled)
	deleted, err = store.Sweep(t.Context(), p)
	require.NoError(t, err)
	require.Equal(t, 1, deleted, "of a key that is full since its reset")
}

func TestSweepKeepsRowsThatAreNotFullByTheirOverride(t *testing.T) {
	now, p := runtimetest.Epoch, runtimetest.Overridable()
	store := clocked(&now)
	limits := limiter.New(store)
	slow, usual := runtime.KeyOf(runtime.String("slow")), runtime.KeyOf(runtime.String("usual"))
	_, err := limits.Overrides(p, slow).Set(t.Context(), runtime.Override{Rate: 1, Capacity: 10, Until: runtime.ForGood(), Reason: "r", Author: "a"})
	require.NoError(t, err)
	for _, key := range []runtime.Key{slow, usual} {
		require.NoError(t, limits.Limit(p, key).RequireN(t.Context(), 10))
	}
	now = now.Add(3 * time.Hour)
	deleted, err := store.Sweep(t.Context(), p)
	require.NoError(t, err)
	require.Equal(t, 1, deleted)
	b, err := limits.Limit(p, slow).Peek(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 3, b.Remaining)
	_, err = store.Forget(t.Context(), "calls")
	require.NoError(t, err)
	history, err := limits.Overrides(p, slow).History(t.Context())
	require.NoError(t, err)
	require.Len(t, history, 2, "the log outlives the limit")
	require.Equal(t, runtime.OverrideNone, history[1].What)
	require.Empty(t, store.OverrideView().InForce())
}

func TestMemStoreSweepsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, p := &memstore.Store{}, bucket("limit", 1)
		require.NoError(t, limiter.New(store).Limit(p, runtime.Key{}).Require(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
		defer cancel()
		sum := 0
		err := store.SweepEvery(ctx, time.Hour, func(deleted int, err error) { sum += deleted; require.NoError(t, err) }, p)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 1, sum)
		require.Zero(t, store.Len())
	})
}

func TestMemStoreForgetsALimit(t *testing.T) {
	store := still()
	gone, kept := bucket("gone", 5), bucket("kept", 5)
	gone.Rate, gone.Shards = 2, 2
	runtimetest.Decide(t, store, gone, runtimetest.Take(5))
	runtimetest.Decide(t, store, kept, runtimetest.Take(2))
	n, err := store.Forget(t.Context(), "gone", kept, gone)
	require.ErrorIs(t, err, runtime.ErrInUse)
	require.EqualError(t, err, `forget limit "gone": the limit is in use: remove it from limits.yaml first, or Reset its keys`)
	require.Zero(t, n)
	_, err = store.Forget(t.Context(), "")
	require.Error(t, err)
	require.Equal(t, 3, store.Len())
	n, err = store.Forget(t.Context(), "gone", kept)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, 3.0, runtimetest.Left(t, store, kept))
	n, err = store.Forget(t.Context(), "gone", kept)
	require.NoError(t, err)
	require.Zero(t, n)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = store.Forget(ended, "kept")
	require.ErrorIs(t, err, context.Canceled)
}

// Every call of a store that fails has its error, also in a transaction, and changes nothing.
func TestFail(t *testing.T) {
	down := errors.New("down")
	fails := true
	store := &memstore.Store{Fail: func(context.Context) error {
		if fails {
			return down
		}
		return nil
	}}
	p := &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 1, Capacity: 1, Period: time.Hour}
	limits := limiter.New(store)
	tx := store.Begin()
	require.ErrorIs(t, limits.Limit(p, runtime.Key{}).Require(t.Context()), down)
	require.ErrorIs(t, limits.WithTx(tx).Limit(p, runtime.Key{}).Require(t.Context()), down)
	require.NoError(t, tx.Rollback())
	_, err := store.Sweep(t.Context(), p)
	require.ErrorIs(t, err, down)
	_, _, err = store.Rows(t.Context(), runtime.Row{Name: p.Name, Shard: -1}, 10)
	require.ErrorIs(t, err, down)
	fails = false
	require.NoError(t, limits.Limit(p, runtime.Key{}).Require(t.Context()))
}
