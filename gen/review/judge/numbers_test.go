package judge

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

func TestNumbersAreReachedAndNotExceeded(t *testing.T) {
	d := roll(11)
	y := &tally{map[string]int{}, map[string]int{}}
	for range fewPairs() {
		old := d.bounded()
		new := d.edited(old)
		s := subjectOfPair(limitOf(old, true), limitOf(new, true))
		for side, p := range []*runtime.Policy{&old, &new} {
			traces := [][]use{roam(d, p), roam(d, p), roam(d, p)}
			for _, n := range s.Numbers {
				value := n.Old
				if side == 1 {
					value = n.New
				}
				if value != nil && n.Unit == review.Tokens {
					againstNumber(t, y, d, p, n.Name, *value, traces)
				}
			}
		}
	}
	t.Log("\n" + y.String())
	assert.Equal(t, y.tried, y.reached, "every number must be reached by some schedule")
}

// againstNumber compares a number of tokens with the most that schedules use.
func againstNumber(t *testing.T, y *tally, d dice, p *runtime.Policy, name string, value int64, traces [][]use) {
	t.Helper()
	switch name {
	case review.LargestReservation:
		c := newCaller(d, p)
		now := meter.RuleOf(p, keyOfCaller).Phase + 40*int64(p.Period)
		require.True(t, c.take(p, now, value), "%+v", p)
		require.False(t, newCaller(d, p).take(p, now, value+1), "%+v", p)
		return
	case "at once" + review.Unreserved:
		p, name, traces = bounds.Unreserved(p), "at once", nil
		if p.Capacity == 0 {
			require.Zero(t, value)
			return
		}
	}
	length := closed(p, intervalOf(t, p, name))
	if length/int64(p.Period) > 3000*max(1, p.Capacity+p.MaxReserved)/p.Rate || length > 3000*int64(p.Period) {
		return // that takes too many calls
	}
	for _, uses := range traces {
		require.LessOrEqual(t, most(uses, length), value, "%s of %+v", name, p)
	}
	found := attack(d, p, length)
	require.LessOrEqual(t, found, value, "%s of %+v", name, p)
	if p.Shards > 1 {
		y.note("with shards", true) // the number is that of one row, which shards need not reach
		return
	}
	y.note(fmt.Sprintf("%s, reserving %v, leased %v", p.Kind, p.Reserves(), p.Lease.Tokens > 0), found == value)
	if found != value {
		t.Logf("%s of %+v: %d found, not %d", name, p, found, value)
	}
}

// intervalOf returns the interval in the name of a number.
func intervalOf(t *testing.T, p *runtime.Policy, name string) int64 {
	t.Helper()
	if name == "at once" {
		return 0
	}
	for _, length := range []time.Duration{time.Minute, time.Hour, 24 * time.Hour, p.Period} {
		if name == "in any "+words.Period(length) {
			return int64(length)
		}
	}
	// The numbers have the periods of both sides.
	for _, length := range []time.Duration{time.Second, 30 * time.Second, 90 * time.Second} {
		for _, times := range []time.Duration{1, 24} {
			if name == "in any "+words.Period(times*length) {
				return int64(times * length)
			}
		}
	}
	return math.MaxInt64
}

func subjectOfPair(old, new *spec.Limit) review.Subject {
	r := Review(&spec.File{Limits: []*spec.Limit{old}}, &spec.File{Limits: []*spec.Limit{new}})
	return r.Subjects[0]
}

// tally counts how many numbers were tried, and how many of them a schedule reached.
type tally struct{ tried, reached map[string]int }

func (y *tally) note(what string, reached bool) {
	y.tried[what]++
	if reached {
		y.reached[what]++
	}
}

func (y *tally) String() (text string) {
	for _, what := range slices.Sorted(maps.Keys(y.tried)) {
		text += fmt.Sprintf("%s: %d tried, %d reached\n", what, y.tried[what], y.reached[what])
	}
	return text
}

func TestWithinIsReachedByGreedyCallers(t *testing.T) {
	d := roll(2)
	reached := map[string]int{}
	for i := range 300 {
		p := d.policy()
		if i == 0 { // callers reach it only if they never let the bucket fill up with a part of a token left in it
			p = runtime.Policy{
				Name: "limit", Kind: runtime.TokenBucket, Rate: 3, Period: time.Second, Capacity: 10,
				Lease: runtime.Lease{Tokens: 1, For: 200 * time.Millisecond},
			}
			require.EqualValues(t, 21, greedy(t, &p, int64(3500*time.Millisecond)))
		}
		p.MaxReserved = 0 // reservations are tested by TestNumbersAreReachedAndNotExceeded
		for _, length := range lengths(&p) {
			require.Equal(t, bounds.Within(&p, time.Duration(length)), greedy(t, &p, length), "%v of %+v", time.Duration(length), p)
			reached[p.Kind.String()]++
		}
	}
	assert.Len(t, reached, len(runtime.Kinds()))
}

