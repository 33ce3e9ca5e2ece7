package sqlite_test

import (
	"context"
	"database/sql"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	choices "github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/inside"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/table"
)

func TestSweepDeletesRowsThatHaveBeenFullForAnHour(t *testing.T) {
	r := newRig(t)
	policies := []*runtime.Policy{
		{Name: "bucket", Kind: runtime.TokenBucket, Rate: 10, Period: time.Minute, Capacity: 10, MaxReserved: 100},
		{Name: "window", Kind: runtime.FixedWindow, Rate: 10, Period: time.Minute, Capacity: 10, MaxReserved: 100},
		{Name: "sliding", Kind: runtime.SlidingWindow, Rate: 10, Period: time.Minute, Capacity: 10},
		{Name: "sharded", Kind: runtime.TokenBucket, Rate: 10, Period: time.Minute, Capacity: 10, Shards: 2},
	}
	other := &runtime.Policy{Name: "other", Kind: runtime.TokenBucket, Rate: 10, Period: time.Minute, Capacity: 10}
	limits := limiter.New(r.store)
	take := func(p *runtime.Policy, keys int) {
		for i := range keys {
			require.NoError(t, limits.Limit(p, runtime.KeyOf(runtime.Int(i))).Require(t.Context()))
		}
	}
	for _, p := range policies {
		take(p, 1200)
	}
	take(other, 5)

	sweep := func() int {
		n := must(r.store.Sweep(t.Context(), policies...))(t)
		return n
	}
	assert.Zero(t, sweep(), "rows in use")
	r.clock.Add(59 * time.Minute)
	assert.Zero(t, sweep(), "full, but not yet for an hour")
	r.clock.Add(3 * time.Minute)
	take(policies[0], 7)
	assert.Equal(t, 4*1200-7, sweep(), "full for an hour, except 7 that were used again")
	for _, p := range policies {
		b := must(limits.Limit(p, runtime.KeyOf(runtime.Int(1199))).Peek(t.Context()))(t)
		assert.Equal(t, int64(10), b.Remaining)
	}
	assert.Equal(t, 7+5, r.rows(t))
	assert.Equal(t, 0, sweep())
}

func TestSweepKeepsDebt(t *testing.T) {
	r := newRig(t)
	p := &runtime.Policy{Name: "debt", Kind: runtime.TokenBucket, Rate: 1, Period: time.Hour, Capacity: 1, MaxReserved: 1000}
	reservation := must(limiter.New(r.store).Reservable(p, runtime.Key{}).ReserveN(t.Context(), 101))(t)
	require.Equal(t, 100*time.Hour, reservation.Delay())
	for range 101 {
		n := must(r.store.Sweep(t.Context(), p))(t)
		require.Zero(t, n)
		r.clock.Add(time.Hour)
	}
	r.clock.Add(time.Hour)
	n := must(r.store.Sweep(t.Context(), p))(t)
	assert.Equal(t, 1, n)
}

// The policies are a limit before and after its rate was lowered.
func TestSweepKeepsRowsThatAnyPolicyOfTheNameNeeds(t *testing.T) {
	r := newRig(t)
	slow := once("limit", runtime.TokenBucket, 100_000, 0)
	fast := *slow
	fast.Rate, fast.Period = 100_000, time.Second
	limit := limiter.New(r.store).Limit(slow, runtime.Key{})
	require.NoError(t, limit.RequireN(t.Context(), 90_000))
	r.clock.Add(2 * time.Hour)
	for _, order := range [][]*runtime.Policy{{&fast, slow}, {slow, &fast}} {
		n := must(r.store.Sweep(t.Context(), order...))(t)
		require.Zero(t, n)
	}
	d := must(limit.AllowN(t.Context(), 20_000))(t)
	require.False(t, d.Allowed, "10,000 are left")

	for _, invalid := range []*runtime.Policy{nil, {Name: "x"}} {
		_, err := r.store.Sweep(t.Context(), &fast, invalid)
		require.ErrorIs(t, err, runtime.ErrInvalidPolicy)
		require.Equal(t, 1, r.rows(t), "nothing is deleted")
	}
	n := must(r.store.Sweep(t.Context(), &fast))(t)
	require.Equal(t, 1, n, "the fast one alone has no use for the row")
}

func (r *rig) rows(t *testing.T) (n int) {
	require.NoError(t, r.db.QueryRow("SELECT count(*) FROM rate_limits").Scan(&n))
	return n
}

