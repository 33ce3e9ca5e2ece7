package runtime_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// settleWorld is one key, whose requests are settled at random: its store, and the events that have changed it.
type settleWorld struct {
	*testing.T
	dice
	now      time.Time
	limiter  *limiter.Limiter
	policies []*runtime.Policy
	events   []settleEvent
	open     []openTake
	tally    *settleTally
}

// settleEvent is a take, a charge or, if its count is negative, a reset.
type settleEvent struct {
	policy *runtime.Policy
	at     int64
	count  int64
}

// openTake is a take that can be settled.
type openTake struct {
	event   int
	taken   int64
	settle  func(used int64) error
	touched bool
}

// settleTally counts the settlements that gave back tokens, and those that gave back less than the reference, with the tokens
// by which it was less.
type settleTally struct {
	settled, less  int
	returned, lost float64
}

// exact returns the tokens of the key as if each settled request had only taken what it used: the events are executed
// again, by Charge and without a refund.
func (w *settleWorld) exact(p *runtime.Policy) float64 {
	var rows []runtime.State
	whole := func(p *runtime.Policy) meter.Rule {
		unsharded := *p
		unsharded.Shards = 0
		return meter.RuleOf(&unsharded, "k")
	}
	step := func(p *runtime.Policy, at int64, q runtime.Request) *runtime.Decision {
		rule := whole(p)
		if p.Precise {
			after, d, err := rule.StepLog(rows, at, q)
			require.NoError(w, err)
			rows = after
			return &d
		}
		if len(rows) == 0 {
			rows = []runtime.State{{}}
		}
		after, d, err := rule.Step(rows[0], at, q)
		require.NoError(w, err)
		rows[0] = after
		return &d
	}
	for _, e := range w.events {
		switch {
		case e.count < 0:
			step(e.policy, e.at, reset())
		case e.count > 0:
			step(e.policy, e.at, charge(e.count))
		case e.policy.Precise:
			d := step(e.policy, e.at, charge(1))
			step(e.policy, e.at, d.RefundRequest(1))
		default:
			// A take of nothing, which begins a window like any other.
			step(e.policy, e.at, charge(1))
			rows[0].Value++
		}
	}
	return step(p, w.now.UnixNano(), peek()).Value
}

func (w *settleWorld) value(p *runtime.Policy) float64 {
	b, err := w.limiter.Reservable(p, runtime.KeyOf(runtime.String("k"))).Peek(w.Context())
	require.NoError(w, err)
	return b.Value
}

// take takes tokens by some method.
func (w *settleWorld) take() {
	p := pick(w.dice, w.policies...)
	l, ctx := w.limiter.Reservable(p, runtime.KeyOf(runtime.String("k"))), w.Context()
	n := 1 + w.Int64N(p.Capacity)
	var d runtime.Decision
	var settle func(used int64) error
	err := error(nil)
	by := func(d runtime.Decision) func(used int64) error {
		return func(used int64) error {
			_, err := l.RefundN(ctx, d, d.Taken-used)
			return err
		}
	}
	switch w.IntN(5) {
	case 0:
		d, err = l.AllowN(ctx, n)
		settle = by(d)
	case 1:
		d, err = l.AllowUpTo(ctx, n)
		settle = by(d)
	case 2:
		if n = 1 + n/4; w.IntN(4) > 0 {
			return
		}
		d, err = l.Charge(ctx, n)
		settle = by(d)
	case 3:
		var r *limiter.Reservation
		r, err = l.ReserveN(ctx, n)
		require.NoError(w, err)
		d = r.Decision
		settle = func(used int64) error { return r.Settle(ctx, used) }
	case 4:
		var ds limiter.Decisions
		ds, err = w.limiter.All(ctx, l.N(n))
		require.NoError(w, err)
		if d = ds.Each[0]; ds.Allowed {
			r, ok := ds.Settlement(0)
			require.True(w, ok)
			settle = func(used int64) error { return r.Settle(ctx, used) }
		}
	}
	require.NoError(w, err)
	if d.Taken > 0 {
		w.touch()
		w.open = append(w.open, openTake{len(w.events), d.Taken, settle, false})
		w.events = append(w.events, settleEvent{p, w.now.UnixNano(), d.Taken})
	}
}

func (w *settleWorld) touch() {
	for i := range w.open {
		w.open[i].touched = true
	}
}

