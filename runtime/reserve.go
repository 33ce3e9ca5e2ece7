package runtime

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"
)

// Reserve takes a token, if necessary before it has accrued: use it after the reservation's Delay.
func (l ReservableLimit) Reserve(ctx context.Context) (*Reservation, error) {
	return l.ReserveN(ctx, 1)
}

// ReserveN takes n tokens, if necessary before they have accrued: use them after the reservation's Delay. It is denied,
// and takes nothing, if more than the policy's MaxReserved would then be in debt.
//
// The error is [ErrExceedsCapacity] if n is more than capacity and MaxReserved together, [ErrInvalidCount] if it is less
// than 0, [ErrInvalidKey], [ErrInvalidPolicy], or the store's.
func (l ReservableLimit) ReserveN(ctx context.Context, n int64) (*Reservation, error) {
	return l.reserve(ctx, n)
}

// Reserve takes a token before it has accrued: use it after the reservation's Delay.
func (l ReserveOnlyLimit) Reserve(ctx context.Context) (*Reservation, error) {
	return l.ReserveN(ctx, 1)
}

// ReserveN takes n tokens before they have accrued: use them after the reservation's Delay. It is denied, and takes
// nothing, if more than the policy's MaxReserved would then be in debt.
//
// The error is [ErrExceedsCapacity] if n is more than MaxReserved, [ErrInvalidCount] if it is less than 0,
// [ErrInvalidKey], [ErrInvalidPolicy], or the store's.
func (l ReserveOnlyLimit) ReserveN(ctx context.Context, n int64) (*Reservation, error) {
	return l.reserve(ctx, n)
}

func (h Handle) reserve(ctx context.Context, n int64) (*Reservation, error) {
	d, err := h.do(ctx, Request{Op: Take, Count: n, Reserve: true})
	if err != nil {
		return nil, err
	}
	return newReservation(h, d, n, d.Allowed), nil
}

// newReservation returns a reservation of n tokens, which can be settled if it is open.
func newReservation(h Handle, d Decision, n int64, open bool) *Reservation {
	// Nothing was counted, so there is nothing to refund, and Settle has to charge all that was used: the limit would have
	// counted it.
	if d.TakenAt.IsZero() {
		n = 0
	}
	h.limiter = h.limiter.settler()
	return &Reservation{Decision: d, handle: h, count: n, open: open}
}

// Reservation is a number of tokens taken, possibly before they have accrued. If it was not Allowed, no tokens were
// taken. If it FailedOpen or FailedLocal, the store has taken none either, and Settle charges the whole use.
// A Reservation may be used by several goroutines.
type Reservation struct {
	Decision
	handle handle
	count  int64

	mu   sync.Mutex
	open bool
}

// Never is the result of [Reservation.Delay] for a denied reservation, and the RetryAfter of a request that waiting does
// not help: the longest duration.
const Never time.Duration = math.MaxInt64

// Delay returns how long after the reservation was made its tokens can be used, or [Never] if it was denied. If it is not
// 0, it includes the jitter of the policy, which the Delay of the Decision does not. It does not change afterwards.
func (r *Reservation) Delay() time.Duration {
	if !r.Allowed {
		return Never
	}
	return time.Duration(addSaturating(int64(r.Decision.Delay), int64(r.Jitter)))
}

// Cancel refunds all of the tokens, even if ctx has ended, because that is when it is needed. It can be called once, and
// not after Settle: otherwise the error is [ErrNotReserved]. After any other error the reservation is still open.
func (r *Reservation) Cancel(ctx context.Context) error { return r.Settle(ctx, 0) }

// Settle corrects the count to the number of tokens really used. It refunds the rest of the reservation, or charges the
// use beyond it, if necessary beyond MaxReserved, so that later callers wait for it. The refund leaves the key as if only
// used had been taken. If other requests have changed the key since, it may be less, and is never more: see
// [Handle.RefundN].
//
// Settle works even if ctx has ended. It can be called once, and not after Cancel or a refund of the Decision: otherwise the
// error is [ErrNotReserved]. It is [ErrInvalidCount] if used is negative. After any other error the reservation is still
// open.
//
// A reservation made in a transaction is settled in it until it ends, and afterwards in the store, provided that the
// transaction returns [database/sql.ErrTxDone] then, as an [sql.Tx] does. After a rollback nothing was taken: do not settle.
// A [MemTx] then returns [ErrRolledBack], but an sql.Tx does not report how it has ended, so that the refund could return
// tokens of others.
func (r *Reservation) Settle(ctx context.Context, used int64) error {
	limiter := r.handle.limiter
	h := limiter.hold()
	err := r.settleOnce(ctx, used, h)
	limiter.release(ctx, h, err)
	return err
}

func (r *Reservation) settleOnce(ctx context.Context, used int64, h *held) error {
	// The lock is held during the request: a concurrent Settle must not pass before this one has failed or succeeded.
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case used < 0 && r.open:
		return r.handle.wrap(fmt.Errorf("%w: %d is less than 0", ErrInvalidCount, used))
	case !r.beginSettlingLocked():
		return r.handle.wrap(ErrNotReserved)
	}
	err := r.correct(ctx, r.count-used, h)
	if err != nil {
		r.reopenLocked()
	}
	return err
}

