package review

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// use is a number of tokens that are used at an instant.
type use struct{ at, tokens int64 }

// most returns the most tokens used in an interval of a length, its first and last instant included.
func most(uses []use, length int64) (most int64) {
	slices.SortFunc(uses, func(a, b use) int { return cmp.Compare(a.at, b.at) })
	sum, first := int64(0), 0
	for _, u := range uses {
		sum += u.tokens
		for ; u.at-uses[first].at > length; first++ {
			sum -= uses[first].tokens
		}
		most = max(most, sum)
	}
	return most
}

// drains takes all that there is at each of some instants, but one token at the first if it only opens a
// window, and returns what was used.
func drains(t *testing.T, p *runtime.Policy, opens bool, instants []int64) (uses []use) {
	t.Helper()
	rule, state := p.Rule(""), runtime.State{}
	for i, at := range instants {
		_, d, err := rule.Step(state, at, runtime.Request{Op: runtime.Peek})
		require.NoError(t, err)
		count := d.Remaining
		if i == 0 && opens {
			count = 1
		}
		if count > 0 {
			state, d, err = rule.Step(state, at, runtime.Request{Count: count})
			require.NoError(t, err)
			require.True(t, d.Allowed)
			uses = append(uses, use{at, count})
		}
	}
	return uses
}

// blocks takes a block of a lease as soon as there is one, and uses them all at an instant. From then on it takes
// all that there is, until an end.
func blocks(t *testing.T, p *runtime.Policy, now, used, end int64) (uses []use) {
	t.Helper()
	rule, state := p.Rule(""), runtime.State{}
	for {
		next, d, err := rule.Step(state, now, runtime.Request{Count: p.Lease.Tokens})
		require.NoError(t, err)
		if state = next; d.Allowed {
			uses = append(uses, use{used, p.Lease.Tokens})
		} else if now += int64(d.RetryAfter); now > used {
			break
		}
	}
	for _, at := range every(used, end, max(1, int64(p.Period)*p.Capacity/p.Rate)) {
		_, d, err := rule.Step(state, at, runtime.Request{Op: runtime.Peek})
		require.NoError(t, err)
		if d.Remaining > 0 {
			state, _, err = rule.Step(state, at, runtime.Request{Count: d.Remaining})
			require.NoError(t, err)
			uses = append(uses, use{at, d.Remaining})
		}
	}
	return uses
}

// ceil returns a/b, rounded up.
func ceil(a, b int64) int64 { return (a + b - 1) / b }

// every returns the instants from one to another, a step apart and the last included.
func every(from, to, step int64) (instants []int64) {
	for at := from; at < to; at += step {
		instants = append(instants, at)
	}
	return append(instants, to)
}

// greedy returns the most that callers who take all there is, at the worst of times, use in an interval.
func greedy(t *testing.T, p *runtime.Policy, length int64) int64 {
	t.Helper()
	rule, period := p.Rule(""), int64(p.Period)
	begin := rule.Phase + 4*period
	switch {
	case p.Kind == runtime.TokenBucket && p.Lease.Tokens > 0:
		return most(blocks(t, p, begin, begin+int64(p.Lease.For), begin+int64(p.Lease.For)+length), length)
	case p.Kind == runtime.TokenBucket:
		return most(drains(t, p, false, every(begin, begin+length, max(1, period*p.Capacity/p.Rate))), length)
	case p.Kind == runtime.SlidingWindow:
		return most(drains(t, p, false, every(begin-1, begin-1+length, period)), length)
	case !p.Start.FirstUse():
		early := most(drains(t, p, false, append([]int64{begin - 1}, every(begin, begin-1+length, period)...)), length)
		return max(early, most(drains(t, p, false, every(begin, begin+length, period)), length))
	}
	best := most(drains(t, p, false, append([]int64{begin}, parts(begin, length, max(1, length/period))...)), length)
	opened := begin - period + 1
	instants := append([]int64{opened, begin}, parts(opened, length+period-1, max(1, ceil(length, period)))...)
	return max(best, most(drains(t, p, true, instants), length))
}

// parts returns the ends of n equal parts of an interval.
func parts(from, length, n int64) (ends []int64) {
	for i := range n {
		ends = append(ends, from+length/n*(i+1)+length%n*(i+1)/n)
	}
	return ends
}

