package runtime_test

import (
	"context"
	"math/rand/v2"
	"slices"
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

// A window that ends under smaller numbers forgets the use beyond them, as package operate documents for operators.
func TestWindowThatEndsUnderAnOverrideForgets(t *testing.T) {
	for _, row := range []struct {
		until time.Duration // the end of the override
		left  int64         // after it, of 10 tokens an hour and at most 30
	}{{10 * time.Minute, 10}, {time.Hour + time.Minute, 30}} {
		p := overridable()
		p.Kind, p.Capacity, p.Start = runtime.FixedWindow, 30, runtime.StartOffset(0)
		o := newOverriding(t, p)
		o.now = o.now.Truncate(time.Hour)
		_, err := o.key("a").AllowN(t.Context(), 30)
		require.NoError(t, err)
		o.override(o.overrides("a"), runtime.Override{Capacity: 4, Until: o.now.Add(row.until)})
		o.now = o.now.Add(time.Hour)
		_, err = o.key("a").AllowN(t.Context(), 0)
		require.NoError(t, err)
		_, err = o.key("a").Charge(t.Context(), 4)
		require.NoError(t, err)
		o.now = o.now.Add(time.Minute)
		b, err := o.key("a").Peek(t.Context())
		require.NoError(t, err)
		require.Equal(t, row.left-4, b.Remaining)
	}
}

// A key whose numbers are changed back and forth gets no more than one policy with the largest numbers grants, and the
// tokens that it has used stay used.
func TestFlipsOfOverridesMintNothing(t *testing.T) {
	for _, kind := range runtime.Kinds() {
		t.Run(kind.String(), func(t *testing.T) {
			p := &runtime.Policy{
				Name: "calls", Kind: kind, Rate: 10, Period: time.Hour, Capacity: 10,
				Overrides: runtime.OverrideBounds{Rate: 200, Capacity: 200},
			}
			o := newOverriding(t, p)
			random := rand.New(rand.NewPCG(2, 2))
			taken := int64(0)
			for i := range 1000 {
				switch i % 3 {
				case 0:
					o.override(o.overrides("a"), runtime.Override{Rate: 1 + random.Int64N(200)})
				case 1:
					o.override(o.overrides("a"), runtime.Override{Rate: 200})
				case 2:
					_, err := o.overrides("a").End(t.Context(), ending)
					require.NoError(t, err)
				}
				d, err := o.key("a").AllowUpTo(t.Context(), 1+random.Int64N(3))
				require.NoError(t, err)
				taken += d.Taken
				require.LessOrEqual(t, taken, int64(200), "flip %d", i)
			}
			require.Equal(t, int64(200), taken)
		})
	}
}

// Whatever an entry says, and whatever the limit is now, the policy that it puts in force is valid and within the bounds.
func TestPolicyInForceIsValid(t *testing.T) {
	d := roll(11)
	for range 20_000 {
		p := d.policy(t, runtime.Kinds()...)
		p.Name = "calls"
		p.Overrides = runtime.OverrideBounds{Rate: p.Rate * 2, Capacity: p.Capacity * 2, MaxReserved: p.MaxReserved * 2, Unlimited: d.IntN(2) == 0}
		p.Overrides.Rate = min(p.Overrides.Rate, runtime.MaxTokens)
		if p.Precise {
			p.Overrides.Rate = min(p.Overrides.Rate, runtime.MaxPreciseRate)
		}
		p.Overrides.Capacity = min(p.Overrides.Capacity, runtime.MaxTokens)
		p.Overrides.MaxReserved = min(p.Overrides.MaxReserved, runtime.MaxTokens)
		if !p.Kind.Linear() {
			p.Overrides.Capacity = p.Overrides.Rate
		}
		require.NoError(t, p.Validate())
		number := func() int64 { return d.Int64N(3) * d.Int64N(1+p.Rate*2) }
		what := []string{runtime.OverrideNumbers, runtime.OverrideBlock, runtime.OverrideOff, runtime.OverrideShadow, runtime.OverrideUnlimited}[d.IntN(5)]
		most := runtime.OverrideBounds{Rate: 1 << 60, Capacity: 1 << 60, MaxReserved: 1 << 60, Unlimited: true}
		store := &memstore.Store{}
		_, err := store.AppendOverride(t.Context(), runtime.OverrideEntry{
			Limit: "calls", Key: "a", What: what, Rate: number(), Capacity: number(), MaxReserved: number(), Most: most,
			Until: runtime.ForGood, Reason: "r", Author: "a",
		})
		require.NoError(t, err)
		b, err := limiter.New(store).Limit(&p, inAnyCalendar(&p, runtime.KeyOf(runtime.String("a")))).Peek(t.Context())
		require.NoError(t, err, "%+v", p)
		if b.Capacity != runtime.MaxTokens {
			require.Equal(t, p.Capacity == 0, b.Capacity == 0)
			require.LessOrEqual(t, b.Capacity, max(p.Capacity, p.Overrides.Capacity))
		}
	}
}

// inAnyCalendar gives a key the zone and the date that the calendar of a policy needs.
func inAnyCalendar(p *runtime.Policy, key runtime.Key) runtime.Key {
	if p.Calendar.ZonePerKey {
		key = key.In(time.UTC)
	}
	if p.Calendar.Anniversary {
		key = key.Since(epoch)
	}
	return key
}

func TestReservationSettledAfterItsOverride(t *testing.T) {
	p := overridable()
	p.MaxReserved, p.Overrides.MaxReserved = 5, 50
	o := newOverriding(t, p)
	limit := o.limiter.Reservable(p, runtime.KeyOf(runtime.String("a")))

	o.override(o.overrides("a"), runtime.Override{Capacity: 100, Until: o.now.Add(time.Minute)})
	r, err := limit.ReserveN(t.Context(), 80)
	require.NoError(t, err)
	require.True(t, r.Allowed)
	o.now = o.now.Add(time.Minute)
	b, err := limit.Peek(t.Context())
	require.NoError(t, err)
	require.InDelta(t, 10-80+10.0/60, b.Value, 1e-9, "what was used stays used")
	require.NoError(t, r.Settle(t.Context(), 70))
	b, err = limit.Peek(t.Context())
	require.NoError(t, err)
	require.InDelta(t, 10-70+10.0/60, b.Value, 1e-9)

	// What an override has let pass uncounted is not charged when it has ended.
	o.override(o.overrides("a"), runtime.Override{Mode: runtime.ModeOff, Until: o.now.Add(time.Minute)})
	r, err = limit.ReserveN(t.Context(), 80)
	require.NoError(t, err)
	o.now = o.now.Add(time.Minute)
	before, err := limit.Peek(t.Context())
	require.NoError(t, err)
	require.NoError(t, r.Settle(t.Context(), 80))
	after, err := limit.Peek(t.Context())
	require.NoError(t, err)
	require.Equal(t, before.Value, after.Value)
}

func TestWaiterPicksUpARaise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memstore.Store{}
		limits := limiter.New(store)
		p, key := overridable(), runtime.KeyOf(runtime.String("a"))
		limit, overrides := limits.Limit(p, key), limits.Overrides(p, key)
		_, err := limit.AllowN(t.Context(), 10)
		require.NoError(t, err)
		var all sync.WaitGroup
		begin := time.Now()
		waited := func(wait func() error) {
			all.Go(func() {
				require.NoError(t, wait())
				require.Equal(t, time.Minute, time.Since(begin))
			})
		}
		waited(func() error { return limit.Wait(t.Context()) })
		waited(func() error { return limits.Group(limit).Wait(t.Context()) })
		time.Sleep(time.Minute)
		_, err = overrides.Set(t.Context(), runtime.Override{Capacity: 100, Until: time.Now().Add(time.Hour), Reason: "r", Author: "a"})
		require.NoError(t, err)
		all.Wait()

		// A waiter also sees the end of an override: here of one with a lower rate.
		_, err = overrides.Set(t.Context(), runtime.Override{Rate: 1, Capacity: 1, Until: time.Now().Add(time.Minute), Reason: "r", Author: "a"})
		require.NoError(t, err)
		require.NoError(t, limit.Reset(t.Context()))
		_, err = limit.Allow(t.Context())
		require.NoError(t, err)
		begin = time.Now()
		require.NoError(t, limit.Wait(t.Context()))
		require.Equal(t, time.Minute, time.Since(begin))
	})
}

