package meter_test

import (
	"fmt"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/ratelimitgen/ratelimitgen/internal/runtimetest"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// row is a key of a policy with its current state and instant.
type row struct {
	t      *testing.T
	policy runtime.Policy
	rule   meter.Rule
	state  runtime.State
	now    int64
}

func newRow(t *testing.T, p runtime.Policy) *row {
	return &row{t: t, policy: p, rule: meter.RuleOf(&p, ""), now: epoch.UnixNano()}
}

// step executes a request that is not an error, and keeps the state after it.
func (r *row) step(q runtime.Request) runtime.Decision {
	r.t.Helper()
	next, d, err := r.rule.Step(r.state, r.now, q)
	require.NoError(r.t, err, "%+v of %+v", q, r.policy)
	r.state = next
	return d
}

// passes reports whether q would pass at an instant.
func (r *row) passes(at int64, q runtime.Request) bool {
	r.t.Helper()
	_, d, err := r.rule.Step(r.state, at, q)
	require.NoError(r.t, err)
	return d.Allowed
}

// traces calls step for every step of random traces of rows, with a clock that jumps back and forth.
func traces(t *testing.T, seed uint64, kinds []runtime.Kind, step func(runtimetest.Dice, *row)) {
	d := runtimetest.Roll(seed)
	for range runtimetest.Steps() / runtimetest.TraceSteps {
		r := newRow(t, d.Policy(t, kinds...))
		for i := 0; i < runtimetest.TraceSteps && r.now < runtimetest.LastInstant; i++ {
			r.now += int64(d.Jump(r.policy))
			step(d, r)
		}
	}
}

// FuzzStep executes any request on any row, such as damaged ones, at any instant.
func FuzzStep(f *testing.F) {
	for kind := range uint8(len(runtimetest.TokenKinds())) {
		f.Add(kind, int64(10), int64(time.Minute), int64(20), int64(5), 3.5, epoch.UnixNano(), 2.0, epoch.UnixNano()+1, int64(1), uint8(1))
		f.Add(kind, int64(1), int64(1), int64(1), int64(0), math.NaN(), int64(math.MaxInt64), math.NaN(), int64(math.MinInt64), int64(1), uint8(0))
		f.Add(kind, int64(runtime.MaxTokens), int64(runtime.MaxPeriod), int64(0), int64(runtime.Unbounded), math.Inf(-1), int64(math.MinInt64), math.Inf(1), int64(math.MaxInt64), int64(math.MaxInt64), uint8(7))
		f.Add(kind, int64(3), int64(7), int64(3), int64(1), math.Inf(1), int64(0), math.Inf(-1), int64(-1), int64(3), uint8(3))
	}
	f.Fuzz(func(t *testing.T, kind uint8, rate, period, capacity, debt int64, value float64, ts int64, prev float64, now, count int64, flags uint8) {
		p := runtime.Policy{Name: "limit", Kind: runtimetest.TokenKinds()[int(kind)%len(runtimetest.TokenKinds())], Rate: rate, Period: time.Duration(period), Capacity: capacity, MaxReserved: debt}
		if p.Kind == runtime.FixedWindow && flags&2 != 0 {
			p.Start = runtime.StartFirstUse()
		}
		if !p.Kind.Linear() {
			p.Capacity, p.MaxReserved = rate, 0
		}
		if p.Validate() != nil {
			t.Skip()
		}
		s := runtime.State{Value: value, TS: ts, Prev: prev, Exists: true}
		q := runtime.Request{Op: runtime.Op(flags >> 2 % 7), Count: count, Reserve: flags&1 != 0}
		requireSafe(t, p, s, now, q)
	})
}

// requireSafe checks the properties that every decision and every next state must have.
func requireSafe(t *testing.T, p runtime.Policy, s runtime.State, now int64, q runtime.Request) {
	t.Helper()
	rule := meter.RuleOf(&p, "key")
	next, d, err := rule.Step(s, now, q)
	require.GreaterOrEqual(t, d.RetryAfter, time.Duration(0))
	require.GreaterOrEqual(t, d.UsableAfter, time.Duration(0))
	require.GreaterOrEqual(t, d.FullAfter, time.Duration(0))
	require.GreaterOrEqual(t, d.Remaining, int64(0))
	require.Equal(t, err == nil && !d.Allowed, d.RetryAfter > 0, "a denial, and only a denial, has a RetryAfter")
	if next.Exists && q.Op != runtime.Reset {
		require.GreaterOrEqual(t, next.TS, s.TS, "ts never moves back")
	}
	switch {
	case err != nil || !d.Allowed || q.Op == runtime.Check || q.Op == runtime.Peek || q.Count == 0 && q.Op != runtime.Reset:
		require.Equal(t, bits(s), bits(next))
	case q.Op == runtime.Take:
		_, was := must2(rule.Step(s, now, peek()))
		debt := 0.0
		if q.Reserve {
			debt = rule.Debt
		}
		require.LessOrEqual(t, float64(q.Count)-debt, was.Value+1e-6, "allowed tokens were available")
		require.LessOrEqual(t, was.Value, float64(p.Capacity))
	}
}

// bits returns a state as text, to the last bit.
func bits(s runtime.State) string {
	return fmt.Sprintf("%x %d %x %v", math.Float64bits(s.Value), s.TS, math.Float64bits(s.Prev), s.Exists)
}

func TestDeniedCallChangesNothing(t *testing.T) {
	traces(t, 18, nil, func(d runtimetest.Dice, r *row) {
		r.step(d.Request(r.policy))
		before, q := r.state, d.Take(r.policy)
		if d.IntN(4) == 0 {
			q.Count = math.MaxInt64
		}
		next, decision, err := r.rule.Step(before, r.now, q)
		if q.Op == runtime.Check || err != nil || !decision.Allowed {
			require.Equal(t, bits(before), bits(next))
		}
		if err != nil {
			require.ErrorIs(t, err, runtime.ErrExceedsCapacity)
			require.Zero(t, decision, "an error is never an allowance")
		}
	})
}

func TestScanReadsTheTokensOfPeekRows(t *testing.T) {
	var scan meter.Scan
	traces(t, 19, nil, func(d runtimetest.Dice, r *row) {
		if r.policy.Kind == runtime.FixedWindow && d.IntN(4) == 0 {
			r.policy = d.WithCalendar(r.policy)
			r.rule = meter.RuleOf(&r.policy, "")
		}
		r.step(d.Take(r.policy))
		p := r.policy // a new address, as each policy has one
		rows := []runtime.StoredRow{{State: r.state}}
		left, ok := scan.Left(&p, rows, r.now)
		require.True(t, ok)
		require.Equal(t, must(meter.PeekRows(&p, rows, r.now)).Value, left, "%+v in %+v at %d", r.state, p, r.now)
	})
}

func TestScanLeavesToPeekRowsWhatHasMore(t *testing.T) {
	var scan meter.Scan
	plain := runtime.Policy{Name: "limit", Kind: runtime.FixedWindow, Rate: 10, Period: time.Minute, Capacity: 10}
	one := []runtime.StoredRow{{State: runtime.State{Value: -1, TS: epoch.UnixNano(), Exists: true}}}
	_, ok := scan.Left(&plain, one, epoch.UnixNano())
	require.True(t, ok)
	sharded, daily, invalid := plain, plain, plain
	sharded.Shards = 2
	daily.Calendar = runtime.Calendar{Unit: runtime.Day, ZonePerKey: true}
	daily.Period = daily.Calendar.Period()
	invalid.Rate = 0
	for _, p := range []*runtime.Policy{&sharded, preciseLimit(10, time.Minute), &daily, &invalid} {
		_, ok = scan.Left(p, one, epoch.UnixNano())
		require.False(t, ok, "%+v", p)
	}
	penalized, other := one[0], one[0]
	penalized.State.Log = "a penalty"
	other.Row.Shard = 1
	for _, rows := range [][]runtime.StoredRow{nil, {penalized}, {other}, {one[0], other}} {
		_, ok = scan.Left(&plain, rows, epoch.UnixNano())
		require.False(t, ok, "%+v", rows)
	}
}

func TestMaxDelayDeniesTokensDueLater(t *testing.T) {
	traces(t, 22, []runtime.Kind{runtime.TokenBucket, runtime.FixedWindow}, func(d runtimetest.Dice, r *row) {
		q := d.Take(r.policy)
		q.Op, q.Reserve = runtime.Take, true
		_, unbound := must2(r.rule.Step(r.state, r.now, q))
		q = within(1+d.UpTo(2*r.policy.Period), q)
		before, decision := r.state, r.step(q)
		require.Equal(t, unbound.Allowed && unbound.UsableAfter <= q.MaxDelay, decision.Allowed)
		require.Equal(t, unbound.UsableAfter, decision.UsableAfter)
		if decision.Allowed {
			return
		}
		require.Equal(t, before, r.state)
		require.GreaterOrEqual(t, decision.RetryAfter, unbound.RetryAfter)
		// A window that begins with the retry ends later, so that its tokens are due later.
		if q.Count <= r.policy.Capacity && !r.policy.Start.FirstUse() && int64(decision.RetryAfter) < runtimetest.LastInstant-r.now {
			require.True(t, r.passes(r.now+int64(decision.RetryAfter), q), "%+v of %+v", q, r.policy)
		}
	})
}

// An edit can change the numbers, the kind and the phase of the windows. The stored state then has at most the new
// capacity.
func TestConfigEditCreatesNothingBeyondTheNewCapacity(t *testing.T) {
	d := runtimetest.Roll(17)
	for range runtimetest.Steps() / runtimetest.TraceSteps {
		r := newRow(t, d.Policy(t))
		var last int64
		for i := 0; i < runtimetest.TraceSteps && r.now < runtimetest.LastInstant; i++ {
			r.policy = d.Policy(t)
			r.rule = meter.RuleOf(&r.policy, "")
			q := d.Take(r.policy)
			value := r.step(peek()).Value
			require.LessOrEqual(t, value, float64(r.policy.Capacity))
			if r.state.Exists && r.policy.Kind == runtime.TokenBucket && r.now <= r.state.TS {
				require.LessOrEqual(t, value, float64(r.policy.Capacity)+r.state.Value+1e-6, "an edit keeps what was used")
			}
			r.step(q)
			require.GreaterOrEqual(t, r.state.TS, last, "ts never moves back")
			last = r.state.TS
			r.now += int64(d.Jump(r.policy))
		}
	}
}

// Evaluated as its doc comment describes, an Upsert decides and stores the same bits as Step.
func TestUpsertEqualsStep(t *testing.T) {
	compared := 0
	traces(t, 21, nil, func(d runtimetest.Dice, r *row) {
		q := d.Take(r.policy)
		u, ok := r.rule.Upsert(r.now, q)
		before := r.state
		decision := r.step(q)
		if !ok {
			return
		}
		compared++
		want, allowed := evaluate(u, before)
		require.Equal(t, allowed, decision.Allowed)
		require.Equal(t, bits(want), bits(r.state), "%+v", r.policy)
		if allowed {
			require.Equal(t, decision.Value, r.rule.Taken(want, r.now, q).Value)
			require.Equal(t, decision.UsableAfter, r.rule.Taken(want, r.now, q).UsableAfter)
		}
	})
	require.Positive(t, compared)
}

// evaluate evaluates an Upsert like an SQL statement.
func evaluate(u meter.Upsert, s runtime.State) (runtime.State, bool) {
	if !s.Exists {
		return runtime.State{Value: -u.Count, TS: u.T, Prev: u.Fresh - u.Count*meter.TotalUnit, Exists: true}, true
	}
	elapsed := max(0, u.T-s.TS)
	part := float64(elapsed%u.Period) * u.Rate / float64(u.Period)
	accrued := float64(float64(elapsed/u.Period)*u.Rate) + part
	filled := float64(min(0, s.Value+accrued)+2*u.Capacity) - 2*u.Capacity
	if s.Value < u.Lowest || u.Capacity+filled-(u.Count-u.Debt)+u.Allowance < 0 {
		return s, false
	}
	total := u.Fresh
	if -1 < s.Prev && s.Prev < 0 {
		total = s.Prev
	}
	return runtime.State{Value: filled - u.Count, TS: max(s.TS, u.T), Prev: total - u.Count*meter.TotalUnit, Exists: true}, true
}

// TakeUpTo is the Take of the largest count that passes, found here by bisection.
func TestTakeUpToTakesTheLargestCountThatPasses(t *testing.T) {
	d, partial := runtimetest.Roll(5), 0
	for range runtimetest.Steps() / runtimetest.TraceSteps {
		p := d.Policy(t)
		if d.IntN(10) == 0 {
			p = d.HugePolicy(t)
		}
		rule, state, now := meter.RuleOf(&p, ""), runtime.State{}, epoch.UnixNano()
		for i := 0; i < runtimetest.TraceSteps && now < runtimetest.LastInstant && p.Capacity > 0; i++ {
			now += int64(d.Jump(p))
			n := 1 + d.Int64N(2*p.Capacity)
			passes := func(k int64) bool {
				_, d, err := rule.Step(state, now, check(k))
				return err == nil && d.Allowed
			}
			low, high := int64(0), min(n, p.Capacity)+1
			for low+1 < high {
				if middle := low + (high-low)/2; passes(middle) {
					low = middle
				} else {
					high = middle
				}
			}
			want := take(max(1, low))
			wantState, wantDecision := must2(rule.Step(state, now, want))
			next, got := must2(rule.Step(state, now, upTo(n)))
			require.Equal(t, wantDecision, got, "up to %d of %+v in %+v", n, p, state)
			require.Equal(t, wantState, next)
			require.Equal(t, low, got.Taken)
			if low > 0 && low < n {
				partial++
			}
			if state = next; d.IntN(3) == 0 {
				state, _ = must2(rule.Step(state, now, d.Request(p)))
			}
		}
	}
	require.Greater(t, partial, runtimetest.Steps()/20)
}

// With random large numbers, a drained limit is full again at the start of the next window, and one with the capacity
// of n rates after n windows.
func TestWindowsGrantTheirWholeRate(t *testing.T) {
	d := runtimetest.Roll(41)
	for range 20_000 {
		rate := d.Int64N(runtime.MaxTokens) + 1
		n := 1 + d.Int64N(max(1, min(20, runtime.MaxTokens/rate)))
		p := runtime.Policy{Name: "limit", Kind: runtime.FixedWindow, Rate: rate, Capacity: n * rate, Start: runtime.StartOffset(0),
			Period: runtimetest.Pick(d, time.Minute, time.Second, 24*time.Hour, 1+d.UpTo(runtime.MaxPeriod-1))}
		rule := meter.RuleOf(&p, "")
		now := epoch.UnixNano() + d.Int64N(1e18)
		state, taken := must2(rule.Step(runtime.State{}, now, take(p.Capacity)))
		require.Equal(t, state.TS+n*int64(p.Period)-now, int64(taken.FullAfter), "%+v", p)
		_, denied := must2(rule.Step(state, now, take(rate)))
		require.Equal(t, state.TS+int64(p.Period)-now, int64(denied.RetryAfter), "%+v", p)
		for i := range n {
			_, b := must2(rule.Step(state, state.TS+(i+1)*int64(p.Period), peek()))
			require.Equal(t, float64((i+1)*rate), b.Value, "%+v", p)
		}
	}
}

// After all tokens of a bucket were taken, the time in which a whole number of them accrues is exact.
func TestWholeTokensAreDueExactly(t *testing.T) {
	d := runtimetest.Roll(42)
	for range 20_000 {
		rate := d.Int64N(runtimetest.Pick[int64](d, 1000, runtime.MaxTokens)) + 1
		p := runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: rate, Capacity: rate, Period: 1 + d.UpTo(100*24*time.Hour)}
		rule := meter.RuleOf(&p, "")
		state, taken := must2(rule.Step(runtime.State{}, epoch.UnixNano(), take(rate)))
		require.Equal(t, p.Period, taken.FullAfter, "%+v", p)
		n := 1 + d.Int64N(rate)
		_, denied := must2(rule.Step(state, epoch.UnixNano(), take(n)))
		due := new(big.Int).Mul(big.NewInt(n), big.NewInt(int64(p.Period)))
		due.Add(due, big.NewInt(rate-1)).Div(due, big.NewInt(rate))
		// If several tokens accrue per nanosecond, rounding may be off by one.
		require.InDelta(t, due.Int64(), int64(denied.RetryAfter), 1, "%d of %+v", n, p)
	}
}

