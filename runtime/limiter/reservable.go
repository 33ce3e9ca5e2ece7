package limiter

import (
	"context"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// ReservableLimit is one key of a limit whose tokens may also be reserved before they have accrued. It is a small
// value, like a [Limit].
type ReservableLimit struct{ of Limit }

// Reservable returns one key of a limit with reservations.
func (l *Limiter) Reservable(p *runtime.Policy, key runtime.Key) ReservableLimit {
	return ReservableLimit{l.Limit(p, key)}
}

// Reserve takes a token, if necessary before it has accrued: use it after the reservation's Delay.
func (l ReservableLimit) Reserve(ctx context.Context) (*Reservation, error) {
	return l.ReserveN(ctx, 1)
}

// ReserveN takes n tokens, if necessary before they have accrued: use them after the reservation's Delay. It is denied,
// and takes nothing, if more than the policy's MaxReserved would then be in debt.
//
// The error is [runtime.ErrExceedsCapacity] if n is more than capacity and MaxReserved together,
// [runtime.ErrInvalidCount] if it is less than 0, [runtime.ErrInvalidKey], [runtime.ErrInvalidPolicy], or the store's.
func (l ReservableLimit) ReserveN(ctx context.Context, n int64) (*Reservation, error) {
	return l.of.reserve(ctx, n)
}

// Resume returns the reservation of the key with a text of [Reservation.MarshalText], to be settled or cancelled, by
// another process too. Each resumed reservation can be settled once, and nobody counts how often a text is resumed:
// settle in the transaction that deletes the text. The error is [runtime.ErrInvalidCall] if the text is not one of this
// key.
func (l ReservableLimit) Resume(text []byte) (*Reservation, error) { return l.of.resume(text) }

// Wait takes a token and returns when it can be used. It reserves; see [Limit.WaitN].
func (l ReservableLimit) Wait(ctx context.Context) error { return l.of.WaitN(ctx, 1) }

// WaitN takes n tokens and returns when they can be used. It reserves; see [Limit.WaitN].
func (l ReservableLimit) WaitN(ctx context.Context, n int64) error { return l.of.WaitN(ctx, n) }

// WaitReserve takes a token and returns when it can be used; see WaitReserveN.
func (l ReservableLimit) WaitReserve(ctx context.Context) (*Reservation, error) {
	return l.of.waitReserve(ctx, 1)
}

// WaitReserveN takes n tokens as WaitN does, and returns the reservation when they can be used, to settle it when the use is
// known. The errors are those of WaitN, with which there is nothing to settle.
//
//	r, err := limit.LLMTokens(team, model).WaitReserveN(ctx, 4000)
//	if err != nil {
//		return err
//	}
//	used, err := complete(ctx)
//	return errors.Join(err, r.Settle(ctx, used))
func (l ReservableLimit) WaitReserveN(ctx context.Context, n int64) (*Reservation, error) {
	return l.of.waitReserve(ctx, n)
}

// Allow takes a token if one is available; see [Limit.Allow].
func (l ReservableLimit) Allow(ctx context.Context) (runtime.Decision, error) {
	return l.of.AllowN(ctx, 1)
}

// AllowN takes n tokens if all of them are available; see [Limit.AllowN].
func (l ReservableLimit) AllowN(ctx context.Context, n int64) (runtime.Decision, error) {
	return l.of.AllowN(ctx, n)
}

// AllowUpTo takes as many tokens as are available, at most n; see [Limit.AllowUpTo].
func (l ReservableLimit) AllowUpTo(ctx context.Context, n int64) (runtime.Decision, error) {
	return l.of.AllowUpTo(ctx, n)
}

// Check reports whether Allow would take a token now; see [Limit.Check].
func (l ReservableLimit) Check(ctx context.Context) (runtime.Decision, error) {
	return l.of.CheckN(ctx, 1)
}

// CheckN reports whether AllowN would take n tokens now; see [Limit.CheckN].
func (l ReservableLimit) CheckN(ctx context.Context, n int64) (runtime.Decision, error) {
	return l.of.CheckN(ctx, n)
}

// Require takes a token, and returns a denial as a [*runtime.LimitedError]; see [Limit.Require].
func (l ReservableLimit) Require(ctx context.Context) error { return l.of.RequireN(ctx, 1) }

// RequireN takes n tokens, and returns a denial as a [*runtime.LimitedError]; see [Limit.RequireN].
func (l ReservableLimit) RequireN(ctx context.Context, n int64) error { return l.of.RequireN(ctx, n) }

// Charge takes n tokens whether they are available or not; see [Limit.Charge].
func (l ReservableLimit) Charge(ctx context.Context, n int64) (runtime.Decision, error) {
	return l.of.Charge(ctx, n)
}

// Refund returns a token that was taken and not used; see [Limit.Refund].
func (l ReservableLimit) Refund(ctx context.Context, d runtime.Decision) (runtime.Decision, error) {
	return l.of.RefundN(ctx, d, 1)
}

// RefundN returns n tokens that were taken and not used; see [Limit.RefundN].
func (l ReservableLimit) RefundN(ctx context.Context, d runtime.Decision, n int64) (runtime.Decision, error) {
	return l.of.RefundN(ctx, d, n)
}

// Peek returns the number of tokens left, and takes none; see [Limit.Peek].
func (l ReservableLimit) Peek(ctx context.Context) (runtime.Balance, error) { return l.of.Peek(ctx) }

// Reset makes the key full again; see [Limit.Reset].
func (l ReservableLimit) Reset(ctx context.Context) error { return l.of.Reset(ctx) }

// Erase deletes the count of the key, and replaces the key in the log; see [Limit.Erase].
func (l ReservableLimit) Erase(ctx context.Context) error { return l.of.Erase(ctx) }

// N returns l as an [Item] that takes n tokens.
func (l ReservableLimit) N(n int64) Item { return l.of.N(n) }

// Checked returns l as an [Item] that must have a token; see [Limit.Checked].
func (l ReservableLimit) Checked() Item { return l.of.CheckedN(1) }

// CheckedN returns l as an [Item] that must have n tokens; see [Limit.CheckedN].
func (l ReservableLimit) CheckedN(n int64) Item { return l.of.CheckedN(n) }

func (ReservableLimit) plain() {}

func (l ReservableLimit) request(of *Limiter) (runtime.Request, error) { return l.of.request(of) }

// ReserveOnlyLimit is one key of a limit with capacity 0: tokens never accumulate, so that they can only be reserved,
// each for the instant at which it accrues. It is a small value, like a [Limit].
type ReserveOnlyLimit struct{ of Limit }

// ReserveOnly returns one key of a limit with capacity 0, whose tokens can only be reserved.
func (l *Limiter) ReserveOnly(p *runtime.Policy, key runtime.Key) ReserveOnlyLimit {
	return ReserveOnlyLimit{l.Limit(p, key)}
}

// Reserve takes a token before it has accrued: use it after the reservation's Delay.
func (l ReserveOnlyLimit) Reserve(ctx context.Context) (*Reservation, error) {
	return l.ReserveN(ctx, 1)
}

// ReserveN takes n tokens before they have accrued: use them after the reservation's Delay. It is denied, and takes
// nothing, if more than the policy's MaxReserved would then be in debt.
//
// The error is [runtime.ErrExceedsCapacity] if n is more than MaxReserved, [runtime.ErrInvalidCount] if it is less than
// 0, [runtime.ErrInvalidKey], [runtime.ErrInvalidPolicy], or the store's.
func (l ReserveOnlyLimit) ReserveN(ctx context.Context, n int64) (*Reservation, error) {
	return l.of.reserve(ctx, n)
}

// Resume returns the reservation of the key with a text of [Reservation.MarshalText]; see [ReservableLimit.Resume].
func (l ReserveOnlyLimit) Resume(text []byte) (*Reservation, error) { return l.of.resume(text) }

// Wait takes a token and returns when it can be used. It reserves; see [Limit.WaitN].
func (l ReserveOnlyLimit) Wait(ctx context.Context) error { return l.of.WaitN(ctx, 1) }

// WaitN takes n tokens and returns when they can be used. It reserves; see [Limit.WaitN].
func (l ReserveOnlyLimit) WaitN(ctx context.Context, n int64) error { return l.of.WaitN(ctx, n) }

// WaitReserve takes a token and returns when it can be used; see [ReservableLimit.WaitReserveN].
func (l ReserveOnlyLimit) WaitReserve(ctx context.Context) (*Reservation, error) {
	return l.of.waitReserve(ctx, 1)
}

// WaitReserveN takes n tokens and returns when they can be used; see [ReservableLimit.WaitReserveN].
func (l ReserveOnlyLimit) WaitReserveN(ctx context.Context, n int64) (*Reservation, error) {
	return l.of.waitReserve(ctx, n)
}

// Charge takes n tokens whether they have accrued or not; see [Limit.Charge].
func (l ReserveOnlyLimit) Charge(ctx context.Context, n int64) (runtime.Decision, error) {
	return l.of.Charge(ctx, n)
}

// Refund returns a token that was taken and not used; see [Limit.Refund].
func (l ReserveOnlyLimit) Refund(ctx context.Context, d runtime.Decision) (runtime.Decision, error) {
	return l.of.RefundN(ctx, d, 1)
}

// RefundN returns n tokens that were taken and not used; see [Limit.RefundN].
func (l ReserveOnlyLimit) RefundN(ctx context.Context, d runtime.Decision, n int64) (runtime.Decision, error) {
	return l.of.RefundN(ctx, d, n)
}

// Peek returns the balance of the key, and takes no tokens; see [Limit.Peek].
func (l ReserveOnlyLimit) Peek(ctx context.Context) (runtime.Balance, error) { return l.of.Peek(ctx) }

// Reset forgets all tokens that were taken or reserved; see [Limit.Reset].
func (l ReserveOnlyLimit) Reset(ctx context.Context) error { return l.of.Reset(ctx) }

// Erase deletes the count of the key, and replaces the key in the log; see [Limit.Erase].
func (l ReserveOnlyLimit) Erase(ctx context.Context) error { return l.of.Erase(ctx) }

// N returns l as a [ReserveItem] that reserves n tokens.
func (l ReserveOnlyLimit) N(n int64) ReserveItem { return item{l.of, runtime.Take, n} }

func (l ReserveOnlyLimit) request(of *Limiter) (runtime.Request, error) { return l.of.request(of) }
