package limiter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/receipt"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/words"
)

func (l Limit) reserve(ctx context.Context, n int64) (*Reservation, error) {
	d, err := l.do(ctx, runtime.Request{Op: runtime.Take, Count: n, Reserve: true}, nil)
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
	r := &Reservation{Decision: d, of: l, count: n, made: d.TakenAt, open: open,
		uncounted: d.Policy != nil && d.Policy.Mode.Passes()}
	if d.UsableAfter > 0 {
		r.begun = time.Now()
		if r.made.IsZero() {
			r.made = r.begun // by the memory of this process
		}
	}
	return r
}

// Reservation is a number of tokens taken, possibly before they have accrued. If it was not Allowed, no tokens were
// taken. If it FailedOpen or FailedLocal, the store has taken none either, and Settle charges the whole use.
// A Reservation may be used by several goroutines.
type Reservation struct {
	runtime.Decision
	of    Limit
	count int64
	// made is when it was made, or zero if its tokens can be used at once because none were counted.
	made time.Time
	// begun is when its Delay began, by the clock of this process, or zero without one.
	begun time.Time
	// uncounted means that the mode has let it pass, even if that was the mode of an override which has ended since.
	uncounted bool

	mu   sync.Mutex
	open bool
}

// Delay returns how long after the reservation was made its tokens can be used, or [runtime.Never] if it was denied. If
// it is not 0, it includes the jitter of the policy, which the UsableAfter of the Decision does not. It does not change
// afterwards.
func (r *Reservation) Delay() time.Duration {
	if !r.Allowed {
		return runtime.Never
	}
	return time.Duration(arith.Add(int64(r.UsableAfter), int64(r.Jitter)))
}

// At returns when the tokens can be used, by the clock of the store, or if it FailedLocal by that of this process: Delay
// after they were taken. It is the zero time if they can be used at once because none were counted, or if the reservation
// was denied.
func (r *Reservation) At() time.Time {
	if !r.Allowed || r.made.IsZero() {
		return time.Time{}
	}
	return r.made.Add(r.Delay())
}

// Wait returns when the tokens can be used, after Delay. If it returns an error, there is nothing to settle: the error is a
// [*runtime.LimitedError] if the reservation was denied, and the error of ctx if ctx ends before, upon which the tokens are
// refunded. It returns [context.DeadlineExceeded] at once if the deadline of ctx is before, and leaves out the jitter if
// that alone is too long. The Delay of a reservation that was resumed began by the clock of the store, which this
// process may not share.
//
//	r, err := limit.ReserveN(ctx, 800)
//	if err == nil {
//		err = r.Wait(ctx)
//	}
func (r *Reservation) Wait(ctx context.Context) error {
	if !r.Allowed {
		return r.Err()
	}
	return waitFor(ctx, r.of.limiter, []*Reservation{r})
}

// waitFor is the Wait of reservations that were made together.
func waitFor(ctx context.Context, l *Limiter, all []*Reservation) error {
	if ctx == nil {
		return fmt.Errorf("%s: %w", namesOf(all), errNilContext)
	}
	longest := time.Duration(0)
	for _, r := range all {
		if r.begun.IsZero() {
			continue
		}
		longest = max(longest, jittered(ctx, r.UsableAfter-time.Since(r.begun), r.Jitter))
	}
	var err error
	if left, limited := timeLeft(ctx); limited && longest > left {
		err = context.DeadlineExceeded
	} else if err = sleep(ctx, longest, nil); err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", namesOf(all), err)
	if failed := settleObserved(ctx, l, all, 0); failed != nil && !errors.Is(failed, runtime.ErrNotReserved) {
		return fmt.Errorf("%w, and the tokens could not be refunded: %w", err, failed)
	}
	return err
}

// Cancel refunds all of the tokens, even if ctx has ended, because that is when it is needed. It can be called once,
// and not after Settle: otherwise the error is [runtime.ErrNotReserved]. After any other error the reservation is still
// open.
func (r *Reservation) Cancel(ctx context.Context) error { return r.Settle(ctx, 0) }

