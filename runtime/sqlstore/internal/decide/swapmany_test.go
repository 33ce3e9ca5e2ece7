package decide

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Calls for a row stay in their order: one of several requests is left, and with it the others for its rows.
func TestOnlyCallsOfRowsOfTheirOwnAreSwapped(t *testing.T) {
	p := &runtime.Policy{Name: "limit", Kind: runtime.SlidingWindow, Rate: 10, Capacity: 10, Period: runtime.MaxPeriod}
	sharded, off := *p, *p
	sharded.Name, sharded.Shards = "sharded", 2
	off.Name, off.Mode = "off", runtime.ModeOff
	request := func(p *runtime.Policy, key string) runtime.Request {
		return runtime.Request{Policy: p, Key: key, Count: 1}
	}
	calls := []runtime.Call{
		{Requests: []runtime.Request{request(p, "a")}},
		{Requests: []runtime.Request{request(p, "b")}},
		{Requests: []runtime.Request{request(p, "b"), request(p, "c")}},
		{Requests: []runtime.Request{request(p, "c")}},
		{Requests: []runtime.Request{request(&sharded, "a")}},
		{Requests: []runtime.Request{request(&off, "a")}},
		{Requests: []runtime.Request{request(nil, "a")}},
		{},
		{Requests: []runtime.Request{request(p, "a")}},
	}
	p1 := newPlan(nil, calls, make([]runtime.Answer, len(calls)), manner{})
	assert.Equal(t, []int{0, 8}, ofOneRow(p1))
	p1.answers[0] = runtime.Answer{Decisions: make([]runtime.Decision, 1)}
	p1.findRest()
	assert.Equal(t, []int{8}, ofOneRow(p1))
}

// The pauses double while transactions are needed, and end after as many batches that need none.
func TestBatchesAreSkippedWhileOthersWriteTheirRows(t *testing.T) {
	var r races
	skipped := func() (n int) {
		for r.skip() {
			n++
		}
		return n
	}
	assert.Zero(t, skipped())
	for _, want := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 512} {
		r.tried(false)
		assert.Equal(t, want, skipped())
	}
	for _, want := range []int{256, 128, 64, 32, 16, 8, 4, 2, 1, 0, 0} {
		r.tried(true)
		assert.Equal(t, want, skipped())
	}
}
