package judge

import (
	"fmt"
	"math/big"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/gen/review/compare"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// pairOf returns a limit before and after an edit.
func pairOf(t *testing.T, old, new string) (was, is *spec.Limit) {
	t.Helper()
	const head = "version: 1\nlimits:\n  send: {key: userID, maxReserved: 0, "
	return parse(t, "old", head+old+"}\n").Limits[0], parse(t, "new", head+new+"}\n").Limits[0]
}

func TestTogetherByExample(t *testing.T) {
	const bucket, window = "kind: token bucket, rate: 100, period: 1m", "kind: fixed window, rate: 100, period: 1m"
	for _, test := range []struct {
		old, new   string
		once, rate int64
	}{
		{bucket, bucket + ", shards: 4", 175, 175},
		{bucket, bucket + ", capacity: 120", 120, 100},
		{"kind: token bucket, rate: 10, period: 1m, capacity: 20", bucket + ", capacity: 10", 20, 100},
		{window, window + ", capacity: 120", 120, 120},
		{window + ", start: first use", window + ", start: first use, capacity: 50", 100, 100},
		{"kind: fixed window, rate: 100, period: day, zone: per key", "kind: fixed window, rate: 60, period: day, zone: per key", 100, 100},
	} {
		old, new := pairOf(t, test.old, test.new)
		once, bounded := Together(old, new)
		rate, known := longRunTogether(old, new)
		assert.True(t, bounded && known)
		assert.Equal(t, test.once, once, "%s to %s", test.old, test.new)
		assert.Equal(t, test.rate, rate, "%s to %s", test.old, test.new)
	}
}

func TestTogetherIsNotBoundedIfWindowsDiffer(t *testing.T) {
	const bucket, window = "kind: token bucket, rate: 100, period: 1m", "kind: fixed window, rate: 100, period: 1m"
	for _, test := range []struct{ old, new string }{
		{bucket, window},
		{window + ", start: 0s", window + ", start: 12s"},
		{window, window + ", start: first use"},
		{window, "kind: fixed window, rate: 100, period: 2m"},
		{window, "kind: fixed window, rate: 100, period: day, zone: UTC"},
		{"kind: fixed window, rate: 100, period: day, zone: UTC", "kind: fixed window, rate: 100, period: day, zone: per key"},
		{"kind: sliding window, rate: 100, period: 1m", "kind: sliding window, rate: 100, period: 1m, precise: true"},
	} {
		old, new := pairOf(t, test.old, test.new)
		_, bounded := Together(old, new)
		assert.False(t, bounded, "%s to %s", test.old, test.new)
		assert.Contains(t, togetherInWords(compare.Pair{Old: old, New: new}), "may get more than with either version alone")
	}
}

// Windows with an offset derived from the key start together if one period divides the other.
func TestCarriedIfOnePeriodDividesTheOther(t *testing.T) {
	old, new := pairOf(t, "kind: fixed window, rate: 100, period: 1h", "kind: fixed window, rate: 2400, period: 1d")
	assert.Equal(t, int64(2300), compare.Carried(old, new), "100 of 2400 are used")
	old, new = pairOf(t, "kind: fixed window, rate: 2400, period: 1d", "kind: fixed window, rate: 100, capacity: 5000, period: 1h")
	assert.Equal(t, int64(2600+2300), compare.Carried(old, new), "2400 of 5000 are used, and 23 hours start within a day")
}

// The numbers are checked against what the rows of the old shards hold under the rules of the new ones.
func TestTokensUsedInAddedAndRemovedShards(t *testing.T) {
	d := roll(7)
	const now = int64(1e18)
	for range 300 {
		was := d.policy()
		was.Shards = choose(d, 1, 2, 3, 5, 8)
		is := was
		is.Shards = choose(d, 1, 2, 3, 5, 8)
		if was.Validate() != nil || is.Validate() != nil || was.Kind == runtime.SlidingWindow {
			continue
		}
		used := filledShards(&was, func(r meter.Rule) float64 { return -r.Capacity }, now)
		switch {
		case is.Shards > was.Shards:
			require.Zero(t, heldByRows(&is, used, now), "%+v to %d", was, is.Shards)
		case is.Shards < was.Shards:
			gain := heldByRows(&is, used[:is.Shards], now)
			require.Equal(t, gain, float64(inShards(&was, was.Capacity, is.Shards, was.Shards)), "%+v to %d", was, is.Shards)
			if was.MaxReserved < runtime.Unbounded {
				owing := filledShards(&was, func(r meter.Rule) float64 { return -r.Capacity - r.Debt }, now)
				forgotten := float64(was.MaxReserved) + heldByRows(&is, owing[:is.Shards], now) - gain
				require.Equal(t, forgotten, float64(inShards(&was, was.MaxReserved, is.Shards, was.Shards)), "%+v to %d", was, is.Shards)
			}
		}
	}
}

// filledShards fills the rows of a key by a value of each shard.
func filledShards(p *runtime.Policy, of func(meter.Rule) float64, now int64) (states []runtime.State) {
	for i := range max(1, p.Shards) {
		states = append(states, runtime.State{Value: of(meter.RuleOf(p, "key").Shard(i, max(1, p.Shards))), TS: now, Exists: true})
	}
	return states
}

// heldByRows returns how many tokens the rows of a key have under a policy. Rows that are missing are full.
func heldByRows(p *runtime.Policy, states []runtime.State, now int64) (tokens float64) {
	for i := range max(1, p.Shards) {
		rule, state := meter.RuleOf(p, "key").Shard(i, max(1, p.Shards)), runtime.State{}
		if i < len(states) {
			state = states[i]
		}
		_, d, _ := rule.Step(state, now, runtime.Request{Op: runtime.Peek})
		tokens += d.Value
	}
	return tokens
}

// The offsets of random keys may miss the worst case, so it is enough to come close to the number if any offset is possible.
func TestCarriedIsReachedAndNotExceeded(t *testing.T) {
	d := roll(12)
	tried, reached, close := 0, 0, 0
	for range pairs() {
		old := d.bounded()
		old.Shards, old.Lease = 0, runtime.Lease{}
		new := d.edited(old)
		if new.Shards > 1 || old.Full() == 0 {
			continue
		}
		most, found := compare.Carried(limitOf(old, true), limitOf(new, true)), int64(0)
		for i := range 15 {
			key := fmt.Sprint("user", i)
			after := meter.RuleOf(&new, key)
			exhaustKey(d, &old, &new, key, func(state runtime.State, at int64) {
				_, left, err := after.Step(state, at, runtime.Request{Op: runtime.Peek})
				require.NoError(t, err)
				require.LessOrEqual(t, left.Remaining, most, "%+v\nat %d of %+v\nto %+v", state, at, old, new)
				found = max(found, left.Remaining)
			})
		}
		tried++
		switch {
		case found == most:
			reached++
		case 10*found >= 7*most-20 && compare.GridOf(limitOf(old, true), limitOf(new, true)).Step == 1:
			close++
		default:
			t.Logf("%d found, not %d\nof %+v\nto %+v", found, most, old, new)
		}
	}
	t.Logf("%d edits tried, %d reached, %d close", tried, reached, close)
	assert.GreaterOrEqual(t, 100*(reached+close), 97*tried)
}

// exhaustKey exhausts a key by a rule in all ways that could matter for a deploy to another rule, and in random ways. It
// passes the stored states to look, each with instants at which the key is exhausted.
func exhaustKey(d dice, old, new *runtime.Policy, key string, look func(state runtime.State, at int64)) {
	old = paced(old)
	e := exhauster{policy: old, rule: meter.RuleOf(old, key), other: meter.RuleOf(paced(new), key), look: look}
	begin := e.rule.Phase + 40*e.rule.Period
	edge := begin - compare.FloorMod(begin-e.other.Phase, e.other.Period) + choose[int64](d, 1, 2, 3)*e.other.Period
	near := edge - compare.FloorMod(edge-e.rule.Phase, e.rule.Period)
	for _, now := range []int64{begin, near, begin - 1, begin + e.rule.Period/3} {
		e.systematically(begin, now)
	}
	state, now := runtime.State{}, begin+d.Int64N(e.rule.Period)
	for range 20 {
		state = e.take(state, now, choose(d, 1, old.Capacity, 1+d.Int64N(old.Capacity+old.MaxReserved)), old.Reserves())
		state = e.takeAll(state, now)
		now += d.jump(*old, min(e.due(state, now, 1), 20*old.Period))
	}
}

type exhauster struct {
	policy      *runtime.Policy
	rule, other meter.Rule
	look        func(state runtime.State, at int64)
}

func (e *exhauster) systematically(begin, now int64) {
	rate, most := e.policy.Rate, e.policy.MaxReserved
	empty := e.takeAll(runtime.State{}, now)
	for _, debt := range []int64{1, rate, most / 2, most, most / rate * rate} {
		e.take(empty, now, debt, true)
	}
	if e.rule.FirstUse { // a window that starts with part of a token
		for _, owed := range []int64{0, most} {
			state := e.take(empty, now, max(1, owed), true)
			due := int64(e.due(state, now, 1))
			for part := range int64(3) {
				e.takeAll(state, now+due+e.rule.Period/rate-1-part)
				e.takeAll(empty, now+e.rule.Period+e.rule.Period/rate-1-part)
			}
		}
	}
	if compare.Sliding(e.policy) && !e.rule.Precise { // some tokens used soon after a window that used all
		begin := max(begin, now-compare.FloorMod(now-e.rule.Phase, e.rule.Period))
		used := e.takeAll(runtime.State{}, begin-1)
		for count := int64(1); count <= min(rate, 600); count++ {
			e.take(used, begin+int64(e.due(used, begin, count)), count, false)
		}
	}
}

func (e *exhauster) take(state runtime.State, now, count int64, reserve bool) runtime.State {
	next, decision, err := e.rule.Step(state, now, runtime.Request{Count: count, Reserve: reserve})
	if err == nil && decision.Allowed {
		e.inspect(next, now)
		return next
	}
	return state
}

func (e *exhauster) takeAll(state runtime.State, now int64) runtime.State {
	return e.take(state, now, e.peek(state, now).Remaining, false)
}

func (e *exhauster) peek(state runtime.State, now int64) runtime.Decision {
	_, d, _ := e.rule.Step(state, now, runtime.Request{Op: runtime.Peek})
	return d
}

func (e *exhauster) due(state runtime.State, now, count int64) time.Duration {
	_, d, _ := e.rule.Step(state, now, runtime.Request{Op: runtime.Check, Count: count})
	return d.RetryAfter
}

// almostWhole is close enough to a token that rounding decides whether it is one.
const almostWhole = 1 - 2e-6

// inspect passes a state to look at the instants that matter: now, just before the next token, half way to it, and around
// the ends of the other rule's windows.
func (e *exhauster) inspect(state runtime.State, now int64) {
	instants := []int64{now}
	if _, one, err := e.rule.Step(state, now, runtime.Request{Op: runtime.Check, Count: 1}); err == nil && one.RetryAfter < 1<<60 {
		end := now + int64(one.RetryAfter)
		empty := sort.Search(int(end-now), func(after int) bool { return e.peek(state, now+int64(after)).Value >= almostWhole })
		instants = append(instants, now+int64(empty)-1, now+int64(one.RetryAfter)/2)
		period := e.other.Period
		for _, edge := range []int64{end - compare.FloorMod(end-e.other.Phase, period), state.TS - compare.FloorMod(state.TS-e.other.Phase, period) + period} {
			instants = append(instants, edge-1, edge, edge+period-1, edge+period)
		}
	}
	for _, at := range instants {
		if left := e.peek(state, at).Value; at >= now && left >= 0 && left < almostWhole {
			e.look(state, at)
		}
	}
}

func TestTogetherIsReachedAndNotExceeded(t *testing.T) {
	d := roll(13)
	tried, reached, close, longRuns, longRunsReached := 0, 0, 0, 0, 0
	for range 4 * pairs() {
		p := d.bounded()
		old := *bounds.Unreserved(&p)
		q := d.edited(old)
		new := *bounds.Unreserved(&q)
		old.Lease, new.Lease = runtime.Lease{}, runtime.Lease{}
		if old.Validate() != nil || new.Validate() != nil || old == new {
			continue
		}
		bound, bounded := Together(limitOf(old, true), limitOf(new, true))
		if !bounded {
			continue
		}
		found := int64(0)
		for i := range 60 {
			found = max(found, sideBySide(d, &old, &new, fmt.Sprint("user", i)))
		}
		require.LessOrEqual(t, found, bound, "%+v\nto %+v", old, new)
		tried++
		if rate, ok := longRun(&old, &new); ok {
			longest := max(old.Period, new.Period)
			windows := roundUp(big.NewRat(40*int64(longest), int64(new.Period)))
			sum := takenOverTime(d, &old, &new, 40*int64(longest))
			require.LessOrEqual(t, sum, bound+rate*(windows+windows/20+2), "%+v\nto %+v", old, new)
			if 10*sum >= 9*rate*windows {
				longRunsReached++
			}
			longRuns++
		}
		switch {
		case found == bound:
			reached++
		case 10*found >= 8*bound-20:
			close++
		default:
			t.Errorf("%d found, not %d\nof %+v\nto %+v", found, bound, old, new)
		}
	}
	t.Logf("%d edits tried, %d reached, %d close; %d long runs tried, %d within a tenth", tried, reached, close, longRuns, longRunsReached)
	assert.Greater(t, 3*longRunsReached, longRuns)
}

// longRun is longRunTogether for limits that grant tokens.
func longRun(old, new *runtime.Policy) (tokens int64, known bool) {
	if compare.InFlight(old) || compare.InFlight(new) {
		return 0, false
	}
	return longRunTogether(limitOf(*old, true), limitOf(*new, true))
}

// takenOverTime lets two versions take from the rows of one key for a time, in random order, and returns how much they take.
func takenOverTime(d dice, old, new *runtime.Policy, length int64) (sum int64) {
	c := newCaller(d, old, new)
	begin := int64(1e18)
	step := max(length/4000, min(int64(old.Period)*max(1, old.Capacity)/old.Rate, int64(new.Period)*max(1, new.Capacity)/new.Rate, int64(old.Period), int64(new.Period))/2)
	for now := begin; now < begin+length; now += step {
		first := d.IntN(2)
		for turn := range 2 {
			p := c.versions[(first+turn)%2]
			if count := c.peek(p, now).Remaining; count > 0 && c.take(p, now, count) {
				sum += count
			}
		}
	}
	return sum
}

// sideBySide lets two versions take from the rows of one key at random instants near the ends of windows, and returns
// the most that they take at one of them.
func sideBySide(d dice, old, new *runtime.Policy, key string) (found int64) {
	rules := []meter.Rule{meter.RuleOf(paced(old), key), meter.RuleOf(paced(new), key)}
	near := func(now int64) int64 {
		r := choose(d, rules...)
		if r.Kind == runtime.TokenBucket || d.IntN(4) == 0 {
			return now + d.Int64N(r.Period)
		}
		return now - compare.FloorMod(now-r.Phase, r.Period) + choose[int64](d, 1, 2)*r.Period - choose[int64](d, 0, 1)
	}
	for range 12 {
		c := newCaller(d, old, new)
		now := near(rules[0].Phase + 40*rules[0].Period)
		if opens := choose(d, old, new); d.IntN(3) == 0 && opens.Start.FirstUse() && opens.Capacity > 0 {
			c.take(opens, now-int64(opens.Period)+1, 1)
		}
		for range 3 {
			// One version takes what the row has for it, then the other one.
			sum := int64(0)
			first := d.IntN(2)
			for turn := range 4 {
				p := c.versions[(first+turn)%2]
				count := compare.TokensLeft(p, c.rows[:max(1, p.Shards)], now)
				if p.Kind != runtime.TokenBucket && !p.Start.FirstUse() {
					count = compare.TokensLeft(compare.WithWindowAt(p, rules[(first+turn)%2].Phase), c.rows[:max(1, p.Shards)], now)
				}
				if d.IntN(3) == 0 {
					count = min(count, choose(d, 1, 1+d.Int64N(count+1)))
				}
				if count > 0 {
					phased := compare.WithWindowAt(p, rules[(first+turn)%2].Phase)
					// A rounding may deny a count that is just not available.
					decision, err := c.do(phased, now, runtime.Request{Count: count})
					if err == nil && decision.Allowed {
						sum += count
					}
				}
			}
			found = max(found, sum)
			now = near(now)
		}
	}
	return found
}
