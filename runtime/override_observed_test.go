package runtime_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/override"
)

// Each observation has the policy that was in force, its entry, and whether the store was needed.
func TestObservationsOfOverrides(t *testing.T) {
	watch := &spy{}
	o := newOverriding(t, overridable())
	o.limiter = limiter.New(&faulty{Store: o.store}, limiter.Observe(watch))
	ctx := t.Context()
	for _, row := range []struct {
		key    string
		before func()
		call   func(l limiter.Limit)
		want   string
		source runtime.Source
		// capacity is that of the policy, and entry the number of the override.
		capacity, entry int64
	}{
		{"plain", func() {}, func(l limiter.Limit) { _, _ = l.Allow(ctx) }, "calls Take allowed 1/1", runtime.SourceStore, 10, 0},
		{"numbers", func() { o.override(o.overrides("numbers"), runtime.Override{Capacity: 30}) },
			func(l limiter.Limit) { _, _ = l.AllowN(ctx, 20) }, "calls Take allowed 20/20", runtime.SourceStore, 30, 1},
		{"numbers", func() {}, func(l limiter.Limit) { _, _ = l.AllowN(ctx, 31) }, "calls Take invalid 31/0", runtime.SourceStore, 30, 1},
		{"numbers", func() {}, func(l limiter.Limit) { _, _ = l.Charge(ctx, 2) }, "calls Charge charged 2/2", runtime.SourceStore, 30, 1},
		{"block", func() { o.block(o.overrides("block"), time.Minute) },
			func(l limiter.Limit) { _, _ = l.Allow(ctx) }, "calls Take denied 1/0 by none", runtime.SourceNone, 10, 2},
		{"block", func() {}, func(l limiter.Limit) { _ = l.Wait(ctx) }, "calls Take denied 1/0 by none", runtime.SourceNone, 10, 2},
		{"off", func() { o.override(o.overrides("off"), runtime.Override{Mode: runtime.ModeOff}) },
			func(l limiter.Limit) { _, _ = l.AllowN(ctx, 99) }, "calls Take allowed 99/99 by none", runtime.SourceNone, 10, 3},
		{"shadow", func() { o.override(o.overrides("shadow"), runtime.Override{Mode: runtime.ModeShadow}) },
			func(l limiter.Limit) { _, _ = l.AllowN(ctx, 11) }, "calls Take shadow_denied 11/0", runtime.SourceStore, 10, 4},
	} {
		row.before()
		watch.take()
		row.call(o.key(row.key))
		seen := watch.take()
		require.Len(t, seen, 1, row.want)
		watch.seen = seen
		require.Equal(t, []string{row.want}, watch.lines())
		require.Equal(t, row.source, seen[0].Source, row.want)
		require.Equal(t, row.source == runtime.SourceStore, seen[0].Duration > 0, row.want)
		require.Equal(t, row.capacity, seen[0].Policy.Capacity, row.want)
		entry, ok := seen[0].Override()
		require.Equal(t, row.entry, entry, row.want)
		require.Equal(t, row.entry != 0, ok, row.want)
	}
}

// A hint for a client, or an operator's page, reads a key without asking for tokens: it must not count as a denial.
func TestReadsOfAKeyAreNotObserved(t *testing.T) {
	watch := &spy{}
	o := newOverriding(t, overridable())
	o.limiter = limiter.New(o.store, limiter.Observe(watch))
	o.block(o.overrides("blocked"), time.Hour)
	ctx := t.Context()
	for _, key := range []string{"free", "blocked"} {
		_, err := o.key(key).CheckN(ctx, 0)
		require.NoError(t, err)
		_, err = o.key(key).Peek(ctx)
		require.NoError(t, err)
		_, err = o.limiter.All(ctx, o.key(key).CheckedN(0), o.key("other").CheckedN(0))
		require.NoError(t, err)
	}
	require.Empty(t, watch.take())
	// Beside requests, only those are observed.
	_, err := o.limiter.All(ctx, o.key("blocked").CheckedN(0), o.key("other"), o.key("other").Checked())
	require.NoError(t, err)
	seen := watch.take()
	require.Len(t, seen, 2)
	require.Equal(t, []int{1, 2}, []int{seen[0].Index, seen[1].Index})
	_, err = o.key("blocked").Check(ctx)
	require.NoError(t, err)
	require.Len(t, watch.take(), 1, "a check of a token may protect an action")
}

