package runtime_test

import (
	"context"
	"testing"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/stretchr/testify/require"
)

// busy is a limit of each kind that does not run dry.
func busy(kind runtime.Kind) *runtime.Policy {
	return &runtime.Policy{Name: "limit", Kind: kind, Rate: 1_000_000_000, Period: time.Second, Capacity: 1_000_000_000}
}

func TestStepAllocatesNothing(t *testing.T) {
	for _, kind := range runtime.Kinds() {
		rule, state, now := busy(kind).Rule("key"), runtime.State{}, epoch.UnixNano()
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			state, _, _ = rule.Step(state, now, take(1))
			now += 1000
		}), kind)
		full := take(int64(rule.Capacity))
		require.Zero(t, testing.AllocsPerRun(1000, func() { state, _, _ = rule.Step(state, now, full) }), "%v, denied", kind)
	}
}

// BenchmarkFloor is the bare formula, as little as a limiter can do: what the others are to be compared with.
func BenchmarkFloor(b *testing.B) {
	value, ts, now := 1e9, int64(0), int64(0)
	for b.Loop() {
		now += 1000
		avail := min(1e9, value+float64(now-ts)*1e9/1e9)
		if avail-1 >= -1e-6 {
			value, ts = avail-1, now
		}
	}
}

func BenchmarkStep(b *testing.B) {
	for _, kind := range runtime.Kinds() {
		b.Run(kind.String(), func(b *testing.B) {
			rule, state, now := busy(kind).Rule("key"), runtime.State{}, epoch.UnixNano()
			b.ReportAllocs()
			for b.Loop() {
				now += 1000
				state, _, _ = rule.Step(state, now, take(1))
			}
		})
	}
}

func BenchmarkBatchOfOne(b *testing.B) {
	calls, now := []runtime.Call{call(request(busy(runtime.TokenBucket), take(1)))}, epoch.UnixNano()
	states := make([]runtime.State, 1)
	b.ReportAllocs()
	for b.Loop() {
		now += 1000
		batch := runtime.NewBatch(calls)
		batch.Run(now, states)
		states[0] = batch.Changes()[0].State
	}
}

func BenchmarkMemStoreAllow(b *testing.B) {
	l := runtime.NewLimiter(&runtime.MemStore{}).Limit(busy(runtime.TokenBucket), runtime.KeyOf(runtime.String("key")))
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
