package limiter_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/internal/runtimetest"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// jittery returns a policy of a rate of 10 per minute and a jitter of 10s.
func jittery(kind runtime.Kind, shards int) *runtime.Policy {
	return &runtime.Policy{Name: "limit", Kind: kind, Rate: 10, Period: time.Minute, Capacity: 10, Jitter: 10 * time.Second, Shards: shards}
}

// The answer to the same question is the same at any time before the tokens are due: clients that ask twice must not
// come to different conclusions, nor collect the earliest of several answers.
func TestJitterIsFixedPerKeyAndDueInstant(t *testing.T) {
	for _, kind := range runtimetest.TokenKinds() {
		for _, shards := range []int{1, 3} {
			different := map[time.Duration]bool{}
			for i := range 200 {
				p, key := jittery(kind, shards), fmt.Sprint("key", i)
				now := epoch.Add(time.Duration(i) * 1234567891)
				limit := limiter.New(clocked(&now)).Limit(p, runtime.KeyOf(runtime.String(key)))
				denied := func() runtime.Decision {
					return must(limit.AllowN(t.Context(), 10))
				}
				require.True(t, denied().Allowed)
				first := denied()
				require.False(t, first.Allowed)
				require.GreaterOrEqual(t, first.Jitter, time.Duration(0))
				require.LessOrEqual(t, first.Jitter, p.Jitter)
				require.Equal(t, first.RetryAfter+first.Jitter, first.RetryIn())
				due := now.Add(first.RetryAfter)
				for now.Add(7 * time.Second).Before(due) {
					now = now.Add(7 * time.Second)
					d := denied()
					require.WithinDuration(t, due, now.Add(d.RetryAfter), time.Microsecond)
					require.Equal(t, first.Jitter, d.Jitter, "%v, %d shards, %v before the tokens are due", kind, shards, d.RetryAfter)
				}
				now = due
				require.True(t, denied().Allowed, "RetryAfter is exact")
				different[first.Jitter] = true
			}
			require.Greater(t, len(different), 195, "the keys are spread")
		}
	}
}

// The retries of a thousand keys whose windows begin at the same instant are spread evenly over the seconds.
func TestJitterIsUniform(t *testing.T) {
	p := jittery(runtime.FixedWindow, 1)
	p.Start = runtime.StartOffset(0)
	seconds := make([]int, 10)
	limits := limiter.New(still())
	for i := range 10_000 {
		limit := limits.Limit(p, runtime.KeyOf(runtime.Int(i)))
		require.NoError(t, limit.RequireN(t.Context(), 10))
		d := must(limit.Allow(t.Context()))
		require.False(t, d.Allowed)
		seconds[min(9, int(d.Jitter/time.Second))]++
	}
	for second, n := range seconds {
		require.InDelta(t, 1000, n, 150, "second %d", second)
	}
}

func TestJitterIsAddedOnlyToWaits(t *testing.T) {
	now := epoch
	p := jittery(runtime.TokenBucket, 1)
	p.MaxReserved = 10
	limits := limiter.New(clocked(&now))
	l := limits.Reservable(p, runtime.Key{})
	r := must(l.ReserveN(t.Context(), 10))
	require.Zero(t, r.Jitter)
	require.Zero(t, r.Delay())
	r = must(l.ReserveN(t.Context(), 5))
	require.Equal(t, 30*time.Second, r.UsableAfter)
	require.Positive(t, r.Jitter)
	require.Equal(t, r.UsableAfter+r.Jitter, r.Delay())
	require.Zero(t, r.RetryIn())

	err := l.Require(t.Context())
	var limited *runtime.LimitedError
	require.ErrorAs(t, err, &limited)
	require.Equal(t, 36*time.Second, limited.RetryAfter)
	require.Greater(t, limited.RetryIn(), limited.RetryAfter)
	require.Contains(t, err.Error(), fmt.Sprintf("retry after %ds", int64(math.Ceil(limited.RetryIn().Seconds()))))

	ds := must(limits.All(t.Context(), l))
	require.Equal(t, limited.RetryIn(), ds.RetryIn())
	require.Equal(t, limited.RetryAfter, ds.RetryAfter)
}