// The store decides for a key of an unlimited plan that an override has given another one.
func TestOverrideOfAnUnlimitedPlan(t *testing.T) {
	bounds := runtime.OverrideBounds{Rate: 20, MaxReserved: 20}
	policies := runtime.PlanPolicies{
		free: {Name: "jobs", Kind: runtime.TokenBucket, Rate: 10, Period: time.Hour, MaxReserved: 10, Timeout: time.Second, Overrides: bounds},
		pro:  {Name: "jobs", Kind: runtime.TokenBucket, Mode: runtime.ModeUnlimited, Overrides: bounds},
	}.Overridable(runtime.PlanNames{"", "free", "pro"})
	watch := &spy{}
	o := newOverriding(t, nil)
	store := &deadlines{Store: o.store}
	o.limiter = limiter.New(store, limiter.Observe(watch))
	p, key := policies.For(pro, runtime.KeyOf(runtime.String("a")))
	limit := o.limiter.ReserveOnly(p, key)
	o.override(o.limiter.Overrides(p, key), runtime.Override{Plan: runtime.PlanText("free")})

	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(time.Minute))
	defer cancel()
	for range 2 {
		// The first token has accrued already; both wait for the other one longer than the context lasts.
		require.ErrorIs(t, limit.Wait(ctx), runtime.ErrLimited, "the limit has capacity 0, so that Wait must reserve")
		require.ErrorIs(t, o.limiter.Group(limit).Wait(ctx), runtime.ErrLimited)
	}
	for _, seen := range watch.take() {
		require.Equal(t, runtime.SourceStore, seen.Source)
		require.EqualValues(t, 10, seen.Policy.MaxReserved)
	}
	require.NotZero(t, store.calls)
	require.LessOrEqual(t, store.longest, time.Second, "the plan of the override has a timeout")
}

// deadlines is a store that notes how long its calls may last.
type deadlines struct {
	*memstore.Store
	calls   int
	longest time.Duration
}

func (s *deadlines) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	deadline, _ := ctx.Deadline()
	s.calls, s.longest = s.calls+1, max(s.longest, time.Until(deadline))
	return s.Store.Do(ctx, calls)
}

// leased answers as a store that has leased all tokens: Value is the rest of the lease.
type leased struct{ *memstore.Store }

func (s leased) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	answers, err := s.Store.Do(ctx, calls)
	for i := range answers {
		if calls[i].Requests[0].Op == runtime.Take {
			answers[i].Decisions[0].Value = 0
		}
	}
	return answers, err
}

// The refund of leased tokens is that of a key that was full, by the capacity of the override.
func TestSettlementOfLeasedTokensWithAnOverride(t *testing.T) {
	p := &runtime.Policy{
		Name: "calls", Kind: runtime.TokenBucket, Rate: 60, Period: time.Minute, Capacity: 100, MaxReserved: 100,
		Lease:     runtime.Lease{Tokens: 50, For: time.Second},
		Overrides: runtime.OverrideBounds{Rate: 60, Capacity: 1000, MaxReserved: 100},
	}
	o := newOverriding(t, p)
	o.limiter = limiter.New(leased{o.store})
	limit := o.limiter.Reservable(p, runtime.KeyOf(runtime.String("a")))
	o.override(o.overrides("a"), runtime.Override{Capacity: 1000})
	ds, err := o.limiter.All(t.Context(), limit.N(50))
	require.NoError(t, err)
	o.now = o.now.Add(20 * time.Second)
	_, err = limit.AllowN(t.Context(), 500)
	require.NoError(t, err)
	r, ok := ds.Settlement(0)
	require.True(t, ok)
	require.NoError(t, r.Cancel(t.Context()))
	b, err := limit.Peek(t.Context())
	require.NoError(t, err)
	require.InDelta(t, 500, b.Value, 0, "20 of the 50 have accrued again before the 500 were taken")
}