// On slow limits a millionth of a token accrues in a long time: the allowance must not let requests pass that early.
func TestNothingPassesAMicrosecondEarly(t *testing.T) {
	const day = 24 * time.Hour
	for _, kind := range runtimetest.TokenKinds() {
		for _, period := range []time.Duration{time.Millisecond, time.Second, time.Hour, day, 365 * day, runtime.MaxPeriod} {
			for _, rate := range []int64{1, 2, 5} {
				p := runtime.Policy{Name: "limit", Kind: kind, Rate: rate, Period: period, Capacity: rate}
				if kind.Windowed() {
					p.Start = runtime.StartOffset(0)
				}
				rule := meter.RuleOf(&p, "")
				state, _ := must2(rule.Step(runtime.State{}, epoch.UnixNano(), take(rate)))
				_, denied := must2(rule.Step(state, epoch.UnixNano(), take(1)))
				at := epoch.UnixNano() + int64(denied.RetryAfter)
				for early, passes := range map[time.Duration]bool{0: true, 2 * time.Microsecond: false, 10 * time.Microsecond: false} {
					_, d := must2(rule.Step(state, at-int64(early), take(1)))
					require.Equal(t, passes, d.Allowed, "%v before %v of %+v", early, denied, p)
				}
			}
		}
	}
}

