package limiter_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// slotPolicy returns a limit of some slots with a hold of a minute.
func slotPolicy(capacity int64) *runtime.Policy {
	return &runtime.Policy{Name: "exports", Kind: runtime.InFlight, Slots: capacity, Hold: time.Minute}
}

// flaky is a store whose answers to some requests are lost: with before, the request is not executed.
type flaky struct {
	runtime.Store
	fail   atomic.Int64
	before atomic.Bool
	calls  atomic.Int64
}

var errLost = errors.New("the connection was lost")

func (f *flaky) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	f.calls.Add(1)
	fail := calls[0].Requests[0].Op != runtime.Peek && f.fail.Add(-1) >= 0
	if fail && f.before.Load() {
		return nil, errLost
	}
	answers, err := f.Store.Do(ctx, calls)
	if fail {
		return nil, errLost
	}
	return answers, err
}

// slotsOf returns a key with some slots, in a store whose answers can be lost.
func slotsOf(p *runtime.Policy) (limiter.SlotLimit, *flaky) {
	store := &flaky{Store: &memstore.Store{}}
	return limiter.New(store).Slots(p, runtime.KeyOf(runtime.Int(42))), store
}

func acquire(t *testing.T, l limiter.SlotLimit) *limiter.Slot {
	t.Helper()
	s := must(l.Acquire(t.Context()))
	require.True(t, s.Allowed, s.String())
	return s
}

func used(t *testing.T, l limiter.SlotLimit) int64 {
	t.Helper()
	return must(l.Peek(t.Context())).Used
}

func TestSlotLifecycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := slotsOf(slotPolicy(2))
		first, second := acquire(t, l), acquire(t, l)
		require.Greater(t, second.Fence, first.Fence)
		denied := must(l.Acquire(t.Context()))
		require.False(t, denied.Allowed)
		require.Equal(t, time.Minute, denied.RetryAfter)
		require.ErrorIs(t, denied.Release(t.Context()), runtime.ErrSlotLost)
		require.ErrorIs(t, denied.Renew(t.Context()), runtime.ErrSlotLost)
		require.Equal(t, int64(2), used(t, l))
		time.Sleep(40 * time.Second)
		require.NoError(t, first.Renew(t.Context()))
		time.Sleep(40 * time.Second)
		require.Equal(t, int64(1), used(t, l), "the second hold has ended")
		third := acquire(t, l)
		require.ErrorIs(t, second.Renew(t.Context()), runtime.ErrSlotLost)
		require.ErrorIs(t, second.Release(t.Context()), runtime.ErrSlotLost)
		require.Equal(t, int64(2), used(t, l))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, first.Release(ended), "a slot is released when the context has ended")
		require.ErrorIs(t, first.Release(t.Context()), runtime.ErrSlotLost)
		require.NoError(t, l.Reset(t.Context()))
		require.ErrorIs(t, third.Release(t.Context()), runtime.ErrSlotLost)
		require.Greater(t, acquire(t, l).Fence, third.Fence)
	})
}

// Neither a nil slot nor the zero one panics.
func TestSlotWithoutALimit(t *testing.T) {
	for _, s := range []*limiter.Slot{nil, {}} {
		require.ErrorIs(t, s.Renew(t.Context()), runtime.ErrSlotLost)
		require.ErrorIs(t, s.Release(t.Context()), runtime.ErrSlotLost)
		require.Error(t, s.Do(t.Context(), func(context.Context) error { t.Fatal("called"); return nil }))
	}
	_, err := limiter.SlotLimit{}.WaitAcquire(t.Context())
	require.ErrorIs(t, err, runtime.ErrInvalidPolicy)
	_, err = limiter.New(nil).Slots(slotPolicy(1), runtime.Key{}).WaitAcquire(t.Context())
	require.ErrorIs(t, err, runtime.ErrNoStore)
}

