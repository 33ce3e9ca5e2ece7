package model

import (
	"errors"
	"math"
	"math/big"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// givenBack finds out how much was given back, judges it, and counts it.
func (j *judge) givenBack(limits *limiter.Limiter, t *taken, now int64, in terms, used int64) {
	b, ok := j.peek(limits, t.request)
	if !ok {
		return
	}
	h := t.k.history
	clean := h.missing(now, in, true).Cmp(h.missing(now, in, false)) == 0
	before := h.missing(now, in, false)
	t.event.used = whole(used)
	was, ideal, after := float(before), float(h.missing(now, in, true)), float64(in.full())-b.Value
	close, unused := 1e-6+noise(in, before), float64(t.n-used)
	if after < ideal-close && (!t.l.loose() || t.l.constant()) {
		j.failf("too much was given back: %v are missing, and %v would be if only %d of %d had been taken", after,
			ideal, used, t.n)
	}
	had := was
	if t.l.loose() {
		had = float64(t.k.justBy.Capacity) - t.k.just
	}
	known := !t.l.loose() || !t.together && t.sweeps == j.sweeps && t.looked(in)
	// Where takes do not return the total of the row, nothing is promised after a reset: see [limiter.Limit.RefundN].
	known = known && (t.d.Receipt.Total != 0 || !t.k.wasReset)
	if known && t.nothingCameBack(now, in) && math.Abs(had-after-unused) > close {
		j.failf("%v tokens were given back, although no token has come back since %d of %d were used", had-after, used, t.n)
	}
	if t.l.loose() {
		return
	}
	if least, ok := t.atLeast(now, in, unused); ok && after > least+close {
		j.failf("%v are missing, and at most %v would be if %v tokens were given back less those that had come back",
			after, least, unused)
	}
	t.event.withheld += max(0, unused-max(0, was-after))
	if h[len(h)-1] == t.event && clean && math.Abs(after-ideal) > close {
		j.failf("%v are missing after the only request since was settled, and %v would be if only %d of %d had been taken", after,
			ideal, used, t.n)
	}
	switch {
	case after > was+close:
		j.failf("%v are missing, and %v were before tokens were given back", after, was)
		return
	case after > ideal+close:
		j.counts.less++
	}
	if in.windows.kind == sliding || in.windows.kind == precise {
		j.leftWindow(t, now, in, used, was, after, close)
		return
	}
	last := h[len(h)-1]
	began := in.windows.kind != bucket && h.windowEnd(last.now, in) <= now
	// If the key is full now, or a window has begun, it does not show how much was given back as of the last request.
	last.hidden = last.hidden || used != t.n && (after <= close || began && !t.l.constant())
	if was-after > close {
		given := new(big.Rat).SetFloat64(was - after)
		// Exactly, if only roundings are between: a millionth of a token takes 86 ms to come back at one a day.
		if math.Abs(after-ideal) <= noise(in, before) && clean {
			given = new(big.Rat).Sub(before, h.missing(now, in, true))
		}
		t.give(now, in, given)
	}
}

// ask has the model learn what a key has before a request, if it is in doubt.
func (j *judge) ask(limits *limiter.Limiter, q request) {
	now := j.clock.now()
	t := q.at(now)
	if !q.k.history.inDoubt() || t.lifted() || t.unlimited {
		return
	}
	if b, ok := j.peek(limits, q); ok {
		q.learn(now, t, b.Value)
	}
}

// atLeast returns how many tokens of a bucket are missing at most, if as many of these were given back as is promised in
// whatever order requests are settled: those that were not used, less those that have come back by the last request,
// and less those that were withheld from later requests. It returns false if nothing is promised.
func (t *taken) atLeast(now int64, in terms, unused float64) (missing float64, ok bool) {
	h := t.k.history
	first, last := slices.Index(h, t.event), h[len(h)-1]
	if in.windows.kind != bucket || t.d.Receipt.Total == 0 || first < 0 || h.inDoubt() || unused < 0 {
		return 0, false
	}
	at, given := h.latest(), new(big.Rat).SetFloat64(unused)
	for i := first + 1; i < len(h); i++ {
		given.Sub(given, share(at[i]-at[i-1], h[i].by.Rate, h[i].by.period))
		given.Sub(given, new(big.Rat).SetFloat64(h[i].withheld))
	}
	back := &event{now: last.now, tokens: given.Neg(positive(given)), by: last.by}
	return float(append(slices.Clip(h), back).missing(now, in, false)), true
}

// nothingCameBack reports whether no tokens can have come back since these were taken.
func (t *taken) nothingCameBack(now int64, in terms) bool {
	first := t.k.history.latest()[slices.Index(t.k.history, t.event)]
	return !t.l.back && t.event.by.Rate == in.Rate && t.event.by.period == in.period && in.accruesNothing(first, now)
}

// leftWindow counts tokens given back to a sliding window, which keeps apart whose tokens they are.
func (j *judge) leftWindow(t *taken, now int64, in terms, used int64, was, after, close float64) {
	if used == t.n {
		return
	}
	if last := t.k.history[len(t.k.history)-1]; in.windows.kind == precise {
		// Whether tokens that have come back by now are missing again shows only if the clock goes back.
		settled := taking(0, last.now, last.by)
		settled.settled, settled.other = now, taking(0, last.now, last.by)
		t.k.history = append(t.k.history, settled)
	}
	if math.Abs(after-was) <= close {
		// Whether it was given back, too.
		less := *t.event
		less.tokens = whole(used)
		t.event.other = &less
		return
	}
	t.event.tokens = whole(used)
	if missing := float(t.missing(now, in)); math.Abs(missing-after) > close {
		j.failf("%v are missing after a settlement, neither %v as before nor %v", after, was, missing)
	}
}

// returnable reports whether a verb can give the tokens back at all.
func (t *taken) returnable(verb string, l *limit) bool {
	return t.l == l && (verb == "refund" && t.event != nil || verb != "refund" && t.reservation != nil)
}

// find returns the place of tokens that a verb can give back, or -1: those from an earlier life of their key first, if
// wanted. A reservation of the store cannot be settled in a transaction.
func (b *ledger) find(verb string, l *limit, earlier bool) int {
	here := func(t *taken) bool { return t.tx == b.tx || b.tx == 0 }
	if i := slices.IndexFunc(b.open, func(t *taken) bool {
		return earlier && t.life != t.k.life && t.event != nil && t.returnable(verb, l) && here(t)
	}); i >= 0 {
		return i
	}
	return slices.IndexFunc(b.open, func(t *taken) bool { return t.returnable(verb, l) && (verb == "refund" || here(t)) })
}

// choose returns the place of tokens that a verb gives back, or -1. It takes some without any.
func (w *world) choose(verb string, q request, at turn) int {
	earlier := w.r.IntN(2) == 0 // from an earlier life of the key, if it had one
	if i := w.find(verb, q.l, earlier); i >= 0 || !at.answered() {
		return i
	}
	first := oneOf(w.r, "all", "group reserve", "reserve")
	if verb == "refund" {
		first = oneOf(w.r, "allow", "allow up to", "charge")
	}
	if first == "reserve" && !q.l.counted().Reserves() {
		return -1
	}
	w.perform(first, q, at)
	return w.find(verb, q.l, earlier)
}

// giveBack settles a reservation, or refunds a decision.
func (w *world) giveBack(verb string, q request, at turn) bool {
	if at.answered() && w.r.IntN(4) == 0 && w.twice(verb, q, at) {
		return true
	}
	i := w.choose(verb, q, at)
	if i < 0 || w.err != nil {
		return false
	}
	return w.giveBackOf(verb, w.open[i], at)
}

// giveBackOf gives back some of these tokens. It returns false if the answer would not be known.
func (w *world) giveBackOf(verb string, t *taken, at turn) bool {
	if t.life != t.k.life && at.answered() {
		// So that there is something that could be given back wrongly.
		w.perform("charge", t.with(1+t.n), at)
	}
	if t.l.sharded() && !t.l.leased() && at.answered() {
		// What a first request of this step has taken is gone.
		t.k.just = math.NaN()
		w.lookAt(at.limits, t.request)
	}
	now := w.clock.now()
	in := t.at(now)
	if at.answered() {
		w.ask(at.limits, t.request)
	}
	if t.life != t.k.life && t.confused() {
		return false
	}
	used, err := w.settle(verb, t, at)
	w.logf("%s %s %s: %d used of %d, taken at %v: %v", verb, t.policy().Name, t.k.of, used, t.n, t.d.TakenAt.UTC(), err)
	if !at.answered() && err == nil && in.counts() && used != t.n && t.event != nil && verb != "refund" {
		w.failf("settled with a store that %s", at.state)
	}
	if at.answered() || err == nil {
		w.open = slices.DeleteFunc(w.open, func(o *taken) bool { return o == t })
	}
	if at.answered() {
		w.settlement(verb, t, now, in, used, err, at)
	}
	return true
}

// inAnyOrder takes tokens of a key several times, shortly after one another, and settles or refunds them in another order.
func (w *world) inAnyOrder(q request, at turn) {
	pass := func() bool {
		w.compare(at.limits, q, "in any order")
		pause := time.Duration(oneOf(w.r, 0, 1, 1000, w.r.Int64N(min(int64(q.l.counted().Period), int64(time.Hour))/100+1)))
		// A block of a lease that ends waits for the rows that the transaction has locked. In a bubble, no time passes meanwhile.
		if !w.env.Remote || w.tx == 0 {
			time.Sleep(pause)
		}
		at.now = w.clock.now()
		w.lookAtAll(at, q)
		return w.err == nil
	}
	before := slices.Clone(w.open)
	for i := 2 + w.r.IntN(3); i > 0 && pass(); i-- {
		q.n = 1 + w.r.Int64N(10)
		verb := oneOf(w.r, "allow", "all", "group reserve", "reserve", "reserve")
		switch {
		case q.l.traits["reserve"] == "only":
			verb = "reserve"
		case verb == "reserve" && !q.l.counted().Reserves():
			verb = "allow"
		}
		w.perform(verb, q, at)
	}
	taken := slices.DeleteFunc(slices.Clone(w.open), func(t *taken) bool { return slices.Contains(before, t) || t.k != q.k })
	w.r.Shuffle(len(taken), func(i, j int) { taken[i], taken[j] = taken[j], taken[i] })
	for _, t := range taken {
		if !pass() {
			return
		}
		verb := oneOf(w.r, "settle", "cancel")
		if t.reservation == nil {
			verb = "refund"
		}
		w.giveBackOf(verb, t, at)
	}
}

// confused reports whether tokens of an earlier life of the key may look like later ones. A reset by a plan without
// numbers deletes the row, as an erasure does. The next one of a sliding window does not say when it was made, and
// others do not if they are made at once. Then tokens of others would be given back, as a log does at one instant.
func (t *taken) confused() bool {
	deleted, atOnce := len(t.l.policies) > 1 || t.k.deleted, slices.Contains(t.k.history.latest(), t.d.TakenAt.UnixNano())
	return deleted && t.k.windows.kind == sliding || (deleted || t.k.windows.kind == precise) && atOnce
}

// settle gives tokens back, and returns how many of them were used.
func (w *world) settle(verb string, t *taken, at turn) (used int64, err error) {
	switch verb {
	case "refund":
		n := oneOf(w.r, 0, 1, t.n, t.n+3, w.r.Int64N(t.n+1))
		if t.l.prices != nil {
			n = t.d.Taken // of a usage, no part can be refunded
		}
		_, err = t.handle(at.limits).RefundN(at.ctx, t.d, n)
		// In shadow mode, more may be used than was taken.
		return min(t.n, t.d.Taken-min(n, t.d.Taken)), err
	case "cancel":
		return 0, w.resumed(t, at).Cancel(at.ctx)
	}
	if used = w.r.Int64N(t.n + 3); t.edits != t.l.edits {
		used = min(used, t.n)
	}
	return used, w.resumed(t, at).Settle(at.ctx, used)
}

// resumed returns the reservation of some tokens, or another one by its text.
func (w *world) resumed(t *taken, at turn) reservation {
	if !at.answered() || w.r.IntN(3) > 0 {
		return t.reservation
	}
	text, err := t.reservation.MarshalText()
	if err != nil {
		return t.reservation
	}
	r, err := t.resume(at.limits, text)
	if err != nil {
		w.failf("resume %s: %v", text, err)
		return t.reservation
	}
	t.resumed = true
	return r
}

// settlement judges the answer of a store to a settlement.
func (j *judge) settlement(verb string, t *taken, now int64, in terms, used int64, err error, at turn) {
	switch {
	case t.event == nil && !t.d.Allowed:
		if !errors.Is(err, runtime.ErrNotReserved) {
			j.failf("%s of a denied reservation: %v", verb, err)
		}
		return
	case err != nil:
		j.failf("%s: %v", verb, err)
		return
	case (used != t.n || verb != "refund") && !t.resumed:
		// A refund of no tokens is none.
		j.closed = append(j.closed, t)
	}
	j.counts.settled++
	t.k.writtenBy(in)
	switch {
	case t.l.leased():
		t.k.returned = true
	case t.life != t.k.life && used <= t.n:
		// Nothing is given back.
	case t.event == nil || in.lifted() || in.unlimited || t.reservation != nil && !t.event.by.counts():
	case used > t.n:
		if t.k.forgiven(now, in) {
			t.k.penalties = nil
		}
		t.k.history = append(t.k.history, taking(used-t.n, now, in))
	default:
		j.givenBack(at.limits, t, now, in, used)
	}
}

// twice tries again to give back tokens that were given back. It returns false without any.
func (w *world) twice(verb string, q request, at turn) bool {
	i := slices.IndexFunc(w.closed, func(t *taken) bool { return t.tx == 0 && t.returnable(verb, q.l) })
	if i < 0 {
		return false
	}
	t := w.closed[i]
	err, want := error(nil), runtime.ErrNotReserved
	switch verb {
	case "refund":
		want = nil
		_, err = t.handle(at.limits).RefundN(at.ctx, t.d, t.n)
	case "cancel":
		err = t.reservation.Cancel(at.ctx)
	default:
		err = t.reservation.Settle(at.ctx, w.r.Int64N(t.n+3))
	}
	w.logf("%s again of %d by %s %s: %v", verb, t.n, t.policy().Name, t.k.of, err)
	if !errors.Is(err, want) {
		w.failf("%s a second time: the error is %v, want %v", verb, err, want)
	}
	w.compare(at.limits, t.request, "after a second "+verb)
	return true
}
