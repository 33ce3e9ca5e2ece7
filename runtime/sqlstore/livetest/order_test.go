package livetest

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
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// rows are the states that a key may be in after a sequence of answered calls, as any of the lost calls may have happened in
// between, each once. For each state they have the smallest sets of lost calls that lead to it: what can follow a set can
// also follow a part of it.
type rows map[runtime.State][]lostCalls

// lostCalls is a set of the lost calls of a history, with a bit for each.
type lostCalls uint64

// add adds a state after lost calls, and reports whether it is news.
func (r rows) add(s runtime.State, after lostCalls) bool {
	for _, known := range r[s] {
		if known&after == known {
			return false
		}
	}
	larger := func(known lostCalls) bool { return known&after == after }
	r[s] = slices.Sorted(slices.Values(append(slices.DeleteFunc(r[s], larger), after)))
	return true
}

// answered is a call whose answer is known, at some instant before it returned.
type answered struct {
	runtime.Request
	returned int64
}

// order searches for an order of sequential calls. The lost calls are part of the state rather than of the order, because a search
// takes longer than anybody waits if it tries each of many lost calls at each place.
func (h *history) order(now int64) porcupine.CheckResult {
	var known, lost []porcupine.Operation
	for _, o := range h.operations {
		if o.Output.(reply).lost {
			lost = append(lost, o)
			continue
		}
		o.Input = answered{o.Input.(runtime.Request), o.Return}
		known = append(known, o)
	}
	slices.SortFunc(lost, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	return porcupine.CheckOperationsTimeout(sequential(meter.RuleOf(h.policy, h.key), h.policy, now, lost), known, time.Minute)
}

// sequential returns the behaviour of a key: calls are answered one after the other, each at an instant between
// its call and its return, and lost calls may happen at any instant after they were made.
func sequential(rule meter.Rule, p *runtime.Policy, now int64, lost []porcupine.Operation) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return rows{{}: {0}} },
		Equal: func(a, b any) bool {
			return maps.EqualFunc(a.(rows), b.(rows), slices.Equal[[]lostCalls])
		},
		Step: func(state, input, output any) (bool, any) {
			call, got, next := input.(answered), output.(reply), rows{}
			for s, sets := range state.(rows).withLost(rule, p, now, lost, call.returned) {
				after, ok := got.follows(rule, p, s, now, call.Request)
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

// step is a step of a rule. The total of a bucket or a fixed window, which no answer shows, is forgotten, so that
// states that differ in nothing else are one.
func step(rule meter.Rule, p *runtime.Policy, s runtime.State, now int64, q runtime.Request) (runtime.State, runtime.Decision, error) {
	after, d, err := rule.Step(s, now, q)
	if p.Kind == runtime.TokenBucket || p.Kind == runtime.FixedWindow {
		after.Prev = 0
	}
	return after, d, err
}

// follows reports whether the answer is that of a request in a state, and returns the state after it.
func (r reply) follows(rule meter.Rule, p *runtime.Policy, s runtime.State, now int64, q runtime.Request) (runtime.State, bool) {
	after, d, err := step(rule, p, s, now, q)
	if err != nil {
		return s, r.slotLost && errors.Is(err, runtime.ErrSlotLost)
	}
	return after, !r.slotLost && r.shows(p, q, d)
}

// withLost returns the states after any of the lost calls that were made before an instant.
func (r rows) withLost(rule meter.Rule, p *runtime.Policy, now int64, lost []porcupine.Operation, before int64) rows {
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
		for i, o := range lost {
			q := o.Input.(runtime.Request)
			// Of equal calls, the first one stands for all.
			if o.Call > before || last.after&(1<<i) != 0 || tried[q] {
				continue
			}
			tried[q] = true
			if s, _, err := step(rule, p, last.State, now, q); err == nil {
				add(s, last.after|1<<i)
			}
		}
	}
	return all
}

// A lost call has happened once, at an instant after it was made, or not at all.
func TestOrderOfLostCalls(t *testing.T) {
	now := storetest.NewClock().Now()
	bucket := historic()[0]
	take := func(n int64) runtime.Request { return runtime.Request{Policy: bucket, Key: "k", Count: n} }
	peek := runtime.Request{Policy: bucket, Key: "k", Op: runtime.Peek}
	for name, row := range map[string]struct {
		// lost are calls made at the instants 10, 20 and so on, and left is what Peek saw at the instants seen.
		lost []runtime.Request
		left []float64
		seen []int64
		want porcupine.CheckResult
	}{
		"not at all":          {[]runtime.Request{take(2)}, []float64{6}, []int64{100}, porcupine.Ok},
		"once":                {[]runtime.Request{take(2)}, []float64{4}, []int64{100}, porcupine.Ok},
		"twice":               {[]runtime.Request{take(2)}, []float64{2}, []int64{100}, porcupine.Illegal},
		"late":                {[]runtime.Request{take(2)}, []float64{6, 6, 4}, []int64{15, 50, 100}, porcupine.Ok},
		"before it was made":  {[]runtime.Request{take(2)}, []float64{4}, []int64{5}, porcupine.Illegal},
		"undone":              {[]runtime.Request{take(2)}, []float64{4, 6}, []int64{50, 100}, porcupine.Illegal},
		"the later of two":    {[]runtime.Request{take(2), take(3)}, []float64{3}, []int64{100}, porcupine.Ok},
		"both":                {[]runtime.Request{take(2), take(3)}, []float64{3, 1}, []int64{50, 100}, porcupine.Ok},
		"two alike":           {[]runtime.Request{take(2), take(2)}, []float64{4, 2}, []int64{15, 100}, porcupine.Ok},
		"two alike too early": {[]runtime.Request{take(2), take(2)}, []float64{2}, []int64{15}, porcupine.Illegal},
		"thirty":              {slices.Repeat([]runtime.Request{take(1), take(2)}, 15), []float64{1}, []int64{1000}, porcupine.Ok},
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