// lengths are intervals in which a greedy caller does not ask too often for a test.
func lengths(p *runtime.Policy) (list []int64) {
	for _, length := range []time.Duration{0, p.Period / 3, p.Period, 7 * p.Period / 2, time.Minute, time.Hour, 24 * time.Hour} {
		if length <= 2000*p.Period {
			list = append(list, int64(length))
		}
	}
	return list
}

func TestWithinIsReached(t *testing.T) {
	d := roll(2)
	reached := map[string]int{}
	for range 300 {
		p := d.policy()
		p.MaxReserved = 0 // with reservations: TestAdversary
		for _, length := range lengths(&p) {
			require.Equal(t, Within(&p, time.Duration(length)), greedy(t, &p, length), "%v of %+v", time.Duration(length), p)
			reached[p.Kind.String()]++
		}
	}
	assert.Len(t, reached, 3)
}

func TestALeaseAddsAsMuchAsIsSaid(t *testing.T) {
	d := roll(8)
	for range 1000 {
		p := d.policy()
		if p.Kind != runtime.TokenBucket || p.Lease.Tokens == 0 || p.MaxReserved == runtime.Unbounded {
			continue
		}
		unleased, more := p, leasedMore(&p)
		unleased.Lease = runtime.Lease{}
		for _, length := range append(lengths(&p), d.Int64N(5*int64(p.Period))) {
			t1 := time.Duration(length)
			require.LessOrEqual(t, Within(&p, t1)-Within(&unleased, t1), more, "%v of %+v", t1, p)
		}
		if more == 0 {
			continue
		}
		last := time.Duration(sort.Search(int(2*p.Period), func(length int) bool { // when the last of them is used
			return Within(&p, time.Duration(length)) >= p.Capacity+p.MaxReserved+more
		}))
		require.Equal(t, more, Within(&p, last)-Within(&unleased, last), "%+v", p)
	}
}

// lent is a block of a lease that has been taken: what is left of it, when it was taken, and the last instant at
// which it can be spent.
type lent struct{ left, taken, end int64 }

// lend takes a block, and returns it if there was one.
func lend(t *testing.T, rule *runtime.Rule, lease runtime.Lease, state runtime.State, now int64) (runtime.State, []lent) {
	t.Helper()
	next, decision, err := rule.Step(state, now, runtime.Request{Count: lease.Tokens})
	require.NoError(t, err)
	if !decision.Allowed {
		return state, nil
	}
	b := lent{left: lease.Tokens, taken: now, end: now + int64(lease.For)}
	if end := rule.WindowEnd(now); end < math.MaxInt64 {
		b.end = min(b.end, end-1)
	}
	return next, []lent{b}
}

// lease has random processes take blocks, spend them until their end, and give back what is left, and returns
// what was used. Others take by themselves.
func lease(t *testing.T, d dice, p *runtime.Policy) (uses []use) {
	t.Helper()
	rule, state := p.Rule("key"), runtime.State{}
	now := rule.Phase + 3*int64(p.Period) + d.Int64N(int64(p.Period))
	var blocks []lent
	for range 300 {
		taken := []lent(nil)
		switch d.IntN(4) {
		case 0, 1:
			state, taken = lend(t, &rule, p.Lease, state, now)
			blocks = append(blocks, taken...)
		case 2:
			count := choose(d, 1, 1+d.Int64N(p.Capacity+min(p.MaxReserved, 1000)), max(1, min(p.MaxReserved, 1000)))
			next, decision, err := rule.Step(state, now, runtime.Request{Count: count, Reserve: p.Reserves()})
			require.True(t, err == nil || !p.Reserves(), err)
			if state = next; decision.Allowed {
				uses = append(uses, use{now + int64(decision.Delay), count})
			}
		}
		later := now + d.jump(*p, p.Period/time.Duration(p.Rate))
		if len(blocks) > 0 && d.IntN(2) == 0 {
			later = max(now, blocks[0].end)
		}
		for len(blocks) > 0 && blocks[0].end <= later {
			b := blocks[0]
			blocks = blocks[1:]
			spent := choose(d, 0, b.left, b.left, d.Int64N(b.left+1))
			uses = append(uses, use{now + choose(d, 0, b.end-now, d.Int64N(b.end-now+1)), spent})
			if back := b.left - spent; back > 0 {
				var err error
				state, _, err = rule.Step(state, later, runtime.Request{Op: runtime.Refund, Count: back, TakenAt: b.taken})
				require.NoError(t, err)
			}
		}
		now = later
	}
	return uses
}

