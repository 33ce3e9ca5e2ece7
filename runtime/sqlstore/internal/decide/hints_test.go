package decide

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

func TestDenialIsExpectedAfterTwoAndNotAfterATake(t *testing.T) {
	row := runtime.Row{Name: "limit", Key: "key"}
	s := newDenialHints()
	for range 2 {
		for range manyDenials {
			assert.False(t, s.expect(row))
			s.denied(row)
		}
		s.denied(row)
		assert.True(t, s.expect(row))
		s.allowed(row)
	}
}

// Whatever strategy has decided calls, its answers count: a row that grants again is no longer expected to deny.
func TestAnswersDecideWhatIsExpected(t *testing.T) {
	e, p := &Engine{hints: newDenialHints()}, &runtime.Policy{Name: "limit"}
	row := runtime.Row{Name: "limit", Key: "key"}
	answer := func(op runtime.Op, d runtime.Decision) {
		calls := []runtime.Call{{Requests: []runtime.Request{{Policy: p, Key: "key", Op: op}}}, {Requests: []runtime.Request{{}}}}
		e.learn(calls, []runtime.Answer{{Decisions: []runtime.Decision{d}}, {Err: runtime.ErrInvalidPolicy}})
	}
	for range manyDenials {
		answer(runtime.Check, runtime.Decision{})
		assert.False(t, e.hints.expect(row))
		answer(runtime.Take, runtime.Decision{})
	}
	assert.True(t, e.hints.expect(row))
	answer(runtime.Check, runtime.Decision{Allowed: true})
	assert.True(t, e.hints.expect(row), "a check takes nothing")
	answer(runtime.TakeUpTo, runtime.Decision{Allowed: true})
	assert.False(t, e.hints.expect(row))
	for range manyDenials {
		answer(runtime.Take, runtime.Decision{Allowed: true, Shadowed: true})
	}
	assert.True(t, e.hints.expect(row))
}

// There are more rows than places, and each is denied once.
func TestDenialIsNotExpectedOfRowsThatShareAPlace(t *testing.T) {
	s := newDenialHints()
	for i := range 10_000 {
		s.denied(runtime.Row{Name: "limit", Key: strconv.Itoa(i)})
	}
	for i := range 20_000 {
		assert.False(t, s.expect(runtime.Row{Name: "limit", Key: strconv.Itoa(i)}))
	}
}
