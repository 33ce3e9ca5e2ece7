package model

import (
	"math"
	"math/big"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// looked reports whether it is known what the shards of the key had just before the request.
func (q request) looked(t terms) bool {
	return q.l.sharded() && !q.l.leased() && t.counts() && !math.IsNaN(q.k.just) && t.same(q.k.justBy)
}

// beyond returns by how many tokens a request fits into those that there are, and those that it may reserve.
func (q request) beyond(have float64, t terms) float64 {
	if q.reserve {
		have += float64(t.reserved)
	}
	return have - float64(q.n)
}

// ofShards returns by how many tokens and a millionth a request for a limit with shards may pass: by the tokens that they had just before,
// and by those that one row would have, as if only the used tokens had been taken. While the shards still lack tokens taken by other
// terms, one of them may have more than all together.
func (q request) ofShards(now int64, t terms) float64 {
	have := math.MaxFloat64
	if q.l.constant() {
		have = float64(t.capacity) - float(q.k.history.missing(now, t, true))
	}
	if q.looked(t) && !slices.ContainsFunc(q.k.history, func(e *event) bool { return !e.by.same(t) }) {
		have = min(have, q.k.just)
	}
	return q.beyond(have, t) + 1e-6
}

// shardsHave reports whether a request clearly passes by what the shards had just before: if one has too few, all decide.
func (q request) shardsHave(t terms) bool { return q.looked(t) && q.beyond(q.k.just, t) >= 1e-6 }

// writtenBy forgets the tokens that the shards of the key had by other numbers: those that have come back since came by these.
func (k *key) writtenBy(t terms) {
	if k.seen != nil && !k.seen.by.sameNumbers(t) {
		k.seen = nil
	}
}

// comesBack returns how many tokens come back at least between two instants: a shard that lacks tokens gets at least its share
// of the rate, rounded down.
func (t terms) comesBack(from, to, shards int64) float64 {
	if t.windows.kind == bucket {
		return float(share(to-from, t.rate/shards, t.period))
	}
	return float64((t.windows.number(to, t.period) - t.windows.number(from, t.period)) * (t.rate / shards))
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

// mostLeased returns the most tokens that can be used between two instants: those of a bucket that is full at the first one or,
// by leases, of the windows in between.
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
