package limiter

import (
	"context"
	"fmt"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Usage is what a request uses of a limit with prices. It is a struct of generated code, with the units of each price.
type Usage interface {
	// Cost returns how many tokens of the limit the usage takes, at least 0, or the error of [runtime.Prices.Cost]: every
	// method with the usage then returns it, and the store is not reached.
	Cost() (int64, error)
}

// PricedLimit is one key of a limit with prices: a request takes the cost of its usage. Tokens, such as those left by a
// [runtime.Decision], are in the unit of the cost. It is a small value, like a [Limit].
type PricedLimit[U Usage] struct{ of Limit }

// Priced returns one key of a limit, whose requests take the cost of a usage. The limit may have reservations, and must have
// a capacity.
func Priced[U Usage](of Limit) PricedLimit[U] { return PricedLimit[U]{of} }

// cost returns the cost of a usage, and reports its error to the observer.
func (l PricedLimit[U]) cost(ctx context.Context, op runtime.Op, used U) (int64, error) {
	n, err := used.Cost()
	if err != nil {
		err = l.of.wrap(err)
		l.of.limiter.observing().observeInvalid(ctx, &runtime.Request{Op: op, Policy: l.of.policy, Key: l.of.key.String()}, 0, 1, err)
	}
	return n, err
}

// decide executes a method of the limit that takes a count.
func (l PricedLimit[U]) decide(ctx context.Context, op runtime.Op, used U) (runtime.Decision, error) {
	n, err := l.cost(ctx, op, used)
	if err != nil {
		return runtime.Decision{}, err
	}
	return l.of.do(ctx, runtime.Request{Op: op, Count: n}, nil)
}

// Allow takes the cost of a usage if so many tokens are available, and otherwise none; see [Limit.AllowN]. A cost of 0 is
// allowed and takes nothing. There is no AllowUpTo, because a part of a usage could be made of its units in several ways.
func (l PricedLimit[U]) Allow(ctx context.Context, used U) (runtime.Decision, error) {
	return l.decide(ctx, runtime.Take, used)
}

// Check reports whether Allow would take the cost now, and takes none; see [Limit.CheckN].
func (l PricedLimit[U]) Check(ctx context.Context, used U) (runtime.Decision, error) {
	return l.decide(ctx, runtime.Check, used)
}

// Charge takes the cost whether so many tokens are available or not; see [Limit.Charge].
func (l PricedLimit[U]) Charge(ctx context.Context, used U) (runtime.Decision, error) {
	return l.decide(ctx, runtime.Charge, used)
}

// Require takes the cost, and returns a denial as a [*runtime.LimitedError]; see [Limit.RequireN].
func (l PricedLimit[U]) Require(ctx context.Context, used U) error {
	d, err := l.Allow(ctx, used)
	if err == nil {
		err = d.Err()
	}
	return err
}

// Reserve takes the cost of an estimate, to be settled when the usage is known. A limit with reservations takes it before it
// has accrued, if necessary: use it after the reservation's Delay. Another one takes it if so many tokens are available. See
// [ReservableLimit.ReserveN].
func (l PricedLimit[U]) Reserve(ctx context.Context, estimate U) (*PricedReservation[U], error) {
	n, err := l.cost(ctx, runtime.Take, estimate)
	if err != nil {
		return nil, err
	}
	d, err := l.of.do(ctx, runtime.Request{Op: runtime.Take, Count: n, Reserve: mayReserve(l.of.policy)}, nil)
	if err != nil {
		return nil, err
	}
	return PricedReservationOf[U](newReservation(l.of, d, n, d.Allowed)), nil
}

// Resume returns the reservation of the key with a text of [PricedReservation.MarshalText]; see [ReservableLimit.Resume]. It
// is settled by the prices of this process.
func (l PricedLimit[U]) Resume(text []byte) (*PricedReservation[U], error) {
	return pricedReservation[U](l.of.resume(text))
}

// Wait takes the cost of a usage, and returns when it can be used; see [Limit.WaitN].
func (l PricedLimit[U]) Wait(ctx context.Context, used U) error {
	n, err := l.cost(ctx, runtime.Take, used)
	if err != nil {
		return err
	}
	return l.of.WaitN(ctx, n)
}

// WaitReserve takes the cost of an estimate as Wait does, and returns the reservation when it can be used, to settle it when
// the usage is known; see [ReservableLimit.WaitReserveN].
func (l PricedLimit[U]) WaitReserve(ctx context.Context, estimate U) (*PricedReservation[U], error) {
	n, err := l.cost(ctx, runtime.Take, estimate)
	if err != nil {
		return nil, err
	}
	return pricedReservation[U](l.of.waitReserve(ctx, n))
}

// Refund returns all that was taken by the request with the decision d; see [Limit.RefundN]. To return a part, reserve, and
// settle for the usage.
func (l PricedLimit[U]) Refund(ctx context.Context, d runtime.Decision) (runtime.Decision, error) {
	return l.of.RefundN(ctx, d, d.Taken)
}

// Peek returns the tokens left, and takes none; see [Limit.Peek].
func (l PricedLimit[U]) Peek(ctx context.Context) (runtime.Balance, error) { return l.of.Peek(ctx) }

// Reset makes the key full again; see [Limit.Reset].
func (l PricedLimit[U]) Reset(ctx context.Context) error { return l.of.Reset(ctx) }

// Erase deletes the count of the key, and replaces the key in the log; see [Limit.Erase].
func (l PricedLimit[U]) Erase(ctx context.Context) error { return l.of.Erase(ctx) }

// Of returns l as an [Item] that takes the cost of a usage.
func (l PricedLimit[U]) Of(used U) Item { return l.item(runtime.Take, used) }

// CheckedOf returns l as an [Item] that must have the cost of a usage, and gives none up; see [Limit.CheckedN].
func (l PricedLimit[U]) CheckedOf(used U) Item { return l.item(runtime.Check, used) }

func (l PricedLimit[U]) item(op runtime.Op, used U) Item {
	n, err := used.Cost()
	return pricedItem{item{l.of, op, n}, err}
}

// pricedItem is an item, or the error of its usage.
type pricedItem struct {
	taken item
	err   error
}

func (i pricedItem) request(of *Limiter) (runtime.Request, error) {
	q, err := i.taken.request(of)
	if err == nil && i.err != nil {
		err = i.taken.of.wrap(i.err)
	}
	return q, err
}

func (pricedItem) plain() {}

// CheckedN returns the limit and key of the item as one that must have n tokens.
func (i pricedItem) CheckedN(n int64) Item { return i.taken.of.CheckedN(n) }

// PricedReservation is a [Reservation] of the cost of an estimate, which is settled for a usage.
type PricedReservation[U Usage] struct {
	runtime.Decision
	of *Reservation
}

// PricedReservationOf returns a reservation of a limit with prices, such as one of [Reservations.At], to be settled for a
// usage.
func PricedReservationOf[U Usage](r *Reservation) *PricedReservation[U] {
	return &PricedReservation[U]{r.Decision, r}
}

// pricedReservation is PricedReservationOf for the results of a method.
func pricedReservation[U Usage](r *Reservation, err error) (*PricedReservation[U], error) {
	if err != nil {
		return nil, err
	}
	return PricedReservationOf[U](r), nil
}

// Delay returns how long after the reservation was made its tokens can be used; see [Reservation.Delay].
func (r *PricedReservation[U]) Delay() time.Duration { return r.of.Delay() }

// At returns when the tokens can be used; see [Reservation.At].
func (r *PricedReservation[U]) At() time.Time { return r.of.At() }

// Wait returns when the tokens can be used; see [Reservation.Wait].
func (r *PricedReservation[U]) Wait(ctx context.Context) error { return r.of.Wait(ctx) }

// Settle corrects the tokens taken to the cost of the real usage. The rest is refunded, and a use beyond it charged; see
// [Reservation.Settle]. After an error of [Usage] the reservation is still open.
func (r *PricedReservation[U]) Settle(ctx context.Context, used U) error {
	n, err := used.Cost()
	if err != nil {
		return r.of.of.wrap(err)
	}
	return r.of.Settle(ctx, n)
}

// Cancel refunds all of the tokens; see [Reservation.Cancel].
func (r *PricedReservation[U]) Cancel(ctx context.Context) error { return r.of.Cancel(ctx) }

// MarshalText returns the reservation as a text for [PricedLimit.Resume]; see [Reservation.MarshalText].
func (r *PricedReservation[U]) MarshalText() ([]byte, error) { return r.of.MarshalText() }

// SettleUsage is [SettleLimit] for a limit with prices: it corrects the count to the cost of what a request has really used.
func SettleUsage(ctx context.Context, name string, used Usage) error {
	n, err := used.Cost()
	if err != nil {
		return fmt.Errorf("limit %q: %w", name, err)
	}
	return SettleLimit(ctx, name, n)
}