// settle settles one of the open requests, and compares with the reference.
func (w *settleWorld) settle() {
	i := w.IntN(len(w.open))
	o := w.open[i]
	w.open = append(w.open[:i], w.open[i+1:]...)
	p := pick(w.dice, w.policies...)
	before, wasExact := w.value(p), w.exact(p)
	used := w.Int64N(o.taken)
	require.NoError(w, o.settle(used))
	w.events[o.event].count = used
	after, exact := w.value(p), w.exact(p)
	require.LessOrEqual(w, after, exact+1e-6, "settling %d of %d after %v, where %v is exact, %+v", used, o.taken, before, wasExact, w)
	if p.Shards == 0 { // a refund spreads the tokens of shards, which then accrue at other rates
		require.GreaterOrEqual(w, after, before-1e-6, "settling %d of %d, %+v", used, o.taken, w)
	}
	less := (exact - wasExact) - (after - before)
	w.tally.settled++
	w.tally.returned += after - before
	if less > 1e-6 {
		w.tally.less++
		w.tally.lost += less
		require.True(w, o.touched || p.Shards > 1 || before < wasExact-1e-6, "settling %d of %d gives back %v less, but nothing has happened since, %+v", used, o.taken, less, w)
	}
}

func (w *settleWorld) String() string {
	text := fmt.Sprintf("at %d", w.now.UnixNano())
	for _, e := range w.events {
		text += fmt.Sprintf("\n%d by %d per %v, capacity %d, reserve %d at %d", e.count, e.policy.Rate, e.policy.Period, e.policy.Capacity, e.policy.MaxReserved, e.at)
	}
	return text
}

// TestSettlingIsAsIfOnlyUsedHadBeenTaken settles requests of random worlds: with plans, charges, resets and clocks that jump,
// and settlements in between. Shards accrue one by one, so that with plans and clocks that go back they differ from the one
// row of the reference also without a refund. A precise window drops what has expired at a refund too.
func TestSettlingIsAsIfOnlyUsedHadBeenTaken(t *testing.T) {
	for _, kind := range []runtime.Policy{
		{Kind: runtime.TokenBucket},
		{Kind: runtime.FixedWindow, Start: runtime.StartOffset(0)},
		{Kind: runtime.FixedWindow, Start: runtime.StartFirstUse()},
		{Kind: runtime.SlidingWindow, Start: runtime.StartOffset(0)},
		{Kind: runtime.SlidingWindow, Precise: true},
		{Kind: runtime.TokenBucket, Shards: 3},
		{Kind: runtime.FixedWindow, Start: runtime.StartOffset(0), Shards: 3},
	} {
		t.Run(fmt.Sprintf("%v, %v, precise %v, shards %d", kind.Kind, kind.Start, kind.Precise, kind.Shards), func(t *testing.T) {
			var tally settleTally
			for seed := range uint64(150) {
				w := &settleWorld{T: t, dice: roll(seed), now: epoch, tally: &tally}
				w.limiter = limiter.New(clocked(&w.now))
				plan := kind
				plan.Name, plan.Period, plan.Rate = "limit", time.Minute, 3+w.Int64N(20)
				for len(w.policies) == 0 || len(w.policies) < 2 && plan.Shards == 0 && w.IntN(2) == 0 {
					if plan.Capacity = plan.Rate; plan.Kind.Linear() {
						plan.Capacity, plan.MaxReserved = plan.Rate+w.Int64N(2*plan.Rate), w.Int64N(2)*(3+w.Int64N(2*plan.Rate))
					}
					p := plan
					w.policies = append(w.policies, &p)
					if plan.Kind.Linear() {
						plan.Rate = 3 + w.Int64N(20)*(1+w.Int64N(9))
					}
				}
				for range 60 {
					switch n := w.IntN(30); {
					case n == 0:
						if plan.Precise {
							w.now = w.now.Add(1) // its log knows takes by their instants
						}
						p := pick(w.dice, w.policies...)
						require.NoError(t, w.limiter.Limit(p, runtime.KeyOf(runtime.String("k"))).Reset(t.Context()))
						w.touch()
						w.events = append(w.events, settleEvent{p, w.now.UnixNano(), -1})
						if plan.Precise {
							w.now = w.now.Add(1)
						}
					case n == 1 && plan.Shards == 0 && !plan.Precise:
						w.now = w.now.Add(-time.Duration(w.Int64N(int64(2 * time.Minute))))
					case n < 12:
						w.now = w.now.Add(time.Duration(math.Pow(w.Float64(), 4) * float64(3*time.Minute)))
					case n < 20 && len(w.open) > 0:
						w.settle()
					default:
						w.take()
					}
				}
			}
			t.Logf("%d of %d settlements gave back less: %.0f of %.0f tokens", tally.less, tally.settled, tally.lost, tally.lost+tally.returned)
			require.Positive(t, tally.settled)
		})
	}
}

// What settling is for: tokens are taken without a reservation, and less is used some time later.
func TestSettlingTakesWithoutReservations(t *testing.T) {
	for _, reserved := range []int64{0, 1} {
		now := epoch
		limits := limiter.New(clocked(&now))
		p := &runtime.Policy{Name: "tokens", Kind: runtime.TokenBucket, Rate: 40_000, Period: time.Minute, Capacity: 40_000, MaxReserved: reserved}
		l := limits.Reservable(p, runtime.Key{})
		require.NoError(t, l.RequireN(t.Context(), 30_000))
		ds, err := limits.All(t.Context(), l.N(10_000))
		require.NoError(t, err)
		now = now.Add(15 * time.Second)
		r, ok := ds.Settlement(0)
		require.True(t, ok)
		require.NoError(t, r.Settle(t.Context(), 1000))
		require.Equal(t, 19_000.0, value(t, l))
	}
}