// What is in force is the same, now and later, for processes that read the log after a sweep, and for those that have read a
// part of it before.
func TestObsoleteOverridesChangeNothingInForce(t *testing.T) {
	what := []string{
		runtime.OverrideBlock, runtime.OverrideBlock, runtime.OverrideUnblock, runtime.OverrideNumbers, runtime.OverrideNone, runtime.OverrideGranted, "of a later version",
	}
	start, deleted := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), 0
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 3))
		var log []runtime.OverrideEntry
		for i := range int64(30) {
			// The clocks of the processes that write differ by up to a day.
			at := start.Add(time.Duration(i)*24*time.Hour + time.Duration(random.Int64N(int64(24*time.Hour))))
			e := entry(i+1, string('a'+rune(random.IntN(3))), what[random.IntN(len(what))], at)
			e.At = at
			if e.What == runtime.OverrideBlock || e.What == runtime.OverrideNumbers {
				e.Until = at.Add(time.Duration(1+random.IntN(1000)) * time.Hour)
			}
			if random.IntN(4) == 0 {
				e.Until = runtime.ForGood
			}
			log = append(log, e)
		}
		full, swept := log, log
		for i := range 3 {
			now := start.Add(time.Duration(10+15*i+random.IntN(15)) * 24 * time.Hour)
			obsolete := override.Obsolete(swept, now)
			before := swept
			swept = slices.DeleteFunc(slices.Clone(swept), func(e runtime.OverrideEntry) bool { return slices.Contains(obsolete, e.ID) })
			deleted += len(obsolete)
			require.Equal(t, full[len(full)-1], swept[len(swept)-1], "the newest entry stays")
			half := full[random.IntN(len(full))].ID
			torn := append(slices.DeleteFunc(slices.Clone(before), func(e runtime.OverrideEntry) bool { return e.ID > half }),
				slices.DeleteFunc(slices.Clone(swept), func(e runtime.OverrideEntry) bool { return e.ID <= half })...)
			for _, later := range []time.Duration{0, 24 * time.Hour, 100 * 24 * time.Hour} {
				want := inForceOf(t, full, now.Add(later))
				require.Equal(t, want, inForceOf(t, swept, now.Add(later)), "seed %d", seed)
				require.Equal(t, want, inForceOf(t, torn, now.Add(later)), "seed %d, read in part before the sweep", seed)
			}
		}
	}
	require.Greater(t, deleted, 3000)
}

