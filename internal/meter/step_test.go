package meter_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/ratelimitgen/ratelimitgen/internal/runtimetest"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// step is a row of a table: at this time after the epoch, this request has this answer.
type step struct {
	at   string
	q    runtime.Request
	want string
}

// answer returns the text of a decision or error in the tables.
func answer(d runtime.Decision, err error) string {
	verdict := "yes"
	switch {
	case err != nil:
		return err.Error()
	case !d.Allowed && d.UsableAfter > 0:
		verdict = fmt.Sprintf("no, retry after %v (due after %v)", d.RetryAfter, d.UsableAfter)
	case !d.Allowed:
		verdict = fmt.Sprintf("no, retry after %v", d.RetryAfter)
	case d.UsableAfter > 0:
		verdict = fmt.Sprintf("yes, after %v", d.UsableAfter)
	}
	return fmt.Sprintf("%s; value %g, full after %v", verdict, d.Value, d.FullAfter)
}

var epoch = runtimetest.Epoch

var take, check, refund, charge, reserve, upTo, peek, reset = runtimetest.Take, runtimetest.Check, runtimetest.Refund,
	runtimetest.Charge, runtimetest.Reserve, runtimetest.UpTo, runtimetest.Peek, runtimetest.Reset

// must returns the result of a call that is not an error, and must2 its two results.
func must[A any](a A, err error) A {
	if err != nil {
		panic(err)
	}
	return a
}

func must2[A, B any](a A, b B, err error) (A, B) {
	if err != nil {
		panic(err)
	}
	return a, b
}

// within returns q with a MaxDelay.
func within(d time.Duration, q runtime.Request) runtime.Request {
	q.MaxDelay = d
	return q
}

// execute executes the request of a row on the state that those before have left, and returns the state after it.
func (s step) execute(t *testing.T, p runtime.Policy, state runtime.State) runtime.State {
	t.Helper()
	at := must(time.ParseDuration(s.at))
	rule := meter.RuleOf(&p, "")
	next, d, err := rule.Step(state, epoch.Add(at).UnixNano(), s.q)
	require.Equal(t, s.want, answer(d, err), "%v, at %s", p.Kind, s.at)
	return next
}

