package registry

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

func TestRefusedCallsAreLeftOutAndAnswered(t *testing.T) {
	policy := func(name string) *runtime.Policy {
		return &runtime.Policy{Name: name, Kind: runtime.TokenBucket, Rate: 1, Capacity: 1, Period: time.Hour}
	}
	call := func(p *runtime.Policy) runtime.Call { return runtime.Call{Requests: []runtime.Request{{Policy: p}}} }
	own, foreign := call(policy("own")), call(policy("foreign"))
	var k Known
	compared := 0
	compare := func(p *runtime.Policy) (error, bool) {
		compared++
		if p.Name == "foreign" {
			return runtime.ErrForeignCounts, true
		}
		return nil, true
	}
	assert.Nil(t, k.Refuse([]runtime.Call{own}, compare))
	calls := []runtime.Call{foreign, own, foreign, own}
	assert.False(t, k.Compared(calls))
	refused := k.Refuse(calls, compare)
	assert.Equal(t, 2, compared, "each once")
	assert.True(t, k.Compared(calls))
	assert.False(t, k.Admits(calls))
	assert.Equal(t, []runtime.Call{own, own}, refused.Admitted(calls))

	first := runtime.Answer{At: 1}
	assert.Equal(t, []runtime.Answer{{Err: runtime.ErrForeignCounts}, first, {Err: runtime.ErrForeignCounts}, {}}, refused.Answers([]runtime.Answer{first}),
		"an error has left the last one without an answer")
	assert.Equal(t, calls, Refusals(nil).Admitted(calls))
	assert.Equal(t, []runtime.Answer{first}, Refusals(nil).Answers([]runtime.Answer{first}))
}
