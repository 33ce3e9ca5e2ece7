package runtime_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/stretchr/testify/require"
)

// oracle is one row of a limit in exact rationals: the law as it is written, without a thought for speed.
type oracle struct {
	runtime.Policy
	phase int64

	seen        bool
	value, prev *big.Rat
	ts          int64
}

// lastInstant is where the tests end: in the year 2128, many periods before the last nanosecond of an int64.
const lastInstant = 5_000_000_000_000_000_000

// allowance returns the allowance of the law, in tokens: a millionth, and no more than a microsecond grants.
func (o *oracle) allowance(now int64) *big.Rat {
	perPeriod := rat(o.Rate)
	if o.Kind == runtime.SlidingWindow {
		perPeriod = o.at(now).prev
	}
	return least(big.NewRat(1, 1_000_000), times(o.periods(1000), perPeriod))
}

func newOracle(p runtime.Policy) *oracle {
	return &oracle{Policy: p, phase: p.Rule("").Phase, value: rat(0), prev: rat(0)}
}

func rat(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

func plus(a, b *big.Rat) *big.Rat  { return new(big.Rat).Add(a, b) }
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
	windows := new(big.Int).Div(big.NewInt(now-o.phase), big.NewInt(int64(o.Period)))
	return o.phase + windows.Int64()*int64(o.Period)
}

// instant returns T: now for a token bucket, and the start of the window that contains now otherwise.
func (o *oracle) instant(now int64) int64 {
	switch {
	case o.Kind == runtime.TokenBucket:
		return now
	case !o.Start.FirstUse():
		return o.windowStart(now)
	case o.seen && now < o.ts+int64(o.Period):
		return o.ts
	}
	return now
}

// at returns the row as it is at the instant now, with what accrued by then.
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
		accrued := times(o.periods(t-o.ts), rat(o.Rate))
		next.ts, next.value = t, least(rat(o.Capacity), plus(o.value, accrued))
	}
	return &next
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
		margin.Add(margin, new(big.Rat).SetFloat64(o.Rule("").Debt))
	}
	return margin
}

// allows is the law: avail - count >= -debt - allowance.
func (o *oracle) allows(now int64, q runtime.Request) bool {
	return plus(o.margin(now, q), o.allowance(now)).Sign() >= 0
}

// step does what an ask does that was allowed.
func (o *oracle) step(now int64, q runtime.Request) {
	switch q.Op {
	case runtime.Take, runtime.Charge:
		*o = *o.at(now)
		o.value = minus(o.value, rat(q.Count))
	case runtime.Refund:
		if o.seen {
			*o = *o.at(now)
			o.giveBack(rat(q.Count))
		}
	case runtime.Reset:
		o.seen = false
	}
}

// giveBack caps at the capacity. What a sliding window cannot give back of this window was used in the one
// before.
func (o *oracle) giveBack(count *big.Rat) {
	sum := plus(o.value, count)
	o.value = least(rat(o.Capacity), sum)
	rest := minus(sum, o.value)
	o.prev = minus(o.prev, least(o.prev, rest))
}

// follow makes the oracle's row that of s.
func (o *oracle) follow(s runtime.State) {
	o.seen, o.ts = s.Exists, s.TS
	o.value.SetFloat64(s.Value)
	o.prev.SetFloat64(s.Prev)
}

// rounding returns by how many tokens floats may be off: some units in the last place of the largest
// numbers that the trace may have seen.
func (o *oracle) rounding() *big.Rat {
	debt := min(o.MaxReserved, 3*o.Rate)
	value, _ := o.value.Float64() // charges go below any debt
	return new(big.Rat).SetFloat64(5e-16 * (float64(1+o.Capacity+o.Rate+debt) + math.Abs(value)))
}

// ambiguous reports whether a Take is so near to the threshold that rounding decides. One that takes the
// very last of the tokens is not, as long as roundings are smaller than the allowance, or there is neither: it must pass.
func (o *oracle) ambiguous(now int64, q runtime.Request) bool {
	margin, rounding := o.margin(now, q), o.rounding()
	allowance := o.allowance(now)
	if margin.Sign() == 0 && (rounding.Cmp(allowance) < 0 || allowance.Sign() == 0) {
		return false
	}
	distance := plus(margin, allowance)
	return distance.Abs(distance).Cmp(rounding) <= 0
}

func TestOracle(t *testing.T) {
	var tally tally
	d := roll(3)
	for tally.steps-tally.ambiguous < randomSteps() {
		traceOracle(t, d, d.policy(t), &tally)
	}
	t.Logf("%d steps agree, of which %d were denied; %d more were ambiguous", tally.steps-tally.ambiguous, tally.denied, tally.ambiguous)
	require.Less(t, tally.ambiguous, tally.steps/1000)
	require.Greater(t, tally.denied, tally.steps/10)
}

// Of numbers beyond a thousand million the allowance is finer than a float: more of the verdicts are the
// rounding's, and only the others can be held to the law.
func TestOracleOfHugeNumbers(t *testing.T) {
	var tally tally
	d := roll(4)
	for range randomSteps() / traceSteps / 10 {
		traceOracle(t, d, d.hugePolicy(t), &tally)
	}
	t.Logf("%+v", tally)
	require.Less(t, tally.ambiguous, tally.steps/5)
	require.Greater(t, tally.denied, tally.steps/20)
}

// tally counts the steps that the oracle was asked, those of them that were denied, and those that were
// skipped because rounding decides.
type tally struct{ steps, denied, ambiguous int }

// traceOracle asks the oracle and [runtime.Rule.Step] the same questions of a key.
func traceOracle(t *testing.T, d dice, p runtime.Policy, tally *tally) {
	o, rule, state, now := newOracle(p), p.Rule(""), runtime.State{}, epoch.UnixNano()
	for i := 0; i < traceSteps && now < lastInstant; i++ {
		now += int64(d.jump(p))
		q := d.ask(p)
		next, decision, err := rule.Step(state, now, q)
		require.NoError(t, err)
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
			now += d.patience(decision.RetryAfter)
		}
	}
}

// confirmState holds the state after a step, and the decision about it, to the oracle's.
func (o *oracle) confirmState(t *testing.T, q runtime.Request, s runtime.State, d runtime.Decision, now int64) {
	t.Helper()
	require.Equal(t, o.seen, s.Exists)
	near := func(want *big.Rat, got float64) {
		t.Helper()
		difference := minus(want, new(big.Rat).SetFloat64(got))
		require.LessOrEqual(t, difference.Abs(difference).Cmp(o.rounding()), 0, "%v is not %v", got, want)
	}
	if s.Exists {
		require.Equal(t, o.ts, s.TS)
		near(o.value, s.Value)
		near(o.prev, s.Prev)
	}
	if q.Op != runtime.Check {
		near(o.available(now), d.Value)
	}
}

// confirmWaits holds RetryAfter and Delay to the law: the tokens are there then, and a nanosecond before
// they are not.
func (o *oracle) confirmWaits(t *testing.T, now int64, q runtime.Request, d runtime.Decision) {
	t.Helper()
	if !d.Allowed {
		o.confirmWait(t, now, q, int64(d.RetryAfter))
	}
	if q.Reserve {
		after := *o
		after.step(now, take(q.Count))
		after.confirmWait(t, now, take(0), int64(d.Delay))
	}
}

func (o *oracle) confirmWait(t *testing.T, now int64, q runtime.Request, wait int64) {
	t.Helper()
	if wait > lastInstant-now {
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