// greedy returns the most tokens used in an interval by callers who take everything at the worst times.
func greedy(t *testing.T, p *runtime.Policy, length int64) int64 {
	t.Helper()
	rule, period := meter.RuleOf(p, ""), int64(p.Period)
	begin := rule.Phase + 4*period
	switch {
	case p.Kind == runtime.TokenBucket && p.Lease.Tokens > 0:
		return most(leaseAll(t, p, begin, begin+int64(p.Lease.For), begin+int64(p.Lease.For)+length), length)
	case p.Kind == runtime.TokenBucket:
		return most(drains(t, p, false, every(begin, begin+length, max(1, period*p.Capacity/p.Rate))), length)
	case p.Kind == runtime.SlidingWindow:
		return most(drains(t, p, false, every(begin-1, begin-1+length, period)), closed(p, length))
	case p.Kind == runtime.FixedWindow && !p.Start.FirstUse():
		early := most(drains(t, p, false, append([]int64{begin - 1}, every(begin, begin-1+length, period)...)), length)
		return max(early, most(drains(t, p, false, every(begin, begin+length, period)), length))
	}
	require.Equal(t, runtime.FixedWindow, p.Kind, "add a case for this kind to greedy in gen/review/judge/numbers_test.go")
	best := most(drains(t, p, false, append([]int64{begin}, equalParts(begin, length, max(1, length/period))...)), length)
	opened := begin - period + 1
	instants := append([]int64{opened, begin}, equalParts(opened, length+period-1, max(1, ceil(length, period)))...)
	return max(best, most(drains(t, p, true, instants), length))
}

