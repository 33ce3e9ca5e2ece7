package model

import (
	"cmp"
	"math"
	"math/big"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// ofShards returns by how many tokens and a millionth a request for a limit with shards may pass: by the tokens that they had just before,
// and by those that one row would have, as if only the used tokens had been taken. While the shards still lack tokens taken by other
// terms, one of them may have more than all together.
func (q request) ofShards(now int64, t terms) float64 {
	have := math.MaxFloat64
	if q.l.constant() {
		settled, _ := q.k.history.missing(now, t, true).Float64()
		have = float64(t.capacity) - settled
	}
	if q.looked(t) && !slices.ContainsFunc(q.k.history, func(e *event) bool { return !e.by.same(t) }) {
		have = min(have, q.k.just)
	}
	if q.reserve {
		have += float64(t.reserved)
	}
	return have - float64(q.n) + 1e-6
}

// shardsHave reports whether a request clearly passes by what the shards had just before: if one has too few, all decide.
func (q request) shardsHave(t terms) bool {
	have := q.k.just
	if q.reserve {
		have += float64(t.reserved)
	}
	return q.looked(t) && have-float64(q.n) >= 1e-6
}

// looked reports whether it is known what the shards of the key had just before the request.
func (q request) looked(t terms) bool {
	return q.l.loose() && q.l.traits["lease"] == "no" && t.counts() && !math.IsNaN(q.k.just) && t.same(q.k.justBy)
}

// conserved judges the tokens that the shards of a key have together, by those after the last request: they have lost no
// tokens, and while none can have come back, they have not gained any.
func (w *World) conserved(when string, l *limit, k *key, t terms, now int64, value float64) {
	this := &seen{at: now, value: value, by: t, taken: new(big.Rat), used: new(big.Rat)}
	for _, e := range k.history {
		this.taken.Add(this.taken, e.tokens)
		this.used.Add(this.used, e.used)
	}
	last := k.seen
	k.seen = this
	if last == nil || !last.by.sameNumbers(t) || l.back {
		return
	}
	had, has := float64(last.by.capacity)-last.value, float64(t.capacity)-value
	taken, _ := new(big.Rat).Sub(this.taken, last.taken).Float64()
	used, _ := new(big.Rat).Sub(this.used, last.used).Float64()
	if has > had+taken+1e-6 {
		w.failf("%s: shards lack %v tokens, and lacked %v before %v were taken", when, has, had, taken)
	}
	// A refund to all shards shares the tokens that they lacked at the last write, so that more have come back since.
	if used == taken && t.accruesNothing(last.at, now) && has < had+used-1e-6 {
		w.failf("%s: shards lack %v tokens, and lacked %v before %v were used, when none had come back", when, has, had, used)
	}
	if l.constant() && t.windows.kind != sliding {
		// A shard that lacks tokens gets at least its share of the rate, rounded down.
		n := int64(l.counted().Shards)
		back, _ := share(now-last.at, t.rate/n, t.period).Float64()
		if t.windows.kind != bucket {
			back = float64((t.windows.number(now, t.period) - t.windows.number(last.at, t.period)) * (t.rate / n))
		}
		if has > max(0, had-back)+taken+1e-6 {
			w.failf("%s: shards lack %v tokens, and lacked %v before %v were taken, and %v have come back at least", when, has, had, taken, back)
		}
	}
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

// checkLeased checks the bound of tokens that may have been leased.
func (w *World) checkLeased(l *limit, k *key) {
	if l.traits["lease"] != "yes" || !l.constant() || l.traits["mode"] != "enforce" || k.returned {
		return
	}
	p := l.of(0)
	uses := slices.Clone(k.leased)
	slices.SortStableFunc(uses, func(a, b use) int { return cmp.Compare(a.at, b.at) })
	for i := range uses {
		sum := int64(0)
		for _, u := range uses[i:] {
			sum += u.tokens
			span := u.at - uses[i].at
			most := new(big.Rat).Add(whole(p.Capacity), share(span+int64(p.Lease.For), p.Rate, int64(p.Period)))
			reserved := new(big.Rat).Add(whole(p.Capacity+min(p.MaxReserved, runtime.Unbounded)), share(span, p.Rate, int64(p.Period)))
			if k.windows.kind != bucket {
				windows := k.windows.number(u.at, int64(p.Period)) - k.windows.number(uses[i].at, int64(p.Period))
				most = whole(p.Capacity + p.MaxReserved + (windows+1)*p.Rate)
			}
			if reserved.Cmp(most) > 0 {
				most = reserved
			}
			if whole(sum).Cmp(most.Add(most, big.NewRat(1, 1000))) > 0 {
				w.failf("%s: %d leased tokens were used in %v: %+v", p.Name, sum, time.Duration(span), uses)
			}
		}
	}
}
