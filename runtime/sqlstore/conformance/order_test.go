package conformance

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// rows are the states that a key may be in after a sequence of answered calls, as any of the lost calls may have happened in
// between, each once. For each state they have the smallest sets of lost calls that lead to it: what can follow a set can
// also follow a part of it.
type rows map[runtime.State][]lostCalls

// lostCalls is a set of the lost calls of a history, with a bit for each.
type lostCalls struct {
	happened uint64
	// open are those that have happened and that the store may undo, because they reserve tokens and their callers have gone.
	open uint64
}

// covers reports whether what can follow o can also follow s.
func (s lostCalls) covers(o lostCalls) bool {
	return s.happened&^o.happened == 0 && o.open&^s.open == 0
}

// add adds a state after lost calls, and reports whether it is news.
func (r rows) add(s runtime.State, after lostCalls) bool {
	if slices.ContainsFunc(r[s], func(known lostCalls) bool { return known.covers(after) }) {
		return false
	}
	r[s] = append(slices.DeleteFunc(r[s], after.covers), after)
	slices.SortFunc(r[s], func(a, b lostCalls) int {
		return cmp.Or(cmp.Compare(a.happened, b.happened), cmp.Compare(a.open, b.open))
	})
	return true
}

// answered is a call whose answer is known, at some instant before it returned.
type answered struct {
	runtime.Request
	returned int64
}

// order searches for an order of sequential calls. The lost calls are part of the state rather than of the order, because a
// search takes longer than anybody waits if it tries each of many lost calls at each place.
func (h *history) order(now int64) porcupine.CheckResult {
	m := sequential{rule: meter.RuleOf(h.policy, h.key), policy: h.policy, now: now}
	var known []porcupine.Operation
	for _, o := range h.operations {
		got := o.Output.(reply)
		if got.lost {
			m.lost = append(m.lost, o)
			continue
		}
		m.fences = append(m.fences, got.decision.Fence)
		o.Input = answered{o.Input.(runtime.Request), o.Return}
		known = append(known, o)
	}
	slices.SortFunc(m.lost, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	return porcupine.CheckOperationsTimeout(m.model(), known, time.Minute)
}

// sequential is the behaviour of a key: calls are answered one after the other, each at an instant between its call and its
// return, and lost calls may happen at any instant after they were made. What they have reserved or acquired may be given
// back at any instant after that.
type sequential struct {
	rule   meter.Rule
	policy *runtime.Policy
	now    int64
	lost   []porcupine.Operation
	// fences are those that callers know.
	fences []int64
}

func (m *sequential) model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return rows{{}: {{}}} },
		Equal: func(a, b any) bool {
			return maps.EqualFunc(a.(rows), b.(rows), slices.Equal[[]lostCalls])
		},
		Step: func(state, input, output any) (bool, any) {
			call, got, next := input.(answered), output.(reply), rows{}
			for s, sets := range m.withLost(state.(rows), call.returned) {
				after, ok := m.follows(got, s, call.Request)
				for _, set := range sets {
					if ok {
						next.add(after, set)
					}
				}
			}
			return len(next) > 0, next
		},
	}
}

// step is a step of the rule. What no answer shows is forgotten, so that states that differ in nothing else are one: the
// total of a bucket or a fixed window, and the number of changes of a row of slots.
func (m *sequential) step(s runtime.State, q runtime.Request) (runtime.State, runtime.Decision, error) {
	after, d, err := m.rule.Step(s, m.now, q)
	switch m.policy.Kind {
	case runtime.TokenBucket, runtime.FixedWindow:
		after.Prev = 0
	case runtime.InFlight:
		after.Prev = max(after.Prev, -2)
	}
	return after, d, err
}

