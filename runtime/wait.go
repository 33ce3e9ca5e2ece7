package runtime

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Wait takes a token and returns when it can be used. See WaitN.
func (l Limit) Wait(ctx context.Context) error { return l.WaitN(ctx, 1) }

// WaitN takes n tokens and returns when they can be used. On a limit with reservations it reserves, so that callers are
// served in the order of their requests. Otherwise it retries when the tokens may have accrued; of the callers in this
// process that wait for one key of the limiter, one at a time retries.
//
// It returns at once, without taking tokens, if the context's deadline is before the tokens are available: the error is
// both a [*LimitedError] and [context.DeadlineExceeded]. The jitter of the policy is added if it ends before the deadline.
// If the policy's Mode is [ModeBlock], or an operator has blocked the key, it returns a [*LimitedError] at once, even if the
// block has an end. While it retries, it also does so when an override of the key begins or ends; tokens that are
// reserved already keep their delay. If the context ends while WaitN waits, the tokens are refunded, and the error is the context's.
func (l Limit) WaitN(ctx context.Context, n int64) error {
	// The first try is outside the queue, so that a call that does not have to wait takes no lock.
	l.held = l.limiter.hold()
	d, err := l.tryWait(ctx, n)
	if err == nil && !d.Allowed {
		d, err = l.waitInQueue(ctx, n)
	}
	l.limiter.release(ctx, l.held, err)
	l.held = nil
	if err != nil {
		return err
	}
	if d.uncounted() {
		n = 0
	}
	return l.sleepOrRefund(ctx, d, n)
}

// tryWait takes n tokens if they can be used before the context's deadline. After a denial without an error, a retry may
// pass.
func (l Limit) tryWait(ctx context.Context, n int64) (Decision, error) {
	left, limited := timeLeft(ctx)
	d, err := l.do(ctx, Request{Op: Take, Count: n, Reserve: l.policy.mayReserve(), MaxDelay: left})
	switch {
	case err != nil || d.Allowed:
	case d.RetryAfter == Never || d.blocks():
		// Also a block with an end: the operator has denied the request, and may prolong it.
		err = d.Err()
	case limited && max(d.Delay, d.RetryAfter) >= left:
		err = fmt.Errorf("%w: %w", d.Err(), context.DeadlineExceeded)
	}
	return d, err
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

// waitInQueue takes n tokens when they are available, or can be reserved.
func (l Limit) waitInQueue(ctx context.Context, n int64) (Decision, error) {
	leave, err := l.limiter.waiters.join(ctx, Row{Name: l.policy.Name, Key: l.key.text})
	if err != nil {
		return Decision{}, l.wrap(err)
	}
	defer leave()
	for {
		d, err := l.tryWait(ctx, n)
		if err != nil || d.Allowed {
			return d, err
		}
		denied := []Request{{Policy: l.policy, Key: l.key.text}}
		if err := l.limiter.sleepForRetry(ctx, jittered(ctx, d.RetryAfter, d.Jitter), denied, []Decision{d}); err != nil {
			return Decision{}, l.wrap(err)
		}
	}
}

// sleepOrRefund waits until n tokens that were taken can be used, or refunds them if the context ends first.
func (l Limit) sleepOrRefund(ctx context.Context, d Decision, n int64) error {
	err := sleep(ctx, jittered(ctx, d.Delay, d.Jitter), nil)
	switch {
	case err == nil:
		return nil
	case n == 0:
		return l.wrap(err)
	}
	if refundErr := l.refund(ctx, d, n); refundErr != nil {
		return fmt.Errorf("%w, and the tokens could not be refunded: %w", l.wrap(err), refundErr)
	}
	return l.wrap(err)
}

// jittered returns a wait with its jitter, or without it if the context would end first.
func jittered(ctx context.Context, wait, jitter time.Duration) time.Duration {
	longer := time.Duration(addSaturating(int64(wait), int64(jitter)))
	if left, limited := timeLeft(ctx); limited && longer >= left {
		return wait
	}
	return longer
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

// waitQueue lets one waiter per row retry at a time, because if all did, all but one would be denied each time. The zero
// waitQueue is empty.
type waitQueue struct {
	mu    sync.Mutex
	slots map[Row]*slot
}

// slot is the turn of a row.
type slot struct {
	// turn has one element while a waiter has the turn.
	turn chan struct{}
	// waiters is the number of goroutines that have the turn or wait for it.
	waiters int
}

// join waits for the caller's turn, which lasts until leave. The error is that of ctx.
func (w *waitQueue) join(ctx context.Context, row Row) (leave func(), err error) {
	s := w.enter(row)
	select {
	case s.turn <- struct{}{}:
		return func() { <-s.turn; w.exit(row, s) }, nil
	case <-ctx.Done():
		w.exit(row, s)
		return nil, ctx.Err()
	}
}

func (w *waitQueue) enter(row Row) *slot {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.slots[row]
	if s == nil {
		if w.slots == nil {
			w.slots = map[Row]*slot{}
		}
		s = &slot{turn: make(chan struct{}, 1)}
		w.slots[row] = s
	}
	s.waiters++
	return s
}

func (w *waitQueue) exit(row Row, s *slot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	// The last waiter removes the slot: keys are unbounded, and the map must not grow with them.
	if s.waiters--; s.waiters == 0 {
		delete(w.slots, row)
	}
}
