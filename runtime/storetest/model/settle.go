package model

import (
	"context"
	"errors"
	"math"
	"math/big"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// givenBack finds out how much was given back, judges it, and counts it.
func (w *World) givenBack(limits *limiter.Limiter, t *taken, now int64, in terms, used int64) {
	b, err := limits.Limit(t.l.of(t.plan), t.k.of).Peek(context.Background())
	if err != nil {
		w.failf("peek: %v", err)
		return
	}
	first := t.k.history.latest()[slices.Index(t.k.history, t.event)]
	still := !t.l.back && t.event.by.rate == in.rate && t.event.by.period == in.period && in.accruesNothing(first, now)
	last := t.k.history[len(t.k.history)-1] == t.event
	clean := t.k.history.missing(now, in, true).Cmp(t.k.history.missing(now, in, false)) == 0
	before := t.k.history.missing(now, in, false)
	t.event.used = whole(used)
	ideal, _ := t.k.history.missing(now, in, true).Float64()
	after := float64(in.capacity) - b.Value
	close := 1e-6 + noise(in, before)
	was, _ := before.Float64()
	if after < ideal-close && (!t.l.loose() || t.l.constant()) {
		w.failf("too much was given back: %v are missing, and %v would be if only %d of %d had been taken", after, ideal, used, t.n)
	}
	if t.l.loose() {
		had := float64(t.k.justBy.capacity) - t.k.just
		if still && !t.together && t.sweeps == w.sweeps && t.looked(in) && math.Abs(had-after-float64(t.n-used)) > close {
			w.failf("%v tokens were given back, although no token has come back since %d of %d were used", had-after, used, t.n)
		}
		return
	}
	if still && math.Abs(was-after-float64(t.n-used)) > close {
		w.failf("%v tokens were given back, although no token has come back since %d of %d were used", was-after, used, t.n)
	}
	if last && clean && math.Abs(after-ideal) > close {
		w.failf("%v are missing after the only request since was settled, and %v would be if only %d of %d had been taken", after, ideal, used, t.n)
	}
	// The log of a precise limit has as many places as its rate: takes that share one all leave it with the last of them.
	merged := in.windows.kind == precise && int64(len(t.k.history)) >= in.rate
	if after > was+close {
		w.ended = merged
		if !merged {
			w.failf("%v are missing, and %v were before tokens were given back", after, was)
		}
		return
	}
	if after > ideal+close {
		w.Less++
	}
	given := new(big.Rat).SetFloat64(was - after)
	switch in.windows.kind {
	case sliding, precise:
		if math.Abs(after-was) <= close {
			// Whether it was given back shows only if the clock goes back.
			w.unsure = w.unsure || used != t.n
			return
		}
		// A log has forgotten the instant of a take without tokens, unless it is the only one.
		w.unsure = w.unsure || used == 0
		t.event.tokens = whole(used)
		if now, _ := t.k.history.missing(now, in, false).Float64(); math.Abs(now-after) > close {
			w.failf("%v are missing after a settlement, neither %v as before nor %v", after, was, now)
		}
	default:
		began := in.windows.kind != bucket && t.k.history.windowEnd(t.k.history[len(t.k.history)-1].now, in) <= now
		if after <= close && was > close || (after <= close || began) && !t.l.constant() {
			// The key is full now, or a window has begun, in which other terms count: that does not tell how much was given back as
			// of the last request.
			w.ended = true
			return
		}
		if was-after <= close {
			return
		}
		if math.Abs(after-ideal) <= close && clean {
			given = new(big.Rat).Sub(before, t.k.history.missing(now, in, true))
		}
		// As of the last request: nothing has come back between, and no window has begun.
		last := t.k.history[len(t.k.history)-1]
		t.k.history = append(t.k.history, &event{now: last.now, tokens: given.Neg(given), used: new(big.Rat), by: last.by})
	}
}

// giveBack settles a reservation, or refunds a decision.
func (w *World) giveBack(ctx context.Context, limits *limiter.Limiter, verb string, q request, state, where string) bool {
	if state == "answers" && w.r.IntN(4) == 0 && w.twice(ctx, limits, verb, q) {
		return true
	}
	earlier := w.r.IntN(2) == 0 // from an earlier life of the key, if it had one
	find := func() int {
		if i := slices.IndexFunc(w.open, func(t *taken) bool {
			return earlier && t.l == q.l && t.life != t.k.life && t.event != nil && (t.tx == w.tx || w.tx == 0) && (verb == "refund" || t.reservation != nil)
		}); i >= 0 {
			return i
		}
		return slices.IndexFunc(w.open, func(t *taken) bool {
			// A reservation of the store cannot be settled in a transaction.
			return t.l == q.l && (verb == "refund" && t.event != nil || verb != "refund" && t.reservation != nil && (t.tx == w.tx || w.tx == 0))
		})
	}
	i := find()
	if i < 0 && state == "answers" {
		first := oneOf(w.r, "all", "group reserve", "reserve")
		if verb == "refund" {
			first = oneOf(w.r, "allow", "allow up to", "charge")
		}
		if first == "reserve" && !q.l.counted().Reserves() {
			return false
		}
		w.perform(limits, first, q, state, where)
		i = find()
	}
	if i < 0 || w.err != nil {
		return false
	}
	t := w.open[i]
	if t.life != t.k.life && state == "answers" {
		// So that there is something that could be given back wrongly.
		w.perform(limits, "charge", request{l: t.l, k: t.k, plan: t.plan, n: 1 + t.n}, state, where)
	}
	now := w.clock.now()
	if t.l.traits["shards"] != "1" && t.l.traits["lease"] != "yes" && state == "answers" {
		// What a first request of this step has taken is gone.
		t.k.just = math.NaN()
		w.lookAt(limits, t.l, t.k, t.plan)
	}
	in := t.l.at(t.k, t.plan, now)
	if in.unlimited && in.mode == runtime.ModeBlock {
		return false
	}
	if t.life != t.k.life {
		// A reset by a plan without numbers deletes the row. The next one of a sliding window does not say when it was made, and
		// others do not if they are made at once. Then tokens of others would be given back, as a log does at one instant.
		deleted, atOnce := len(t.l.policies) > 1, slices.Contains(t.k.history.latest(), t.d.TakenAt.UnixNano())
		if deleted && t.k.windows.kind == sliding || (deleted || t.k.windows.kind == precise) && atOnce {
			return false
		}
	}
	used := t.n
	var err error
	switch verb {
	case "refund":
		n := oneOf(w.r, 0, 1, t.n, t.n+3, w.r.Int64N(t.n+1))
		_, err = limits.Limit(t.l.of(t.plan), t.k.of).RefundN(ctx, t.d, n)
		// In shadow mode, more may be used than was taken.
		used = min(t.n, t.d.Taken-min(n, t.d.Taken))
	case "cancel":
		used = 0
		err = t.reservation.Cancel(ctx)
	case "settle":
		if used = w.r.Int64N(t.n + 3); t.edits != t.l.edits {
			used = min(used, t.n)
		}
		err = t.reservation.Settle(ctx, used)
	}
	w.logf("%s %s %s: %d used of %d, taken at %v: %v", verb, t.l.of(t.plan).Name, t.k.of, used, t.n, t.d.TakenAt.UTC(), err)
	if state != "answers" {
		if err == nil && in.counts() && used != t.n && t.event != nil && verb != "refund" {
			w.failf("settled with a store that %s", state)
		}
		if err == nil {
			w.open = slices.Delete(w.open, i, i+1)
		}
		return true
	}
	w.open = slices.Delete(w.open, i, i+1)
	if t.event == nil && !t.d.Allowed {
		if !errors.Is(err, runtime.ErrNotReserved) {
			w.failf("%s of a denied reservation: %v", verb, err)
		}
		return true
	}
	if err != nil {
		w.failf("%s: %v", verb, err)
		return true
	}
	if used != t.n || verb != "refund" {
		// A refund of no tokens is none.
		w.closed = append(w.closed, t)
	}
	w.Settled++
	if t.l.traits["lease"] == "yes" {
		t.k.returned = true
		return true
	}
	if t.life != t.k.life && used <= t.n {
		return true // nothing is given back
	}
	if t.event == nil || in.lifted() || t.reservation != nil && !t.event.by.counts() {
		return true
	}
	if used > t.n {
		t.k.history = append(t.k.history, &event{now: now, tokens: whole(used - t.n), used: whole(used - t.n), by: in})
		return true
	}
	w.givenBack(limits, t, now, in, used)
	return true
}

// twice tries again to give back tokens that were given back. It returns false without any.
func (w *World) twice(ctx context.Context, limits *limiter.Limiter, verb string, q request) bool {
	i := slices.IndexFunc(w.closed, func(t *taken) bool {
		return t.l == q.l && t.tx == 0 && (verb == "refund" && t.event != nil || verb != "refund" && t.reservation != nil)
	})
	if i < 0 {
		return false
	}
	t := w.closed[i]
	var err, want error
	switch verb {
	case "refund":
		_, err = limits.Limit(t.l.of(t.plan), t.k.of).RefundN(ctx, t.d, t.n)
	case "cancel":
		err, want = t.reservation.Cancel(ctx), runtime.ErrNotReserved
	default:
		err, want = t.reservation.Settle(ctx, w.r.Int64N(t.n+3)), runtime.ErrNotReserved
	}
	w.logf("%s again of %d by %s %s: %v", verb, t.n, t.l.of(t.plan).Name, t.k.of, err)
	if !errors.Is(err, want) {
		w.failf("%s a second time: the error is %v, want %v", verb, err, want)
	}
	w.compare(limits, t.l, t.k, t.plan, "after a second "+verb)
	return true
}
