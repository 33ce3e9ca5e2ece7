package meter_test

import (
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/runtimetest"
)

// Requests of a class that leaves 30 % of the capacity, and of one that may take all, on one row.
func TestPriorities(t *testing.T) {
	const second = time.Second
	type step struct {
		after   time.Duration
		class   string
		n       int64
		allowed bool
		left    int64
		retry   time.Duration
	}
	for _, test := range []struct {
		name   string
		policy runtime.Policy
		steps  []step
	}{
		{"token bucket, one a second", runtime.Policy{Kind: runtime.TokenBucket, Rate: 60, Period: time.Minute, Capacity: 100}, []step{
			{0, "batch", 70, true, 0, 0},
			{0, "batch", 1, false, 0, second},
			{0, "interactive", 10, true, 20, 0},
			{0, "batch", 5, false, 0, 15 * second},
			{14 * second, "batch", 5, false, 4, second},
			{1 * second, "batch", 5, true, 0, 0},
			{0, "interactive", 30, true, 0, 0},
			{0, "interactive", 1, false, 0, second},
			{200 * second, "batch", 70, true, 0, 0},
		}},
		// Half of the capacity is granted in each window, so the rest of one is there in the next.
		{"fixed window, 50 an hour", runtime.Policy{Kind: runtime.FixedWindow, Rate: 50, Period: time.Hour, Capacity: 100, Start: runtime.StartOffset(0)}, []step{
			{0, "interactive", 100, true, 0, 0},
			{time.Hour, "batch", 20, true, 0, 0},
			{0, "batch", 1, false, 0, time.Hour},
			{0, "interactive", 30, true, 0, 0},
			{0, "batch", 21, false, 0, 2 * time.Hour},
			{2 * time.Hour, "batch", 70, true, 0, 0},
		}},
		{"sliding window, 100 a minute", runtime.Policy{Kind: runtime.SlidingWindow, Rate: 100, Period: time.Minute, Capacity: 100, Start: runtime.StartOffset(0)}, []step{
			{0, "batch", 70, true, 0, 0},
			{0, "interactive", 30, true, 0, 0},
			// The estimate has 100 - 100 * 3/4 tokens after a quarter of the next window, of which the batch leaves 30.
			{75 * second, "batch", 1, false, 0, 3600 * time.Millisecond},
			{0, "interactive", 25, true, 0, 0},
		}},
		{"reservations only by the class that leaves nothing", runtime.Policy{Kind: runtime.TokenBucket, Rate: 60, Period: time.Minute, Capacity: 10, MaxReserved: 20}, []step{
			{0, "batch", 7, true, 0, 0},
			{0, "batch reserving", 1, false, 0, second},
			{0, "interactive reserving", 20, true, 0, 0},
			{0, "batch reserving", 1, false, 0, 21 * second},
		}},
	} {
		var state runtime.State
		now := epoch.UnixNano()
		now -= now % int64(time.Hour)
		for i, s := range test.steps {
			now += int64(s.after)
			policy, q := test.policy, take(s.n)
			switch policy.Name = "limit"; s.class {
			case "batch reserving", "interactive reserving":
				q.Reserve = true
			}
			if s.class[0] == 'b' {
				policy.Priority = runtime.Priority{Name: "batch", Leaves: 30}
			}
			require.NoError(t, policy.Validate())
			rule := meter.RuleOf(&policy, "")
			next, d := must2(rule.Step(state, now, q))
			state = next
			require.Equal(t, s.allowed, d.Allowed, "%s, step %d: %v", test.name, i+1, d)
			require.Equal(t, s.left, d.Remaining, "%s, step %d: %v", test.name, i+1, d)
			require.Equal(t, s.retry, d.RetryAfter.Round(time.Microsecond), "%s, step %d: %v", test.name, i+1, d)
		}
	}
}

// The thresholds of a limit are parts of the whole capacity, whatever the class of the request that crosses them.
func TestPrioritiesCrossTheSameThresholds(t *testing.T) {
	whole := runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 1, Period: time.Hour, Capacity: 100, Warn: runtime.Thresholds{50, 80}}
	batch := whole
	batch.Priority = runtime.Priority{Name: "batch", Leaves: 10}
	var state runtime.State
	for i, step := range []struct {
		policy  *runtime.Policy
		n       int64
		crossed uint8
	}{{&batch, 49, 0}, {&whole, 1, 50}, {&batch, 29, 0}, {&batch, 1, 80}, {&whole, 10, 0}} {
		rule := meter.RuleOf(step.policy, "")
		next, d := must2(rule.Step(state, epoch.UnixNano(), take(step.n)))
		require.Equal(t, step.crossed, d.Crossed, "step %d: %v", i+1, d)
		state = next
	}
}

