package limiter

import (
	"context"
	"encoding/json"
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

// At returns when the tokens can be used, by the clock of the store: Delay after they were taken. It is the zero time if they
// can be used at once because none were counted, or if the reservation was denied.
func (r *Reservation) At() time.Time {
	if !r.Allowed || r.TakenAt.IsZero() {
		return time.Time{}
	}
	return r.TakenAt.Add(r.Delay())
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

// storedReservation is a reservation as text.
type storedReservation struct {
	Version int `json:"version"`
	// Limit and Key are those of the tokens. The key is a fingerprint, because it may be personal.
	Limit string `json:"limit"`
	Key   string `json:"key"`
	Count int64  `json:"count"`
	Taken int64  `json:"taken"`
	// TakenAt is in nanoseconds since 1970 UTC, or 0 if nothing was counted. Delay and Jitter are in nanoseconds.
	TakenAt  int64         `json:"takenAt,omitempty"`
	Delay    time.Duration `json:"delay,omitempty"`
	Jitter   time.Duration `json:"jitter,omitempty"`
	Shadowed bool          `json:"shadowed,omitempty"`
	Free     int64         `json:"free,omitempty"`
	Total    float64       `json:"total,omitempty"`
	Shard    int           `json:"shard,omitempty"`
	Leased   bool          `json:"leased,omitempty"`
}

// MarshalText returns the reservation as a text that can be stored, with the job that will use the tokens for example: Resume of
// a handle for the same key settles it, in another process too. The error is [runtime.ErrNotReserved] if the reservation was
// denied, or is already settled or cancelled.
func (r *Reservation) MarshalText() ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.open {
		return nil, r.of.wrap(runtime.ErrNotReserved)
	}
	s := storedReservation{
		Version: 1, Limit: r.Limit, Key: fingerprint(r.of), Count: r.count, Taken: r.Taken,
		Delay: r.Decision.Delay, Jitter: r.Jitter, Shadowed: r.Shadowed,
		Free: r.Receipt.Free, Total: r.Receipt.Total, Shard: r.Receipt.Shard, Leased: r.Receipt.Leased,
	}
	if !r.TakenAt.IsZero() {
		s.TakenAt = r.TakenAt.UnixNano()
	}
	return json.Marshal(s)
}

// resume returns the reservation with a text of [Reservation.MarshalText].
func (l Limit) resume(text []byte) (*Reservation, error) {
	var s storedReservation
	if err := l.key.Err(); err != nil {
		return nil, l.wrap(err)
	}
	if err := l.policy.Validate(); err != nil {
		return nil, l.wrap(err)
	}
	switch err := json.Unmarshal(text, &s); {
	case err != nil:
		return nil, l.wrap(fmt.Errorf("%w: the text is no reservation: %w", runtime.ErrInvalidCall, err))
	case s.Version != 1 || s.Count < 0 || s.Taken < 0:
		return nil, l.wrap(fmt.Errorf("%w: the text is no reservation of this version", runtime.ErrInvalidCall))
	case s.Limit != l.policy.Name || s.Key != fingerprint(l):
		return nil, l.wrap(fmt.Errorf("%w: the reservation is one of another key, or of limit %q", runtime.ErrInvalidCall, s.Limit))
	}
	d := runtime.Decision{
		Limit: s.Limit, Policy: l.policy, Allowed: true, Taken: s.Taken, Delay: s.Delay, Jitter: s.Jitter, Shadowed: s.Shadowed,
		Receipt: runtime.Receipt{Free: s.Free, Total: s.Total, Shard: s.Shard, Leased: s.Leased},
	}
	if s.TakenAt != 0 {
		d.TakenAt = time.Unix(0, s.TakenAt)
	}
	d.Receipt.Enter(&runtime.Ledger{}, 0)
	return newReservation(l, d, s.Count, true), nil
}

// fingerprint stands for the limit and the key of stored reservations.
func fingerprint(l Limit) string {
	return runtime.Fingerprint(nil, l.policy.Name+"\x00"+l.key.String())
}
