package runtime

import (
	"context"
	"fmt"
	"time"
)

// Limit is one key of a limit that is asked without reserving. It is a small value: make one for each
// question, or keep it.
type Limit struct {
	handle
}

// ReservableLimit is one key of a limit whose tokens may also be reserved ahead of their time.
type ReservableLimit struct {
	taking
}

// ReserveOnlyLimit is one key of a limit with capacity 0: tokens never pile up, so they can only be
// reserved, each for the time at which it is granted.
type ReserveOnlyLimit struct {
	handle
}

// Item is what [Limiter.All] takes tokens from: a limit, for one token, or what its method N returns.
type Item interface {
	request(of *Limiter) (Request, error)
}

// Handle is one key of a limit, with the verbs that every limit has.
type Handle struct {
	limiter *Limiter
	policy  *Policy
	key     Key
}

// The types above embed these names for exported types, so that editors show those as the receivers of promoted
// methods, and offer no field beside the verbs.
type (
	handle = Handle
	taking = Limit
)

// Allow takes a token, if there is one. An error means that the question could not be asked, or not be
// answered; a denial is not an error.
func (l Limit) Allow(ctx context.Context) (Decision, error) { return l.AllowN(ctx, 1) }

// AllowN takes n tokens, if they are there, or none.
//
// The error is [ErrExceedsCapacity] if n is more than the capacity, [ErrInvalidCount] if it is less than
// 1, [ErrInvalidKey], [ErrInvalidPolicy], or the store's.
func (l Limit) AllowN(ctx context.Context, n int64) (Decision, error) {
	return l.ask(ctx, Request{Op: Take, Count: n})
}

// Check tells whether Allow would take a token now, and takes none. In between, others may take it: to
// limit what a check stands before, take first and Refund what was not used.
func (l Limit) Check(ctx context.Context) (Decision, error) { return l.CheckN(ctx, 1) }

// CheckN tells whether AllowN would take n tokens now, and takes none. Its errors are those of AllowN.
func (l Limit) CheckN(ctx context.Context, n int64) (Decision, error) {
	return l.ask(ctx, Request{Op: Check, Count: n})
}

// Require takes a token, and makes a denial a [*LimitedError].
func (l Limit) Require(ctx context.Context) error { return l.RequireN(ctx, 1) }

// RequireN takes n tokens, and makes a denial a [*LimitedError]. Its other errors are those of AllowN.
func (l Limit) RequireN(ctx context.Context, n int64) error {
	d, err := l.AllowN(ctx, n)
	if err == nil && !d.Allowed {
		return &LimitedError{d}
	}
	return err
}

// N returns l as an [Item] that takes n tokens.
func (l Limit) N(n int64) Item { return item{l.handle, n} }

func (l Limit) request(of *Limiter) (Request, error) { return item{l.handle, 1}.request(of) }

type item struct {
	handle
	n int64
}

func (i item) request(of *Limiter) (Request, error) {
	q, err := i.question(Request{Op: Take, Count: i.n})
	if err == nil && i.limiter != of {
		err = i.wrap(fmt.Errorf("%w: it is another limiter's", ErrInvalidCall))
	}
	return q, err
}

// Reserve takes a token, ahead of its time if need be: use it after the reservation's Delay.
func (l ReservableLimit) Reserve(ctx context.Context) (*Reservation, error) {
	return l.ReserveN(ctx, 1)
}

// ReserveN takes n tokens, ahead of their time if need be: use them after the reservation's Delay. It is
// refused, and takes nothing, if more than the policy's MaxReserved would then be in debt.
//
// The error is [ErrExceedsCapacity] if n is more than capacity and MaxReserved together,
// [ErrInvalidCount] if it is less than 1, [ErrInvalidKey], [ErrInvalidPolicy], or the store's.
func (l ReservableLimit) ReserveN(ctx context.Context, n int64) (*Reservation, error) {
	return l.reserve(ctx, n)
}

// Reserve takes a token ahead of its time: use it after the reservation's Delay.
func (l ReserveOnlyLimit) Reserve(ctx context.Context) (*Reservation, error) {
	return l.ReserveN(ctx, 1)
}

