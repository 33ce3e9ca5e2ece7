package runtime_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/stretchr/testify/require"
)

// jittery returns a policy of a rate of 10 per minute and a jitter of 10s.
func jittery(kind runtime.Kind, shards int) *runtime.Policy {
	return &runtime.Policy{Name: "limit", Kind: kind, Rate: 10, Period: time.Minute, Capacity: 10, Jitter: 10 * time.Second, Shards: shards}
}

// The answer to the same question is the same at any time before the tokens are due: clients that ask twice must not come
// to different conclusions, nor collect the earliest of several answers.
func TestJitterIsFixedPerKeyAndDueInstant(t *testing.T) {
	for _, kind := range runtime.Kinds() {
		for _, shards := range []int{1, 3} {
			different := map[time.Duration]bool{}
			for i := range 200 {
				p, key := jittery(kind, shards), fmt.Sprint("key", i)
				now := epoch.Add(time.Duration(i) * 1234567891)
				store := clocked(&now)
				denied := func() runtime.Decision {
					q := request(p, take(10))
					q.Key = key
					return do(t, store, call(q))[0].Decisions[0]
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
	for i := range 10_000 {
		rule := p.Rule(fmt.Sprint(i))
		state, _, err := rule.Step(runtime.State{}, epoch.UnixNano(), take(10))
		require.NoError(t, err)
		_, d, err := rule.Step(state, epoch.UnixNano(), take(1))
		require.NoError(t, err)
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
	limiter := runtime.NewLimiter(clocked(&now))
	l := limiter.Reservable(p, runtime.Key{})
	r, err := l.ReserveN(t.Context(), 10)
	require.NoError(t, err)
	require.Zero(t, r.Jitter)
	require.Zero(t, r.Delay())
	r, err = l.ReserveN(t.Context(), 5)
	require.NoError(t, err)
	require.Equal(t, 30*time.Second, r.Decision.Delay)
	require.Positive(t, r.Jitter)
	require.Equal(t, r.Decision.Delay+r.Jitter, r.Delay())
	require.Zero(t, r.RetryIn())

	err = l.Require(t.Context())
	var limited *runtime.LimitedError
	require.ErrorAs(t, err, &limited)
	require.Equal(t, 36*time.Second, limited.RetryAfter)
	require.Greater(t, limited.RetryIn(), limited.RetryAfter)
	require.Contains(t, err.Error(), fmt.Sprintf("retry after %ds", int64(math.Ceil(limited.RetryIn().Seconds()))))

	ds, err := limiter.All(t.Context(), l)
	require.NoError(t, err)
	require.Equal(t, limited.RetryIn(), ds.RetryIn())
	require.Equal(t, limited.RetryAfter, ds.RetryAfter)
}

func TestWaitSleepsForTheJitterIfTheDeadlineAllowsIt(t *testing.T) {
	for _, reserves := range []int64{0, 10} {
		for _, deadline := range []time.Duration{0, time.Hour, 31 * time.Second, 29 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				p := jittery(runtime.TokenBucket, 1)
				p.MaxReserved = reserves
				l := runtime.NewLimiter(&runtime.MemStore{}).Reservable(p, runtime.KeyOf(runtime.Int(1)))
				require.NoError(t, l.WaitN(t.Context(), 10))
				expected, err := l.CheckN(t.Context(), 5)
				require.NoError(t, err)
				require.Greater(t, expected.Jitter, 2*time.Second, "choose another key for this test")
				ctx := t.Context()
				if deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, deadline)
					defer cancel()
				}
				var waited error
				took := elapsed(func() { waited = l.WaitN(ctx, 5) })
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
