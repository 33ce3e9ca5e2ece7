package livetest

import (
	"math"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// never is when a call returned whose answer was lost: what it asked may have been done at any time after,
// or, which nobody can tell from that, not at all.
const never = math.MaxInt64

// reply is what came of a call.
type reply struct {
	decision runtime.Decision
	// lost says that there was an error instead.
	lost bool
}

// model returns a limit's rule for a key, as what a store must seem to be: one that answers one question
// after the other, each at some instant between its call and its return.
func model(p *runtime.Policy, key string, now int64) porcupine.Model {
	rule := p.Rule(key)
	return porcupine.Model{
		Init: func() any { return runtime.State{} },
		Step: func(state, input, output any) (bool, any) {
			q := input.(runtime.Request)
			next, d, err := rule.Step(state.(runtime.State), now, q)
			if err != nil {
				return false, state
			}
			return output.(reply).agrees(p, q, d), next
		},
	}
}

// agrees reports whether a reply is as it must be. Of what is taken from a limit with shards, the rest of
// the decision is an estimate.
func (r reply) agrees(p *runtime.Policy, q runtime.Request, want runtime.Decision) bool {
	want.Limit = p.Name
	switch {
	case r.lost:
		return true
	case p.Shards > 1 && q.Op == runtime.Peek:
		return r.decision.Value == want.Value
	case p.Shards > 1:
		return r.decision.Allowed == want.Allowed
	}
	return r.decision == want
}

// TestModel shows that the model tells a store that works from one that loses or invents a token.
func TestModel(t *testing.T) {
	clock := storetest.NewClock()
	for _, p := range historic() {
		h := &history{policy: p, key: "k", begun: time.Now()}
		store := &runtime.MemStore{Clock: clock.Now}
		h.record([]runtime.Store{store}, nil, 1)
		h.ask(t.Context(), store, clients, runtime.Request{Op: runtime.Peek})
		assert.Equal(t, porcupine.Ok, h.explained(clock.Now().UnixNano()), p.Name)

		last := &h.operations[len(h.operations)-1]
		right := last.Output.(reply)
		for _, wrong := range []float64{-1, 1} {
			told := right
			told.decision.Value += wrong
			last.Output = told
			assert.Equal(t, porcupine.Illegal, h.explained(clock.Now().UnixNano()), "%s, %+v tokens", p.Name, wrong)
		}
	}
}
