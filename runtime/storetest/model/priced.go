package model

import (
	"context"
	"math/big"
	"math/rand/v2"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// A store sees counts only. So each count of a limit with prices is the cost of a random usage: the model makes one of which
// the sum of prices times units, in exact arithmetic, is the count when it is rounded up, and sends it through the methods
// of such limits.

// handle is what a world uses of one key of a limit, with prices or without.
type handle interface {
	AllowN(ctx context.Context, n int64) (runtime.Decision, error)
	AllowUpTo(ctx context.Context, n int64) (runtime.Decision, error)
	CheckN(ctx context.Context, n int64) (runtime.Decision, error)
	RequireN(ctx context.Context, n int64) error
	Charge(ctx context.Context, n int64) (runtime.Decision, error)
	WaitN(ctx context.Context, n int64) error
	RefundN(ctx context.Context, d runtime.Decision, n int64) (runtime.Decision, error)
	Peek(ctx context.Context) (runtime.Balance, error)
	Reset(ctx context.Context) error
	Erase(ctx context.Context) error
	N(n int64) limiter.Item
	CheckedN(n int64) limiter.Item
}

// reservation is one of a limit, with prices or without.
type reservation interface {
	Delay() time.Duration
	Settle(ctx context.Context, used int64) error
	Cancel(ctx context.Context) error
	MarshalText() ([]byte, error)
}

// reserved is the result of a Reserve: of is nil after an error.
type reserved struct {
	runtime.Decision
	of reservation
}

// handle returns the request's key of its limit.
func (q request) handle(limits *limiter.Limiter) handle {
	of := limits.Limit(q.policy(), q.k.of)
	if q.l.prices == nil {
		return of
	}
	return priced{of, limiter.Priced[usage](of), q.l.prices}
}

// reserveFrom makes a reservation of the request's tokens.
func (q request) reserveFrom(limits *limiter.Limiter, ctx context.Context) (made reserved, err error) {
	p := q.policy()
	if q.l.prices != nil {
		r, err := limiter.Priced[usage](limits.Limit(p, q.k.of)).Reserve(ctx, usageOf(q.l.prices, q.n))
		if r != nil {
			made = reserved{r.Decision, pricedReservation{r, q.l.prices}}
		}
		return made, err
	}
	reserve := limits.Reservable(p, q.k.of).ReserveN
	if p.Capacity == 0 {
		reserve = limits.ReserveOnly(p, q.k.of).ReserveN
	}
	r, err := reserve(ctx, q.n)
	if r != nil {
		made = reserved{r.Decision, r}
	}
	return made, err
}

// resume returns the reservation of the request with a text.
func (q request) resume(limits *limiter.Limiter, text []byte) (reservation, error) {
	if q.l.prices == nil {
		return limits.Reservable(q.policy(), q.k.of).Resume(text)
	}
	r, err := limiter.Priced[usage](limits.Limit(q.policy(), q.k.of)).Resume(text)
	return pricedReservation{r, q.l.prices}, err
}

// reservationOf returns the reservation of one limit of a group.
func (q request) reservationOf(r *limiter.Reservation) reservation {
	if q.l.prices == nil {
		return r
	}
	return pricedReservation{limiter.PricedReservationOf[usage](r), q.l.prices}
}

// usage is how many units of each price a request uses.
type usage struct {
	prices runtime.Prices
	units  []int64
}

// Cost returns what the product calculates.
func (u usage) Cost() (int64, error) { return u.prices.Cost(u.units...) }

// priced is one key of a limit with prices. A count is the cost of some usage.
type priced struct {
	limiter.Limit
	of     limiter.PricedLimit[usage]
	prices runtime.Prices
}

func (p priced) AllowN(ctx context.Context, n int64) (runtime.Decision, error) {
	return p.of.Allow(ctx, usageOf(p.prices, n))
}

func (p priced) CheckN(ctx context.Context, n int64) (runtime.Decision, error) {
	return p.of.Check(ctx, usageOf(p.prices, n))
}

func (p priced) RequireN(ctx context.Context, n int64) error {
	return p.of.Require(ctx, usageOf(p.prices, n))
}

func (p priced) Charge(ctx context.Context, n int64) (runtime.Decision, error) {
	return p.of.Charge(ctx, usageOf(p.prices, n))
}

func (p priced) WaitN(ctx context.Context, n int64) error {
	return p.of.Wait(ctx, usageOf(p.prices, n))
}

// RefundN refunds all: the model has no part of a usage refunded.
func (p priced) RefundN(ctx context.Context, d runtime.Decision, _ int64) (runtime.Decision, error) {
	return p.of.Refund(ctx, d)
}

func (p priced) Peek(ctx context.Context) (runtime.Balance, error) { return p.of.Peek(ctx) }
func (p priced) Reset(ctx context.Context) error                   { return p.of.Reset(ctx) }
func (p priced) Erase(ctx context.Context) error                   { return p.of.Erase(ctx) }
func (p priced) N(n int64) limiter.Item                            { return p.of.Of(usageOf(p.prices, n)) }
func (p priced) CheckedN(n int64) limiter.Item                     { return p.of.CheckedOf(usageOf(p.prices, n)) }

// pricedReservation is a reservation of a limit with prices, which is settled for some usage.
type pricedReservation struct {
	*limiter.PricedReservation[usage]
	prices runtime.Prices
}

func (r pricedReservation) Settle(ctx context.Context, used int64) error {
	return r.PricedReservation.Settle(ctx, usageOf(r.prices, used))
}

// randomPrices returns some prices, of which the first is at most a token.
func randomPrices(r *rand.Rand) runtime.Prices {
	prices := runtime.Prices{{Name: "first", Millionths: oneOf(r, 1, 300_000, 333_333, 1_000_000, 1+r.Int64N(1_000_000))}}
	for _, name := range []string{"second", "third"}[:r.IntN(3)] {
		prices = append(prices, runtime.Price{Name: name, Millionths: oneOf(r, 0, 1, 1_250_000, 15_000_000, r.Int64N(10_000_000))})
	}
	return prices
}

// usageOf returns a usage of which the cost is n. What it has of the other prices depends on n alone.
func usageOf(prices runtime.Prices, n int64) usage {
	u, rest := usage{prices, make([]int64, len(prices))}, whole(n)
	if n <= 0 {
		return u
	}
	r := rand.New(rand.NewPCG(uint64(n), uint64(prices[0].Millionths)))
	for i := len(prices) - 1; i >= 0; i-- {
		price := big.NewRat(prices[i].Millionths, 1_000_000)
		if price.Sign() == 0 {
			u.units[i] = r.Int64N(10)
			continue
		}
		fit := new(big.Rat).Quo(rest, price)
		most := new(big.Int).Quo(fit.Num(), fit.Denom()).Int64()
		// The first price is at most a token, so that the rest of the others is less than one.
		if u.units[i] = most; i > 0 {
			u.units[i] = r.Int64N(most + 1)
		}
		rest.Sub(rest, price.Mul(price, whole(u.units[i])))
	}
	return u
}
