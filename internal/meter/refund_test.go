package meter_test

import (
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/internal/runtimetest"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// orders calls f with every order of the numbers below n.
func orders(n int, f func([]int)) {
	order := make([]int, n)
	var place func(i int, free []int)
	place = func(i int, free []int) {
		if i == n {
			f(order)
			return
		}
		for j, v := range free {
			order[i] = v
			place(i+1, append(append([]int{}, free[:j]...), free[j+1:]...))
		}
	}
	for i := range order {
		order[i] = i
	}
	place(0, append([]int{}, order...))
}

// Reservations that are cancelled leave nothing behind, whatever the order is: the tokens accrued between them are a
// billionth of a token, and costs no more.
func TestRefundsInAnyOrderReturnAllThatHasNotAccrued(t *testing.T) {
	for n := 1; n <= 4; n++ {
		orders(n, func(order []int) {
			p := runtimetest.Reservable(80_000)
			p.Rate, p.Period, p.Capacity = 40_000, time.Minute, 40_000
			r := newRow(t, *p)
			r.step(charge(100)) // another request, so that the bucket never becomes full
			taken := make([]runtime.Decision, n)
			for i := range taken {
				r.now += int64(time.Microsecond)
				taken[i] = r.step(reserve(1000))
			}
			for _, i := range order {
				r.now += int64(time.Microsecond)
				r.step(taken[i].RefundRequest(1000))
			}
			require.InDelta(t, 39_900, r.step(peek()).Value, 0.01, "cancelled in the order %v", order)
		})
	}
}

// Tokens are returned however many others have taken since, also beyond the capacity, and if they have returned them.
func TestRefundAfterManyTokensOfOthers(t *testing.T) {
	window := runtime.Policy{Name: "limit", Kind: runtime.FixedWindow, Rate: 1_000_000, Period: time.Hour, Capacity: 1_000_000,
		MaxReserved: 1_000_000_000, Start: runtime.StartOffset(0)}
	bucket := runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 1, Period: time.Hour, Capacity: 1_000_000, MaxReserved: 1_000_000_000}
	for _, p := range []runtime.Policy{window, bucket} {
		r := newRow(t, p)
		first := r.step(reserve(1000))
		r.step(reserve(900_000_000))
		before := r.step(peek()).Value
		r.step(first.RefundRequest(1000))
		require.Equal(t, before+1000, r.step(peek()).Value, "of %v after others in debt", p.Kind)

		r = newRow(t, p)
		r.now++
		first = r.step(reserve(1000))
		for range 100 {
			other := r.step(reserve(1_000_000))
			r.step(reserve(1))
			r.step(other.RefundRequest(1_000_000))
		}
		before = r.step(peek()).Value
		r.step(first.RefundRequest(1000))
		require.InDelta(t, before+1000, r.step(peek()).Value, 1e-6, "of %v after others that returned theirs", p.Kind)
	}
}

// use is a request of which some tokens are refunded.
type use struct {
	at         int64
	d          runtime.Decision
	took, used int64
}

// asUsed returns the tokens at an instant if each request had taken only the tokens that it has used.
func asUsed(p runtime.Policy, uses []*use, now int64) *big.Rat {
	o := newOracle(p)
	for _, u := range uses {
		*o = *o.at(u.at)
		o.value = minus(o.value, rat(u.used))
	}
	return o.available(now)
}

// A history is replayed in rationals without the tokens that were refunded: a row never has more than that and, if
// everything that has accrued meanwhile counts as lost, never less.
func TestRefundsInAnyOrderAgainstReplay(t *testing.T) {
	d := runtimetest.Roll(71)
	for range max(3000, runtimetest.Steps()/10) {
		r := newRow(t, d.PolicyOf(t, runtimetest.Pick[int64](d, 1, 7, 1000, 40_000)))
		if r.policy.Precise {
			continue // see TestPreciseWindow, whose reference has the instant of each token
		}
		gap := func() int64 {
			most := runtimetest.Pick[int64](d, 1, 1, 1000, 1+int64(r.policy.Period)/1000, 1+int64(r.policy.Period)/10, 3*int64(r.policy.Period))
			return d.Int64N(most + 1)
		}
		var uses, open []*use
		lost, history := new(big.Rat), ""
		for step, takes := 0, 2+d.IntN(3); step < 3*takes && r.now < runtimetest.LastInstant; step++ {
			if r.now += gap(); len(uses) < takes && (len(open) == 0 || d.IntN(2) == 0) {
				q := runtimetest.Take(d.CountUpTo(max(1, r.policy.Capacity)))
				if r.policy.MaxReserved > 0 {
					q.Reserve = true
				}
				if r.rule.Refuse(&q) != nil {
					continue
				}
				if decision := r.step(q); decision.Allowed {
					u := &use{r.now, decision, q.Count, q.Count}
					uses, open = append(uses, u), append(open, u)
					history += fmt.Sprintf("\n%d: take %d", r.now, q.Count)
				}
			} else if len(open) > 0 {
				i := d.IntN(len(open))
				u := open[i]
				open = append(open[:i], open[i+1:]...)
				n := runtimetest.Pick(d, u.took, 1+d.Int64N(u.took))
				u.used -= n
				lost.Add(lost, accruedSince(u, uses, &r.policy))
				r.step(u.d.RefundRequest(n))
				history += fmt.Sprintf("\n%d: refund %d of %d taken at %d", r.now, n, u.took, u.at)
			}
			requireAsUsed(t, r, uses, lost, history)
		}
	}
}

