package runtime_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/stretchr/testify/require"
)

// row is a key of a policy with its current state and instant.
type row struct {
	t      *testing.T
	policy runtime.Policy
	rule   runtime.Rule
	state  runtime.State
	now    int64
}

func newRow(t *testing.T, p runtime.Policy) *row {
	return &row{t: t, policy: p, rule: p.Rule(""), now: epoch.UnixNano()}
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
func traces(t *testing.T, seed uint64, kinds []runtime.Kind, step func(dice, *row)) {
	d := roll(seed)
	for range randomSteps() / traceSteps {
		r := newRow(t, d.policy(t, kinds...))
		for i := 0; i < traceSteps && r.now < lastInstant; i++ {
			r.now += int64(d.jump(r.policy))
			step(d, r)
		}
	}
}

// grant is a number of tokens that were taken at an instant.
type grant struct {
	at     int64
	tokens float64
}

// requireBound checks that no interval has more grants than its bound. The clock must not have gone back.
func requireBound(t *testing.T, p runtime.Policy, grants []grant) {
	t.Helper()
	most := float64(p.Capacity) + float64(p.MaxReserved)
	for from := range grants {
		sum := 0.0
		for _, g := range grants[from:] {
			sum += g.tokens
			accrued := float64(g.at-grants[from].at) * float64(p.Rate) / float64(p.Period)
			require.LessOrEqual(t, sum, (most+accrued)*(1+1e-12)+1e-5, "%+v", p)
		}
	}
}

// requireWindowBound checks the grants of fixed windows: an interval has at most the accumulated tokens, and the rate for
// each start of a window in it. A window from first use grants for the whole time since the last one began, which may be
// up to a period before the interval.
func requireWindowBound(t *testing.T, p runtime.Policy, grants []grant) {
	t.Helper()
	most := float64(p.Capacity) + float64(p.MaxReserved)
	for from := range grants {
		sum := 0.0
		for _, g := range grants[from:] {
			sum += g.tokens
			windows := float64((g.at-grants[from].at)/int64(p.Period) + 1)
			if p.Calendar.Unit != 0 {
				windows += 2 // short months, and clock changes
			}
			if p.Start.FirstUse() {
				windows = float64(g.at-grants[from].at)/float64(p.Period) + 1
			}
			require.LessOrEqual(t, sum, (most+windows*float64(p.Rate))*(1+1e-12)+1e-5, "%+v", p)
		}
	}
}

func TestNoIntervalGrantsMoreThanItsBound(t *testing.T) {
	d := roll(11)
	for range randomSteps() / traceSteps {
		r := newRow(t, d.policy(t, runtime.TokenBucket, runtime.SlidingWindow))
		var grants []grant
		for i := 0; i < traceSteps && r.now < lastInstant; i++ {
			q := d.take(r.policy)
			q.Op = runtime.Take
			decision := r.step(q)
			if decision.Allowed {
				grants = append(grants, grant{r.now, float64(q.Count)})
			}
			r.now += max(0, int64(d.jump(r.policy)), d.patience(decision.RetryAfter))
		}
		requireBound(t, r.policy, grants)
	}
}

func TestNoWindowGrantsMoreThanItsBound(t *testing.T) {
	d := roll(12)
	for range randomSteps() / traceSteps {
		r := newRow(t, d.policy(t, runtime.FixedWindow))
		granted := map[int64]int64{}
		for i := 0; i < traceSteps && r.now < lastInstant; i++ {
			q := d.take(r.policy)
			q.Op = runtime.Take
			if r.step(q).Allowed {
				granted[r.state.TS] += q.Count
			}
			r.now += int64(d.jump(r.policy))
		}
		for _, tokens := range granted {
			require.LessOrEqual(t, tokens, r.policy.Capacity+r.policy.MaxReserved, "%+v", r.policy)
		}
	}
}

func TestRetryAtRetryAfterPasses(t *testing.T) {
	traces(t, 13, nil, func(d dice, r *row) {
		q := d.take(r.policy)
		decision := r.step(q)
		if decision.Allowed {
			require.Zero(t, decision.RetryAfter)
			return
		}
		require.Positive(t, decision.RetryAfter)
		at := r.now + int64(decision.RetryAfter)
		require.True(t, r.passes(at, q), "%+v at %v of %+v in %+v, now %d", q, decision, r.policy, r.state, r.now)
		early := int64(3e-6*float64(r.policy.Period)/float64(r.policy.Rate)) + 2
		if r.policy.Kind != runtime.SlidingWindow && int64(decision.RetryAfter) > early {
			require.False(t, r.passes(at-early, q), "%+v at %v of %+v in %+v", q, decision, r.policy, r.state)
		}
	})
}

func TestMaxDelayDeniesTokensDueLater(t *testing.T) {
	traces(t, 22, []runtime.Kind{runtime.TokenBucket, runtime.FixedWindow}, func(d dice, r *row) {
		q := d.take(r.policy)
		q.Op, q.Reserve = runtime.Take, true
		_, unbound, err := r.rule.Step(r.state, r.now, q)
		require.NoError(t, err)
		q = within(1+d.upTo(2*r.policy.Period), q)
		before, decision := r.state, r.step(q)
		require.Equal(t, unbound.Allowed && unbound.Delay <= q.MaxDelay, decision.Allowed)
		require.Equal(t, unbound.Delay, decision.Delay)
		if decision.Allowed {
			return
		}
		require.Equal(t, before, r.state)
		require.GreaterOrEqual(t, decision.RetryAfter, unbound.RetryAfter)
		// A window that begins with the retry ends later, so that its tokens are due later.
		if q.Count <= r.policy.Capacity && !r.policy.Start.FirstUse() && int64(decision.RetryAfter) < lastInstant-r.now {
			require.True(t, r.passes(r.now+int64(decision.RetryAfter), q), "%+v of %+v", q, r.policy)
		}
	})
}

func TestReservedTokensAreAvailableAfterTheirDelay(t *testing.T) {
	traces(t, 14, []runtime.Kind{runtime.TokenBucket, runtime.FixedWindow}, func(d dice, r *row) {
		q := d.take(r.policy)
		q.Op = runtime.Take
		decision := r.step(q)
		if !decision.Allowed || int64(decision.Delay) > lastInstant-r.now {
			return
		}
		value := func(at int64) float64 {
			_, b, err := r.rule.Step(r.state, at, peek())
			require.NoError(t, err)
			return b.Value
		}
		due := r.now + int64(decision.Delay)
		require.GreaterOrEqual(t, value(due), -1e-6)
		if decision.Delay > 0 {
			require.Less(t, value(due-1), 1e-9, "%+v", r.policy)
		}
	})
}

func TestTakingManyAtOnceEqualsOneByOne(t *testing.T) {
	traces(t, 15, nil, func(d dice, r *row) {
		n := int64(1 + d.IntN(5))
		reserving := r.policy.MaxReserved > 0 && (r.policy.Capacity == 0 || d.IntN(2) == 0)
		one := runtime.Request{Op: runtime.Take, Count: 1, Reserve: reserving}
		before, passed := r.state, int64(0)
		for range n {
			if r.step(one).Allowed {
				passed++
			}
		}
		oneByOne := r.state
		r.state = before
		if passed == 0 {
			require.Equal(t, before, oneByOne)
			return
		}
		one.Count = passed
		require.True(t, r.step(one).Allowed)
		require.InDelta(t, oneByOne.Value, r.state.Value, 1e-9)
		require.Equal(t, oneByOne.TS, r.state.TS)
		if passed < n {
			one.Count = 1
			require.False(t, r.step(one).Allowed)
		}
	})
}

func TestClockGoingBackCreatesNothing(t *testing.T) {
	traces(t, 16, nil, func(d dice, r *row) {
		r.step(d.request(r.policy))
		before, _, back := r.state, r.now, int64(d.upTo(3*r.policy.Period))
		if !before.Exists {
			return
		}
		_, now, err := r.rule.Step(before, r.now, peek())
		require.NoError(t, err)
		_, earlier, err := r.rule.Step(before, r.now-back, peek())
		require.NoError(t, err)
		require.LessOrEqual(t, earlier.Value, now.Value)
		taken, decision, err := r.rule.Step(before, r.now-back, d.take(r.policy))
		require.NoError(t, err)
		require.GreaterOrEqual(t, taken.TS, before.TS, "ts never moves back")
		if decision.Allowed {
			_, after, err := r.rule.Step(taken, r.now, peek())
			require.NoError(t, err)
			require.LessOrEqual(t, after.Value, now.Value+1e-9, "nothing accrues twice")
		}
	})
}

// An edit can change the numbers, the kind and the phase of the windows. The stored state then has at most the new
// capacity.
func TestConfigEditCreatesNothingBeyondTheNewCapacity(t *testing.T) {
	d := roll(17)
	for range randomSteps() / traceSteps {
		r := newRow(t, d.policy(t))
		var last int64
		for i := 0; i < traceSteps && r.now < lastInstant; i++ {
			r.policy = d.policy(t)
			r.rule = r.policy.Rule("")
			q := d.take(r.policy)
			value := r.step(peek()).Value
			require.LessOrEqual(t, value, float64(r.policy.Capacity))
			if r.state.Exists && r.policy.Kind == runtime.TokenBucket && r.now <= r.state.TS {
				require.LessOrEqual(t, value, float64(r.policy.Capacity)+r.state.Value+1e-6, "an edit keeps what was used")
			}
			r.step(q)
			require.GreaterOrEqual(t, r.state.TS, last, "ts never moves back")
			last = r.state.TS
			r.now += int64(d.jump(r.policy))
		}
	}
}

func TestDeniedCallChangesNothing(t *testing.T) {
	traces(t, 18, nil, func(d dice, r *row) {
		r.step(d.request(r.policy))
		before, q := r.state, d.take(r.policy)
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

// bits returns a state as text, to the last bit.
func bits(s runtime.State) string {
	return fmt.Sprintf("%x %d %x %v", math.Float64bits(s.Value), s.TS, math.Float64bits(s.Prev), s.Exists)
}

func TestRefundIsNeverBeyondCapacity(t *testing.T) {
	traces(t, 19, nil, func(d dice, r *row) {
		r.step(d.take(r.policy))
		value := r.step(peek()).Value
		n := d.count(2*r.policy.Rate + 1)
		after := r.step(refund(n)).Value
		require.LessOrEqual(t, after, float64(r.policy.Capacity))
		require.GreaterOrEqual(t, after, value-1e-9, "nothing is lost")
		require.LessOrEqual(t, after, value+float64(n)+1e-9)
	})
}

// taken is a number of tokens that were taken and not refunded.
type taken struct {
	grant    int // index
	decision runtime.Decision
	count    int64
}

// traceRefunds takes and refunds at random as the clock advances. After each step it calls check with the tokens in use:
// the part of each grant that was not refunded, at the instant at which it was taken.
func traceRefunds(t *testing.T, d dice, r *row, check func(grants []grant)) {
	var grants []grant
	var open []taken
	for i := 0; i < traceSteps && r.now < lastInstant; i++ {
		if len(open) > 0 && d.IntN(3) == 0 {
			at := d.IntN(len(open))
			o := &open[at]
			n := 1 + d.Int64N(o.count)
			r.step(o.decision.RefundRequest(n))
			grants[o.grant].tokens -= float64(n)
			open = append(open[:at], open[at+1:]...)
		} else {
			q := d.take(r.policy)
			q.Op = runtime.Take
			if decision := r.step(q); decision.Allowed {
				open = append(open, taken{len(grants), decision, q.Count})
				grants = append(grants, grant{r.now, float64(q.Count)})
			}
		}
		check(grants)
		r.now += max(0, int64(d.jump(r.policy)))
	}
}

// Refunds count as of the instant at which their tokens were taken: no window and no interval has more uses than its
// bound.
func TestRefundsNeverPassTheBound(t *testing.T) {
	d := roll(23)
	for range 2 * randomSteps() / traceSteps {
		r := newRow(t, d.policy(t))
		all := []grant(nil)
		windows := map[int64]float64{}
		traceRefunds(t, d, r, func(grants []grant) {
			all = grants
			if r.policy.Kind != runtime.FixedWindow {
				return
			}
			clear(windows)
			for _, g := range grants {
				if !r.policy.Start.FirstUse() {
					windows[r.rule.WindowEnd(g.at)] += g.tokens
				}
			}
			for _, used := range windows {
				require.LessOrEqual(t, used, float64(r.policy.Capacity+r.policy.MaxReserved), "%+v", r.policy)
			}
		})
		if r.policy.Kind != runtime.FixedWindow {
			requireBound(t, r.policy, all)
		} else {
			requireWindowBound(t, r.policy, all)
		}
	}
}

// Evaluated as its doc comment describes, an Upsert decides and stores the same bits as Step.
func TestUpsertEqualsStep(t *testing.T) {
	compared := 0
	traces(t, 21, nil, func(d dice, r *row) {
		q := d.take(r.policy)
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
			require.Equal(t, decision.Delay, r.rule.Taken(want, r.now, q).Delay)
		}
	})
	require.Positive(t, compared)
}

// evaluate evaluates an Upsert like an SQL statement.
func evaluate(u runtime.Upsert, s runtime.State) (runtime.State, bool) {
	if !s.Exists {
		return runtime.State{Value: -u.Count, TS: u.T, Prev: u.Fresh - u.Count*runtime.TotalUnit, Exists: true}, true
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
	return runtime.State{Value: filled - u.Count, TS: max(s.TS, u.T), Prev: total - u.Count*runtime.TotalUnit, Exists: true}, true
}