// An entry that this version does not understand must not let a blocked key pass by its OnError.
func TestUnknownEntryOfAnotherKeyDoesNotLiftABlock(t *testing.T) {
	s := newLogStore(&memstore.Store{}, nil)
	p := overridable()
	p.OnError = runtime.FailOpen
	limits := limiter.New(s)
	s.set(nil, entry(1, "a", "slower", runtime.ForGood), entry(2, "b", runtime.OverrideBlock, runtime.ForGood))
	key := func(key string) limiter.Limit { return limits.Limit(p, runtime.KeyOf(runtime.String(key))) }
	for _, items := range [][]limiter.Item{{key("a"), key("b")}, {key("b"), key("a")}} {
		ds, err := limits.All(t.Context(), items...)
		require.NoError(t, err)
		require.False(t, ds.Allowed)
	}
	ds, err := limits.All(t.Context(), key("a"))
	require.NoError(t, err)
	require.ErrorIs(t, ds.Each[0].FailedOpen, runtime.ErrUnknownOverride)
}

// slowLog is a log that is read slowly.
type slowLog struct {
	*memstore.Store
	view *override.View
}

func (s *slowLog) OverrideView() *override.View { return s.view }

// A refresh that begins while another goroutine reads for the first time reads the entries written meanwhile.
func TestRefreshDuringTheFirstReadReadsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memstore.Store{}
		s := &slowLog{Store: store}
		s.view = override.New(override.Source{
			Since: func(ctx context.Context, id int64) ([]runtime.OverrideEntry, error) {
				entries, err := store.OverridesSince(ctx, id)
				time.Sleep(time.Second)
				return entries, err
			},
			Now: func() int64 { return time.Now().UnixNano() },
		})
		var all sync.WaitGroup
		limit := limiter.New(s).Limit(overridable(), runtime.KeyOf(runtime.String("a")))
		all.Go(func() { _, _ = limit.Allow(t.Context()) })
		synctest.Wait()
		_, err := store.AppendOverride(t.Context(), runtime.OverrideEntry{
			Limit: "calls", Key: "a", What: runtime.OverrideBlock, Until: runtime.ForGood, Reason: "r", Author: "a",
		})
		require.NoError(t, err)
		require.NoError(t, s.view.Refresh(t.Context()))
		d, err := limit.Allow(t.Context())
		require.NoError(t, err)
		require.False(t, d.Allowed)
		all.Wait()
	})
}

// Decisions, observers, waiters and writers at once: every observation has the policy of its entry, and with -race this
// finds unsynchronized access. No goroutine is left.
func TestObserversWhileOverridesChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		store := &memstore.Store{}
		s := &slowLog{Store: store}
		s.view = override.New(override.Source{
			Since: store.OverridesSince, Now: func() int64 { return time.Now().UnixNano() },
			Background: func(f func(context.Context)) { go f(ctx) },
		})
		watch := &spy{}
		limits := limiter.New(s, limiter.Observe(watch))
		p, key := overridable(), runtime.KeyOf(runtime.String("a"))
		limit, overrides := limits.Limit(p, key), limits.Overrides(p, key)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 200 {
					_, err := limit.AllowUpTo(t.Context(), 1)
					require.NoError(t, err)
					time.Sleep(time.Second)
				}
			})
		}
		all.Go(func() {
			bounded, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := limits.Group(limit, limit).Wait(bounded)
			require.True(t, err == nil || errors.Is(err, runtime.ErrLimited) || errors.Is(err, context.DeadlineExceeded), "%v", err)
		})
		capacities := map[int64]int64{0: 10}
		for i := range int64(50) {
			e, err := overrides.Set(t.Context(), runtime.Override{Capacity: 20 + i, Until: time.Now().Add(3 * time.Second), Reason: "r", Author: "a"})
			require.NoError(t, err)
			capacities[e.ID] = 20 + i
			time.Sleep(5 * time.Second)
		}
		all.Wait()
		overridden := 0
		for _, o := range watch.take() {
			entry, ok := o.Override()
			require.Equal(t, capacities[entry], o.Policy.Capacity, "entry %d", entry)
			if ok {
				overridden++
			}
		}
		require.NotZero(t, overridden)
		stop()
		synctest.Wait()
	})
}