// A class decides as the limit decides on a Check of what the class leaves in addition to its count, and takes its count. So
// it is for each shard, whose part of the rest is that of all classes.
func TestPriorityLeavesItsPart(t *testing.T) {
	kinds := []runtime.Kind{runtime.TokenBucket, runtime.FixedWindow, runtime.SlidingWindow}
	compared, denied := 0, 0
	traces(t, 31, kinds, func(d runtimetest.Dice, r *row) {
		class := r.policy
		class.Priority = runtime.Priority{Name: "batch", Leaves: 1 + d.IntN(99)}
		if r.policy.Precise || r.policy.Penalizes() || r.policy.Inside().Zero() || class.Full() < int64(max(1, r.policy.Shards)) || class.Validate() != nil {
			return
		}
		whole, of := meter.RuleOf(&r.policy, ""), meter.RuleOf(&class, "")
		if n := 1 + d.IntN(4); n > 1 && class.Full() >= int64(n) && r.policy.Rate >= int64(n) {
			i := d.IntN(n)
			whole, of = whole.Shard(i, n), of.Shard(i, n)
		}
		if of.Capacity < 1 {
			return
		}
		count := 1 + int64(d.Float64()*(of.Capacity-1))
		left := int64(whole.Capacity - of.Capacity)
		_, want := must2(whole.Step(r.state, r.now, runtime.Request{Op: runtime.Check, Count: count + left}))
		next, got := must2(of.Step(r.state, r.now, take(count)))
		require.Equal(t, want.Allowed, got.Allowed, "%+v leaves %d of %v, and takes %d", r.policy, left, whole.Capacity, count)
		require.InDelta(t, float64(want.RetryAfter), float64(got.RetryAfter), 2+float64(want.RetryAfter)*1e-12, "%+v leaves %d, and takes %d", r.policy, left, count)
		compared++
		if !got.Allowed {
			denied++
		}
		if d.IntN(2) == 0 {
			r.state = next
		} else {
			r.state, _, _ = whole.Step(r.state, r.now, take(1+int64(d.Float64()*(whole.Capacity-1))))
		}
	})
	require.Greater(t, compared, 1000)
	require.Greater(t, denied, compared/10)
}

// Shards lose none of the tokens that a class has taken from several of them and returns, whatever its part of each is.
func TestPriorityConservesTokensOfShards(t *testing.T) {
	for capacity := int64(4); capacity < 40; capacity++ {
		for leaves := 1; leaves < 60; leaves += 7 {
			whole := runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 4, Period: time.Hour, Capacity: capacity, Shards: 4}
			class := whole
			class.Priority = runtime.Priority{Name: "batch", Leaves: leaves}
			if class.Validate() != nil {
				continue
			}
			states, now := make([]runtime.State, 4), epoch.UnixNano()
			d := must(meter.StepShards(&class, states, "k", now, take(class.Full()), 0))
			require.True(t, d.Allowed)
			left := must(meter.StepShards(&whole, states, "k", now, peek(), 0))
			require.Equal(t, capacity-class.Full(), left.Remaining, "capacity %d, of which %d%% are left", capacity, leaves)
			refund := runtime.Request{Op: runtime.Refund, Count: class.Full(), TakenAt: now, Total: d.Receipt.Total, Shard: d.Receipt.Shard}
			must(meter.StepShards(&class, states, "k", now, refund, 0))
			back := must(meter.StepShards(&whole, states, "k", now, peek(), 0))
			require.Equal(t, capacity, back.Remaining, "capacity %d, of which %d%% were left", capacity, leaves)
		}
	}
}

