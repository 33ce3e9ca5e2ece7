package meter_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/runtimetest"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// unknownKind is the first Kind that is not declared, and unknownOp the first such Op.
var (
	unknownKind = runtime.Kind(len(runtime.Kinds()) + 1)
	unknownOp   = runtime.Op(len(runtime.Ops()))
)

// halfFull returns a plain policy of a kind, and a state with 5 of its 10 tokens.
func halfFull(kind runtime.Kind) (*runtime.Policy, runtime.State) {
	p := runtimetest.Bucket("limit", 10)
	if p.Kind, p.Rate = kind, 10; kind == runtime.InFlight {
		p = &runtime.Policy{Name: "limit", Kind: kind, Slots: 10, Hold: time.Minute}
	}
	return p, runtime.State{Value: -5, TS: epoch.UnixNano(), Exists: true}
}

// An unknown Op is an error, neither an allowance nor a denial, by every way to execute a request.
func TestUnknownOpIsAnError(t *testing.T) {
	unknown, now := runtime.Request{Op: unknownOp, Count: 1}, epoch.UnixNano()
	for _, kind := range runtime.Kinds() {
		p, s := halfFull(kind)
		rule := meter.RuleOf(p, "")
		after, d, err := rule.Step(s, now, unknown)
		require.ErrorIs(t, err, runtime.ErrInvalidCall)
		require.False(t, d.Allowed)
		require.Equal(t, s, after)
		_, ok := rule.Upsert(now, unknown)
		require.False(t, ok)

		if kind == runtime.InFlight {
			continue // it has no shards
		}
		p.Shards = 4
		answer := runtimetest.Do(t, &memstore.Store{}, runtimetest.Call(runtimetest.Of(p, unknown)))[0]
		require.ErrorIs(t, answer.Err, runtime.ErrInvalidCall)
		_, err = meter.StepShards(p, make([]runtime.State, 4), "", now, unknown, 1)
		require.ErrorIs(t, err, runtime.ErrInvalidCall)
	}
}

// Rules made by hand can have any Kind. Where there is no error to return, an unknown Kind panics: if it behaved like
// one of the others, a new kind without an algorithm would pass the tests.
func TestUnknownKindHasNoArithmetic(t *testing.T) {
	for _, kind := range []runtime.Kind{0, unknownKind, 255} {
		rule := meter.Rule{Kind: kind, Rate: 10, Capacity: 10, Period: int64(time.Second)}
		for _, op := range runtime.Ops() {
			_, d, err := rule.Step(runtime.State{}, epoch.UnixNano(), runtime.Request{Op: op, Count: 1})
			require.ErrorIs(t, err, runtime.ErrInvalidPolicy, "%v", op)
			require.False(t, d.Allowed)
		}
		_, ok := rule.Upsert(epoch.UnixNano(), take(1))
		require.False(t, ok)
		message := fmt.Sprintf("runtime: Kind(%d) has no algorithm: add it to algorithm in meter/kinds.go", kind)
		require.PanicsWithValue(t, message, func() { rule.Full(runtime.State{Exists: true}, 0) })
		require.PanicsWithValue(t, message, func() { rule.WindowEnd(0) })
		require.False(t, kind.Linear())
		require.False(t, kind.Windowed())
	}
}

func TestEveryKindExecutesEveryOp(t *testing.T) {
	for _, kind := range runtime.Kinds() {
		p, s := halfFull(kind)
		require.NoError(t, p.Validate(), "a plain policy must be valid for every kind")
		rule, now := meter.RuleOf(p, "key"), epoch.UnixNano()
		require.NotPanics(t, func() {
			rule.Full(s, now)
			rule.WindowEnd(now)
			_, ok := rule.Upsert(now, take(1))
			require.Equal(t, kind.Linear(), ok, "%v: accruesTo must be true for the kinds that are linear in the table kinds of runtime/kind.go", kind)
		}, "%v needs an entry in the table kinds in kind.go, and one in algorithm in meter/kinds.go", kind)
		for _, op := range runtime.Ops() {
			require.NotPanics(t, func() {
				_, d, err := rule.Step(s, now, runtime.Request{Op: op, Count: 1, Fence: 1})
				switch ofTokens, ofSlots := op == runtime.Charge || op == runtime.TakeUpTo, op == runtime.Renew || op == runtime.Release; {
				case kind == runtime.InFlight && ofTokens, kind != runtime.InFlight && ofSlots:
					require.ErrorIs(t, err, runtime.ErrInvalidCall, "%v on a %v", op, kind)
					return
				case ofSlots:
					require.ErrorIs(t, err, runtime.ErrSlotLost, "%v on a %v", op, kind)
					return
				}
				require.NoError(t, err, "%v on a %v", op, kind)
				require.True(t, d.Allowed, "%v on a %v", op, kind)
			}, "%v needs a case in Rule.Step in meter/step.go", op)
		}
	}
}

func TestStepAllocatesNothing(t *testing.T) {
	for _, kind := range runtimetest.TokenKinds() {
		rule, state, now := meter.RuleOf(busy(kind), "key"), runtime.State{}, epoch.UnixNano()
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			state, _, _ = rule.Step(state, now, take(1))
			now += 1000
		}), kind)
		full := take(int64(rule.Capacity))
		require.Zero(t, testing.AllocsPerRun(1000, func() { state, _, _ = rule.Step(state, now, full) }), "%v, denied", kind)
	}
}

// busy returns a limit that has tokens for the whole benchmark.
func busy(kind runtime.Kind) *runtime.Policy {
	return &runtime.Policy{Name: "limit", Kind: kind, Rate: 1_000_000_000, Period: time.Second, Capacity: 1_000_000_000}
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
	for _, kind := range runtimetest.TokenKinds() {
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