func TestWithinOfLeasesIsNeverPassed(t *testing.T) {
	d := roll(9)
	tightest := map[runtime.Kind]int64{}
	for range 400 {
		p := d.policy()
		if p.Lease.Tokens == 0 {
			continue
		}
		uses := lease(t, d, &p)
		for _, length := range append(lengths(&p), d.Int64N(5*int64(p.Period))) {
			room := Within(&p, time.Duration(length)) - most(uses, length)
			require.GreaterOrEqual(t, room, int64(0), "%v of %+v", time.Duration(length), p)
			if before, ok := tightest[p.Kind]; !ok || room < before {
				tightest[p.Kind] = room
			}
		}
	}
	require.Equal(t, map[runtime.Kind]int64{runtime.TokenBucket: 0, runtime.FixedWindow: 0, runtime.SlidingWindow: 0}, tightest, "some trace comes up to the number")
}

// wander makes random calls of a policy: it takes or reserves counts, and hands each decision to look.
func wander(t *testing.T, d dice, p *runtime.Policy, look func(now int64, q runtime.Request, after runtime.State, decision runtime.Decision)) {
	t.Helper()
	rule, state := p.Rule("key"), runtime.State{}
	now := rule.Phase + 3*int64(p.Period) + d.Int64N(int64(p.Period))
	for range 200 {
		q := runtime.Request{Count: choose(d, 1, 1, p.Capacity, 1+d.Int64N(p.Capacity))}
		if p.Reserves() && d.IntN(2) == 0 {
			q = runtime.Request{Count: choose(d, 1, 1+d.Int64N(p.Capacity+min(p.MaxReserved, 1000)), min(p.MaxReserved, 1000)), Reserve: true}
		}
		next, decision, err := rule.Step(state, now, q)
		require.NoError(t, err)
		if state = next; decision.Allowed {
			look(now, q, state, decision)
		}
		if d.IntN(3) > 0 {
			now += d.jump(*p, min(decision.RetryAfter, 2*p.Period))
		}
	}
}

func TestWithinIsNeverPassed(t *testing.T) {
	d := roll(3)
	for range 400 {
		p := d.policy()
		var uses []use
		wander(t, d, &p, func(now int64, q runtime.Request, _ runtime.State, decision runtime.Decision) {
			uses = append(uses, use{now + int64(decision.Delay), q.Count})
		})
		for _, length := range append(lengths(&p), d.Int64N(5*int64(p.Period))) {
			require.LessOrEqual(t, most(uses, length), Within(&p, time.Duration(length)), "%v of %+v", time.Duration(length), p)
		}
	}
}

func TestNobodyTakesMoreAtOnce(t *testing.T) {
	d := roll(4)
	for range 300 {
		p := d.policy()
		rule := p.Rule("key")
		_, decision, err := rule.Step(runtime.State{}, 1, runtime.Request{Count: p.Capacity})
		require.NoError(t, err)
		assert.True(t, decision.Allowed)
		_, _, err = rule.Step(runtime.State{}, 1, runtime.Request{Count: p.Capacity + 1})
		assert.ErrorIs(t, err, runtime.ErrExceedsCapacity)
		if most := LargestReservation(&p); most > 0 && most < runtime.Unbounded {
			_, decision, err = rule.Step(runtime.State{}, 1, runtime.Request{Count: most, Reserve: true})
			require.NoError(t, err)
			assert.True(t, decision.Allowed)
			_, _, err = rule.Step(runtime.State{}, 1, runtime.Request{Count: most + 1, Reserve: true})
			assert.ErrorIs(t, err, runtime.ErrExceedsCapacity)
		}
	}
}

// rounding is that of the instants at which tokens are due.
const rounding = 10 * time.Nanosecond

