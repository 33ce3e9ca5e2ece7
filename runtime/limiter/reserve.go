package limiter

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
)

func (l Limit) reserve(ctx context.Context, n int64) (*Reservation, error) {
	d, err := l.do(ctx, runtime.Request{Op: runtime.Take, Count: n, Reserve: true})
	if err != nil {
		return nil, err
	}
	return newReservation(l, d, n, d.Allowed), nil
}

// newReservation returns a reservation of n tokens, which can be settled if it is open.
func newReservation(l Limit, d runtime.Decision, n int64, open bool) *Reservation {
	// Nothing was counted, so there is nothing to refund, and Settle has to charge all that was used: the limit would have
	// counted it.
	if d.TakenAt.IsZero() {
		n = 0
	}
	l.limiter = l.limiter.settler()
	return &Reservation{Decision: d, of: l, count: n, open: open}
}

// Reservation is a number of tokens taken, possibly before they have accrued. If it was not Allowed, no tokens were
// taken. If it FailedOpen or FailedLocal, the store has taken none either, and Settle charges the whole use.
// A Reservation may be used by several goroutines.
type Reservation struct {
	runtime.Decision
	of    Limit
	count int64

	mu   sync.Mutex
	open bool
}

// Delay returns how long after the reservation was made its tokens can be used, or [runtime.Never] if it was denied. If it is not
// 0, it includes the jitter of the policy, which the Delay of the Decision does not. It does not change afterwards.
func (r *Reservation) Delay() time.Duration {
	if !r.Allowed {
		return runtime.Never
	}
	return time.Duration(arith.Add(int64(r.Decision.Delay), int64(r.Jitter)))
}

// Cancel refunds all of the tokens, even if ctx has ended, because that is when it is needed. It can be called once, and
// not after Settle: otherwise the error is [runtime.ErrNotReserved]. After any other error the reservation is still open.
func (r *Reservation) Cancel(ctx context.Context) error { return r.Settle(ctx, 0) }

// Settle corrects the count to the number of tokens really used. It refunds the rest of the reservation, or charges the
// use beyond it, if necessary beyond MaxReserved, so that later callers wait for it. The refund leaves the key as if only
// used had been taken. If other requests have changed the key since, it may be less, and is never more: see
// [Limit.RefundN].
//
// Settle works even if ctx has ended. It can be called once, and not after Cancel or a refund of the Decision: otherwise the
// error is [runtime.ErrNotReserved]. It is [runtime.ErrInvalidCount] if used is negative. After any other error the reservation is still
// open.
//
// A reservation made in a transaction is settled in it until it ends, and afterwards in the store, provided that the
// transaction returns [database/sql.ErrTxDone] then, as an [sql.Tx] does. After a rollback nothing was taken: do not settle.
// A memstore.Tx then returns [runtime.ErrRolledBack], but an sql.Tx does not report how it has ended, so that the refund could return
// tokens of others.
func (r *Reservation) Settle(ctx context.Context, used int64) error {
	limiter := r.of.limiter
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
		return r.of.wrap(fmt.Errorf("%w: %d is less than 0", runtime.ErrInvalidCount, used))
	case !r.beginSettlingLocked():
		return r.of.wrap(runtime.ErrNotReserved)
	}
	err := r.correct(ctx, r.count-used, h)
	if err != nil {
		r.reopenLocked()
	}
	return err
}

// beginSettlingLocked closes the reservation, and the decision for its copies. It returns false if one of them was closed.
func (r *Reservation) beginSettlingLocked() bool {
	if !r.open || !r.Receipt.Settle() {
		return false
	}
	r.open = false
	return true
}

// reopenLocked undoes beginSettlingLocked, after settling has failed.
func (r *Reservation) reopenLocked() {
	r.open = true
	r.Receipt.Reopen()
}

// correct refunds rest tokens, or charges them if rest is negative.
func (r *Reservation) correct(ctx context.Context, rest int64, h *held) error {
	of := r.of
	of.held = h
	switch {
	case r.Shadowed && r.TakenAt.IsZero(), r.Policy.Mode.Passes():
		// The mode has let it pass uncounted, and its use is not counted either, even if the mode was that of an override
		// which has ended since.
		return nil
	case rest > 0:
		return of.refund(ctx, r.Decision, rest)
	case rest < 0:
		return of.doDetached(ctx, runtime.Request{Op: runtime.Charge, Count: -rest})
	}
	return nil
}

// refund returns n of the tokens that d has taken, even if the context has ended.
func (l Limit) refund(ctx context.Context, d runtime.Decision, n int64) error {
	if d.TakenAt.IsZero() {
		return nil
	}
	return l.doDetached(ctx, d.RefundRequest(n))
}

// detachedTimeout bounds requests that are made after the caller's context has ended.
const detachedTimeout = 10 * time.Second

// doDetached executes a request even if the context has ended: otherwise the tokens of a cancelled caller would be lost.
func (l Limit) doDetached(ctx context.Context, q runtime.Request) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), detachedTimeout)
	defer cancel()
	_, err := l.do(ctx, q)
	return err
}

// reservation returns the reservation of a request, given whether its call was allowed.
func (l *Limiter) reservation(q *runtime.Request, d runtime.Decision, allowed bool) *Reservation {
	// A limit that would have allowed the request has taken nothing if another one has denied it.
	d.Allowed = d.Allowed && allowed
	return newReservation(l.settler().Limit(q.Policy, q.AsKey()), d, q.Count, d.Allowed && q.Op == runtime.Take)
}
