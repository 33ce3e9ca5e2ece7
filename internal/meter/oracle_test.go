package meter_test

import (
	"fmt"
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/internal/runtimetest"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// oracle is one row of a limit in exact rationals: the formulas as they are written, without regard to speed.
type oracle struct {
	runtime.Policy
	phase int64

	seen        bool
	value, prev *big.Rat
	ts          int64
}

// allowance returns the allowance in tokens: a millionth, and no more than accrues in a microsecond.
func (o *oracle) allowance(now int64) *big.Rat {
	perPeriod := rat(o.Rate)
	if o.Kind == runtime.SlidingWindow {
		perPeriod = o.at(now).prev
	}
	return least(big.NewRat(1, 1_000_000), times(o.periods(1000), perPeriod))
}

func newOracle(p runtime.Policy) *oracle {
	return &oracle{Policy: p, phase: meter.RuleOf(&p, "").Phase, value: rat(0), prev: rat(0)}
}

func rat(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

func plus(a, b *big.Rat) *big.Rat { return new(big.Rat).Add(a, b) }

func minus(a, b *big.Rat) *big.Rat { return new(big.Rat).Sub(a, b) }

func times(a, b *big.Rat) *big.Rat { return new(big.Rat).Mul(a, b) }

func least(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

// periods returns a duration as a number of periods.
func (o *oracle) periods(nanoseconds int64) *big.Rat { return big.NewRat(nanoseconds, int64(o.Period)) }

// windowStart returns the start of the window that contains now.
func (o *oracle) windowStart(now int64) int64 {
	if o.Calendar.Unit != 0 {
		start := calendarStartByHand(&o.Policy, now)
		if o.seen && 2*(start-o.ts) < int64(o.Period) {
			return o.ts
		}
		return start
	}
	windows := new(big.Int).Div(big.NewInt(now-o.phase), big.NewInt(int64(o.Period)))
	return o.phase + windows.Int64()*int64(o.Period)
}

// instant returns T: now for a token bucket, and the start of the window that contains now otherwise.
func (o *oracle) instant(now int64) int64 {
	switch {
	case o.Kind != runtime.TokenBucket && o.Kind != runtime.FixedWindow && o.Kind != runtime.SlidingWindow:
		panic(fmt.Sprintf("the oracle does not calculate %v: add it to oracle_test.go", o.Kind))
	case o.Kind == runtime.TokenBucket:
		return now
	case !o.Start.FirstUse():
		return o.windowStart(now)
	case o.seen && now < o.ts+int64(o.Period):
		return o.ts
	}
	return now
}

// at returns the row as of the instant now, with the tokens that have accrued by then.
func (o *oracle) at(now int64) *oracle {
	t := o.instant(now)
	next := *o
	next.seen = true
	switch {
	case !o.seen:
		next.ts, next.value, next.prev = t, rat(o.Capacity), rat(0)
	case t <= o.ts:
		next.value = least(rat(o.Capacity), o.value)
	case o.Kind == runtime.SlidingWindow:
		next.ts, next.value, next.prev = t, rat(o.Rate), rat(0)
		if t == o.ts+int64(o.Period) {
			next.prev = minus(rat(o.Rate), o.value)
		}
	default:
		periods := o.periods(t - o.ts)
		if o.Calendar.Unit != 0 {
			whole := new(big.Int).Div(new(big.Int).Add(new(big.Int).Lsh(periods.Num(), 1), periods.Denom()), new(big.Int).Lsh(periods.Denom(), 1))
			periods = new(big.Rat).SetInt(whole)
		}
		ended := o.value
		if periods.Sign() > 0 {
			ended = o.atWindowEnd()
		}
		next.ts, next.value = t, least(rat(o.Capacity), plus(ended, times(periods, rat(o.Rate))))
	}
	return &next
}

// atWindowEnd returns the value with which a window ends: at least minus the tokens that can be reserved.
func (o *oracle) atWindowEnd() *big.Rat {
	if lowest := rat(-o.MaxReserved); o.Kind == runtime.FixedWindow && o.MaxReserved != runtime.Unbounded && o.value.Cmp(lowest) < 0 {
		return lowest
	}
	return o.value
}

// available returns the tokens at the instant now.
func (o *oracle) available(now int64) *big.Rat {
	row := o.at(now)
	if o.Kind != runtime.SlidingWindow {
		return row.value
	}
	weight := minus(rat(1), o.periods(max(0, now-row.ts)))
	return minus(row.value, times(row.prev, weight))
}

// margin returns by how much a Take passes or, if negative, fails.
func (o *oracle) margin(now int64, q runtime.Request) *big.Rat {
	margin := minus(o.available(now), rat(q.Count))
	if q.Reserve {
		margin.Add(margin, new(big.Rat).SetFloat64(meter.RuleOf(&o.Policy, "").Debt))
	}
	return margin
}

// allows evaluates avail - count >= -debt - allowance.
func (o *oracle) allows(now int64, q runtime.Request) bool {
	return plus(o.margin(now, q), o.allowance(now)).Sign() >= 0
}

// step executes a request that was allowed.
func (o *oracle) step(now int64, q runtime.Request) {
	switch q.Op {
	case runtime.Take, runtime.Charge:
		*o = *o.at(now)
		o.value = minus(o.value, rat(q.Count))
	case runtime.Refund:
		if o.seen {
			*o = *o.at(now)
			o.refund(rat(q.Count))
		}
	case runtime.Reset:
		if o.seen {
			was := o.ts
			*o = *newOracle(o.Policy)
			*o = *o.at(now)
			if o.Kind == runtime.SlidingWindow {
				o.ts = max(o.ts, was) // the clock may have gone back
			}
			if o.Start.FirstUse() {
				o.ts -= int64(o.Period) // no window is open
			}
		}
	}
}

// refund caps at the capacity. A sliding window takes the rest from the use of the previous window.
func (o *oracle) refund(count *big.Rat) {
	sum := plus(o.value, count)
	o.value = least(rat(o.Capacity), sum)
	rest := minus(sum, o.value)
	o.prev = minus(o.prev, least(o.prev, rest))
}

// follow makes the oracle's row that of s.
func (o *oracle) follow(s runtime.State) {
	o.seen, o.ts = s.Exists, s.TS
	o.value = o.tokens(s)
	o.prev.SetFloat64(previousUse(s))
}

// previousUse returns the use of the previous window, without what refunds need.
func previousUse(s runtime.State) float64 { return max(0, math.Floor(s.Prev)) }

// tokens returns the tokens of a stored row.
func (o *oracle) tokens(s runtime.State) *big.Rat {
	return plus(rat(o.Capacity), new(big.Rat).SetFloat64(s.Value))
}

// rounding returns by how many tokens floats may be off: some units in the last place of the largest
// numbers that the trace may have seen.
func (o *oracle) rounding() *big.Rat {
	debt := min(o.MaxReserved, 3*o.Rate)
	value, _ := o.value.Float64() // charges go below any debt
	return new(big.Rat).SetFloat64(5e-16 * (float64(1+o.Capacity+o.Rate+debt) + math.Abs(value)))
}

// ambiguous reports whether a Take is so near to the threshold that rounding decides. A Take of exactly the remaining
// tokens is not ambiguous if the rounding is smaller than the allowance, or the allowance is 0: it must pass.
func (o *oracle) ambiguous(now int64, q runtime.Request) bool {
	margin, rounding := o.margin(now, q), o.rounding()
	allowance := o.allowance(now)
	if margin.Sign() == 0 && (rounding.Cmp(allowance) < 0 || allowance.Sign() == 0) {
		return false
	}
	distance := plus(margin, allowance)
	return distance.Abs(distance).Cmp(rounding) <= 0
}

// tally counts the steps compared, the denials among them, and the steps skipped because rounding decides.
type tally struct{ steps, denied, ambiguous int }

// traceOracle executes the same random requests by the oracle and by [meter.Rule.Step].
func traceOracle(t *testing.T, d runtimetest.Dice, p runtime.Policy, tally *tally) {
	o, rule, state, now := newOracle(p), meter.RuleOf(&p, ""), runtime.State{}, epoch.UnixNano()
	for i := 0; i < runtimetest.TraceSteps && now < runtimetest.LastInstant; i++ {
		now += int64(d.Jump(p))
		q := d.Request(p)
		next, decision := must2(rule.Step(state, now, q))
		tally.steps++
		if takes := q.Op == runtime.Take || q.Op == runtime.Check; takes && o.ambiguous(now, q) {
			tally.ambiguous++
			o.follow(next)
		} else {
			if takes {
				require.Equal(t, o.allows(now, q), decision.Allowed, "%+v of %+v in %+v at %d", q, p, state, now)
				o.confirmWaits(t, now, q, decision)
			}
			if decision.Allowed {
				o.step(now, q)
			}
			o.confirmState(t, q, next, decision, now)
		}
		state = next
		if !decision.Allowed {
			tally.denied++
			now += d.Patience(decision.RetryAfter)
		}
	}
}

// confirmState compares the state after a step, and the tokens left, with the oracle's.
func (o *oracle) confirmState(t *testing.T, q runtime.Request, s runtime.State, d runtime.Decision, now int64) {
	t.Helper()
	require.Equal(t, o.seen, s.Exists)
	near := func(want, got *big.Rat) {
		t.Helper()
		difference := minus(want, got)
		// Each step of the trace has rounded to the precision of twice the capacity.
		most := times(rat(8), o.rounding())
		require.LessOrEqual(t, difference.Abs(difference).Cmp(most), 0, "got %v, want %v", got, want)
	}
	if s.Exists {
		require.Equal(t, o.ts, s.TS)
		near(o.value, o.tokens(s))
		near(o.prev, new(big.Rat).SetFloat64(previousUse(s)))
	}
	if q.Op != runtime.Check {
		near(o.available(now), new(big.Rat).SetFloat64(d.Value))
	}
}

// confirmWaits checks RetryAfter and UsableAfter: the tokens are available then, and not a nanosecond before.
func (o *oracle) confirmWaits(t *testing.T, now int64, q runtime.Request, d runtime.Decision) {
	t.Helper()
	if !d.Allowed {
		o.confirmWait(t, now, q, int64(d.RetryAfter))
	}
	if q.Reserve {
		after := *o
		after.step(now, take(q.Count))
		if !d.Allowed {
			after.MaxReserved = runtime.Unbounded // its debt is larger than the one with which a window can end
		}
		after.confirmWait(t, now, take(0), int64(d.UsableAfter))
	}
}

func (o *oracle) confirmWait(t *testing.T, now int64, q runtime.Request, wait int64) {
	t.Helper()
	if wait > runtimetest.LastInstant-now {
		return
	}
	rounding := o.rounding()
	then := plus(o.margin(now+wait, q), plus(o.allowance(now+wait), rounding))
	require.GreaterOrEqual(t, then.Sign(), 0, "%+v of %+v fails after %d", q, o.Policy, wait)
	if wait > 0 {
		before := minus(o.margin(now+wait-1, q), rounding)
		require.Less(t, before.Sign(), 0, "%+v of %+v passes before %d", q, o.Policy, wait)
	}
}

func TestStepAgreesWithExactRationals(t *testing.T) {
	var tally tally
	d := runtimetest.Roll(3)
	for tally.steps-tally.ambiguous < runtimetest.Steps() {
		traceOracle(t, d, d.Policy(t), &tally)
	}
	t.Logf("%d steps agree, of which %d were denied; %d more were ambiguous", tally.steps-tally.ambiguous, tally.denied, tally.ambiguous)
	require.Less(t, tally.ambiguous, tally.steps/1000)
	require.Greater(t, tally.denied, tally.steps/10)
}

// Beyond a thousand million tokens the allowance is less than the precision of a float64, so that rounding decides more
// of the requests. Only the others are compared.
func TestStepAgreesWithExactRationalsForHugeNumbers(t *testing.T) {
	var tally tally
	d := runtimetest.Roll(4)
	for range runtimetest.Steps() / runtimetest.TraceSteps / 10 {
		traceOracle(t, d, d.HugePolicy(t), &tally)
	}
	t.Logf("%+v", tally)
	require.Less(t, tally.ambiguous, tally.steps/5)
	require.Greater(t, tally.denied, tally.steps/20)
}