// An adversary that may take as every class, in any order, reaches the worst case of a class exactly, as it is explained for
// a limit with the capacity that the class has: in an interval, that capacity and what is granted in it. No order of takes
// exceeds it.
func TestPriorityWorstCaseIsReachedAndNotExceeded(t *testing.T) {
	const steps = 5
	for _, test := range []struct {
		name   string
		policy runtime.Policy
		// step is the time between two takes, in each of which granted tokens are granted.
		step    time.Duration
		granted int64
	}{
		{"token bucket", runtime.Policy{Kind: runtime.TokenBucket, Rate: 2, Period: time.Second, Capacity: 7}, 500 * time.Millisecond, 1},
		{"fixed window", runtime.Policy{Kind: runtime.FixedWindow, Rate: 7, Period: time.Second, Capacity: 7, Start: runtime.StartOffset(0)}, time.Second, 7},
		{"fixed window, tokens roll over", runtime.Policy{Kind: runtime.FixedWindow, Rate: 3, Period: time.Second, Capacity: 8, Start: runtime.StartOffset(0)}, time.Second, 3},
	} {
		test.policy.Name = "limit"
		for _, leaves := range []int{0, 1, 30, 50, 80} {
			class := test.policy
			class.Priority = runtime.Priority{Name: "class", Leaves: leaves}
			require.NoError(t, class.Validate())
			whole, of := meter.RuleOf(&test.policy, ""), meter.RuleOf(&class, "")
			// most has the most that the class can have taken until a row is in a state, whatever was taken before the interval.
			most, now := map[runtime.State]int64{{}: 0}, epoch.UnixNano()
			for i := range steps {
				worst, next := int64(0), map[runtime.State]int64{}
				for state, sum := range most {
					for others := range test.policy.Capacity + 1 {
						before, d := must2(whole.Step(state, now, take(others)))
						if !d.Allowed {
							continue
						}
						for n := range class.Full() + 1 {
							after, d := must2(of.Step(before, now, take(n)))
							if d.Allowed {
								next[after], worst = max(next[after], sum+n), max(worst, sum+n)
							}
						}
					}
				}
				granted := int64(i) * min(test.granted, class.Full())
				require.Equal(t, class.Full()+granted, worst, "%s, %d%% left, %d steps", test.name, leaves, i)
				most, now = next, now+int64(test.step)
			}
		}
	}
}

// A denied request of a class passes after RetryAfter, and no earlier than by the microsecond that is allowed for roundings,
// if no other one takes anything. In a bucket that is the instant at which its last token is due, to the nanosecond, and in
// a window its first one.
func TestPriorityRetryAfterIsExact(t *testing.T) {
	d := runtimetest.Roll(43)
	denied := map[runtime.Kind]int{}
	for range 20_000 {
		p := runtime.Policy{Name: "limit", Kind: []runtime.Kind{runtime.TokenBucket, runtime.FixedWindow, runtime.SlidingWindow}[d.IntN(3)],
			Rate: 1 + int64(d.IntN(100)), Period: time.Duration(1+d.IntN(1000)) * time.Second, Capacity: 1 + int64(d.IntN(200))}
		if p.Kind == runtime.SlidingWindow {
			p.Capacity = p.Rate
		}
		class := p
		class.Priority = runtime.Priority{Name: "batch", Leaves: d.IntN(100)}
		if class.Validate() != nil {
			continue
		}
		whole, of, begun := meter.RuleOf(&p, ""), meter.RuleOf(&class, ""), epoch.UnixNano()
		taken := int64(d.IntN(int(p.Capacity) + 1))
		state, _ := must2(whole.Step(runtime.State{}, begun, take(taken)))
		now := begun + int64(d.Float64()*float64(p.Period))
		q := take(1 + int64(d.IntN(int(class.Full()))))
		_, answer := must2(of.Step(state, now, q))
		if answer.Allowed {
			continue
		}
		denied[p.Kind]++
		at, earlier := now+int64(answer.RetryAfter), int64(2*time.Microsecond)
		switch p.Kind {
		case runtime.TokenBucket:
			due := new(big.Rat).SetFrac64((taken+q.Count-class.Full())*int64(p.Period), p.Rate)
			exact, _ := due.Float64()
			require.InDelta(t, exact, float64(at-begun), 1, "%+v takes %d", class, q.Count)
		case runtime.FixedWindow:
			earlier = 1
		}
		_, then := must2(of.Step(state, at, q))
		_, before := must2(of.Step(state, at-earlier, q))
		require.True(t, then.Allowed, "%+v takes %d after %v", class, q.Count, answer.RetryAfter)
		require.False(t, before.Allowed, "%+v takes %d %v before %v", class, q.Count, time.Duration(earlier), answer.RetryAfter)
	}
	require.Len(t, denied, 3)
	for kind, n := range denied {
		require.Greater(t, n, 1000, "%v", kind)
	}
}
