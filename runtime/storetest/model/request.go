package model

import (
	"math"
	"math/big"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// policy returns the policy of the request's plan, with the numbers of its caller.
func (q request) policy() *runtime.Policy {
	p, key := q.l.of(q.plan), q.k.of
	if q.l.exceptions != nil {
		p, key = q.l.exceptions.For(p, key)
	}
	if q.numbers != (runtime.Numbers{}) {
		p, key = allowed(p, q.numbers).For(p, key)
	}
	if q.class != 0 {
		p, key = q.l.classes.Of(q.class).For(p, key)
	}
	if key.Err() != nil {
		panic(key.Err())
	}
	return p
}

// ofFile returns the policy of the request's plan, with the numbers of its caller, which operators see.
func (q request) ofFile() *runtime.Policy {
	q.class, q.l = 0, &limit{policies: q.l.policies}
	return q.policy()
}

// at returns the terms that are in force at an instant, for the class of the request.
func (q request) at(now int64) terms {
	t := q.l.at(q.k, q.plan, q.numbers, now)
	t.leaves = q.l.classes.Of(q.class).Leaves
	return t
}

// decides reports whether the request can be denied.
func (q request) decides() bool {
	return q.op == runtime.Take || q.op == runtime.Check || q.op == runtime.TakeUpTo
}

// missing returns the tokens that the key lacks of a full one.
func (q request) missing(now int64, t terms) *big.Rat { return q.k.history.missing(now, t, false) }

// tokens returns what the key has at an instant, by the terms that are in force then.
func (q request) tokens(now int64, t terms) float64 {
	return float(new(big.Rat).Sub(whole(t.full()), q.missing(now, t)))
}

// margin returns by how many tokens a request passes or, if negative, fails.
func (q request) margin(now int64, t terms) float64 {
	margin := new(big.Rat).Sub(whole(t.full()-q.n), q.missing(now, t))
	switch {
	case q.reserve && t.debt() == runtime.Unbounded:
		return 1
	case q.reserve:
		margin.Add(margin, whole(t.debt()))
	}
	return float(margin)
}

// noise is more than the roundings of a float64 add up to, in tokens.
func noise(t terms, missing *big.Rat) float64 {
	return 1e-13 * (1 + float64(t.Capacity) + math.Abs(float(missing)))
}

// close is how many tokens two numbers may differ by that are the same.
func (q request) close(now int64, t terms) float64 { return 1e-6 + noise(t, q.missing(now, t)) }

// surplus returns how many tokens more than needed a request must have to be sure to pass: none, unless the roundings
// are more than it may lack.
func (q request) surplus(t terms) float64 {
	return max(0, noise(t, new(big.Rat))-min(1e-6, float64(t.Rate)*1000/float64(t.period))/2)
}

// lenience returns how many tokens a request may lack and still pass: a millionth, and the tokens that come back in a
// microsecond.
func (q request) lenience(now int64, t terms) float64 {
	missing := q.missing(now, t)
	rate := float64(t.Rate)
	if t.windows.kind == sliding {
		rate = max(rate, float(missing))
	}
	return min(1e-6, rate*1000/float64(t.period)) + noise(t, missing)
}

// most returns the largest count that can ever pass.
func (q request) most(t terms) int64 {
	switch {
	case !q.decides() || q.op == runtime.TakeUpTo && t.full() > 0:
		return 2 * runtime.MaxTokens
	case q.op == runtime.TakeUpTo:
		return 0
	case q.reserve:
		return t.full() + t.debt()
	}
	return t.full()
}

// A slack is how many tokens more there are at a later instant than something needs, if no other request comes first.
// It is infinite if that does not depend on the tokens.
type slack func(q request, at int64) float64

// toPass is the slack of a request to pass.
func toPass(q request, at int64) float64 {
	t := q.at(at)
	switch {
	case q.n == 0 || t.open():
		return math.Inf(1)
	case t.mode == runtime.ModeBlock || q.n > q.most(t) || q.k.penalized(at, t) > 0:
		return math.Inf(-1)
	}
	return q.margin(at, t)
}

// toUse is the slack of reserved tokens to be used: nothing is missing from the capacity of 0 and more that counts
// then, or the limit lets everything pass.
func toUse(q request, at int64) float64 {
	t := q.at(at)
	if t.open() {
		return math.Inf(1)
	}
	return q.tokens(at, t)
}

// toBeFull is the slack of a key to have its whole capacity.
func toBeFull(q request, at int64) float64 {
	t := q.at(at)
	if t.lifted() || t.unlimited {
		return math.Inf(1)
	}
	return -float(q.missing(at, t))
}

// nearly reports whether there are enough tokens at an instant, or so few too few that it may be.
func (s slack) nearly(q request, at int64) bool {
	have := s(q, at)
	return have >= 0 || !math.IsInf(have, -1) && have >= -q.lenience(at, q.at(at))
}

// passes reports whether the request would clearly pass at a later instant.
func (q request) passes(at int64) bool { return toPass(q, at) >= 0 }

// refused returns the error of a request that can never pass. One that passes when an override has ended is denied.
func (q request) refused(now int64) error {
	if t := q.at(now); t.mode != runtime.ModeEnforce || q.n <= q.most(t) {
		return nil
	}
	for _, end := range q.l.ends(q.k, now) {
		// A count that fits is denied, and not refused, if an exception blocks the key then.
		blocks := q.k.exception != nil && q.k.exception.Mode == runtime.ModeBlock
		if t := q.at(end); t.open() || (t.mode == runtime.ModeEnforce || blocks) && q.n <= q.most(t) {
			return nil
		}
	}
	return runtime.ErrExceedsCapacity
}

// blockedFor returns how long a key stays blocked, and until when.
func (q request) blockedFor(now int64) (time.Duration, int64) {
	for _, end := range q.l.ends(q.k, now) {
		if q.at(end).mode != runtime.ModeBlock {
			return time.Duration(end - now), end
		}
	}
	return runtime.Never, math.MaxInt64
}

// after returns what a key has at an instant if the request takes its tokens now.
func (q request) after(now, at int64, t terms) float64 {
	taken := taking(q.n, now, t)
	q.k = &key{history: append(slices.Clip(q.k.history), taken)}
	return q.tokens(at, t)
}

// penalized returns until when all requests for a key are denied because of a penalty; 0 if they are not.
func (k *key) penalized(now int64, t terms) int64 {
	if n := len(k.penalties); n > 0 && len(t.penalties) > 0 && !t.lifted() && now < k.penalties[n-1].until {
		return k.penalties[n-1].until
	}
	return 0
}

// penalizedByAny reports whether the key has a penalty by the plans that have one, whatever is in force now.
func (k *key) penalizedByAny(now int64) bool {
	n := len(k.penalties)
	return n > 0 && now < k.penalties[n-1].until
}

// forgiven reports whether the next penalty is a first one.
func (k *key) forgiven(now int64, t terms) bool {
	n := len(k.penalties)
	return n == 0 || len(t.penalties) > 0 && now >= k.penalties[n-1].until+t.forgive
}

// penalize starts a penalty because of a denial, unless one is in force.
func (k *key) penalize(now int64, t terms) {
	if len(t.penalties) == 0 || k.penalized(now, t) > 0 {
		return
	}
	next := penalty{}
	if !k.forgiven(now, t) {
		next.number = min(k.penalties[len(k.penalties)-1].number+1, len(t.penalties)-1)
	}
	next.until = now + t.penalties[next.number]
	k.penalties = append(k.penalties[:len(k.penalties):len(k.penalties)], next)
}

// looked reports whether it is known what the shards of the key had just before the request.
func (q request) looked(t terms) bool {
	return q.l.sharded() && !q.l.leased() && t.counts() && !math.IsNaN(q.k.just) && t.same(q.k.justBy)
}

// beyond returns by how many tokens a request fits into those that there are, and those that it may reserve.
func (q request) beyond(have float64, t terms) float64 {
	if q.reserve {
		have += float64(t.debt())
	}
	return have - float64(q.n)
}

// ofShards returns by how many tokens and a millionth a request for a limit with shards may pass: by the tokens that
// they had just before, and by those that one row would have, as if only the used tokens had been taken. While the
// shards still lack tokens taken by other terms, one of them may have more than all together. What a class leaves it leaves
// in the shard that it takes from, so that it may take tokens that all shards together do not have for it.
func (q request) ofShards(now int64, t terms) float64 {
	have := math.MaxFloat64
	if q.l.constant() {
		have = float64(t.Capacity) - float(q.k.history.missing(now, t, true))
	}
	if q.looked(t) && !slices.ContainsFunc(q.k.history, func(e *event) bool { return !e.by.same(t) }) {
		have = min(have, q.k.just)
	}
	return q.beyond(have, t) + 1e-6
}

// shardsHave reports whether a request clearly passes by what the shards had just before: if one has too few, all
// decide.
func (q request) shardsHave(t terms) bool {
	return q.looked(t) && q.beyond(q.k.just-float64(t.left()), t) >= 1e-6
}

// writtenBy forgets the tokens that the shards of the key had by other numbers: those that have come back since came by
// these.
func (k *key) writtenBy(t terms) {
	if k.seen != nil && !k.seen.by.sameNumbers(t) {
		k.seen = nil
	}
}

// comesBack returns how many tokens come back at least between two instants: a shard that lacks tokens gets at least
// its share of the rate, rounded down.
func (t terms) comesBack(from, to, shards int64) float64 {
	if t.windows.kind == bucket {
		return float(share(to-from, t.Rate/shards, t.period))
	}
	return float64((t.windows.number(to, t.period) - t.windows.number(from, t.period)) * (t.Rate / shards))
}

// accruesNothing reports whether no tokens can come back between two instants.
func (t terms) accruesNothing(from, to int64) bool {
	switch t.windows.kind {
	case bucket, sliding:
		return to <= from
	case firstUse, precise:
		return false
	}
	return t.windows.number(to, t.period) <= t.windows.number(from, t.period)
}

// mostLeased returns the most tokens that can be used between two instants: those of a bucket that is full at the first
// one or, by leases, of the windows in between.
func mostLeased(p *runtime.Policy, w windows, from, to int64) *big.Rat {
	span, period := to-from, int64(p.Period)
	most := new(big.Rat).Add(whole(p.Capacity), share(span+int64(p.Lease.For), p.Rate, period))
	reserved := new(big.Rat).Add(whole(p.Capacity+min(p.MaxReserved, runtime.Unbounded)), share(span, p.Rate, period))
	if w.kind != bucket {
		most = whole(p.Capacity + p.MaxReserved + (w.number(to, period)-w.number(from, period)+1)*p.Rate)
	}
	if reserved.Cmp(most) > 0 {
		return reserved
	}
	return most
}

// expected returns whether a request for a limit that counts may pass, and whether it must.
func (q request) expected(now int64, t terms) (can, must bool) {
	switch {
	case q.n > q.most(t) || q.k.penalized(now, t) > 0:
		return false, false
	case q.l.loose():
		return q.ofShards(now, t) >= 0, q.shardsHave(t)
	}
	margin := q.margin(now, t)
	return margin >= -q.lenience(now, t), margin >= q.surplus(t)
}