// If the answer to a Release is lost, the slot may be free: a second Release must not report that as a loss, unless the
// hold may have ended.
func TestReleaseWhoseAnswerIsLost(t *testing.T) {
	for _, row := range []struct {
		name   string
		before bool
		pause  time.Duration
		err    error
	}{
		{"executed", false, time.Second, nil},
		{"not executed", true, time.Second, nil},
		{"not executed, and the hold has ended", true, time.Minute, runtime.ErrSlotLost},
		{"executed, and the hold has ended", false, time.Minute, runtime.ErrSlotLost},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, store := slotsOf(slotPolicy(1))
				var seen outcomes
				l := limiter.New(store, limiter.Observe(&seen)).Slots(slotPolicy(1), runtime.KeyOf(runtime.Int(42)))
				s := acquire(t, l)
				store.before.Store(row.before)
				store.fail.Store(1)
				require.ErrorIs(t, s.Release(t.Context()), errLost)
				time.Sleep(row.pause)
				require.ErrorIs(t, s.Release(t.Context()), row.err)
				// Observers see the result of the caller.
				last := seen.all[len(seen.all)-1]
				require.Equal(t, row.err != nil, strings.Contains(last, "slot_lost"), last)
				require.Zero(t, used(t, l))
				require.ErrorIs(t, s.Release(t.Context()), runtime.ErrSlotLost)
			})
		})
	}
	// Renew changes nothing that a second one needs.
	l, store := slotsOf(slotPolicy(1))
	s := acquire(t, l)
	store.fail.Store(1)
	require.ErrorIs(t, s.Renew(t.Context()), errLost)
	require.NoError(t, s.Renew(t.Context()))
}

// Two takes of which one was not written must not have one fence, or giving back the one frees the slots of the other: also
// if the clock stands still, and the key is as it was.
func TestFencesDifferFromThoseThatWereNotWritten(t *testing.T) {
	now := time.Now()
	for name, acquire := range map[string]func(l *limiter.Limiter, s limiter.SlotLimit) (*limiter.Slot, error){
		"Acquire": func(_ *limiter.Limiter, s limiter.SlotLimit) (*limiter.Slot, error) { return s.Acquire(t.Context()) },
		"WaitAcquire": func(_ *limiter.Limiter, s limiter.SlotLimit) (*limiter.Slot, error) {
			return s.WaitAcquire(t.Context())
		},
		"All": func(l *limiter.Limiter, s limiter.SlotLimit) (*limiter.Slot, error) {
			ds, err := l.All(t.Context(), s)
			slot, _ := ds.Slot(0)
			return slot, err
		},
	} {
		fences := map[int64]bool{}
		for range 8 {
			l := limiter.New(&memstore.Store{Clock: func() time.Time { return now }})
			s := must(acquire(l, l.Slots(slotPolicy(1), runtime.KeyOf(runtime.Int(42)))))
			require.LessOrEqual(t, s.Fence-now.UnixNano(), int64(runtime.MaxFenceStep), name)
			fences[s.Fence] = true
		}
		require.Greater(t, len(fences), 4, "%s: fences of the same take on the same key", name)
	}
}

func TestDoRenewsUntilFnReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := slotsOf(slotPolicy(1))
		s := acquire(t, l)
		failure := errors.New("failure")
		require.Equal(t, failure, s.Do(t.Context(), func(ctx context.Context) error {
			time.Sleep(10*time.Minute - time.Second)
			require.NoError(t, ctx.Err())
			require.Equal(t, int64(1), used(t, l))
			return failure
		}))
		require.Equal(t, int64(1+29+1+1), store.calls.Load(), "acquired, renewed every 20s, peeked and released")
		require.Zero(t, used(t, l))
		require.PanicsWithValue(t, "broken", func() {
			_ = acquire(t, l).Do(t.Context(), func(context.Context) error { panic("broken") })
		})
		require.Zero(t, used(t, l), "released after a panic")
	})
}

func TestDoCancelsWhenTheSlotIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := slotsOf(slotPolicy(1))
		begun := time.Now()
		err := acquire(t, l).Do(t.Context(), func(ctx context.Context) error {
			time.Sleep(30 * time.Second)
			require.NoError(t, l.Reset(context.WithoutCancel(ctx)))
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), runtime.ErrSlotLost)
			require.Equal(t, 40*time.Second, time.Since(begun), "the next renewal finds it")
			return ctx.Err()
		})
		require.ErrorIs(t, err, runtime.ErrSlotLost)
		require.ErrorIs(t, err, context.Canceled)
	})
}

// While the store fails, fn runs until the hold may have ended, and not longer.
func TestDoCancelsWhenItCannotRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := slotsOf(slotPolicy(1))
		store.before.Store(true)
		begun := time.Now()
		err := acquire(t, l).Do(t.Context(), func(ctx context.Context) error {
			store.fail.Store(1000)
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), errLost)
			require.Equal(t, time.Minute, time.Since(begun))
			return nil
		})
		require.ErrorIs(t, err, runtime.ErrSlotLost)
		// A failure that passes is not noticed.
		store.fail.Store(0)
		s := acquire(t, l)
		require.NoError(t, s.Do(t.Context(), func(ctx context.Context) error {
			store.fail.Store(3)
			time.Sleep(5*time.Minute + time.Second)
			return ctx.Err()
		}))
	})
}

// When the caller's context ends, fn still holds the slot until it returns.
func TestDoHoldsTheSlotWhileFnEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := slotsOf(slotPolicy(1))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Equal(t, context.DeadlineExceeded, acquire(t, l).Do(ctx, func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(5 * time.Minute)
			require.Equal(t, int64(1), used(t, l))
			return ctx.Err()
		}))
		require.Zero(t, used(t, l))
	})
}

func TestDoWithoutASlot(t *testing.T) {
	l, _ := slotsOf(slotPolicy(1))
	acquire(t, l)
	denied := must(l.Acquire(t.Context()))
	require.ErrorIs(t, denied.Do(t.Context(), func(context.Context) error { t.Fatal("called"); return nil }), runtime.ErrLimited)
}

// In the modes that let a request pass without a slot, and when the store fails, nothing is held or renewed, and
// nothing is lost.
func TestSlotsThatHoldNothing(t *testing.T) {
	for name, change := range map[string]func(p *runtime.Policy){
		"off":    func(p *runtime.Policy) { p.Mode = runtime.ModeOff },
		"shadow": func(p *runtime.Policy) { p.Mode = runtime.ModeShadow },
		"open":   func(p *runtime.Policy) { p.OnError = runtime.FailOpen },
		"local":  func(p *runtime.Policy) { p.OnError = runtime.FailLocal },
	} {
		t.Run(name, func(t *testing.T) {
			p := slotPolicy(1)
			change(p)
			l, store := slotsOf(p)
			if p.OnError == runtime.FailClosed {
				acquire(t, l)
			} else {
				store.before.Store(true)
				store.fail.Store(1000)
			}
			s := acquire(t, l)
			require.Zero(t, s.Fence)
			calls, called := store.calls.Load(), false
			require.NoError(t, s.Renew(t.Context()))
			require.NoError(t, s.Do(t.Context(), func(context.Context) error { called = true; return nil }))
			require.NoError(t, s.Release(t.Context()))
			require.True(t, called)
			require.Equal(t, calls, store.calls.Load())
		})
	}
}

// A limit in shadow mode stops nothing when a slot is lost.
func TestLostSlotsInShadowMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := slotPolicy(1)
		p.Mode = runtime.ModeShadow
		l, _ := slotsOf(p)
		s := acquire(t, l)
		require.NotZero(t, s.Fence)
		require.NoError(t, s.Do(t.Context(), func(ctx context.Context) error {
			require.NoError(t, l.Reset(t.Context()))
			time.Sleep(5 * time.Minute)
			return ctx.Err()
		}))
	})
}

