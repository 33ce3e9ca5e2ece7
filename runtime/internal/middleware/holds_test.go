package middleware

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

func TestRetryIn(t *testing.T) {
	exports := &runtime.Policy{Name: "exports", Kind: runtime.InFlight, Slots: 1, Hold: time.Minute}
	held := []runtime.Decision{{Limit: "exports", Policy: exports, Allowed: true, Fence: 1}}
	denied := []runtime.Decision{{Limit: "exports", Policy: exports, RetryAfter: time.Minute, Jitter: time.Second}}
	requests := []runtime.Decision{{Limit: "requests", Policy: &runtime.Policy{Kind: runtime.TokenBucket, Rate: 1, Period: time.Hour}, RetryAfter: time.Hour}}

	var times Times
	wait := func(ds ...runtime.Decision) time.Duration { return times.RetryIn(ds) }
	assert.Equal(t, 61*time.Second, wait(denied...), "the end of the hold and the jitter, as no slot was released yet")
	times.Add(requests, time.Second)
	assert.Equal(t, 61*time.Second, wait(denied...), "a limit without slots has no holds")
	times.Add(held, 8*time.Second)
	assert.Equal(t, 9*time.Second, wait(denied...))
	times.Add(held, 16*time.Second)
	assert.Equal(t, 10*time.Second, wait(denied...), "a moving average")
	times.Add(held, time.Hour)
	assert.Equal(t, 61*time.Second, wait(denied...), "never above the hold")
	assert.Equal(t, time.Hour, wait(denied[0], requests[0]), "the longest wait")
	denied[0].RetryAfter = runtime.Never
	assert.Equal(t, runtime.Never, wait(denied...))
}