// Each table is about a new key.
func TestStep(t *testing.T) {
	for _, table := range []struct {
		name   string
		policy runtime.Policy
		steps  []step
	}{
		{"token bucket", runtime.Policy{Kind: runtime.TokenBucket, Rate: 10, Period: time.Minute, Capacity: 20}, []step{
			// A new key is full.
			{"0s", peek(), "yes; value 20, full after 0s"},
			{"0s", take(5), "yes; value 15, full after 30s"},
			// All tokens can be taken: a bucket of 15 grants 15.
			{"0s", check(15), "yes; value 15, full after 30s"},
			{"0s", take(15), "yes; value 0, full after 2m0s"},
			// One token accrues in 6s. A denied request takes nothing.
			{"0s", take(1), "no, retry after 6s; value 0, full after 2m0s"},
			{"3s", take(1), "no, retry after 3s; value 0.5, full after 1m57s"},
			{"6s", take(1), "yes; value 0, full after 2m0s"},
			{"9s", take(20), "no, retry after 1m57s; value 0.5, full after 1m57s"},
			// Tokens accumulate up to the capacity.
			{"2m6s", peek(), "yes; value 20, full after 0s"},
			{"1h", take(1), "yes; value 19, full after 6s"},
			// A refund adds tokens, up to the capacity.
			{"1h", refund(5), "yes; value 20, full after 0s"},
			// A charge takes tokens that are not available.
			{"1h", charge(30), "yes; value -10, full after 3m0s"},
			{"1h", take(1), "no, retry after 1m6s; value -10, full after 3m0s"},
			{"1h", reset(), "yes; value 20, full after 0s"},
			{"1h", take(20), "yes; value 0, full after 2m0s"},
			// A request that can never pass is an error.
			{"1h", take(21), "count exceeds capacity: 21 is more than the capacity, 20"},
			{"1h", take(-1), "invalid count: -1 is less than 0"},
			{"1h", refund(-1), "invalid count: -1 is less than 0"},
			// A request for 0 tokens is allowed, even in debt.
			{"1h", take(0), "yes; value 0, full after 2m0s"},
			{"1h", charge(5), "yes; value -5, full after 2m30s"},
			{"1h", take(0), "yes; value -5, full after 2m30s"},
			{"1h", reserve(0), "yes; value -5, full after 2m30s"},
			// As many as there are: none in debt, and then the whole tokens.
			{"1h", upTo(3), "no, retry after 36s; value -5, full after 2m30s"},
			{"1h45s", upTo(3), "yes; value 0.5, full after 1m57s"},
			{"1h54s", upTo(3), "yes; value 0, full after 2m0s"},
			{"2h", upTo(100), "yes; value 0, full after 2m0s"},
		}},
		{"RetryAfter is rounded up", runtime.Policy{Kind: runtime.TokenBucket, Rate: 3, Period: time.Second, Capacity: 1}, []step{
			{"0s", take(1), "yes; value 0, full after 333.333334ms"},
			{"0s", take(1), "no, retry after 333.333334ms; value 0, full after 333.333334ms"},
			{"333.333334ms", take(1), "yes; value 0, full after 333.333334ms"},
		}},
		{"fixed window", runtime.Policy{Kind: runtime.FixedWindow, Rate: 10, Period: time.Hour, Capacity: 15, Start: runtime.StartOffset(30 * time.Minute)}, []step{
			// Windows begin at half past. The current one began before the epoch, and a new key is full.
			{"10m", take(12), "yes; value 3, full after 1h20m0s"},
			{"20m", take(4), "no, retry after 10m0s; value 3, full after 1h10m0s"},
			{"29m59.999999999s", take(4), "no, retry after 1ns; value 3, full after 1h0m0.000000001s"},
			// The next window grants 10, in addition to the 3 that were left.
			{"30m", take(4), "yes; value 9, full after 1h0m0s"},
			{"1h29m", take(9), "yes; value 0, full after 1h1m0s"},
			// 15 tokens need two more windows.
			{"1h29m", take(15), "no, retry after 1h1m0s; value 0, full after 1h1m0s"},
			{"2h30m", take(15), "yes; value 0, full after 2h0m0s"},
		}},
		{"a start in the future", runtime.Policy{Kind: runtime.FixedWindow, Rate: 5, Period: time.Minute, Capacity: 5, Start: runtime.StartAt(epoch.Add(24*time.Hour + 20*time.Second))}, []step{
			// A new key is full, also before the configured start.
			{"0s", take(5), "yes; value 0, full after 20s"},
			{"19s", take(1), "no, retry after 1s; value 0, full after 1s"},
			{"20s", take(5), "yes; value 0, full after 1m0s"},
		}},
		{"from first use", runtime.Policy{Kind: runtime.FixedWindow, Rate: 5, Period: time.Minute, Capacity: 5, Start: runtime.StartFirstUse()}, []step{
			// The window begins with the first request, at 7s.
			{"7s", take(3), "yes; value 2, full after 1m0s"},
			{"1m6s", take(3), "no, retry after 1s; value 2, full after 1s"},
			// No request is made when it ends, at 67s, so the next window begins at 90s.
			{"1m30s", take(5), "yes; value 0, full after 1m0s"},
			{"2m29s", take(1), "no, retry after 1s; value 0, full after 1s"},
			// Neither a denied request nor a Check begins a window.
			{"2m30s", check(1), "yes; value 5, full after 0s"},
			{"2m40s", take(1), "yes; value 4, full after 1m0s"},
		}},
		// A window from first use that has ended grants continuously, until a request begins the next one.
		{"from first use, after the end of a window", runtime.Policy{Kind: runtime.FixedWindow, Rate: 10, Period: time.Minute, Capacity: 20, Start: runtime.StartFirstUse()}, []step{
			{"0s", take(20), "yes; value 0, full after 2m0s"},
			{"1m6s", take(12), "no, retry after 6s; value 11, full after 54s"},
			{"1m12s", take(12), "yes; value 0, full after 2m0s"},
		}},
		{"sliding window", runtime.Policy{Kind: runtime.SlidingWindow, Rate: 10, Period: time.Minute, Capacity: 10, Start: runtime.StartOffset(0)}, []step{
			{"30s", take(10), "yes; value 0, full after 1m30s"},
			// 10 were used in this window. From 60s on they count less and less.
			{"45s", take(1), "no, retry after 21s; value 0, full after 1m15s"},
			{"1m0s", take(1), "no, retry after 6s; value 0, full after 1m0s"},
			{"1m6s", take(1), "yes; value 0, full after 1m54s"},
			// 10 * (1 - 30/60) + 1 are used: 4 are left.
			{"1m30s", peek(), "yes; value 4, full after 1m30s"},
			{"1m30s", take(5), "no, retry after 6s; value 4, full after 1m30s"},
			{"1m36s", take(5), "yes; value 0, full after 1m24s"},
			// 10 more pass only when the 6 of this window no longer count, in the window after the next.
			{"1m36s", take(10), "no, retry after 1m24s; value 0, full after 1m24s"},
			{"3m0s", take(10), "yes; value 0, full after 2m0s"},
		}},
		{"capacity 0", runtime.Policy{Kind: runtime.TokenBucket, Rate: 2, Period: time.Second, MaxReserved: 3}, []step{
			// Tokens never accumulate: each is used at the instant at which it accrues.
			{"0s", take(1), "count exceeds capacity: 1 is more than the capacity, 0"},
			{"0s", reserve(1), "yes, after 500ms; value -1, full after 500ms"},
			{"0s", reserve(2), "yes, after 1.5s; value -3, full after 1.5s"},
			{"0s", reserve(1), "no, retry after 500ms (due after 2s); value -3, full after 1.5s"},
			{"1m", reserve(1), "yes, after 500ms; value -1, full after 500ms"},
			{"1m", reserve(4), "count exceeds capacity: 4 is more than 3, the most that can be reserved"},
		}},
		{"no reservations", runtime.Policy{Kind: runtime.TokenBucket, Rate: 1, Period: time.Second, Capacity: 2, MaxReserved: 0}, []step{
			// maxReserved 0 means no debt, not an unbounded one.
			{"0s", reserve(2), "yes; value 0, full after 2s"},
			{"0s", reserve(1), "no, retry after 1s (due after 1s); value 0, full after 2s"},
		}},
		{"some reservations", runtime.Policy{Kind: runtime.TokenBucket, Rate: 1, Period: time.Second, Capacity: 2, MaxReserved: 3}, []step{
			{"0s", reserve(1), "yes; value 1, full after 1s"},
			{"0s", reserve(3), "yes, after 2s; value -2, full after 4s"},
			// A plain call waits until the debt is paid.
			{"0s", take(1), "no, retry after 3s; value -2, full after 4s"},
			{"0s", reserve(2), "no, retry after 1s (due after 4s); value -2, full after 4s"},
			{"1s", reserve(2), "yes, after 3s; value -3, full after 5s"},
			// A request with a shorter MaxDelay is denied, until the tokens have accrued.
			{"2s", within(2*time.Second, reserve(1)), "no, retry after 3s (due after 3s); value -2, full after 4s"},
			{"3s", within(2*time.Second, reserve(1)), "yes, after 2s; value -2, full after 4s"},
			{"3s", reserve(6), "count exceeds capacity: 6 is more than 5, the most that can be reserved"},
		}},
		{"any reservations", runtime.Policy{Kind: runtime.TokenBucket, Rate: 1000, Period: time.Second, Capacity: 1000, MaxReserved: runtime.Unbounded}, []step{
			{"0s", reserve(1_001_000), "yes, after 16m40s; value -1e+06, full after 16m41s"},
			{"0s", reserve(1_000_000_000), "yes, after 278h3m20s; value -1.001e+09, full after 278h3m21s"},
		}},
		{"reservations of windows", runtime.Policy{Kind: runtime.FixedWindow, Rate: 10, Period: time.Minute, Capacity: 10, MaxReserved: 15, Start: runtime.StartOffset(0)}, []step{
			{"15s", reserve(12), "yes, after 45s; value -2, full after 1m45s"},
			{"15s", reserve(10), "yes, after 1m45s; value -12, full after 2m45s"},
			{"15s", reserve(4), "no, retry after 45s (due after 1m45s); value -12, full after 2m45s"},
			{"1m0s", reserve(4), "yes, after 1m0s; value -6, full after 2m0s"},
		}},
		{"the clock goes back", runtime.Policy{Kind: runtime.TokenBucket, Rate: 1, Period: time.Second, Capacity: 10}, []step{
			{"10s", take(10), "yes; value 0, full after 10s"},
			// The clock goes back: the row holds as of 10s, and nothing accrues before that.
			{"0s", take(1), "no, retry after 11s; value 0, full after 20s"},
			{"9s", take(1), "no, retry after 2s; value 0, full after 11s"},
			// It jumps back and forth: the time between is not counted twice.
			{"12s", take(2), "yes; value 0, full after 10s"},
			{"2s", take(1), "no, retry after 11s; value 0, full after 20s"},
			{"12s", take(1), "no, retry after 1s; value 0, full after 10s"},
			{"13s", take(1), "yes; value 0, full after 10s"},
		}},
	} {
		t.Run(table.name, func(t *testing.T) {
			table.policy.Name = "limit"
			require.NoError(t, table.policy.Validate())
			state := runtime.State{}
			for _, s := range table.steps {
				state = s.execute(t, table.policy, state)
			}
		})
	}
}

