package model

import (
	"math"
	"math/big"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// tokens returns what a key has at an instant, by the terms that are in force then.
func (q request) tokens(now int64, t terms) *big.Rat {
	return new(big.Rat).Sub(whole(t.capacity), q.k.history.missing(now, t, false))
}

// margin returns by how many tokens a request passes or, if negative, fails.
func (q request) margin(now int64, t terms) *big.Rat {
	margin := q.tokens(now, t)
	margin.Sub(margin, whole(q.n))
	if q.reserve {
		margin.Add(margin, whole(t.reserved))
		if t.reserved == runtime.Unbounded {
			margin.SetInt64(1)
		}
	}
	return margin
}

// noise is more than the roundings of a float64 add up to, in tokens.
func noise(t terms, missing *big.Rat) float64 {
	m, _ := missing.Float64()
	return 1e-13 * (1 + float64(t.capacity) + math.Abs(m))
}

// surplus returns how many tokens more than needed a request must have to be sure to pass: none, unless the roundings are more
// than it may lack.
func (q request) surplus(t terms) float64 {
	return max(0, noise(t, new(big.Rat))-min(1e-6, float64(t.rate)*1000/float64(t.period))/2)
}

// lenience returns how many tokens a request may lack and still pass: a millionth, and the tokens that come back in a microsecond.
func (q request) lenience(now int64, t terms) float64 {
	missing := q.k.history.missing(now, t, false)
	m, _ := missing.Float64()
	rate := float64(t.rate)
	if t.windows.kind == sliding {
		rate = max(rate, m)
	}
	return min(1e-6, rate*1000/float64(t.period)) + noise(t, missing)
}

// most returns the largest count that can ever pass.
func (q request) most(t terms) int64 {
	switch {
	case q.op != runtime.Take && q.op != runtime.Check && q.op != runtime.TakeUpTo:
		return 2 * runtime.MaxTokens
	case q.op == runtime.TakeUpTo && t.capacity > 0:
		return 2 * runtime.MaxTokens
	case q.op == runtime.TakeUpTo:
		return 0
	case q.reserve:
		return t.capacity + t.reserved
	}
	return t.capacity
}

// counts reports whether requests are decided by the count of their key.
func (t terms) counts() bool { return t.mode == runtime.ModeEnforce || t.mode == runtime.ModeShadow }

func (t terms) lifted() bool { return t.mode == runtime.ModeOff || t.mode == runtime.ModeUnlimited }

// passes reports whether the request would clearly pass at a later instant, if no other request came first.
func (q request) passes(at int64) bool {
	t := q.l.at(q.k, q.plan, at)
	switch {
	case q.n == 0 || t.lifted() || t.mode == runtime.ModeShadow:
		return true
	case t.mode == runtime.ModeBlock || q.n > q.most(t):
		return false
	}
	return q.margin(at, t).Sign() >= 0
}

// mayPass reports whether it passes with the lenience.
func (q request) mayPass(at int64) bool {
	t := q.l.at(q.k, q.plan, at)
	m := new(big.Rat)
	if t.counts() && q.n <= q.most(t) {
		m = q.margin(at, t)
	}
	f, _ := m.Float64()
	return q.passes(at) || t.mode == runtime.ModeEnforce && q.n <= q.most(t) && f >= -q.lenience(at, t)
}

// outOfDebt reports whether the tokens that a reservation has taken can be used at a later instant: nothing is missing from the
// capacity of 0 and more that counts then, or the limit lets everything pass.
func (q request) outOfDebt(at int64) bool {
	t := q.l.at(q.k, q.plan, at)
	return t.lifted() || t.mode == runtime.ModeShadow || q.tokens(at, t).Sign() >= 0
}

func (q request) nearlyOutOfDebt(at int64) bool {
	if q.outOfDebt(at) {
		return true
	}
	t := q.l.at(q.k, q.plan, at)
	f, _ := q.tokens(at, t).Float64()
	return f >= -q.lenience(at, t)
}

// full reports whether the key has its whole capacity at a later instant.
func (q request) full(at int64) bool {
	t := q.l.at(q.k, q.plan, at)
	return t.lifted() || q.k.history.missing(at, t, false).Sign() == 0
}

func (q request) nearlyFull(at int64) bool {
	if q.full(at) {
		return true
	}
	t := q.l.at(q.k, q.plan, at)
	f, _ := q.k.history.missing(at, t, false).Float64()
	return f <= q.lenience(at, t)
}

// refused returns the error of a request that can never pass. One that passes when an override has ended is denied.
func (q request) refused(now int64) error {
	if t := q.l.at(q.k, q.plan, now); t.mode != runtime.ModeEnforce || q.n <= q.most(t) {
		return nil
	}
	for _, end := range q.l.ends(q.k, now) {
		if t := q.l.at(q.k, q.plan, end); t.lifted() || t.mode == runtime.ModeShadow || t.mode == runtime.ModeEnforce && q.n <= q.most(t) {
			return nil
		}
	}
	return runtime.ErrExceedsCapacity
}

// blockedFor returns how long a key stays blocked, and until when.
func (q request) blockedFor(now int64) (time.Duration, int64) {
	until := int64(math.MaxInt64)
	for _, end := range q.l.ends(q.k, now) {
		if end < until && q.l.at(q.k, q.plan, end).mode != runtime.ModeBlock {
			until = end
		}
	}
	if until == math.MaxInt64 {
		return runtime.Never, until
	}
	return time.Duration(until - now), until
}

// after returns what a key has at an instant if the request takes its tokens now.
func (q request) after(now, at int64, t terms) *big.Rat {
	h := append(slices.Clip(q.k.history), &event{now: now, tokens: whole(q.n), used: whole(q.n), by: t})
	return new(big.Rat).Sub(whole(t.capacity), h.missing(at, t, false))
}

// usable reports whether the tokens of a request can be used at an instant if it takes them now.
func (q request) usable(now, at int64, t terms) bool { return q.after(now, at, t).Sign() >= 0 }

func (q request) usableNearly(now, at int64, t terms) bool {
	f, _ := q.after(now, at, t).Float64()
	return f >= -q.lenience(at, t)
}