func TestSlotsInACall(t *testing.T) {
	limits := limiter.New(&memstore.Store{})
	key := runtime.KeyOf(runtime.Int(42))
	slots, tokens := limits.Slots(slotPolicy(3), key), limits.Limit(bucket("tokens", 2), key)
	ds := must(limits.All(t.Context(), tokens, slots.ItemN(2)))
	require.True(t, ds.Allowed)
	_, ok := ds.Slot(0)
	require.False(t, ok)
	_, ok = ds.Settlement(1)
	require.False(t, ok)
	s, ok := ds.Slot(1)
	require.True(t, ok)
	require.Equal(t, int64(2), used(t, slots))
	// All or none.
	ds = must(limits.All(t.Context(), tokens, slots.ItemN(2)))
	require.Equal(t, []string{"exports"}, ds.DeniedBy())
	_, ok = ds.Slot(1)
	require.False(t, ok)
	b := must(tokens.Peek(t.Context()))
	require.Equal(t, int64(1), b.Remaining)
	require.NoError(t, s.Release(t.Context()))
	require.Zero(t, used(t, slots))
	// A slot of a denied call is not acquired.
	ds = must(limits.All(t.Context(), tokens.N(2), slots))
	require.False(t, ds.Allowed)
	require.Zero(t, used(t, slots))

	rs := must(limits.ReserveAll(t.Context(), tokens, slots))
	s, ok = rs.Slot(1)
	require.True(t, ok)
	require.NoError(t, s.Renew(t.Context()))
	require.NoError(t, rs.Cancel(t.Context()))
	require.ErrorIs(t, s.Release(t.Context()), runtime.ErrSlotLost)
	require.Zero(t, used(t, slots))

	_, err := limits.All(t.Context(), slots, slots)
	require.ErrorIs(t, err, runtime.ErrInvalidCall)
	require.ErrorIs(t, limits.Group(slots).Wait(t.Context()), runtime.ErrInvalidCall)
	require.ErrorIs(t, limits.Group(tokens, slots).Require(t.Context()), runtime.ErrInvalidCall)
	require.NoError(t, limits.Group(tokens, slots.Checked()).Require(t.Context()))
}

// Callers of a process get slots in the order in which they came, as soon as one is released here, and no new one
// overtakes.
func TestWaitAcquireIsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := slotsOf(slotPolicy(1))
		var mu sync.Mutex
		var order []int
		first := acquire(t, l)
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				s := must(l.WaitAcquire(t.Context()))
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				time.Sleep(time.Second)
				require.NoError(t, s.Release(t.Context()))
			})
			synctest.Wait()
		}
		time.Sleep(10 * time.Second)
		begun, before := time.Now(), store.calls.Load()
		require.NoError(t, first.Release(t.Context()))
		wg.Wait()
		require.IsIncreasing(t, order)
		require.Equal(t, 20*time.Second, time.Since(begun), "a slot that is released here is acquired at once")
		require.Less(t, store.calls.Load()-before, int64(20*8))
	})
}

// Slots that other processes release are found within a second, and those of dead ones when the hold ends.
func TestWaitAcquirePolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memstore.Store{}
		here := limiter.New(store).Slots(slotPolicy(1), runtime.Key{})
		elsewhere := acquire(t, limiter.New(store).Slots(slotPolicy(1), runtime.Key{}))
		time.AfterFunc(10*time.Second, func() { _ = elsewhere.Release(t.Context()) })
		begun := time.Now()
		must(here.WaitAcquire(t.Context()))
		require.GreaterOrEqual(t, time.Since(begun), 10*time.Second)
		require.LessOrEqual(t, time.Since(begun), 11*time.Second)
		begun = time.Now()
		must(here.WaitAcquire(t.Context()))
		require.Equal(t, time.Minute, time.Since(begun), "nobody has released it")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := here.WaitAcquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = here.WaitAcquireN(t.Context(), 2)
		require.ErrorIs(t, err, runtime.ErrExceedsCapacity)
		p := slotPolicy(1)
		p.Mode = runtime.ModeBlock
		_, err = limiter.New(store).Slots(p, runtime.Key{}).WaitAcquire(t.Context())
		require.ErrorIs(t, err, runtime.ErrLimited)
	})
}

type outcomes struct {
	mu  sync.Mutex
	all []string
}

