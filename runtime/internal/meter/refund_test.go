package meter_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/runtimetest"
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