// drains takes all tokens at each instant, or only one at the first if it just opens a window.
func drains(t *testing.T, p *runtime.Policy, opens bool, instants []int64) (uses []use) {
	t.Helper()
	rule, state := meter.RuleOf(p, ""), runtime.State{}
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

// leaseAll leases blocks as soon as they are available and spends them all at one instant. Then it takes all tokens until
// an end.
func leaseAll(t *testing.T, p *runtime.Policy, now, used, end int64) (uses []use) {
	t.Helper()
	rule, state := meter.RuleOf(p, ""), runtime.State{}
	for {
		next, d, err := rule.Step(state, now, runtime.Request{Count: p.Lease.Tokens})
		require.NoError(t, err)
		if state = next; d.Allowed {
			uses = append(uses, use{used, p.Lease.Tokens})
		} else if now += int64(d.RetryAfter); now > used {
			break
		}
	}
	// Twice as often as the bucket fills up: the rest of a token is lost in a full bucket.
	for _, at := range every(used, end, max(1, int64(p.Period)*p.Capacity/p.Rate/2)) {
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

func TestWithinBoundsRandomCalls(t *testing.T) {
	d := roll(3)
	for range 400 {
		p := d.policy()
		var uses []use
		wander(t, d, &p, func(now int64, q runtime.Request, _ runtime.State, decision runtime.Decision) {
			uses = append(uses, use{now + int64(decision.Delay), q.Count})
		})
		for _, length := range append(lengths(&p), d.Int64N(5*int64(p.Period))) {
			require.LessOrEqual(t, most(uses, closed(&p, length)), bounds.Within(&p, time.Duration(length)), "%v of %+v", time.Duration(length), p)
		}
	}
}

func TestWithinBoundsLeasedTokens(t *testing.T) {
	d := roll(9)
	tightest := map[runtime.Kind]int64{}
	for range 400 {
		p := d.policy()
		if p.Lease.Tokens == 0 {
			continue
		}
		uses := leaseRandomly(t, d, &p)
		for _, length := range append(lengths(&p), d.Int64N(5*int64(p.Period))) {
			room := bounds.Within(&p, time.Duration(length)) - most(uses, closed(&p, length))
			require.GreaterOrEqual(t, room, int64(0), "%v of %+v", time.Duration(length), p)
			if before, ok := tightest[p.Kind]; !ok || room < before {
				tightest[p.Kind] = room
			}
		}
	}
	want := map[runtime.Kind]int64{}
	for _, kind := range runtime.Kinds() {
		want[kind] = 0
	}
	require.Equal(t, want, tightest, "the bound must be reached by some trace of each kind")
}

// lengths returns interval lengths that need few enough calls for a test.
func lengths(p *runtime.Policy) (list []int64) {
	for _, length := range []time.Duration{0, p.Period / 3, p.Period, 7 * p.Period / 2, time.Minute, time.Hour, 24 * time.Hour} {
		if length <= 2000*p.Period {
			list = append(list, int64(length))
		}
	}
	return list
}

func TestLeasedMoreIsReachedAndNotExceeded(t *testing.T) {
	d := roll(8)
	for range 1000 {
		p := d.policy()
		if p.Kind != runtime.TokenBucket || p.Lease.Tokens == 0 || p.MaxReserved == runtime.Unbounded {
			continue
		}
		unleased, more := p, leasedMore(&p)
		unleased.Lease = runtime.Lease{}
		for _, length := range append(lengths(&p), d.Int64N(5*int64(p.Period))) {
			interval := time.Duration(length)
			require.LessOrEqual(t, bounds.Within(&p, interval)-bounds.Within(&unleased, interval), more, "%v of %+v", interval, p)
		}
		if more == 0 {
			continue
		}
		// The last of these tokens is used at the end of this interval.
		last := time.Duration(sort.Search(int(2*p.Period), func(length int) bool {
			return bounds.Within(&p, time.Duration(length)) >= p.Capacity+p.MaxReserved+more
		}))
		require.Equal(t, more, bounds.Within(&p, last)-bounds.Within(&unleased, last), "%+v", p)
	}
}

func TestLargestCountsPassAndLargerOnesFail(t *testing.T) {
	d := roll(4)
	for range 300 {
		p := d.policy()
		rule := meter.RuleOf(&p, "key")
		_, decision, err := rule.Step(runtime.State{}, 1, runtime.Request{Count: p.Capacity})
		require.NoError(t, err)
		assert.True(t, decision.Allowed)
		_, _, err = rule.Step(runtime.State{}, 1, runtime.Request{Count: p.Capacity + 1})
		assert.ErrorIs(t, err, runtime.ErrExceedsCapacity)
		if most := bounds.LargestReservation(&p); most > 0 && most < runtime.Unbounded {
			_, decision, err = rule.Step(runtime.State{}, 1, runtime.Request{Count: most, Reserve: true})
			require.NoError(t, err)
			assert.True(t, decision.Allowed)
			_, _, err = rule.Step(runtime.State{}, 1, runtime.Request{Count: most + 1, Reserve: true})
			assert.ErrorIs(t, err, runtime.ErrExceedsCapacity)
		}
	}
}

func TestFullAfterAndLongestDelayAreBounds(t *testing.T) {
	d := roll(5)
	for range 300 {
		p := d.policy()
		full, delay, reserved := bounds.FullAfter(&p), bounds.LongestDelay(&p), false
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

// rounding is the error of instants at which tokens are due.
const rounding = 10 * time.Nanosecond

// The numbers are those of one row. A limit with shards never exceeds them, and a full one reaches the number at once.
func TestShardsStayWithinTheNumbersOfOneRow(t *testing.T) {
	d := roll(6)
	for range 60 {
		p := d.policy()
		if p.Shards = choose(d, 2, 3, 7); p.Validate() != nil {
			continue
		}
		at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
		now := at
		store := memstore.Store{Clock: func() time.Time { return now }}
		do := func(q runtime.Request) runtime.Decision {
			q.Policy, q.Key = &p, "key"
			answers, err := store.Do(t.Context(), []runtime.Call{{Requests: []runtime.Request{q}}})
			require.NoError(t, err)
			require.NoError(t, answers[0].Err)
			return answers[0].Decisions[0]
		}
		require.True(t, do(runtime.Request{Count: p.Capacity}).Allowed)
		require.False(t, do(runtime.Request{Count: 1}).Allowed)
		uses := []use{{now.UnixNano(), p.Capacity}}
		for range 100 {
			now = now.Add(time.Duration(d.jump(p, p.Period/time.Duration(p.Rate))))
			if left := do(runtime.Request{Op: runtime.Peek}).Remaining; left > 0 && do(runtime.Request{Count: left}).Allowed {
				uses = append(uses, use{now.UnixNano(), left})
			}
		}
		for _, length := range lengths(&p) {
			require.LessOrEqual(t, most(uses, closed(&p, length)), bounds.Within(&p, time.Duration(length)), "%v of %+v", time.Duration(length), p)
		}
	}
}