// A faster plan, and a clock that goes back, do not make a refund larger.
func TestRefundDoesNotTrustTheClockOrThePlan(t *testing.T) {
	now := epoch
	limits := limiter.New(clocked(&now))
	free := runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 1, Period: time.Hour, Capacity: 10, MaxReserved: 1}
	pro := free
	pro.Rate = 3600
	r, err := limits.Reservable(&free, runtime.Key{}).ReserveN(t.Context(), 10)
	require.NoError(t, err)
	now = now.Add(10 * time.Second)
	l := limits.Reservable(&pro, runtime.Key{})
	require.NoError(t, l.RequireN(t.Context(), 10))
	require.NoError(t, r.Cancel(t.Context()))
	require.InDelta(t, 0, value(t, l), 1e-6)

	require.NoError(t, l.Reset(t.Context()))
	first, err := l.AllowN(t.Context(), 10)
	require.NoError(t, err)
	now = now.Add(10 * time.Second)
	require.NoError(t, l.RequireN(t.Context(), 10))
	now = now.Add(-10 * time.Second)
	after, err := l.RefundN(t.Context(), first, 10)
	require.NoError(t, err)
	require.InDelta(t, 0, after.Value, 1e-6)
}

// A decision is refunded once, for at most what it has taken, also by its copies and for leased tokens.
func TestDecisionIsRefundedOnce(t *testing.T) {
	now := epoch
	limits := limiter.New(clocked(&now))
	l := limits.Reservable(reservable(10), runtime.Key{})
	require.NoError(t, l.RequireN(t.Context(), 5))
	d, err := l.AllowN(t.Context(), 2)
	require.NoError(t, err)
	for range 2 {
		after, err := l.RefundN(t.Context(), d, 10)
		require.NoError(t, err)
		require.Equal(t, 5.0, after.Value)
	}
	ds, err := limits.All(t.Context(), l.N(2))
	require.NoError(t, err)
	one, _ := ds.Settlement(0)
	other, _ := ds.Settlement(0)
	require.NoError(t, one.Settle(t.Context(), 1))
	require.ErrorIs(t, other.Settle(t.Context(), 1), runtime.ErrNotReserved)
	after, err := l.RefundN(t.Context(), ds.Each[0], 2)
	require.NoError(t, err)
	require.Equal(t, 4.0, after.Value)

	rs, err := limits.ReserveAll(t.Context(), l.N(2))
	require.NoError(t, err)
	_, err = l.RefundN(t.Context(), rs.Each[0], 1)
	require.NoError(t, err)
	require.ErrorIs(t, rs.Cancel(t.Context()), runtime.ErrNotReserved)
	require.Equal(t, 3.0, value(t, l))
}

// A reservation of a transaction is settled in it before the commit, and in the store afterwards.
func TestReservationOfATransactionIsSettledAfterIt(t *testing.T) {
	for _, many := range []bool{false, true} {
		now := epoch
		store := clocked(&now)
		limits := limiter.New(store)
		l := limits.Reservable(reservable(10), runtime.Key{})
		reserve := func(tx *memstore.Tx) (settle func(context.Context) error) {
			inTx := limits.WithTx(tx)
			if many {
				rs, err := inTx.ReserveAll(t.Context(), inTx.Reservable(reservable(10), runtime.Key{}).N(4))
				require.NoError(t, err)
				return rs.Cancel
			}
			r, err := inTx.Reservable(reservable(10), runtime.Key{}).ReserveN(t.Context(), 4)
			require.NoError(t, err)
			return r.Cancel
		}
		tx := store.Begin()
		require.NoError(t, reserve(tx)(t.Context()))
		require.NoError(t, tx.Commit())
		require.Equal(t, 10.0, value(t, l), "cancelled before the commit")

		tx = store.Begin()
		cancel := reserve(tx)
		require.NoError(t, tx.Commit())
		require.Equal(t, 6.0, value(t, l))
		now = now.Add(time.Second)
		require.NoError(t, cancel(t.Context()))
		require.Equal(t, 10.0, value(t, l), "cancelled after it")

		tx = store.Begin()
		cancel = reserve(tx)
		require.NoError(t, tx.Rollback())
		require.NoError(t, l.RequireN(t.Context(), 4))
		require.ErrorIs(t, cancel(t.Context()), runtime.ErrRolledBack)
		require.Equal(t, 6.0, value(t, l), "nothing was taken")
	}
}