// beginSettlingLocked closes the reservation, and the decision for its copies. It returns false if one of them was closed.
func (r *Reservation) beginSettlingLocked() bool {
	if !r.open || !r.settle() {
		return false
	}
	r.open = false
	return true
}

// reopenLocked undoes beginSettlingLocked, after settling has failed.
func (r *Reservation) reopenLocked() {
	r.open = true
	r.reopen()
}

// correct refunds rest tokens, or charges them if rest is negative.
func (r *Reservation) correct(ctx context.Context, rest int64, h *held) error {
	handle := r.handle
	handle.held = h
	switch {
	case r.Shadowed && r.TakenAt.IsZero(), modes[r.Policy.Mode].allows:
		// The mode has let it pass uncounted, and its use is not counted either, even if the mode was that of an override
		// which has ended since.
		return nil
	case rest > 0:
		return handle.refund(ctx, r.Decision, rest)
	case rest < 0:
		return handle.doDetached(ctx, Request{Op: Charge, Count: -rest})
	}
	return nil
}

// refund returns n of the tokens that d has taken, even if the context has ended.
func (h Handle) refund(ctx context.Context, d Decision, n int64) error {
	if d.TakenAt.IsZero() {
		return nil
	}
	return h.doDetached(ctx, d.RefundRequest(n))
}

// detachedTimeout bounds requests that are made after the caller's context has ended.
const detachedTimeout = 10 * time.Second

// doDetached executes a request even if the context has ended: otherwise the tokens of a cancelled caller would be lost.
func (h Handle) doDetached(ctx context.Context, q Request) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), detachedTimeout)
	defer cancel()
	_, err := h.do(ctx, q)
	return err
}

// Wait takes a token and returns when it can be used. See WaitN.
func (h Handle) Wait(ctx context.Context) error { return h.WaitN(ctx, 1) }

// WaitN takes n tokens and returns when they can be used. On a limit with reservations it reserves, so that callers are
// served in the order of their requests. Otherwise it retries when the tokens may have accrued; of the callers in this
// process that wait for one key of the limiter, one at a time retries.
//
// It returns at once, without taking tokens, if the context's deadline is before the tokens are available: the error is
// both a [*LimitedError] and [context.DeadlineExceeded]. The jitter of the policy is added if it ends before the deadline.
// If the policy's Mode is [ModeBlock], or an operator has blocked the key, it returns a [*LimitedError] at once, even if the
// block has an end. While it retries, it also does so when an override of the key begins or ends; tokens that are
// reserved already keep their delay. If the context ends while WaitN waits, the tokens are refunded, and the error is the context's.
func (h Handle) WaitN(ctx context.Context, n int64) error {
	// The first try is outside the queue, so that a call that does not have to wait takes no lock.
	h.held = h.limiter.hold()
	d, err := h.tryWait(ctx, n)
	if err == nil && !d.Allowed {
		d, err = h.waitInQueue(ctx, n)
	}
	h.limiter.release(ctx, h.held, err)
	h.held = nil
	if err != nil {
		return err
	}
	if d.uncounted() {
		n = 0
	}
	return h.sleepOrRefund(ctx, d, n)
}

// tryWait takes n tokens if they can be used before the context's deadline. After a denial without an error, a retry may
// pass.
func (h Handle) tryWait(ctx context.Context, n int64) (Decision, error) {
	left, limited := timeLeft(ctx)
	d, err := h.do(ctx, Request{Op: Take, Count: n, Reserve: h.policy.mayReserve(), MaxDelay: left})
	switch {
	case err != nil || d.Allowed:
	case d.RetryAfter == Never || d.blocks():
		// Also a block with an end: the operator has denied the request, and may prolong it.
		err = &LimitedError{d}
	case limited && max(d.Delay, d.RetryAfter) >= left:
		err = fmt.Errorf("%w: %w", &LimitedError{d}, context.DeadlineExceeded)
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
func (h Handle) waitInQueue(ctx context.Context, n int64) (Decision, error) {
	leave, err := h.limiter.waiters.join(ctx, Row{Name: h.policy.Name, Key: h.key.text})
	if err != nil {
		return Decision{}, h.wrap(err)
	}
	defer leave()
	for {
		d, err := h.tryWait(ctx, n)
		if err != nil || d.Allowed {
			return d, err
		}
		denied := []Request{{Policy: h.policy, Key: h.key.text}}
		if err := h.limiter.sleepForRetry(ctx, jittered(ctx, d.RetryAfter, d.Jitter), denied, []Decision{d}); err != nil {
			return Decision{}, h.wrap(err)
		}
	}
}

// sleepOrRefund waits until n tokens that were taken can be used, or refunds them if the context ends first.
func (h Handle) sleepOrRefund(ctx context.Context, d Decision, n int64) error {
	err := sleep(ctx, jittered(ctx, d.Delay, d.Jitter), nil)
	switch {
	case err == nil:
		return nil
	case n == 0:
		return h.wrap(err)
	}
	if refundErr := h.refund(ctx, d, n); refundErr != nil {
		return fmt.Errorf("%w, and the tokens could not be refunded: %w", h.wrap(err), refundErr)
	}
	return h.wrap(err)
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