// A sweepable row is worth as much as a new key: now, at every later instant, and on a clock that is set back by less
// than an hour.
func TestSweepableRowEqualsNewKey(t *testing.T) {
	swept := 0
	traces(t, 20, nil, func(d runtimetest.Dice, r *row) {
		r.step(d.Request(r.policy))
		at := r.now + runtimetest.Pick(d, 0, int64(time.Hour), int64(d.UpTo(10*r.policy.Period)))
		if at > runtimetest.LastInstant || !meter.Sweepable([]*runtime.Policy{&r.policy}, runtime.Row{Name: r.policy.Name}, r.state, at) {
			return
		}
		swept++
		seen, unseen := *r, *newRow(t, r.policy)
		seen.now = at - int64(d.UpTo(time.Hour))
		for range 5 {
			unseen.now = seen.now
			q := d.Take(r.policy)
			want, got := runtimetest.WithoutReceipt(unseen.step(q)), runtimetest.WithoutReceipt(seen.step(q))
			want.TakenAt, got.TakenAt = time.Time{}, time.Time{} // after a reset in the future, it is later
			require.Equal(t, want, got, "%+v", r.policy)
			if unseen.state.Exists {
				seen.state.Prev, unseen.state.Prev = previousUse(seen.state), previousUse(unseen.state)
				require.Equal(t, unseen.state, seen.state)
			}
			seen.now += max(0, int64(d.Jump(r.policy)))
		}
	})
	require.Positive(t, swept)
}