func TestFullAfterAndLongestDelayAreNeverPassed(t *testing.T) {
	d := roll(5)
	for range 300 {
		p := d.policy()
		full, delay, reserved := FullAfter(&p), LongestDelay(&p), false
		wander(t, d, &p, func(now int64, _ runtime.Request, after runtime.State, decision runtime.Decision) {
			if p.Reserves() {
				require.LessOrEqual(t, decision.Delay, max(delay, delay+rounding), "%+v", p)
			}
			if reserved = reserved || after.Value < 0; !reserved {
				require.LessOrEqual(t, decision.FullAfter, full+rounding, "%+v at %d of %+v", after, now, p)
			}
		})
	}
}

// A limit with shards admits no more, at once or in an interval, and a full one admits as much.
func TestShardsPassNoNumber(t *testing.T) {
	d := roll(6)
	for range 60 {
		p := d.policy()
		if p.Shards = choose(d, 2, 3, 7); p.Validate() != nil {
			continue
		}
		at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
		now := at
		store := runtime.MemStore{Clock: func() time.Time { return now }}
		ask := func(q runtime.Request) runtime.Decision {
			q.Policy, q.Key = &p, "key"
			answers, err := store.Do(t.Context(), []runtime.Call{{Requests: []runtime.Request{q}}})
			require.NoError(t, err)
			require.NoError(t, answers[0].Err)
			return answers[0].Decisions[0]
		}
		require.True(t, ask(runtime.Request{Count: p.Capacity}).Allowed)
		require.False(t, ask(runtime.Request{Count: 1}).Allowed)
		uses := []use{{now.UnixNano(), p.Capacity}}
		for range 100 {
			now = now.Add(time.Duration(d.jump(p, p.Period/time.Duration(p.Rate))))
			if left := ask(runtime.Request{Op: runtime.Peek}).Remaining; left > 0 && ask(runtime.Request{Count: left}).Allowed {
				uses = append(uses, use{now.UnixNano(), left})
			}
		}
		for _, length := range lengths(&p) {
			require.LessOrEqual(t, most(uses, length), Within(&p, time.Duration(length)), "%v of %+v", time.Duration(length), p)
		}
	}
}

// shares fills the rows of a key with what each of its shards can hold at most, or owes at most.
func shares(p *runtime.Policy, of func(runtime.Rule) float64, now int64) (states []runtime.State) {
	for i := range max(1, p.Shards) {
		states = append(states, runtime.State{Value: of(p.Rule("key").Shard(i, max(1, p.Shards))), TS: now, Exists: true})
	}
	return states
}

// held returns what the rows of a key hold together under a policy, of which some are not stored.
func held(p *runtime.Policy, states []runtime.State, now int64) (tokens float64) {
	for i := range max(1, p.Shards) {
		rule, state := p.Rule("key").Shard(i, max(1, p.Shards)), runtime.State{}
		if i < len(states) {
			state = states[i]
		}
		_, d, _ := rule.Step(state, now, runtime.Request{Op: runtime.Peek})
		tokens += d.Value
	}
	return tokens
}

// What is said of shards is what the rows of the old ones hold under the rules of the new ones.
func TestShardsHoldWhatIsSaid(t *testing.T) {
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
		empty := shares(&was, func(runtime.Rule) float64 { return 0 }, now)
		full := shares(&was, func(r runtime.Rule) float64 { return r.Capacity }, now)
		switch {
		case is.Shards > was.Shards:
			require.Equal(t, float64(heldBy(&is, was.Shards, is.Shards)), held(&is, empty, now), "%+v to %d", was, is.Shards)
		case is.Shards < was.Shards:
			kept := held(&is, full[:is.Shards], now)
			require.Equal(t, float64(was.Capacity)-kept, float64(heldBy(&was, is.Shards, was.Shards)), "%+v to %d", was, is.Shards)
			if was.MaxReserved < runtime.Unbounded {
				owing := shares(&was, func(r runtime.Rule) float64 { return -r.Debt }, now)
				forgotten := float64(was.MaxReserved) + held(&is, owing[:is.Shards], now)
				require.Equal(t, forgotten, float64(owedBy(&was, is.Shards, was.Shards)), "%+v to %d", was, is.Shards)
			}
		}
	}
}