func TestStepFixedWindowBefore1970(t *testing.T) {
	p := runtime.Policy{Name: "limit", Kind: runtime.FixedWindow, Rate: 5, Period: 2 * time.Second, Capacity: 5,
		Start: runtime.StartOffset(0)}
	rule := meter.RuleOf(&p, "")
	state, _ := must2(rule.Step(runtime.State{}, -int64(5*time.Second), take(5)))
	require.Equal(t, -int64(6*time.Second), state.TS, "windows are aligned by floor division")
}

func TestStepFixedWindowByKey(t *testing.T) {
	p := runtime.Policy{Name: "limit", Kind: runtime.FixedWindow, Rate: 5, Period: time.Hour, Capacity: 5}
	starts := map[int64]bool{}
	for key := range 100 {
		rule := meter.RuleOf(&p, fmt.Sprint(key))
		first, _ := must2(rule.Step(runtime.State{}, epoch.UnixNano(), take(1)))
		second, _ := must2(rule.Step(first, epoch.Add(time.Hour).UnixNano(), take(1)))
		require.LessOrEqual(t, first.TS, epoch.UnixNano(), "a window begins before it is used")
		require.Equal(t, first.TS+int64(time.Hour), second.TS, "windows follow each other without a gap")
		starts[first.TS] = true
	}
	require.Len(t, starts, 100, "keys do not all start a window at the same instant")
}