// inForceOf returns the IDs of the entries of a log in force at an instant.
func inForceOf(t *testing.T, log []runtime.OverrideEntry, now time.Time) (ids []int64) {
	view := override.New(override.Source{
		Since: func(context.Context, int64) ([]runtime.OverrideEntry, error) { return log, nil },
		Now:   func() int64 { return now.UnixNano() },
	})
	require.NoError(t, view.Refresh(t.Context()))
	for _, e := range view.InForce() {
		ids = append(ids, e.ID)
	}
	return ids
}

func TestSweepKeepsRowsThatAreNotFullByTheirOverride(t *testing.T) {
	o := newOverriding(t, overridable())
	o.override(o.overrides("slow"), runtime.Override{Rate: 1, Capacity: 10, Until: runtime.ForGood})
	for _, key := range []string{"slow", "usual"} {
		_, err := o.key(key).AllowN(t.Context(), 10)
		require.NoError(t, err)
	}
	o.now = o.now.Add(3 * time.Hour)
	deleted, err := o.store.Sweep(t.Context(), o.policy)
	require.NoError(t, err)
	require.Equal(t, 1, deleted)
	left, _ := o.left("slow")
	require.Equal(t, int64(3), left)
	_, err = o.store.Forget(t.Context(), "calls")
	require.NoError(t, err)
	history, err := o.overrides("slow").History(t.Context())
	require.NoError(t, err)
	require.Len(t, history, 2, "the log outlives the limit")
	require.Equal(t, runtime.OverrideNone, history[1].What)
	require.Empty(t, o.store.OverrideView().InForce())
}
