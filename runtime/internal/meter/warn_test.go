package meter_test

import (
	"fmt"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/runtimetest"
)

// Each table is about a new key of a limit that warns at 80% and 100%. A row is a request at a time after the epoch, the
// threshold that it has crossed, in percent, and how many tokens are left.
func TestTakesCrossThresholds(t *testing.T) {
	minute := runtime.Policy{Name: "limit", Rate: 10, Period: time.Minute, Capacity: 10}
	of := func(kind runtime.Kind, change func(p *runtime.Policy)) runtime.Policy {
		p := minute
		p.Kind, p.Warn = kind, runtime.Thresholds{80, 100}
		if kind.Windowed() {
			p.Start = runtime.StartOffset(0)
		}
		change(&p)
		return p
	}
	for name, table := range map[string]struct {
		policy runtime.Policy
		rows   []crossing
	}{
		"token bucket": {of(runtime.TokenBucket, func(p *runtime.Policy) { p.MaxReserved = 5 }), []crossing{
			{"0s", take(7), "0%, 3 left"}, {"0s", take(1), "80%, 2 left"}, {"0s", take(1), "0%, 1 left"}, {"0s", take(1), "100%, 0 left"},
			// As tokens accrue, each take of the last whole one crosses again.
			{"6s", take(1), "100%, 0 left"}, {"12s", take(1), "100%, 0 left"}, {"18s", reserve(1), "100%, 0 left"}, {"18s", reserve(2), "0%, -2 left"},
			// Half a token is none.
			{"48s", peek(), "0%, 3 left"}, {"51s", take(1), "80%, 2.5 left"}, {"51s", take(1), "0%, 1.5 left"}, {"51s", take(1), "100%, 0.5 left"},
			{"51s", charge(3), "0%, -2.5 left"},
		}},
		"fixed window": {of(runtime.FixedWindow, func(p *runtime.Policy) {}), []crossing{
			{"0s", take(9), "80%, 1 left"}, {"59s", take(1), "100%, 0 left"}, {"60s", take(8), "80%, 2 left"}, {"119s", take(2), "100%, 0 left"},
		}},
		"fixed window that carries over": {of(runtime.FixedWindow, func(p *runtime.Policy) { p.Capacity = 20 }), []crossing{
			{"0s", take(16), "80%, 4 left"}, {"60s", peek(), "0%, 14 left"}, {"60s", take(9), "0%, 5 left"}, {"60s", take(5), "100%, 0 left"},
		}},
		"sliding window": {of(runtime.SlidingWindow, func(p *runtime.Policy) {}), []crossing{
			{"0s", take(10), "100%, 0 left"}, {"60s", peek(), "0%, 0 left"}, {"90s", take(3), "80%, 2 left"}, {"90s", take(2), "100%, 0 left"},
			{"150s", take(4), "0%, 3.5 left"}, {"150s", take(1), "80%, 2.5 left"}, {"150s", take(2), "100%, 0.5 left"},
		}},
		"precise": {of(runtime.SlidingWindow, func(p *runtime.Policy) { p.Precise, p.Start = true, runtime.Start{} }), []crossing{
			{"0s", take(5), "0%, 5 left"}, {"30s", take(3), "80%, 2 left"}, {"60s", take(5), "80%, 2 left"}, {"60s", take(2), "100%, 0 left"},
		}},
		"in flight": {of(runtime.InFlight, func(p *runtime.Policy) { p.Slots, p.Hold, p.Rate, p.Capacity, p.Period = 5, time.Minute, 0, 0, 0 }), []crossing{
			{"0s", take(4), "80%, 1 left"}, {"30s", take(1), "100%, 0 left"}, {"60s", take(2), "0%, 2 left"}, {"60s", take(1), "80%, 1 left"},
		}},
		// One take uses the whole capacity: the highest threshold counts.
		"one token": {of(runtime.TokenBucket, func(p *runtime.Policy) { p.Rate, p.Capacity = 1, 1 }), []crossing{
			{"0s", take(1), "100%, 0 left"}, {"60s", take(1), "100%, 0 left"},
		}},
		"without thresholds": {of(runtime.TokenBucket, func(p *runtime.Policy) { p.Warn = runtime.Thresholds{} }), []crossing{{"0s", take(10), "0%, 0 left"}}},
	} {
		require.NoError(t, table.policy.Validate(), name)
		rule, state := meter.RuleOf(&table.policy, ""), runtime.State{}
		for i, row := range table.rows {
			next, d := must2(rule.Step(state, epoch.Add(must(time.ParseDuration(row.at))).UnixNano(), row.q))
			require.Equal(t, row.want, fmt.Sprintf("%d%%, %g left", d.Crossed, d.Value), "%s, row %d", name, i)
			state = next
		}
	}
}

type crossing struct {
	at   string
	q    runtime.Request
	want string
}

// The first request that uses a part of the capacity crosses it, by what a Peek finds before it and after it, calculated
// exactly. It never matters how the tokens before were taken.
func TestCrossingsAreThoseOfAReference(t *testing.T) {
	kinds, crossed := map[string]int{}, 0
	for seed := range uint64(runtimetest.Steps() / 50) {
		d := runtimetest.Roll(seed)
		p := d.Policy(t, runtime.Kinds()...)
		if p.Full() == 0 || p.Full() > runtime.MaxSlots && p.Kind == runtime.InFlight {
			continue
		}
		p.Warn = runtimetest.Pick(d, runtime.Thresholds{80, 100}, runtime.Thresholds{1}, runtime.Thresholds{33, 50, 99}, runtime.Thresholds{100})
		rule, state, now := meter.RuleOf(&p, "key"), runtime.State{}, epoch.UnixNano()
		jumps := p
		if p.Kind == runtime.InFlight {
			jumps.Rate, jumps.Period = p.Slots, p.Hold
		}
		for range 50 {
			now += int64(d.Jump(jumps))
			q := d.Request(p)
			if p.Kind == runtime.InFlight {
				q = runtimetest.Take(1 + d.Int64N(p.Slots))
			}
			_, before := must2(rule.Step(state, now, peek()))
			next, got, err := rule.Step(state, now, q)
			if err != nil {
				continue
			}
			_, after := must2(rule.Step(next, now, peek()))
			want := uint8(0)
			if got.Taken > 0 {
				want = crossedOf(&p, before.Value, after.Value)
			}
			require.Equal(t, want, got.Crossed, "%v %d of %+v, from %g to %g", q.Op, q.Count, p, before.Value, after.Value)
			if want > 0 {
				crossed++
				kinds[p.Kind.String()]++
			}
			state = next
		}
	}
	t.Logf("%d crossings: %v", crossed, kinds)
	require.Len(t, kinds, len(runtime.Kinds()))
}

// crossedOf is the definition of a crossing.
func crossedOf(p *runtime.Policy, before, after float64) (highest uint8) {
	// Only whole tokens are left, but for a rounding.
	used := func(left float64) *big.Rat { return new(big.Rat).SetInt64(p.Full() - int64(math.Floor(left+1e-6))) }
	for _, percent := range p.Warn[:p.Warn.Len()] {
		at := big.NewRat(int64(percent), 100)
		at.Mul(at, new(big.Rat).SetInt64(p.Full()))
		if used(after).Cmp(at) >= 0 && used(before).Cmp(at) < 0 {
			highest = percent
		}
	}
	return highest
}