func TestStepOfAStoredState(t *testing.T) {
	const rate = 999_999_999_999_989
	now := epoch.UnixNano()
	for _, row := range []struct {
		policy runtime.Policy
		state  runtime.State
		step
	}{
		// 3/7 of a token accrue in 3ns: rounded up once, not once for the division and once for the fraction.
		{runtime.Policy{Kind: runtime.TokenBucket, Rate: 1, Period: 7, Capacity: 3}, runtime.State{Value: 1.5714285714285712 - 3, TS: now - 7, Exists: true},
			step{"0s", take(3), "no, retry after 3ns; value 2.571428571428571, full after 3ns"}},
		// Whole windows grant whole tokens, even for large numbers.
		{runtime.Policy{Kind: runtime.FixedWindow, Rate: rate, Period: 2500 * time.Millisecond, Capacity: rate, Start: runtime.StartOffset(0)},
			runtime.State{Value: 1 - 2*rate, TS: now, Exists: true},
			step{"0s", take(1), "no, retry after 2.5s; value -9.99999999999988e+14, full after 2.5s"}},
	} {
		row.execute(t, row.policy, row.state)
	}
}

func TestStepConfigEdit(t *testing.T) {
	wide := runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 10, Period: time.Second, Capacity: 100}
	narrow := wide
	narrow.Capacity = 20
	window := runtime.Policy{Name: "limit", Kind: runtime.FixedWindow, Rate: 50, Period: time.Second, Capacity: 50,
		Start: runtime.StartOffset(0)}
	sliding := runtime.Policy{Name: "limit", Kind: runtime.SlidingWindow, Rate: 5, Period: time.Second, Capacity: 5,
		Start: runtime.StartOffset(0)}
	state := runtime.State{}
	for _, row := range []struct {
		policy runtime.Policy
		step
	}{
		{wide, step{"0s", take(40), "yes; value 60, full after 4s"}},
		// Less capacity: the 40 used tokens stay used.
		{narrow, step{"0s", take(1), "no, retry after 2.1s; value -20, full after 4s"}},
		// More capacity again: nothing was lost or gained.
		{wide, step{"0s", take(1), "yes; value 59, full after 4.1s"}},
		// Another kind: the used tokens count in its current window.
		{window, step{"0s", take(1), "yes; value 8, full after 1s"}},
		{sliding, step{"0s", take(5), "no, retry after 2s; value -37, full after 2s"}},
		{wide, step{"0s", take(1), "yes; value 57, full after 4.3s"}},
	} {
		state = row.execute(t, row.policy, state)
	}
}