func TestOnlyKnownFullRowsAreSweepable(t *testing.T) {
	p := runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 10, Period: time.Second, Capacity: 10, Shards: 2}
	full := runtime.State{TS: epoch.UnixNano(), Exists: true}
	later := epoch.Add(2 * time.Hour).UnixNano()
	require.True(t, meter.Sweepable([]*runtime.Policy{&p}, runtime.Row{Shard: 1}, full, later))
	require.False(t, meter.Sweepable([]*runtime.Policy{&p}, runtime.Row{Shard: 1}, full, epoch.Add(59*time.Minute).UnixNano()), "it has been full for less than an hour")
	require.False(t, meter.Sweepable([]*runtime.Policy{&p}, runtime.Row{Shard: 2}, full, later), "the policy has no such shard")
	require.False(t, meter.Sweepable(nil, runtime.Row{Name: "limit"}, runtime.State{}, 0), "there is no policy")
	require.False(t, meter.Sweepable([]*runtime.Policy{{}}, runtime.Row{}, full, later), "the policy is invalid")
}

// A new row of a sliding window does not say that it is another one than that which was reset in the same window.
func TestResetIsKeptWhileItsWindowCanBeRefunded(t *testing.T) {
	p := runtime.Policy{Name: "limit", Kind: runtime.SlidingWindow, Rate: 10, Period: 24 * time.Hour, Capacity: 10, Start: runtime.StartOffset(0)}
	rule, begin := meter.RuleOf(&p, "k"), epoch.Truncate(p.Period)
	swept := func(s runtime.State, after time.Duration) bool {
		return meter.Sweepable([]*runtime.Policy{&p}, runtime.Row{Name: p.Name, Key: "k"}, s, begin.Add(after).UnixNano())
	}
	s, d := must2(rule.Step(runtime.State{}, begin.Add(2*time.Hour).UnixNano(), take(3)))
	s, _ = must2(rule.Step(s, begin.Add(2*time.Hour).UnixNano(), reset()))
	require.False(t, swept(s, p.Period+time.Hour-1))
	require.True(t, swept(s, p.Period+time.Hour))
	for _, at := range []time.Duration{p.Period - 1, p.Period + time.Hour} {
		var row runtime.State
		if !swept(s, at) {
			row = s
		}
		row, _ = must2(rule.Step(row, begin.Add(at).UnixNano(), take(4)))
		after, _ := must2(rule.Step(row, begin.Add(at).UnixNano(), d.RefundRequest(3)))
		require.Equal(t, row, after, "after %v", at)
	}
}