func TestForgetDeletesTheRowsOfALimit(t *testing.T) {
	r := newRig(t)
	limits := limiter.New(r.store)
	gone, kept := once("gone", runtime.TokenBucket, 10, 0), once("kept", runtime.FixedWindow, 10, 0)
	sharded := once("sharded", runtime.TokenBucket, 10, 0)
	sharded.Shards = 5
	for _, p := range []*runtime.Policy{gone, kept, sharded} {
		for i := range 1200 {
			require.NoError(t, limits.Limit(p, runtime.KeyOf(runtime.Int(i))).Require(t.Context()))
		}
	}
	rows := r.rows(t)
	n, err := r.store.Forget(t.Context(), "gone", kept, gone)
	require.ErrorIs(t, err, runtime.ErrInUse)
	require.Zero(t, n)
	_, err = r.store.Forget(t.Context(), "", kept)
	require.Error(t, err)
	require.Equal(t, rows, r.rows(t))

	for name, want := range map[string]int{"gone": 1200, "sharded": rows - 2400, "never was": 0} {
		n := must(r.store.Forget(t.Context(), name, kept))(t)
		assert.Equal(t, want, n, name)
		n = must(r.store.Forget(t.Context(), name, kept))(t)
		assert.Zero(t, n, name)
	}
	assert.Equal(t, 1200, r.rows(t))
	b := must(limits.Limit(kept, runtime.KeyOf(runtime.Int(1199))).Peek(t.Context()))(t)
	assert.Equal(t, int64(9), b.Remaining)
}

// The clock of the database is set ahead by mistake, for less than an hour, and back. Every kind of limit, a penalty and a
// block of a key are as they were.
func TestSweepByAClockThatIsAheadDeletesNothingInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		store := wiredWith(t, w, sqlstore.Options{KeepOverrides: time.Hour})
		punished := once("punished", runtime.TokenBucket, 1, 0)
		punished.Penalty = runtime.PenaltyOf(0, 24*time.Hour)
		punished.Overrides = runtime.OverrideBounds{Rate: 1, Capacity: 1}
		policies := []*runtime.Policy{
			once("bucket", runtime.TokenBucket, 10, 0), once("window", runtime.FixedWindow, 10, 0), once("sliding", runtime.SlidingWindow, 10, 0), punished,
		}
		require.NoError(t, store.Migrate(t.Context(), policies...))
		all := limiter.New(store)
		for _, p := range policies {
			d := must(all.Limit(p, runtime.Key{}).AllowN(t.Context(), p.Capacity))(t)
			require.True(t, d.Allowed)
			d = must(all.Limit(p, runtime.Key{}).Allow(t.Context()))(t)
			require.False(t, d.Allowed)
		}
		blocked := runtime.KeyOf(runtime.Int(1))
		must(all.Overrides(punished, blocked).Block(t.Context(), runtime.Block{
			Until: time.Now().Add(24 * time.Hour), Reason: "spam", Author: "ann",
		}))(t)
		// The newest entry of the log is never deleted.
		must(all.Overrides(punished, runtime.KeyOf(runtime.Int(2))).Block(t.Context(), runtime.Block{
			Until: runtime.ForGood(), Reason: "spam", Author: "ann",
		}))(t)
		sweep := func() int { return must(store.Sweep(t.Context(), policies...))(t) }
		check := func() {
			t.Helper()
			for _, p := range policies {
				d := must(all.Limit(p, runtime.Key{}).Allow(t.Context()))(t)
				require.False(t, d.Allowed, p.Name)
			}
			history := must(all.Overrides(punished, blocked).History(t.Context()))(t)
			require.Len(t, history, 1)
		}
		require.Zero(t, sweep())

		w.set(2 * runtime.MaxPeriod)
		time.Sleep(2 * time.Minute)
		present := must(all.Limit(policies[0], runtime.KeyOf(runtime.Int(3))).Allow(t.Context()))(t)
		require.Greater(t, time.Until(present.TakenAt), runtime.MaxPeriod, "the store has found the jump")
		for range 5 {
			require.Zero(t, sweep())
			time.Sleep(10 * time.Minute)
		}
		w.set(0)
		time.Sleep(2 * time.Minute)
		require.False(t, must(all.Limit(policies[0], runtime.Key{}).Allow(t.Context()))(t).Allowed)
		require.Zero(t, sweep())
		check()

		w.set(2 * runtime.MaxPeriod)
		time.Sleep(2 * time.Minute)
		require.Zero(t, sweep())
		time.Sleep(time.Hour)
		require.Equal(t, len(policies), sweep(), "a jump that lasts is believed, and the row of key 3 is not full")
		require.NoError(t, store.Close())
	})
}