// follows reports whether the answer is that of a request in a state, and returns the state after it.
func (m *sequential) follows(r reply, s runtime.State, q runtime.Request) (runtime.State, bool) {
	after, d, err := m.step(s, q)
	if skipped := r.decision.Fence - d.Fence; len(m.lost) > 0 && d.Taken > 0 && d.Fence > 0 && skipped > 0 {
		// Of a lost call, which may have had no effect, the store has given back the fence that it would have had.
		s, _, _ = m.step(s, runtime.Request{Op: runtime.Release, Fence: d.Fence - q.Fence - 1 + skipped, TakenAt: 1})
		after, d, err = m.step(s, q)
	}
	if err != nil {
		return s, r.slotLost && errors.Is(err, runtime.ErrSlotLost)
	}
	return after, !r.slotLost && r.shows(m.policy, q, d)
}

// withLost returns the states after any of the lost calls that were made before an instant.
func (m *sequential) withLost(r rows, before int64) rows {
	type row struct {
		runtime.State
		after lostCalls
	}
	all := rows{}
	var open []row
	add := func(s runtime.State, after lostCalls) {
		if all.add(s, after) {
			open = append(open, row{s, after})
		}
	}
	for s, sets := range r {
		for _, set := range sets {
			add(s, set)
		}
	}
	for len(open) > 0 {
		last := open[len(open)-1]
		open = open[:len(open)-1]
		tried := map[runtime.Request]bool{}
		for i, o := range m.lost {
			q, bit := o.Input.(runtime.Request), uint64(1)<<i
			if q.Op == runtime.Take {
				q.Fence = 0 // the least that it can have got
			}
			after := last.after
			switch {
			case after.open&bit != 0:
				after.open &^= bit
				// As if it belonged to no request, because the totals are forgotten: others return nothing after a reset, which
				// is as if this did not happen.
				q = runtime.Request{Op: runtime.Refund, Count: q.Count}
			case o.Call > before, after.happened&bit != 0, tried[q]:
				continue
			default:
				// Of equal calls, the first one stands for all.
				tried[q] = true
				after.happened |= bit
				if q.Reserve {
					after.open |= bit
				}
			}
			// A denied one has changed nothing.
			if s, d, err := m.step(last.State, q); err == nil && d.Allowed {
				add(s, after)
			}
		}
		// The slots of holders that no caller knows of.
		for _, of := range meter.Holders(m.policy, []runtime.StoredRow{{State: last.State}}, m.now) {
			if slices.Contains(m.fences, of.Fence) {
				continue
			}
			if s, _, err := m.step(last.State, runtime.Request{Op: runtime.Release, Fence: of.Fence}); err == nil {
				add(s, last.after)
			}
		}
	}
	return all
}

