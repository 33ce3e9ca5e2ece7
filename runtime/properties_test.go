package runtime_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
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

// An edit can change the numbers, the kind and the phase of the windows. The stored state then has at most the new
// capacity.
func TestConfigEditCreatesNothingBeyondTheNewCapacity(t *testing.T) {
	d := roll(17)
	for range randomSteps() / traceSteps {
		r := newRow(t, d.policy(t))
		var last int64
		for i := 0; i < traceSteps && r.now < lastInstant; i++ {
			r.policy = d.policy(t)
			r.rule = meter.RuleOf(&r.policy, "")
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