// A plan without numbers that is blocked does not know the windows of the others: its resets leave none of its own.
func TestResetOfABlockedPlanWithoutNumbersMovesNoWindow(t *testing.T) {
	plan := runtime.Policy{Name: "limit", Kind: runtime.FixedWindow, Mode: runtime.ModeUnlimited, Overrides: runtime.OverrideBounds{Rate: 1, Capacity: 1}}
	block := runtime.OverrideEntry{Limit: "limit", What: runtime.OverrideBlock, Until: runtime.ForGood()}
	blocked := must(block.Apply(&plan, &plan))
	years := runtime.Calendar{Unit: runtime.Year, Count: 3, Zone: "UTC"}
	p := runtime.Policy{Name: "limit", Kind: runtime.FixedWindow, Rate: 5, Capacity: 5, Calendar: years, Period: years.Period()}
	rule, without := meter.RuleOf(&p, "k"), meter.RuleOf(blocked, "k")
	for years := range 30 {
		at := epoch.AddDate(years, 6, 0).UnixNano()
		s, _ := must2(rule.Step(runtime.State{}, at, take(5)))
		s, _ = must2(without.Step(s, at, reset()))
		s, _ = must2(rule.Step(s, at, take(5)))
		_, d := must2(rule.Step(s, rule.WindowEnd(at), peek()))
		require.EqualValues(t, 5, d.Remaining, "after %d years", years)
	}
}