// A lost call happens at most once, after it was made. The store gives back at most once what it has reserved.
func TestOrderOfLostCalls(t *testing.T) {
	now := storetest.NewClock().Now()
	bucket := historic()[0]
	take := func(n int64) runtime.Request { return runtime.Request{Policy: bucket, Key: "k", Count: n} }
	reserve := func(n int64) runtime.Request {
		return runtime.Request{Policy: bucket, Key: "k", Count: n, Reserve: true}
	}
	peek := runtime.Request{Policy: bucket, Key: "k", Op: runtime.Peek}
	for name, row := range map[string]struct {
		// lost are calls made at the instants 10, 20 and so on, and left is what Peek saw at the instants seen.
		lost []runtime.Request
		left []float64
		seen []int64
		want porcupine.CheckResult
	}{
		"not at all":            {[]runtime.Request{take(2)}, []float64{6}, []int64{100}, porcupine.Ok},
		"once":                  {[]runtime.Request{take(2)}, []float64{4}, []int64{100}, porcupine.Ok},
		"twice":                 {[]runtime.Request{take(2)}, []float64{2}, []int64{100}, porcupine.Illegal},
		"late":                  {[]runtime.Request{take(2)}, []float64{6, 6, 4}, []int64{15, 50, 100}, porcupine.Ok},
		"before it was made":    {[]runtime.Request{take(2)}, []float64{4}, []int64{5}, porcupine.Illegal},
		"undone":                {[]runtime.Request{take(2)}, []float64{4, 6}, []int64{50, 100}, porcupine.Illegal},
		"a reservation":         {[]runtime.Request{reserve(2)}, []float64{6, 4, 4}, []int64{15, 50, 100}, porcupine.Ok},
		"undone once":           {[]runtime.Request{reserve(2)}, []float64{4, 6, 6}, []int64{15, 50, 100}, porcupine.Ok},
		"undone and done again": {[]runtime.Request{reserve(2)}, []float64{4, 6, 4}, []int64{15, 50, 100}, porcupine.Illegal},
		"undone twice":          {[]runtime.Request{take(3), reserve(2)}, []float64{1, 3, 5}, []int64{25, 50, 100}, porcupine.Illegal},
		"undone in part":        {[]runtime.Request{reserve(2)}, []float64{4, 5}, []int64{15, 50}, porcupine.Illegal},
		"undone one by one":     {[]runtime.Request{reserve(2), reserve(2)}, []float64{2, 4, 6}, []int64{25, 50, 100}, porcupine.Ok},
		"the later of two":      {[]runtime.Request{take(2), take(3)}, []float64{3}, []int64{100}, porcupine.Ok},
		"both":                  {[]runtime.Request{take(2), take(3)}, []float64{3, 1}, []int64{50, 100}, porcupine.Ok},
		"two alike":             {[]runtime.Request{take(2), take(2)}, []float64{4, 2}, []int64{15, 100}, porcupine.Ok},
		"two alike too early":   {[]runtime.Request{take(2), take(2)}, []float64{2}, []int64{15}, porcupine.Illegal},
		"thirty":                {slices.Repeat([]runtime.Request{take(1), take(2)}, 15), []float64{1}, []int64{1000}, porcupine.Ok},
	} {
		t.Run(name, func(t *testing.T) {
			h := &history{policy: bucket, key: "k"}
			for i, q := range row.lost {
				h.operations = append(h.operations, porcupine.Operation{Input: q, Output: reply{lost: true}, Call: int64(10 * (i + 1)), Return: never})
			}
			for i, left := range row.left {
				rule := meter.RuleOf(bucket, "k")
				_, d, err := rule.Step(runtime.State{Value: left - 6, TS: now.UnixNano(), Exists: true}, now.UnixNano(), peek)
				assert.NoError(t, err)
				d.Limit = bucket.Name
				h.operations = append(h.operations, porcupine.Operation{Input: peek, Output: reply{decision: d}, Call: row.seen[i], Return: row.seen[i] + 1})
			}
			assert.Equal(t, row.want, h.order(now.UnixNano()))
		})
	}
}

// The store may release the slots of a lost call, but not those of a caller who has got an answer.
func TestOrderOfLostSlots(t *testing.T) {
	clock, slots := storetest.NewClock(), slotsOfHistory()
	for name, row := range map[string]struct {
		lost, released bool
		want           porcupine.CheckResult
	}{
		"held":               {true, false, porcupine.Ok},
		"released":           {true, true, porcupine.Ok},
		"of a holder":        {false, false, porcupine.Ok},
		"released too early": {false, true, porcupine.Illegal},
	} {
		t.Run(name, func(t *testing.T) {
			h := &history{policy: slots, key: "k", begun: time.Now()}
			store := &memstore.Store{Clock: clock.Now}
			d := h.do(t.Context(), store, 0, runtime.Request{Count: 2})
			if row.lost {
				h.operations[0].Output, h.operations[0].Return = reply{lost: true}, never
			}
			h.do(t.Context(), store, 0, runtime.Request{Count: 1})
			if row.released {
				undo := history{policy: slots, key: "k", begun: time.Now()}
				undo.do(t.Context(), store, 0, runtime.Request{Op: runtime.Release, Fence: d.Fence})
			}
			h.do(t.Context(), store, 0, runtime.Request{Op: runtime.Peek})
			assert.Equal(t, row.want, h.order(clock.Now().UnixNano()))
		})
	}
}