// requireAsUsed checks what the row has now and later.
func requireAsUsed(t *testing.T, r *row, uses []*use, lost *big.Rat, history string) {
	t.Helper()
	for _, later := range []int64{0, int64(r.policy.Period) / 3, int64(r.policy.Period)} {
		at := r.now + later
		_, d, err := r.rule.Step(r.state, at, peek())
		require.NoError(t, err)
		want, _ := asUsed(r.policy, uses, at).Float64()
		most, _ := lost.Float64()
		close := 1e-9 * (1 + float64(r.policy.Capacity) + float64(r.policy.Rate) + max(-d.Value, 0))
		if d.Value > want+close || d.Value < want-most*float64(len(uses))-close {
			t.Fatalf("%v later, the row has %v, want %v, or at most %v less\n%+v\n%s", time.Duration(later), d.Value, want, most, r.policy, history)
		}
	}
}

// accruedSince returns how many tokens may have accrued from a request to the last one.
func accruedSince(u *use, uses []*use, p *runtime.Policy) *big.Rat {
	if !p.Kind.Linear() {
		return new(big.Rat)
	}
	o := newOracle(*p)
	first, last := u.at, uses[len(uses)-1].at
	if p.Kind == runtime.TokenBucket {
		return times(o.periods(last-first), rat(p.Rate))
	}
	var before *oracle
	for _, of := range uses {
		*o = *o.at(of.at)
		if of == u {
			before = new(oracle)
			*before = *o
		}
	}
	periods := o.periods(o.ts - before.ts)
	if p.Calendar.Unit != 0 {
		periods = plus(periods, big.NewRat(1, 2)) // the windows of a calendar are counted by rounding
	}
	return times(periods, rat(p.Rate))
}

// A row keeps a bounded log of returned tokens.
func TestReturnsAreBounded(t *testing.T) {
	p := runtimetest.Reservable(1 << 30)
	p.Rate, p.Period, p.Capacity = 1, time.Hour, 1000
	r := newRow(t, *p)
	var taken []runtime.Decision
	for range 200 {
		r.now++
		taken = append(taken, r.step(reserve(10)))
	}
	for i := 1; i < len(taken); i += 2 {
		r.step(taken[i-1].RefundRequest(10))
	}
	require.Less(t, len(r.state.Log), 512)
	// Those that were merged return no more than they have taken.
	for i := 1; i < len(taken); i += 2 {
		r.step(taken[i].RefundRequest(10))
	}
	require.LessOrEqual(t, r.step(peek()).Value, 1000.0)
	require.Greater(t, r.step(peek()).Value, 0.0)
}

// A log of returns is read back as it was written, and anything else returns no tokens.
func TestDamagedReturns(t *testing.T) {
	p := runtimetest.Reservable(1000)
	p.Rate, p.Period, p.Capacity = 1, time.Hour, 1000
	r := newRow(t, *p)
	first := r.step(reserve(10))
	r.now++
	second := r.step(reserve(500))
	r.now++
	r.step(reserve(400))
	r.step(second.RefundRequest(500))
	kept := r.state.Log
	require.NotEmpty(t, kept)
	for _, log := range []string{"", "g", kept[:len(kept)-1], "r" + kept[1:], "g\xff\xff\xff\xff\xff\xff\xff\xff" + kept[9:]} {
		s := r.state
		s.Log = log
		next, _ := must2(r.rule.Step(s, r.now, first.RefundRequest(10)))
		require.GreaterOrEqual(t, next.Value, s.Value, "%q", log)
		require.LessOrEqual(t, next.Value, s.Value+10, "%q", log)
	}
	next, _ := must2(r.rule.Step(r.state, r.now, first.RefundRequest(10)))
	require.InDelta(t, r.state.Value+10, next.Value, 1e-6)
}