func TestWaitSleepsForTheJitterIfTheDeadlineAllowsIt(t *testing.T) {
	for _, reserves := range []int64{0, 10} {
		for _, deadline := range []time.Duration{0, time.Hour, 31 * time.Second, 29 * time.Second} {
			for _, grouped := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					p := jittery(runtime.TokenBucket, 1)
					p.MaxReserved = reserves
					limits := limiter.New(&memstore.Store{})
					l := limits.Reservable(p, runtime.KeyOf(runtime.Int(1)))
					wait := func(ctx context.Context) error { return l.WaitN(ctx, 5) }
					if grouped {
						wait = limits.Group(l.N(5), limits.Limit(bucket("other", 5), runtime.Key{})).Wait
					}
					require.NoError(t, l.WaitN(t.Context(), 10))
					expected := must(l.CheckN(t.Context(), 5))
					require.Greater(t, expected.Jitter, 2*time.Second, "choose another key for this test")
					ctx, cancel := context.WithCancel(t.Context())
					if deadline > 0 {
						ctx, cancel = context.WithTimeout(t.Context(), deadline)
					}
					defer cancel()
					var waited error
					took := elapsed(func() { waited = wait(ctx) })
					switch deadline {
					case 29 * time.Second:
						require.ErrorIs(t, waited, context.DeadlineExceeded)
						require.Zero(t, took)
					case 31 * time.Second:
						require.NoError(t, waited)
						require.Equal(t, 30*time.Second, took, "the jitter would end after the deadline")
					default:
						require.NoError(t, waited)
						require.Equal(t, expected.RetryIn(), took)
					}
				})
			}
		}
	}
}

// A decision that does not wait has no jitter, whatever the mode is and wherever it comes from: see [runtime.Mode].
func TestJitterInEveryMode(t *testing.T) {
	type waits struct{ retry, delay, jitter, blocked bool }
	none := waits{}
	for _, row := range []struct {
		mode runtime.Mode
		// override puts the mode in force, and block an operator's block.
		override, block bool
		plain, reserve  waits
	}{
		{mode: runtime.ModeEnforce, plain: waits{retry: true, jitter: true}, reserve: waits{delay: true, jitter: true}},
		{mode: runtime.ModeShadow, plain: none, reserve: none},
		{mode: runtime.ModeOff, plain: none, reserve: none},
		{mode: runtime.ModeBlock, plain: waits{retry: true, blocked: true}, reserve: waits{retry: true, blocked: true}},
		{mode: runtime.ModeShadow, override: true},
		{mode: runtime.ModeOff, override: true},
		{mode: runtime.ModeUnlimited, override: true},
		{block: true, plain: waits{retry: true, jitter: true, blocked: true}, reserve: waits{retry: true, jitter: true, blocked: true}},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := overridable()
			p.MaxReserved, p.Overrides.MaxReserved, p.Jitter = 5, 5, time.Hour
			o := newOverriding(t, p)
			o.now = time.Now()
			limit := o.limiter.Reservable(p, runtime.KeyOf(runtime.String("a")))
			require.NoError(t, limit.RequireN(t.Context(), 10))
			switch {
			case row.block:
				o.block(o.overrides("a"), 10*time.Hour)
			case row.override:
				o.override(o.overrides("a"), runtime.Override{Mode: row.mode, Until: o.now.Add(10 * time.Hour)})
			default:
				p.Mode = row.mode
			}
			expect := func(what string, want waits, d runtime.Decision) {
				t.Helper()
				got := waits{d.RetryAfter > 0, d.UsableAfter > 0, d.Jitter > 0, d.BlockedFor > 0}
				require.Equal(t, want, got, "%v: %s: %+v", row.mode, what, d)
			}
			ctx := t.Context()
			for what, d := range map[string]runtime.Decision{
				"Allow":       must(limit.Allow(ctx)),
				"Check":       must(limit.Check(ctx)),
				"AllowUpTo":   must(limit.AllowUpTo(ctx, 2)),
				"All":         must(o.limiter.All(ctx, limit)).Each[0],
				"All checked": must(o.limiter.All(ctx, limit.Checked())).Each[0],
			} {
				expect(what, row.plain, d)
			}
			r, rs := must(limit.Reserve(ctx)), must(o.limiter.ReserveAll(ctx, limit))
			expect("Reserve", row.reserve, r.Decision)
			expect("ReserveAll", row.reserve, rs.Each[0])
			require.Equal(t, row.reserve.delay || row.reserve.retry, r.Delay() > 0)
			require.Equal(t, row.reserve.delay || row.reserve.retry, rs.Delay() > 0)
			if row.plain == none {
				require.Zero(t, elapsed(func() { require.NoError(t, limit.Wait(ctx)) }))
				require.Zero(t, elapsed(func() { require.NoError(t, o.limiter.Group(limit).Wait(ctx)) }))
			}
			d := must(limit.CheckN(ctx, 0))
			require.True(t, d.Allowed)
			expect("no tokens", waits{jitter: row.block, blocked: row.plain.blocked}, d)
		})
	}
}