func (o *outcomes) Decided(_ context.Context, of runtime.Observation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, of.String())
}

// Each request of a holder is observed, with the number of its slots; a wait is observed once.
func TestSlotsAreObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen outcomes
		l := limiter.New(&memstore.Store{}, limiter.Observe(&seen)).Slots(slotPolicy(3), runtime.Key{})
		s := must(l.AcquireN(t.Context(), 2))
		require.NoError(t, s.Renew(t.Context()))
		must(l.AcquireN(t.Context(), 2))
		time.AfterFunc(10*time.Second, func() { _ = s.Release(t.Context()) })
		waited := must(l.WaitAcquireN(t.Context(), 3))
		time.Sleep(time.Minute)
		require.ErrorIs(t, waited.Release(t.Context()), runtime.ErrSlotLost)
		require.Equal(t, []string{
			"exports: Take 2: allowed", "exports: Renew 2: renewed", "exports: Take 2: denied, retry after 1m", "exports: Release 2: released",
			"exports: Take 3: delayed", "exports: Release 3: slot_lost: limit \"exports\": the slot is lost: it was released, or its hold has ended",
		}, seen.all)
	})
}

// overridableSlots returns a limit of slots with every kind of override.
func overridableSlots(capacity int64) runtime.Policy {
	p := *slotPolicy(capacity)
	p.Overrides = runtime.OverrideBounds{Slots: capacity, Unlimited: true}
	return p
}

// The log has slots as a rate and a capacity, as programs have written them that had no Slots: these entries are in force
// too.
func TestOverrideOfSlotsIsLoggedAsRateAndCapacity(t *testing.T) {
	p, store, key := overridableSlots(5), &memstore.Store{}, runtime.KeyOf(runtime.Int(42))
	limits := limiter.New(store)
	e := must(limits.Overrides(&p, key).Set(t.Context(), runtime.Override{Slots: 3, Until: runtime.ForGood(), Reason: "r", Author: "a"}))
	require.Equal(t, runtime.OverrideBounds{Rate: 5, Capacity: 5, Unlimited: true}, e.Most)
	require.Equal(t, []int64{3, 3, 0}, []int64{e.Rate, e.Capacity, e.MaxReserved})
	require.Equal(t, int64(3), must(limits.Slots(&p, key).Peek(t.Context())).Capacity)

	e.Rate, e.Capacity = 2, 2
	must(store.AppendOverride(t.Context(), e))
	require.NoError(t, store.OverrideView().Refresh(t.Context()))
	require.Equal(t, int64(2), must(limits.Slots(&p, key).Peek(t.Context())).Capacity)
	e.Rate, e.Capacity = 6, 6
	_, err := store.AppendOverride(t.Context(), e)
	require.ErrorIs(t, err, runtime.ErrInvalidOverride, "more than the limit declared")

	for _, wrong := range []runtime.Override{{Rate: 3}, {Capacity: 3}, {Slots: 6}, {Slots: -1}} {
		wrong.Until, wrong.Reason, wrong.Author = runtime.ForGood(), "r", "a"
		_, err := limits.Overrides(&p, key).Set(t.Context(), wrong)
		require.ErrorIs(t, err, runtime.ErrInvalidOverride, "%+v", wrong)
		if wrong.Slots == 0 {
			require.ErrorContains(t, err, "set Slots")
		}
	}
}

// A plan without a limit has no hold of its own, also while its key is blocked: a slot of the plan of an override stays
// held for as long as it was.
func TestBlockedPlanWithoutALimitHoldsNoSlotLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plans, limits, key := lifted(overridableSlots(2)), limiter.New(&memstore.Store{}), runtime.KeyOf(runtime.Int(42))
		o := limits.Overrides(&plans[free], key)
		must(o.Set(t.Context(), runtime.Override{Plan: override.PlanName("free"), Until: runtime.ForGood(), Reason: "r", Author: "a"}))
		s := acquire(t, limits.Slots(&plans[enterprise], key))
		require.NotZero(t, s.Fence)
		must(o.End(t.Context(), overrideEnd))
		must(o.Block(t.Context(), runtime.Block{Until: runtime.ForGood(), Reason: "r", Author: "a"}))
		require.NoError(t, s.Renew(t.Context()))
		must(o.End(t.Context(), overrideEnd))
		l := limits.Slots(&plans[free], key)
		require.Equal(t, int64(1), used(t, l))
		time.Sleep(time.Minute)
		require.Zero(t, used(t, l))
	})
}