// Settle corrects the count to the number of tokens really used. It refunds the rest of the reservation, or charges the
// use beyond it, if necessary beyond MaxReserved, so that later callers wait for it. The refund leaves the key as if
// only used had been taken. If other requests have changed the key since, it may be less, and is never more: see
// [Limit.RefundN].
//
// Settle works even if ctx has ended. It can be called once, and not after Cancel or a refund of the Decision:
// otherwise the error is [runtime.ErrNotReserved]. It is [runtime.ErrInvalidCount] if used is negative. After any other
// error the reservation is still open.
//
// A reservation made in a transaction is settled in it until it ends, and afterwards in the store, provided that the
// transaction returns [database/sql.ErrTxDone] then, as an [sql.Tx] does. After a rollback nothing was taken: do not
// settle. A memstore.Tx then returns [runtime.ErrRolledBack], but an sql.Tx does not report how it has ended, so that
// the refund could return tokens of others.
func (r *Reservation) Settle(ctx context.Context, used int64) error {
	return settleObserved(ctx, r.of.limiter, []*Reservation{r}, used)
}

// settleObserved is settle, and reports to the observer when no lock is held any more.
func settleObserved(ctx context.Context, l *Limiter, all []*Reservation, used int64) error {
	h := l.observing().hold(slices.ContainsFunc(all, func(r *Reservation) bool { return warns(r.of.policy) }))
	err := settle(ctx, l, all, used, h)
	l.observing().release(ctx, h, err)
	return err
}

// settle corrects the counts of those reservations that are open to a number of tokens, in one call of the store each,
// which are executed together.
func settle(ctx context.Context, l *Limiter, all []*Reservation, used int64, h *held) error {
	var open []*Reservation
	for _, r := range all {
		// The locks are held during the request: a concurrent Settle must not pass before this one has failed or succeeded.
		// In the order of the items, so that concurrent calls do not deadlock.
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.open && used < 0 {
			return r.of.wrap(fmt.Errorf("%w: %d is less than 0", runtime.ErrInvalidCount, used))
		}
		// Also the decision is closed, for its copies.
		if r.open && r.Receipt.Settle() {
			r.open = false
			open = append(open, r)
		}
	}
	if len(open) == 0 {
		return fmt.Errorf("%s: %w", namesOf(all), runtime.ErrNotReserved)
	}
	var calls []runtime.Call
	var corrected []*Reservation
	for _, r := range open {
		if q, ok := r.correction(used); ok {
			calls, corrected = append(calls, runtime.Call{Requests: []runtime.Request{q}}), append(corrected, r)
		}
	}
	if len(calls) == 0 {
		return nil
	}
	// Even if the context has ended: otherwise the tokens of a cancelled caller would be lost.
	ctx, cancel := detached(ctx)
	defer cancel()
	watch := l.observing()
	begun := watch.begin()
	answers, err := l.doAll(ctx, calls)
	if err != nil {
		err = fmt.Errorf("%s: %w", namesOf(all), err)
	}
	watch.observeSettled(ctx, calls, answers, err, begun, h)
	for i, r := range corrected {
		if i >= len(answers) || !answers[i].Answered() || answers[i].Err != nil {
			r.open = true
			r.Receipt.Reopen()
		}
	}
	for _, a := range answers {
		err = errors.Join(err, a.Err)
	}
	return err
}

// correction returns the request that leaves the key as if the reservation had taken used tokens, or false if there is
// none.
func (r *Reservation) correction(used int64) (q runtime.Request, ok bool) {
	rest := r.count - used
	switch {
	case rest == 0, r.TakenAt.IsZero() && (rest > 0 || r.Shadowed), r.uncounted:
		// Nothing was taken. If the mode has let it pass uncounted, its use is not counted either.
		return q, false
	case rest > 0:
		q = r.RefundRequest(rest)
	default:
		q = runtime.Request{Op: runtime.Charge, Count: -rest}
	}
	// The request for the tokens had the same policy and key, so that they are valid.
	_, err := r.of.complete(&q)
	return q, err == nil
}

// namesOf returns the names of the limits, for errors.
func namesOf(all []*Reservation) string {
	names := make([]string, len(all))
	for i, r := range all {
		names[i] = r.Limit
	}
	return "limit " + words.Quoted(names, ", ")
}