// Whoever has used a limit up has the difference at once when it is raised, and no more.
func TestStepKeepsWhatWasUsed(t *testing.T) {
	const month = 30 * 24 * time.Hour
	for _, row := range []struct {
		kind                               runtime.Kind
		taken, usedUp, raised, later, back string
	}{
		{runtime.TokenBucket,
			"yes; value 0, full after 720h0m0s",
			"no, retry after 43m12s; value 0, full after 720h0m0s",
			"yes; value 3999, full after 144h8m38.4s",
			"yes; value 2999, full after 288h8m38.4s",
			"no, retry after 721h26m24s; value -1001, full after 1440h43m12s"},
		{runtime.FixedWindow,
			"yes; value 0, full after 648h0m0s",
			"no, retry after 648h0m0s; value 0, full after 648h0m0s",
			"yes; value 3999, full after 648h0m0s",
			"yes; value 2999, full after 648h0m0s",
			"no, retry after 648h0m0s; value -1001, full after 648h0m0s"},
		{runtime.SlidingWindow,
			"yes; value 0, full after 1368h0m0s",
			"no, retry after 648h43m12.000000001s; value 0, full after 1368h0m0s",
			"yes; value 3999, full after 1368h0m0s",
			"yes; value 2999, full after 1368h0m0s",
			"no, retry after 1008h32m23.028485757s; value -1001, full after 1368h0m0s"},
	} {
		small := runtime.Policy{Kind: row.kind, Rate: 1000, Capacity: 1000, Period: month}
		if row.kind.Windowed() {
			small.Start = runtime.StartAt(epoch.Add(-72 * time.Hour))
		}
		large := small
		large.Rate, large.Capacity = 5000, 5000
		state := step{"0s", take(1000), row.taken}.execute(t, small, runtime.State{})
		state = step{"0s", take(1), row.usedUp}.execute(t, small, state)
		state = step{"0s", take(1), row.raised}.execute(t, large, state)
		state = step{"0s", take(1000), row.later}.execute(t, large, state)
		step{"0s", take(1), row.back}.execute(t, small, state)
	}
}

