package runtime_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/batch"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// busy returns a limit that has tokens for the whole benchmark.
func busy(kind runtime.Kind) *runtime.Policy {
	return &runtime.Policy{Name: "limit", Kind: kind, Rate: 1_000_000_000, Period: time.Second, Capacity: 1_000_000_000}
}

func TestStepAllocatesNothing(t *testing.T) {
	for _, kind := range runtime.Kinds() {
		rule, state, now := meter.RuleOf(busy(kind), "key"), runtime.State{}, epoch.UnixNano()
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			state, _, _ = rule.Step(state, now, take(1))
			now += 1000
		}), kind)
		full := take(int64(rule.Capacity))
		require.Zero(t, testing.AllocsPerRun(1000, func() { state, _, _ = rule.Step(state, now, full) }), "%v, denied", kind)
	}
}

func TestBatchOfOneAllocatesWhatItKeeps(t *testing.T) {
	calls, states := []runtime.Call{call(request(busy(runtime.TokenBucket), take(1)))}, make([]runtime.State, 1)
	// The batch and its slices rows, states, answers, decisions, undo log and changes, but no copy of the request.
	require.LessOrEqual(t, testing.AllocsPerRun(1000, func() {
		b := batch.New(calls)
		b.Run(epoch.UnixNano(), states)
		b.Changes()
	}), 7.0)
}

// bareFormula decides n times by the formula alone, the least that a limiter can do.
func bareFormula(n int) (allowed int) {
	value, ts, now := 1e9, int64(0), int64(0)
	for range n {
		now += 1000
		if avail := min(1e9, value+float64(now-ts)*1e9/1e9); avail-1 >= -1e-6 {
			value, ts = avail-1, now
			allowed++
		}
	}
	return allowed
}

// BenchmarkStep compares Step with the bare formula in the same run, so that the ratio does not depend on the machine.
func BenchmarkStep(b *testing.B) {
	const turn = 1000
	for _, kind := range runtime.Kinds() {
		b.Run(kind.String(), func(b *testing.B) {
			rule, state, now := meter.RuleOf(busy(kind), "key"), runtime.State{}, epoch.UnixNano()
			var floorTime, stepTime time.Duration
			b.ReportAllocs()
			for b.Loop() {
				start := time.Now()
				if bareFormula(turn) != turn {
					b.Fatal("denied")
				}
				middle := time.Now()
				for range turn {
					now += 1000
					state, _, _ = rule.Step(state, now, take(1))
				}
				floorTime += middle.Sub(start)
				stepTime += time.Since(middle)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(floorTime)/float64(b.N*turn), "ns/floor")
			b.ReportMetric(float64(stepTime)/float64(b.N*turn), "ns/step")
			b.ReportMetric(float64(stepTime)/float64(floorTime), "times-floor")
		})
	}
}

func BenchmarkBatchOfOne(b *testing.B) {
	calls, now := []runtime.Call{call(request(busy(runtime.TokenBucket), take(1)))}, epoch.UnixNano()
	states := make([]runtime.State, 1)
	b.ReportAllocs()
	for b.Loop() {
		now += 1000
		bt := batch.New(calls)
		bt.Run(now, states)
		states[0] = bt.Changes()[0].State
	}
}

func BenchmarkMemStoreAllow(b *testing.B) {
	l := limiter.New(&memstore.Store{}).Limit(busy(runtime.TokenBucket), runtime.KeyOf(runtime.String("key")))
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Allow(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkKeyOf(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		runtime.KeyOf(runtime.Int64(42), runtime.String("model"))
	}
}
