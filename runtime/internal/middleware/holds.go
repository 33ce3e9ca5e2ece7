// Package middleware has what limithttp and limitgrpc share.
package middleware

import (
	"sync"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Times estimates how soon a slot is free: long before a hold ends, if requests usually release theirs earlier. It is how
// long requests have held slots recently, a moving average for each limit. The zero Times has none.
type Times struct {
	mu   sync.Mutex
	mean map[string]time.Duration
}

// Add adds a request that has held the slots of a call.
func (t *Times) Add(ds []runtime.Decision, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range ds {
		d := &ds[i]
		if d.Fence == 0 {
			continue
		}
		mean, ok := t.mean[d.Limit]
		switch {
		case t.mean == nil:
			t.mean = map[string]time.Duration{d.Limit: took}
		case !ok:
			t.mean[d.Limit] = took
		default:
			t.mean[d.Limit] = mean + (took-mean)/8
		}
	}
}

// RetryIn returns when a client should retry after decisions, at least one of which denies: the longest wait of all. That
// for slots is the mean, if it is earlier than the end of a hold.
func (t *Times) RetryIn(ds []runtime.Decision) (longest time.Duration) {
	for i := range ds {
		longest = max(longest, t.retryIn(&ds[i]))
	}
	return longest
}

func (t *Times) retryIn(d *runtime.Decision) time.Duration {
	wait := d.RetryIn()
	if wait == runtime.Never || d.Reason() != "concurrency" {
		return wait
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if mean, ok := t.mean[d.Limit]; ok {
		wait = min(wait, max(1, mean)+d.Jitter)
	}
	return wait
}