// A smaller limit grants its next window, however much of the larger one was used.
func TestStepLoweredLimitGrantsItsNextWindow(t *testing.T) {
	large := runtime.Policy{Kind: runtime.FixedWindow, Rate: 1000, Capacity: 1000, Period: time.Hour, Start: runtime.StartAt(epoch)}
	small := large
	small.Rate, small.Capacity, small.MaxReserved = 10, 10, 5
	used := step{"0s", take(900), "yes; value 100, full after 1h0m0s"}.execute(t, large, runtime.State{})
	for _, row := range []step{
		{"0s", take(1), "no, retry after 1h0m0s; value -890, full after 2h0m0s"},
		{"0s", reserve(1), "no, retry after 1h0m0s (due after 90h0m0s); value -890, full after 2h0m0s"},
		// The window ends with 10 tokens used and 5 reserved at most, and the next one grants 10.
		{"1h", take(5), "yes; value 0, full after 1h0m0s"},
	} {
		row.execute(t, small, used)
	}
}

// A refund leaves the key as if the tokens had never been taken. The bucket refills by 10 tokens per second, and the
// windows begin at each second.
func TestRefundIsAsIfNothingHadBeenTaken(t *testing.T) {
	window := runtime.Policy{Name: "limit", Kind: runtime.FixedWindow, Rate: 10, Period: time.Second, Capacity: 20, Start: runtime.StartOffset(0)}
	sliding, tokens, first := window, window, window
	sliding.Kind, sliding.Capacity = runtime.SlidingWindow, 10
	tokens.Kind, tokens.Start = runtime.TokenBucket, runtime.Start{}
	first.Start = runtime.StartFirstUse()
	const s, ms = int64(time.Second), int64(time.Millisecond)
	for _, row := range []struct {
		policy *runtime.Policy
		// 10 tokens are taken at an instant, another 3 at a later one unless that is 0, and then 8 of the first are refunded.
		taken, others, now int64
		want               float64
	}{
		{&tokens, 5 * s, 0, 5 * s, 18},
		{&tokens, 5 * s, 0, 5*s + 100*ms, 19},
		{&tokens, 5 * s, 0, 9 * s, 20},
		{&tokens, 5 * s, 0, 4 * s, 18},                   // the clock went back
		{&tokens, 5 * s, 5*s + 100*ms, 5*s + 100*ms, 16}, // 19 if nothing had accrued before
		{&tokens, 5 * s, 6 * s, 6 * s, 17},               // full in between: nothing is given back
		{&tokens, 5 * s, 5*s + 900*ms, 5*s + 900*ms, 17}, // 1 of the 10 has not accrued
		{&window, 5 * s, 0, 6*s - 1, 18},
		{&window, 5 * s, 0, 6 * s, 20},
		{&window, 5 * s, 5*s + 1, 6*s - 1, 15},
		{&window, 5 * s, 6 * s, 6 * s, 17},
		{&sliding, 5 * s, 0, 6*s - 1, 8},
		{&sliding, 5 * s, 0, 6*s + 500*ms, 9}, // half of the window before counts
		{&sliding, 5 * s, 6*s + 500*ms, 6*s + 500*ms, 6},
		{&sliding, 5 * s, 0, 7 * s, 10},
		{&first, 5 * s, 0, 6*s - 1, 18},
		{&first, 5 * s, 0, 6 * s, 20},
	} {
		rule := meter.RuleOf(row.policy, "k")
		used, d := must2(rule.Step(runtime.State{}, row.taken, charge(10)))
		if row.others != 0 {
			used, _ = must2(rule.Step(used, row.others, charge(3)))
		}
		q := d.RefundRequest(8)
		next, _ := must2(rule.Step(used, row.now, q))
		_, d = must2(rule.Step(next, row.now, peek()))
		require.InDelta(t, row.want, d.Value, 1e-9, "%v taken at %d, refunded at %d", row.policy.Kind, row.taken, row.now)
		require.LessOrEqual(t, next.TS, max(row.taken, row.others), "a refund begins no window")
	}
}

