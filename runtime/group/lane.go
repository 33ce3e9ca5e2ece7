package group

import (
	"context"
	"slices"
	"sync"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// lane is a queue with one batch under way at a time.
type lane struct {
	mu      sync.Mutex
	busy    bool
	waiting []*waiter
}

// waiter is the calls of one caller, who waits for them.
type waiter struct {
	ctx   context.Context
	calls []runtime.Call
	// batch is what the calls are under way in; nil while they wait.
	batch *batch

	// done is closed when the answers, or the error, are there.
	done    chan struct{}
	answers []runtime.Answer
	err     error
}

// begin returns nil if the lane was idle: then it is busy with the caller, who ends that with take. Otherwise
// the calls wait.
func (l *lane) begin(ctx context.Context, calls []runtime.Call) *waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.busy {
		l.busy = true
		return nil
	}
	w := &waiter{ctx: ctx, calls: calls, done: make(chan struct{})}
	l.waiting = append(l.waiting, w)
	return w
}

// leave is for a caller whose context has ended. It returns false if the answers are there by now.
func (l *lane) leave(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-w.done:
		return false
	default:
	}
	if w.batch != nil {
		w.batch.leave()
	} else {
		l.waiting = slices.DeleteFunc(l.waiting, func(o *waiter) bool { return o == w })
	}
	return true
}

// take returns those that go together next, at most most calls unless one caller has more, and nil if nobody
// waits: then the lane is idle. It passes over those whose context has ended, who are about to leave.
func (l *lane) take(most int) *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = slices.DeleteFunc(l.waiting, func(w *waiter) bool { return w.ctx.Err() != nil })
	n, calls := 0, 0
	for n < len(l.waiting) && (n == 0 || calls+len(l.waiting[n].calls) <= most) {
		calls += len(l.waiting[n].calls)
		n++
	}
	if n == 0 {
		l.busy = false
		l.waiting = nil
		return nil
	}
	b := newBatch(l, slices.Clone(l.waiting[:n]), calls)
	l.waiting = slices.Delete(l.waiting, 0, n)
	return b
}