// ReserveN takes n tokens ahead of their time: use them after the reservation's Delay. It is refused, and
// takes nothing, if more than the policy's MaxReserved would then be in debt.
//
// The error is [ErrExceedsCapacity] if n is more than MaxReserved, [ErrInvalidCount] if it is less than
// 1, [ErrInvalidKey], [ErrInvalidPolicy], or the store's.
func (l ReserveOnlyLimit) ReserveN(ctx context.Context, n int64) (*Reservation, error) {
	return l.reserve(ctx, n)
}

// Refund gives back a token that was taken by the request decided in d, and not used. See RefundN.
func (h Handle) Refund(ctx context.Context, d Decision) (Decision, error) {
	return h.RefundN(ctx, d, 1)
}

// RefundN gives back n tokens that were taken by the request decided in d, and not used. What a full key would have
// lost since d is not given back, so that no window or interval has more uses than the limit allows: nothing after
// the window of d has ended, and of a token bucket n less what has accrued since d. If d has taken nothing, as when
// it was denied or FailedOpen, nothing is given back. The decision tells what is left.
//
// The error is [ErrInvalidCount] if n is less than 1, [ErrInvalidKey], [ErrInvalidPolicy], or the store's.
func (h Handle) RefundN(ctx context.Context, d Decision, n int64) (Decision, error) {
	if d.TakenAt.IsZero() && n > 0 {
		return h.ask(ctx, Request{Op: Peek})
	}
	return h.ask(ctx, Request{Op: Refund, Count: n, TakenAt: d.TakenAt.UnixNano()})
}

// Peek tells what is left, and takes nothing.
func (h Handle) Peek(ctx context.Context) (Balance, error) {
	d, err := h.ask(ctx, Request{Op: Peek})
	if err != nil {
		return Balance{}, err
	}
	return Balance{Limit: d.Limit, Capacity: h.policy.Capacity, Remaining: d.Remaining, Value: d.Value, FullAfter: d.FullAfter}, nil
}

// Reset forgets what was taken from the key, and what was reserved: it is full again.
func (h Handle) Reset(ctx context.Context) error {
	_, err := h.ask(ctx, Request{Op: Reset})
	return err
}

// question returns the request of an ask.
func (h Handle) question(q Request) (Request, error) {
	if h.key.err != nil {
		return Request{}, h.wrap(h.key.err)
	}
	if err := h.policy.Validate(); err != nil {
		return Request{}, h.wrap(err)
	}
	q.Policy, q.Key = h.policy, h.key.text
	return q, nil
}

// ask asks a question of this one key. Every verb ends here.
func (h Handle) ask(ctx context.Context, q Request) (Decision, error) {
	if d, ok := h.spend(ctx, q); ok {
		return d, nil
	}
	request, err := h.question(q)
	if err != nil {
		return Decision{}, err
	}
	decisions, err := h.limiter.do(ctx, callOf(request))
	if err != nil {
		return Decision{}, err
	}
	return decisions[0], nil
}

// settleTimeout bounds what is asked after the caller's context has ended.
const settleTimeout = 10 * time.Second

// askAnyway asks what has to be asked even if the context has ended: to give tokens back.
func (h Handle) askAnyway(ctx context.Context, q Request) (Decision, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	return h.ask(ctx, q)
}

// giveBack gives back n of the tokens that d has taken, even if the context has ended.
func (h Handle) giveBack(ctx context.Context, d Decision, n int64) error {
	q := Request{Op: Refund, Count: n, TakenAt: d.TakenAt.UnixNano()}
	// Otherwise nothing can be due after the window of d, and d may be of a lease, whose Value is what is left of it.
	if p := h.policy; p.Reserves() && (p.Kind == TokenBucket || d.Delay > 0) {
		q.Missing = float64(p.Capacity) - d.Value
	}
	_, err := h.askAnyway(ctx, q)
	return err
}

// row returns the row of the handle's key.
func (h Handle) row() Row { return Row{Name: h.policy.Name, Key: h.key.text} }

// wrap names the limit that an error is about, never the key.
func (h Handle) wrap(err error) error {
	if h.policy == nil || h.policy.Name == "" {
		return err
	}
	return fmt.Errorf("limit %q: %w", h.policy.Name, err)
}