// reservation returns the reservation of a request, given whether its call was allowed.
func (l *Limiter) reservation(q *runtime.Request, d runtime.Decision, allowed bool) *Reservation {
	// A limit that would have allowed the request has taken nothing if another one has denied it.
	d.Allowed = d.Allowed && allowed
	return newReservation(l.Limit(q.Policy, q.AsKey()), d, q.Count, d.Allowed && q.Op == runtime.Take)
}

// storedReservation is a reservation as text.
type storedReservation struct {
	Version int `json:"version"`
	// Limit and Key say where the tokens were taken. The key is a fingerprint, because it may be personal.
	Limit string `json:"limit"`
	Key   string `json:"key"`
	Count int64  `json:"count"`
	Taken int64  `json:"taken"`
	// TakenAt is in nanoseconds since 1970 UTC, or 0 if the store has counted nothing; then Made is when it was decided
	// otherwise, if there is a delay. Delay and Jitter are in nanoseconds.
	TakenAt   int64         `json:"takenAt,omitempty"`
	Made      int64         `json:"made,omitempty"`
	Delay     time.Duration `json:"delay,omitempty"`
	Jitter    time.Duration `json:"jitter,omitempty"`
	Shadowed  bool          `json:"shadowed,omitempty"`
	Uncounted bool          `json:"uncounted,omitempty"`
	Free      int64         `json:"free,omitempty"`
	Total     float64       `json:"total,omitempty"`
	Shard     int           `json:"shard,omitempty"`
	Leased    bool          `json:"leased,omitempty"`
}

// MarshalText returns the reservation as a text that can be stored, with the job that will use the tokens for example:
// Resume of a handle for the same key settles it, in another process too. The error is [runtime.ErrNotReserved] if the
// reservation was denied, or is already settled or cancelled.
func (r *Reservation) MarshalText() ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.open {
		return nil, r.of.wrap(runtime.ErrNotReserved)
	}
	s := storedReservation{
		Version: 1, Limit: r.Limit, Key: fingerprint(r.of), Count: r.count, Taken: r.Taken,
		Delay: r.UsableAfter, Jitter: r.Jitter, Shadowed: r.Shadowed, Uncounted: r.uncounted,
		Free: r.Receipt.Free, Total: r.Receipt.Total, Shard: r.Receipt.Shard, Leased: r.Receipt.Leased,
	}
	if !r.TakenAt.IsZero() {
		s.TakenAt = r.TakenAt.UnixNano()
	} else if !r.made.IsZero() {
		s.Made = r.made.UnixNano()
	}
	return json.Marshal(s)
}

// resume returns the reservation with a text of [Reservation.MarshalText].
func (l Limit) resume(text []byte) (*Reservation, error) {
	if _, err := l.complete(&runtime.Request{}); err != nil {
		return nil, err
	}
	var s storedReservation
	switch err := json.Unmarshal(text, &s); {
	case err != nil:
		return nil, l.wrap(fmt.Errorf("%w: the text is no reservation: %w", runtime.ErrInvalidCall, err))
	case s.Version != 1 || s.Count < 0 || s.Taken < 0:
		return nil, l.wrap(fmt.Errorf("%w: the text is no reservation of this version", runtime.ErrInvalidCall))
	case s.Limit != l.policy.Name || s.Key != fingerprint(l):
		return nil, l.wrap(fmt.Errorf("%w: the reservation is one of another key, or of limit %q", runtime.ErrInvalidCall, s.Limit))
	}
	d := runtime.Decision{
		Limit: s.Limit, Policy: l.policy, Allowed: true, Taken: s.Taken, UsableAfter: s.Delay, Jitter: s.Jitter, Shadowed: s.Shadowed,
		Receipt: receipt.Receipt{Free: s.Free, Total: s.Total, Shard: s.Shard, Leased: s.Leased},
	}
	if s.TakenAt != 0 {
		d.TakenAt = time.Unix(0, s.TakenAt)
	}
	d.Receipt.Enter(&receipt.Ledger{}, 0, nil)
	r := newReservation(l, d, s.Count, true)
	if r.uncounted = s.Uncounted; s.Made != 0 {
		r.made = time.Unix(0, s.Made)
	}
	if !r.begun.IsZero() {
		r.begun = r.made
	}
	return r, nil
}

// fingerprint stands for the limit and the key of stored reservations.
func fingerprint(l Limit) string {
	return runtime.Fingerprint(nil, l.policy.Name+"\x00"+l.key.String())
}
