package limiter

import (
	"context"
	"sync"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// waitQueue lets one waiter per row retry at a time, because if all did, all but one would be denied each time. The zero
// waitQueue is empty.
type waitQueue struct {
	mu    sync.Mutex
	slots map[runtime.Row]*slot
}

// slot is the turn of a row.
type slot struct {
	// turn has one element while a waiter has the turn.
	turn chan struct{}
	// waiters is the number of goroutines that have the turn or wait for it.
	waiters int
}

// join waits for the caller's turn, which lasts until leave. The error is that of ctx.
func (w *waitQueue) join(ctx context.Context, row runtime.Row) (leave func(), err error) {
	s := w.enter(row)
	select {
	case s.turn <- struct{}{}:
		return func() { <-s.turn; w.exit(row, s) }, nil
	case <-ctx.Done():
		w.exit(row, s)
		return nil, ctx.Err()
	}
}

func (w *waitQueue) enter(row runtime.Row) *slot {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.slots[row]
	if s == nil {
		if w.slots == nil {
			w.slots = map[runtime.Row]*slot{}
		}
		s = &slot{turn: make(chan struct{}, 1)}
		w.slots[row] = s
	}
	s.waiters++
	return s
}

func (w *waitQueue) exit(row runtime.Row, s *slot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	// The last waiter removes the slot: keys are unbounded, and the map must not grow with them.
	if s.waiters--; s.waiters == 0 {
		delete(w.slots, row)
	}
}

// sleep waits for d, or until wake is closed or the context ends. The error is that of the context.
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
