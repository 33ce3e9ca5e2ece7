package limiter_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/internal/runtimetest"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// settleWorld is one key, whose requests are settled at random: its store, and the events that have changed it.
type settleWorld struct {
	*testing.T
	runtimetest.Dice
	now      time.Time
	limiter  *limiter.Limiter
	policies []*runtime.Policy
	events   []settleEvent
	open     []openTake
	settled  *int
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

// exact returns the tokens of the key as if each settled request had only taken what it used: the events are executed
// again, by Charge and without a refund.
func (w *settleWorld) exact(p *runtime.Policy) float64 {
	var rows []runtime.State
	step := func(p *runtime.Policy, at int64, q runtime.Request) *runtime.Decision {
		unsharded := *p
		unsharded.Shards = 0
		rule := meter.RuleOf(&unsharded, "k")
		if len(rows) == 0 {
			rows = []runtime.State{{}}
		}
		after, d := must2(rule.Step(rows[0], at, q))
		rows[0] = after
		return &d
	}
	for _, e := range w.events {
		switch {
		case e.count < 0:
			step(e.policy, e.at, runtimetest.Reset())
		case e.count > 0:
			step(e.policy, e.at, runtimetest.Charge(e.count))
		case e.policy.Precise:
			d := step(e.policy, e.at, runtimetest.Charge(1))
			step(e.policy, e.at, d.RefundRequest(1))
		default:
			// A take of nothing, which begins a window like any other.
			step(e.policy, e.at, runtimetest.Charge(1))
			rows[0].Value++
		}
	}
	return step(p, w.now.UnixNano(), runtimetest.Peek()).Value
}

// take takes tokens by some method.
func (w *settleWorld) take() {
	p := runtimetest.Pick(w.Dice, w.policies...)
	l, ctx := w.key(p), w.Context()
	n := 1 + w.Int64N(p.Capacity)
	var d runtime.Decision
	settle := func(used int64) error {
		_, err := l.RefundN(ctx, d, d.Taken-used)
		return err
	}
	switch w.IntN(5) {
	case 0:
		d = must(l.AllowN(ctx, n))
	case 1:
		d = must(l.AllowUpTo(ctx, n))
	case 2:
		if w.IntN(4) > 0 {
			return
		}
		d = must(l.Charge(ctx, 1+n/4))
	case 3:
		r := must(l.ReserveN(ctx, n))
		d, settle = r.Decision, func(used int64) error { return r.Settle(ctx, used) }
	case 4:
		ds := must(w.limiter.All(ctx, l.N(n)))
		if d = ds.Each[0]; ds.Allowed {
			r, ok := ds.Settlement(0)
			require.True(w, ok)
			settle = func(used int64) error { return r.Settle(ctx, used) }
		}
	}
	if d.Taken > 0 {
		w.touch()
		w.open = append(w.open, openTake{len(w.events), d.Taken, settle, false})
		w.events = append(w.events, settleEvent{p, w.now.UnixNano(), d.Taken})
	}
}

func (w *settleWorld) key(p *runtime.Policy) limiter.ReservableLimit {
	return w.limiter.Reservable(p, runtime.KeyOf(runtime.String("k")))
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
	p := runtimetest.Pick(w.Dice, w.policies...)
	before, wasExact := value(w.T, w.key(p)), w.exact(p)
	used := w.Int64N(o.taken)
	require.NoError(w, o.settle(used))
	w.events[o.event].count = used
	after, exact := value(w.T, w.key(p)), w.exact(p)
	require.LessOrEqual(w, after, exact+1e-6, "settling %d of %d after %v, where %v is exact, %+v", used, o.taken, before, wasExact, w)
	if p.Shards == 0 { // a refund spreads the tokens of shards, which then accrue at other rates
		require.GreaterOrEqual(w, after, before-1e-6, "settling %d of %d, %+v", used, o.taken, w)
	}
	if less := (exact - wasExact) - (after - before); less > 1e-6 {
		require.True(w, o.touched || p.Shards > 1 || before < wasExact-1e-6, "settling %d of %d gives back %v less, but nothing has happened since, %+v", used, o.taken, less, w)
	}
	*w.settled++
}

func (w *settleWorld) String() string {
	text := fmt.Sprintf("at %d", w.now.UnixNano())
	for _, e := range w.events {
		text += fmt.Sprintf("\n%d by %d per %v, capacity %d, reserve %d at %d", e.count, e.policy.Rate, e.policy.Period, e.policy.Capacity, e.policy.MaxReserved, e.at)
	}
	return text
}

// TestSettlingIsAsIfOnlyUsedHadBeenTaken settles requests of random worlds: with plans, charges, resets and clocks that
// jump, and settlements in between. Shards accrue one by one, so that with plans and clocks that go back they differ
// from the one row of the reference also without a refund. A precise window drops what has expired at a refund too.
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
			settled := 0
			for seed := range uint64(150) {
				w := &settleWorld{T: t, Dice: runtimetest.Roll(seed), now: epoch, settled: &settled}
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
						p := runtimetest.Pick(w.Dice, w.policies...)
						require.NoError(t, w.key(p).Reset(t.Context()))
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
			require.Positive(t, settled)
		})
	}
}