// Reservations that are cancelled free their slots, also while an override has lifted the limit: they would be held when
// it ends.
func TestCancelFreesSlotsOfALimitThatIsLifted(t *testing.T) {
	for _, mode := range []runtime.Mode{runtime.ModeOff, runtime.ModeUnlimited, runtime.ModeShadow} {
		p := overridableSlots(2)
		o := newOverriding(t, &p)
		l := o.limiter.Slots(&p, runtime.KeyOf(runtime.String("a")))
		rs := must(o.limiter.ReserveAll(t.Context(), l))
		o.override(o.overrides("a"), runtime.Override{Mode: mode})
		require.NoError(t, rs.Cancel(t.Context()))
		must(o.overrides("a").End(t.Context(), overrideEnd))
		require.Zero(t, used(t, l), mode.String())
	}
}

// Whether a lost slot stops what runs depends on the mode that is in force when it is lost.
func TestLossOfASlotWithAnOverride(t *testing.T) {
	p := overridableSlots(2)
	o := newOverriding(t, &p)
	l := o.limiter.Slots(&p, runtime.KeyOf(runtime.String("a")))
	enforced := acquire(t, l)
	o.override(o.overrides("a"), runtime.Override{Mode: runtime.ModeShadow})
	shadowed := acquire(t, l)
	require.NotZero(t, shadowed.Fence)
	require.NoError(t, l.Reset(t.Context()))
	require.NoError(t, enforced.Renew(t.Context()))
	must(o.overrides("a").End(t.Context(), overrideEnd))
	require.ErrorIs(t, shadowed.Renew(t.Context()), runtime.ErrSlotLost)
	// Also of a limit whose own mode is shadow, a block is in force.
	p.Mode = runtime.ModeShadow
	unblocked := acquire(t, l)
	require.NoError(t, l.Reset(t.Context()))
	require.NoError(t, unblocked.Renew(t.Context()))
	o.block(o.overrides("a"), time.Hour)
	require.ErrorIs(t, unblocked.Renew(t.Context()), runtime.ErrSlotLost)
	require.ErrorIs(t, unblocked.Release(t.Context()), runtime.ErrSlotLost)
}

// A caller that does not depend on the slots does not wait behind those that do.
func TestWaitAcquireReturnsAtOnceIfTheModeSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plans, limits, key := lifted(overridableSlots(1)), limiter.New(&memstore.Store{}), runtime.KeyOf(runtime.Int(42))
		l := limits.Slots(&plans[free], key)
		first := acquire(t, l)
		var waiter sync.WaitGroup
		waiter.Go(func() { must(l.WaitAcquire(t.Context())) })
		time.Sleep(10 * time.Second)
		begun := time.Now()
		require.Zero(t, must(limits.Slots(&plans[enterprise], key).WaitAcquire(t.Context())).Fence)
		require.Equal(t, begun, time.Now())
		require.NoError(t, first.Release(t.Context()))
		waiter.Wait()

		waiter.Go(func() { _, err := l.WaitAcquire(t.Context()); require.ErrorIs(t, err, runtime.ErrLimited) })
		time.Sleep(10*time.Second + time.Millisecond)
		must(limits.Overrides(&plans[free], key).Block(t.Context(), runtime.Block{Until: runtime.ForGood(), Reason: "r", Author: "a"}))
		begun = time.Now()
		_, err := l.WaitAcquire(t.Context())
		require.ErrorIs(t, err, runtime.ErrLimited)
		require.Equal(t, begun, time.Now())
		waiter.Wait()
	})
}
