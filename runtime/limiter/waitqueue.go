package limiter

import (
	"context"
	"sync"
	"time"

	"github.com/ratelimitgen/ratelimitgen/internal/arith"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// waitQueue lets one waiter per row retry at a time, because if all did, all but one would be denied each time. The
// zero waitQueue is empty.
type waitQueue struct {
	mu   sync.Mutex
	rows map[runtime.Row]*rowQueue
}

// rowQueue is the queue of a row.
type rowQueue struct {
	// turn has one element while a waiter has the turn.
	turn chan struct{}
	// freed has an element if this process has freed a slot since a waiter looked last.
	freed chan struct{}
	// waiters is the number of goroutines that have the turn or wait for it.
	waiters int
}

// join waits for the caller's turn, which lasts until leave. It receives from freed when this process has freed a slot
// of the row. The error is ctx.Err.
func (w *waitQueue) join(ctx context.Context, row runtime.Row) (freed <-chan struct{}, leave func(), err error) {
	q := w.enter(row)
	select {
	case q.turn <- struct{}{}:
		return q.freed, func() { <-q.turn; w.exit(row, q) }, nil
	case <-ctx.Done():
		w.exit(row, q)
		return nil, nil, ctx.Err()
	}
}

// waiting reports whether callers wait for a row.
func (w *waitQueue) waiting(row runtime.Row) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rows[row] != nil
}

// wake wakes the caller that has the turn of a row, because a slot is free.
func (w *waitQueue) wake(row runtime.Row) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if q := w.rows[row]; q != nil {
		select {
		case q.freed <- struct{}{}:
		default: // it is awake already
		}
	}
}

func (w *waitQueue) enter(row runtime.Row) *rowQueue {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.rows[row]
	if s == nil {
		if w.rows == nil {
			w.rows = map[runtime.Row]*rowQueue{}
		}
		s = &rowQueue{turn: make(chan struct{}, 1), freed: make(chan struct{}, 1)}
		w.rows[row] = s
	}
	s.waiters++
	return s
}

func (w *waitQueue) exit(row runtime.Row, s *rowQueue) {
	w.mu.Lock()
	defer w.mu.Unlock()
	// The last waiter removes the queue: keys are unbounded, and the map must not grow with them.
	if s.waiters--; s.waiters == 0 {
		delete(w.rows, row)
	}
}

// sleep waits for d, or until wake is closed or the context ends. The error is ctx.Err.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-wake:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// timeLeft returns the time until the context's deadline, or false if it has none.
func timeLeft(ctx context.Context) (time.Duration, bool) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0, false
	}
	// At least a nanosecond, because a MaxDelay of 0 means no bound.
	return max(1, time.Until(deadline)), true
}

// jittered returns a wait with its jitter, or without it if the context would end first.
func jittered(ctx context.Context, wait, jitter time.Duration) time.Duration {
	longer := time.Duration(arith.Add(int64(wait), int64(jitter)))
	if left, limited := timeLeft(ctx); limited && longer >= left {
		return wait
	}
	return longer
}
