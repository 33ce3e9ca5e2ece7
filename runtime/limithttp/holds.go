package limithttp

import (
	"sync"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// holds is how long requests have held slots recently: a moving average for each limit.
type holds struct {
	mu   sync.Mutex
	mean map[string]time.Duration
}

// ended adds a request that has held the slots of a call.
func (h *holds) ended(ds limiter.Decisions, took time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range ds.Each {
		d := &ds.Each[i]
		if d.Fence == 0 {
			continue
		}
		mean, ok := h.mean[d.Limit]
		switch {
		case h.mean == nil:
			h.mean = map[string]time.Duration{d.Limit: took}
		case !ok:
			h.mean[d.Limit] = took
		default:
			h.mean[d.Limit] = mean + (took-mean)/8
		}
	}
}

// retryIn returns when a client should retry after a decision. Slots are usually free long before their hold ends.
func (h *holds) retryIn(d *runtime.Decision) time.Duration {
	wait := d.RetryIn()
	if wait == runtime.Never || d.Reason() != "concurrency" {
		return wait
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if mean, ok := h.mean[d.Limit]; ok {
		wait = min(wait, max(1, mean)+d.Jitter)
	}
	return wait
}
