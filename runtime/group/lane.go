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

// tell gives the waiter the answers to its calls, if all of them were answered.
func (w *waiter) tell(answers []runtime.Answer) {
	if w.err == nil || !slices.ContainsFunc(answers, func(a runtime.Answer) bool { return !a.Given() }) {
		w.answers, w.err = answers, nil
	}
}

// begin makes the lane busy, and reports whether it was idle. The calls wait, for the goroutine of the lane, so
// that their caller can leave. One who cannot leave anyhow, and finds the lane idle, is no waiter but the one
// who is busy, and ends that with take.
func (l *lane) begin(ctx context.Context, calls []runtime.Call) (w *waiter, idle bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	idle = !l.busy
	l.busy = true
	if idle && ctx.Done() == nil {
		return nil, true
	}
	w = &waiter{ctx: ctx, calls: calls, done: make(chan struct{})}
	l.waiting = append(l.waiting, w)
	return w, idle
}

// leave is for a caller whose context has ended. It says where the calls were then, and nothing if the answers
// are there by now.
func (l *lane) leave(w *waiter) (where string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-w.done:
		return ""
	default:
	}
	if w.batch != nil {
		w.batch.leave()
		return "while the store was at it"
	}
	l.waiting = slices.DeleteFunc(l.waiting, func(o *waiter) bool { return o == w })
	return "while earlier calls were under way"
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