func TestSweepEveryEndsWhenTheStoreIsClosed(t *testing.T) {
	r := newRig(t)
	p := once("limit", runtime.TokenBucket, 10, 0)
	require.NoError(t, limiter.New(r.store).Limit(p, runtime.Key{}).Require(t.Context()))
	r.clock.Add(runtime.MaxPeriod + 2*time.Hour)
	sum, closed := 0, false
	err := r.store.SweepEvery(t.Context(), time.Millisecond, func(deleted int, err error) {
		require.NoError(t, err)
		if sum += deleted; sum == 1 && !closed {
			closed = true
			require.NoError(t, r.store.Close())
		}
	}, p)
	require.ErrorIs(t, err, sqlstore.ErrClosed)
	assert.True(t, closed)
}

// Half of the time is for calls. Sweep and Forget go through the pages alike.
func TestSweepPausesAfterEachPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{roundTrip: 10 * time.Millisecond, obeys: true}
		store := wired(t, w, 0)
		p := &runtime.Policy{Name: "swept", Kind: runtime.TokenBucket, Rate: 1000, Period: time.Second, Capacity: 1000}
		var calls []runtime.Call
		for i := range 1200 {
			q := runtime.Request{Count: 1, Policy: p, Key: runtime.KeyOf(runtime.Int(i)).String()}
			calls = append(calls, runtime.Call{Requests: []runtime.Request{q}})
		}
		must(store.Do(t.Context(), calls))(t)
		must(store.Forget(t.Context(), "prepares the statements", p))(t)

		begin, before := time.Now(), w.waited
		deleted := must(store.Forget(t.Context(), p.Name))(t)
		require.Equal(t, 1200, deleted)
		busy := w.waited - before
		require.Equal(t, 7*w.roundTrip, time.Since(begin)-busy, "three pages are read and deleted; no pause after the empty page, the log and the registration")

		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Millisecond)
		defer cancel()
		must(store.Do(t.Context(), calls))(t)
		_, err := store.Sweep(ctx, p)
		require.ErrorIs(t, err, context.DeadlineExceeded, "a pause ends with the context")
		require.NoError(t, store.Close())
	})
}

// pages is a table.PageDeleter of so many pages, each of which takes 10 ms.
type pages int

func (p *pages) DeletePage(after runtime.Row, _ int, _ func(runtime.StoredRow) bool) (table.DeletedPage, error) {
	if *p == 0 {
		return table.DeletedPage{Empty: true}, nil
	}
	*p--
	time.Sleep(10 * time.Millisecond)
	return table.DeletedPage{Last: after, Deleted: 1, Took: 10 * time.Millisecond}, nil
}

// Calls wait while a page is swept, so nine tenths of the time is theirs.
func TestSweepOfAFilePausesForCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pages(4)
		db := must(sql.Open("sqlite", ":memory:"))(t)
		defer db.Close()
		db.SetMaxOpenConns(1)
		store := must(sqlstore.NewInside(db, sqlstore.Options{}, inside.Options{Dialect: dialect.SQLite, AutoCreate: true, Pages: &p}))(t)
		defer store.Close()
		require.NoError(t, store.Migrate(t.Context(), counted))
		began := time.Now()
		require.Equal(t, 4, must(store.Sweep(t.Context(), counted))(t))
		require.Equal(t, 400*time.Millisecond, time.Since(began))
	})
}

// A sweep goes page by page through the shards of a key, and through keys of any text.
func TestSweepThroughPages(t *testing.T) {
	r := newRig(t)
	p := once("limit", runtime.TokenBucket, 4000, 4)
	must(r.db.Exec(`WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 2999)
		INSERT INTO rate_limits SELECT 'limit', iif(i < 8, '', char(33 + i % 90) || (i / 4 * 7919 % 1000)) , i % 4, iif(i % 3 = 0, -500, 0),
			iif(i % 3 = 0, ?, 0), 0, iif(i % 7 = 0, x'00', NULL) FROM n WHERE true ON CONFLICT DO NOTHING`, r.clock.Now().UnixNano()))(t)
	rows := r.rows(t)
	require.Greater(t, rows, 2000)
	other := must(sqlstore.New(r.db, choices.SQLite, sqlstore.Options{Clock: r.clock.Now}))(t)
	defer other.Close()
	must(r.db.Exec("CREATE TABLE kept AS SELECT * FROM rate_limits"))(t)
	want := must(other.Sweep(t.Context(), p))(t)
	left := r.rows(t)
	require.Equal(t, rows, want+left)
	require.Greater(t, left, 500)
	require.Greater(t, want, 1000)
	must(r.db.Exec("DELETE FROM rate_limits; INSERT INTO rate_limits SELECT * FROM kept ORDER BY random()"))(t)
	require.Equal(t, want, must(r.store.Sweep(t.Context(), p))(t), "as by the statements of the dialect")
	require.Equal(t, left, r.rows(t))
}