// A row that was lost and made again, on a clock that went back, has no tokens of earlier requests: they are not
// refunded.
func TestRefundOfAnEarlierRowReturnsNothing(t *testing.T) {
	for _, kind := range []runtime.Kind{runtime.TokenBucket, runtime.FixedWindow} { // the other's refunds need no total
		p := runtimetest.Bucket("limit", 10)
		p.Kind, p.Rate = kind, 10
		rule, now := meter.RuleOf(p, "k"), epoch.UnixNano()
		_, taken := must2(rule.Step(runtime.State{}, now, take(5)))
		for back := range int64(100) { // totals begin at a number derived from the instant: some are lower, and some are higher
			again, _ := must2(rule.Step(runtime.State{}, now-1-back, take(3)))
			after, _ := must2(rule.Step(again, now, taken.RefundRequest(5)))
			require.Equal(t, again, after, "%v, %d", kind, back)
		}
	}
}

func TestWindowEndIsTheStartOfTheNextWindow(t *testing.T) {
	window := runtime.Policy{Name: "limit", Kind: runtime.FixedWindow, Rate: 1, Period: 10, Capacity: 1, Start: runtime.StartOffset(3)}
	rule := meter.RuleOf(&window, "k")
	for at, want := range map[int64]int64{2: 3, 3: 13, 12: 13, 13: 23, -7: 3, -8: -7, math.MaxInt64: math.MaxInt64} {
		require.Equal(t, want, rule.WindowEnd(at), "at %d", at)
	}
	window.Start = runtime.StartFirstUse()
	rule = meter.RuleOf(&window, "k")
	require.Equal(t, int64(math.MaxInt64), rule.WindowEnd(0))
	rule = meter.RuleOf(runtimetest.Bucket("limit", 1), "k")
	require.Equal(t, int64(math.MaxInt64), rule.WindowEnd(0))
}

// Stored windows begin at these phases, so they must never change.
func TestPhaseIsFixedPerKey(t *testing.T) {
	for _, row := range []struct {
		name, key string
		period    time.Duration
		want      int64
	}{
		{"limit", "", time.Hour, 516639205977},
		{"limit", "user", time.Hour, 3084095387066},
		{"sendMessage", "42", time.Minute, 25524401826},
		{"sendMessage", "43", time.Minute, 28074386483},
		{"llmTokens", "team|model", 24 * time.Hour, 30405532204829},
		{"limit", "", 1, 0},
	} {
		p := runtime.Policy{Name: row.name, Kind: runtime.FixedWindow, Rate: 1, Period: row.period, Capacity: 1}
		require.Equal(t, row.want, meter.RuleOf(&p, row.key).Phase, "%s %s", row.name, row.key)
	}
}

func TestPhaseOfAnAlignedStart(t *testing.T) {
	for _, row := range []struct {
		start runtime.Start
		want  time.Duration
	}{
		{runtime.StartOffset(0), 0},
		{runtime.StartOffset(90 * time.Minute), 30 * time.Minute},
		{runtime.StartOffset(-10 * time.Minute), 50 * time.Minute},
		{runtime.StartAt(time.Date(2026, 1, 1, 9, 15, 0, 0, time.FixedZone("", 3600))), 15 * time.Minute},
		{runtime.StartAt(time.Date(1960, 1, 1, 9, 15, 0, 0, time.UTC)), 15 * time.Minute},
		{runtime.StartFirstUse(), 0},
	} {
		p := runtime.Policy{Name: "limit", Kind: runtime.FixedWindow, Rate: 1, Period: time.Hour, Capacity: 1, Start: row.start}
		require.Equal(t, int64(row.want), meter.RuleOf(&p, "").Phase, "%+v", row.start)
	}
}