// A swept shard leaves the others as many tokens as before, also those that have a debt.
func TestSweepOfAShardGrantsNothing(t *testing.T) {
	for _, kind := range []runtime.Kind{runtime.TokenBucket, runtime.FixedWindow} {
		p := runtime.Policy{Name: "limit", Kind: kind, Rate: 7, Period: 24 * time.Hour, Capacity: 7, MaxReserved: runtime.Unbounded, Shards: 5}
		swept := 0
		for count := range int64(30) {
			for after := time.Duration(0); after < 8*p.Period; after += 5 * time.Hour {
				states, now := make([]runtime.State, p.Shards), epoch.UnixNano()
				must(meter.StepShards(&p, states, "k", now, reserve(count), 0))
				now += int64(after)
				before := must(meter.StepShards(&p, states, "k", now, peek(), 0))
				for i := range states {
					if states[i].Exists && meter.Sweepable([]*runtime.Policy{&p}, runtime.Row{Name: p.Name, Key: "k", Shard: i}, states[i], now) {
						states[i] = runtime.State{}
						swept++
					}
				}
				left := must(meter.StepShards(&p, states, "k", now, peek(), 0))
				require.InDelta(t, before.Value, left.Value, 1e-6, "%v: %d tokens, after %v", kind, count, after)
			}
		}
		require.Positive(t, swept)
	}
}

func TestSharesAddUpExactly(t *testing.T) {
	d := runtimetest.Roll(31)
	for range 1000 {
		n := 1 + d.IntN(runtime.MaxShards)
		total := runtimetest.Pick(d, int64(n), int64(n)+d.Int64N(3000), runtime.MaxTokens-d.Int64N(1000))
		p := runtime.Policy{Rate: total, Capacity: total, MaxReserved: total, Period: time.Second, Kind: runtime.TokenBucket}
		whole, sum, smallest, largest := meter.RuleOf(&p, ""), 0.0, math.Inf(1), 0.0
		for i := range n {
			part := whole.Shard(i, n)
			if part.Rate != math.Trunc(part.Rate) || part.Rate != part.Capacity || part.Rate != part.Debt {
				require.Fail(t, "whole tokens stay whole, and equal numbers equal", "shard %d of %d: %+v", i, n, part)
			}
			sum += part.Rate
			smallest, largest = min(smallest, part.Rate), max(largest, part.Rate)
		}
		require.Equal(t, float64(total), sum)
		require.LessOrEqual(t, largest-smallest, 1.0)
		require.GreaterOrEqual(t, smallest, 1.0)
	}
}
