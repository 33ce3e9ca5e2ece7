package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// request is a request for one key.
type request struct {
	l       *limit
	k       *key
	plan    int
	op      runtime.Op
	n       int64
	reserve bool
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

// first checks that an instant is the first one at which something holds: it does then, it does not a microsecond
// earlier, and it does not when an override ends before.
func (w *World) first(what string, requests []request, now int64, wait time.Duration, holds, nearly func(at int64) bool) {
	at := now + int64(wait)
	if at < now {
		w.failf("%s: %v is not a wait", what, wait)
		return
	}
	if !nearly(at) {
		w.failf("%s %v is too early", what, wait)
		return
	}
	early, ends := at, []int64(nil)
	for _, q := range requests {
		ends = append(ends, q.l.ends(q.k, now)...)
		for _, t := range []terms{q.l.at(q.k, q.plan, now), q.l.at(q.k, q.plan, at)} {
			if t.unlimited {
				continue
			}
			early = min(early, at-1000-int64(math.Ceil(noise(t, q.k.history.missing(now, t, false))*float64(t.period)/float64(max(1, t.rate))))-2)
		}
	}
	if early >= now && holds(early) {
		w.failf("%s %v is too late: it holds %v before", what, wait, time.Duration(at-early))
	}
	for _, end := range ends {
		if end <= early && holds(end) {
			w.failf("%s %v is too late: it holds when an override ends after %v", what, wait, time.Duration(end-now))
		}
	}
}

// judgeFailure judges the answer of a store that has failed or does not answer.
func (w *World) judgeFailure(q request, d runtime.Decision, err error, state string) {
	t, p := q.l.at(q.k, q.plan, w.clock.now()), q.l.counted()
	decides := q.op == runtime.Take || q.op == runtime.Check || q.op == runtime.TakeUpTo
	// An override of a plan may bring another timeout, but plans of a world have the same.
	opens := state == "fails" || p.Timeout > 0 && p.Timeout < deadline
	w.logf("%v %s %s n %d while the store %s: %+v, %v", q.op, p.Name, q.k.of, q.n, state, d, err)
	usesStore := t.counts() || t.mode == runtime.ModeBlock && !decides || t.lifted() && q.op == runtime.Reset
	switch {
	case q.l.traits["lease"] == "yes":
		// Leased tokens are there whether the store answers or not.
		if d.Allowed && d.FailedOpen == nil && d.FailedLocal == nil && !d.TakenAt.IsZero() {
			q.k.leased = append(q.k.leased, use{w.clock.now(), d.Taken})
		}
	case !usesStore:
		if err != nil {
			w.failf("an error although the store is not needed: %v", err)
		}
	case decides && q.n > q.most(t) && t.mode == runtime.ModeEnforce:
		if err == nil {
			w.failf("a count that never fits has passed")
		}
	case !decides || !opens || p.OnError == runtime.FailClosed && t.mode != runtime.ModeShadow:
		if err == nil {
			w.failf("no error of a store that %s: %+v", state, d)
		}
		if err != nil && state == "silent" && !opens && decides && !errors.Is(err, context.DeadlineExceeded) {
			w.failf("the error is %v, want the caller's deadline", err)
		}
	case err != nil:
		w.failf("an error although the limit passes when the store fails: %v", err)
	case d.Allowed && d.Taken == -1:
		// Require says no more.
	case p.OnError == runtime.FailOpen || t.mode == runtime.ModeShadow:
		if !d.Allowed || d.FailedOpen == nil && q.n > 0 {
			w.failf("not allowed: %+v", d)
		}
	case d.FailedLocal == nil && q.n > 0:
		w.failf("not decided locally: %+v", d)
	case d.Allowed && q.n > 0 && q.k.reported && q.l.constant() && !q.l.loose():
		// No more than what the store has last reported to this process, which has made all requests.
		if q.op == runtime.TakeUpTo {
			q.n = max(1, d.Taken)
		}
		if now := w.clock.now(); !q.mayPass(now) {
			w.failf("%d tokens were taken locally, and the store had %s less before", q.n, q.margin(now, t).FloatString(9))
		}
	}
	if !d.TakenAt.IsZero() && q.l.traits["lease"] != "yes" {
		w.failf("tokens were taken from a store that %s: %+v", state, d)
	}
}

// judge judges the answer to a request for one key, and counts the tokens that it took.
func (w *World) judge(q request, d runtime.Decision, err error, now int64, state, where string) {
	p := q.l.of(q.plan)
	if state != "answers" {
		w.judgeFailure(q, d, err, state)
		return
	}
	w.logf("%v %s %s plan %d n %d reserve %v in %s: %s %v", q.op, p.Name, q.k.of, q.plan, q.n, q.reserve, where, describe(d), err)
	t := q.l.at(q.k, q.plan, now)
	if want := q.refused(now); want != nil || err != nil {
		if !errors.Is(err, want) || (want == nil) != (err == nil) {
			w.failf("the error is %v, want %v", err, want)
		}
		return
	}
	w.count(q, d, t, now, q.n)
	if d.Taken != -1 {
		w.left(q, d, t, now)
		w.jitter(q, d, now)
	}
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

// count judges a decision by the terms in force, and counts how many of n tokens it took.
func (w *World) count(q request, d runtime.Decision, t terms, now, n int64) {
	decides := q.op == runtime.Take || q.op == runtime.Check || q.op == runtime.TakeUpTo
	mode := func(allowed bool) {
		if d.Allowed != allowed || allowed && !d.TakenAt.IsZero() {
			w.failf("in mode %v: %+v", t.mode, d)
		}
	}
	switch {
	case q.n == 0:
		if !d.Allowed || !d.TakenAt.IsZero() || d.RetryAfter != 0 || d.Jitter != 0 && d.BlockedFor == 0 || d.Delay != 0 {
			w.failf("a request for no tokens: %+v", d)
		}
		return
	case t.lifted():
		mode(true)
		return
	case t.mode == runtime.ModeBlock && decides:
		mode(false)
		w.blocked(q, d, now)
		return
	case q.op == runtime.Charge:
		if !d.Allowed || d.Taken != q.n {
			w.failf("a charge: %+v", d)
		}
		w.take(q, d, t, now, q.n)
		return
	}
	if q.l.traits["lease"] == "yes" {
		if d.Allowed && q.op != runtime.Check && d.Taken != -1 {
			q.k.leased = append(q.k.leased, use{now + int64(d.Delay), d.Taken})
		} else if d.Taken == -1 {
			q.k.leased = append(q.k.leased, use{now, q.n})
		}
		return
	}
	w.decided(q, d, t, now)
}

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

// decided judges the decision of a limit that counts.
func (w *World) decided(q request, d runtime.Decision, t terms, now int64) {
	asked, upTo := q, int64(0)
	if q.op == runtime.TakeUpTo {
		// As many as there are, and at least one.
		tokens, _ := q.tokens(now, t).Float64()
		if q.looked(t) {
			tokens = q.k.just
		}
		least, most := math.Floor(tokens-noise(t, new(big.Rat))), math.Floor(tokens+q.lenience(now, t))
		taken := d.Taken
		if d.Shadowed {
			taken = int64(most)
		}
		if q.l.traits["shards"] == "1" && d.Allowed && (float64(taken) < min(least, float64(q.n)) || float64(taken) > most && taken > 0) {
			w.failf("%d tokens were taken of %v", taken, tokens)
		}
		upTo = q.n
		q.n = max(1, min(taken, q.n))
		asked.n = 1
	}
	m := q.margin(now, t)
	f, _ := m.Float64()
	exceeds := q.n > q.most(t)
	can, must := f >= -q.lenience(now, t) && !exceeds, f >= q.surplus(t) && !exceeds
	enforced := d.Allowed
	if t.mode == runtime.ModeShadow {
		if !d.Allowed || d.Delay != 0 || d.RetryAfter != 0 || d.Jitter != 0 {
			w.failf("in shadow mode: %+v", d)
		}
		switch {
		case q.l.loose() && q.op == runtime.Check:
			enforced = !d.Shadowed
		case d.Taken == -1 || q.op == runtime.Check:
			enforced = can
		default:
			enforced = !d.TakenAt.IsZero()
		}
		if q.op != runtime.TakeUpTo && d.Taken != -1 && !enforced != d.Shadowed && d.Delay == 0 && !q.reserve {
			w.failf("in shadow mode, and would pass %v: %+v", enforced, d)
		}
	}
	if q.l.loose() {
		can = q.ofShards(now, t) >= 0 || q.op == runtime.TakeUpTo && !q.looked(t)
		must = enforced || d.Taken != -1 && q.shardsHave(t) && !exceeds
		if least := math.Floor(min(q.k.just-1e-6, float64(upTo))); q.op == runtime.TakeUpTo && q.looked(t) && d.Allowed && !d.Shadowed && float64(d.Taken) < least {
			w.failf("%d tokens were taken of %v", d.Taken, q.k.just)
		}
	}
	if enforced && !can || !enforced && must {
		w.failf("allowed %v by %s, and it has %s more than needed (missing %s)", enforced, q.l.of(q.plan).Name, m.FloatString(9), q.k.history.missing(now, t, false).FloatString(9))
		return
	}
	if !enforced {
		if t.mode == runtime.ModeEnforce {
			w.denied(asked, d, now)
		}
		return
	}
	if q.op == runtime.Check {
		if !d.TakenAt.IsZero() || d.Taken != 0 && !q.l.traitIs("mode", "shadow") && t.mode != runtime.ModeShadow {
			w.failf("a check took tokens: %+v", d)
		}
		return
	}
	w.take(q, d, t, now, q.n)
	if q.reserve && t.mode == runtime.ModeEnforce && q.l.traits["shards"] == "1" {
		w.first("the delay", []request{{l: q.l, k: q.k, plan: q.plan}}, now, d.Delay, q.outOfDebt, q.nearlyOutOfDebt)
	}
	if !q.reserve && d.Delay != 0 || d.RetryAfter != 0 || d.Jitter < 0 || d.Jitter > q.l.counted().Jitter || d.Jitter > 0 && d.Delay == 0 {
		w.failf("waits of an allowance: %+v", d)
	}
}

func (l *limit) traitIs(field, value string) bool { return l.traits[field] == value }

// denied judges a denial.
func (w *World) denied(q request, d runtime.Decision, now int64) {
	q.k.denied = &q
	switch {
	case d.Taken != 0 || !d.TakenAt.IsZero() || d.RetryAfter <= 0:
		w.failf("a denial: %+v", d)
	case d.Jitter < 0 || d.Jitter > q.l.counted().Jitter:
		w.failf("the jitter of a denial: %+v", d)
	case q.l.loose():
		return
	case d.RetryAfter == runtime.Never:
		for _, at := range append(q.l.ends(q.k, now), now+int64(80*365*24*time.Hour)) {
			if at > now && at < math.MaxInt64 && q.l.policies[len(q.l.policies)-1].Calendar.Unit == 0 && q.passes(at) {
				w.failf("no retry is said to pass, but one does after %v", time.Duration(at-now))
			}
		}
	default:
		w.first("the retry after", []request{q}, now, d.RetryAfter, q.passes, q.mayPass)
	}
}

// blocked judges the denial of a blocked key: it lasts until the first instant at which nothing blocks the key any more.
func (w *World) blocked(q request, d runtime.Decision, now int64) {
	want, until := q.blockedFor(now)
	if d.BlockedFor != want || d.RetryAfter != want && (d.RetryAfter < want || q.passes(until)) {
		w.failf("blocked for %v: %s, and %v in BlockedFor", want, describe(d), d.BlockedFor)
	}
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

// take counts tokens that a request has taken.
func (w *World) take(q request, d runtime.Decision, t terms, now, n int64) {
	if d.Taken != -1 && (d.TakenAt.IsZero() || d.Taken != n && !d.Shadowed) {
		w.failf("taken %d at %v, want %d", d.Taken, d.TakenAt, n)
	}
	e := &event{now: now, tokens: whole(n), used: whole(n), by: t}
	q.k.history = append(q.k.history, e)
	if d.Taken != -1 && q.n == n {
		w.open = append(w.open, &taken{request: q, d: d, event: e, tx: w.tx, life: q.k.life, sweeps: w.sweeps, edits: q.l.edits})
	}
}

// givenBack finds out how much was given back, judges it, and counts it.
func (w *World) givenBack(limiter *runtime.Limiter, t *taken, now int64, in terms, used int64) {
	b, err := limiter.Limit(t.l.of(t.plan), t.k.of).Peek(context.Background())
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

// compare compares what a key has with the model.
func (w *World) compare(limiter *runtime.Limiter, l *limit, k *key, plan int, when string) {
	if w.err != nil || w.ended || l.traits["lease"] == "yes" {
		return
	}
	now := w.clock.now()
	t := l.at(k, plan, now)
	b, err := limiter.Limit(l.of(plan), k.of).Peek(context.Background())
	if err != nil {
		w.failf("%s: peek: %v", when, err)
		return
	}
	if t.lifted() {
		if b.Remaining != runtime.MaxTokens {
			w.failf("%s: a limit that is lifted has %+v", when, b)
		}
		return
	}
	if t.unlimited {
		if b.Remaining != 0 || b.BlockedFor == 0 {
			w.failf("%s: a blocked key: %+v", when, b)
		}
		return
	}
	k.reported = limiter == w.limiter
	q := request{l: l, k: k, plan: plan, op: runtime.Peek}
	tokens, _ := q.tokens(now, t).Float64()
	close := 1e-6 + noise(t, k.history.missing(now, t, false))
	if l.loose() {
		settled, _ := k.history.missing(now, t, true).Float64()
		if l.constant() && b.Value > float64(t.capacity)-settled+close {
			w.failf("%s: shards have %v tokens, and one row would have %v", when, b.Value, float64(t.capacity)-settled)
		}
		w.conserved(when, l, k, t, now, b.Value)
		return
	}
	merged := t.windows.kind == precise && int64(len(k.history)) >= t.rate && tokens < 0
	if math.Abs(b.Value-tokens) > close && !merged {
		w.failf("%s: Peek has %v, want %v: %+v\nterms %+v\nhistory %v", when, b.Value, tokens, b, t, k.history)
		return
	}
	if t.mode != runtime.ModeBlock && !merged {
		w.remaining(when, q, now, t, b.Remaining)
	}
	end := k.history.windowEnd(now, t)
	if reset := max(0, end-now); end != 0 && int64(b.ResetAfter) != reset || end == 0 && b.ResetAfter != 0 {
		w.failf("%s: the window ends after %v, want %v", when, b.ResetAfter, time.Duration(reset))
	}
	if t.mode == runtime.ModeBlock {
		if want, _ := q.blockedFor(now); b.Remaining != 0 || b.BlockedFor != want {
			w.failf("%s: a blocked key: %+v, want %v", when, b, want)
		}
	}
	if !merged && (b.FullAfter > 0 || tokens < float64(t.capacity)-q.lenience(now, t)) {
		w.first("full after", []request{q}, now, b.FullAfter, q.full, q.nearlyFull)
	}
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

// remaining judges the whole tokens that are said to be left: those are the ones that a request can take.
func (w *World) remaining(when string, q request, now int64, t terms, n int64) {
	tokens, _ := q.tokens(now, t).Float64()
	least, most := math.Floor(tokens-q.surplus(t)), math.Floor(tokens+q.lenience(now, t))
	if float64(n) < min(least, runtime.MaxTokens) && n >= 0 || float64(n) > max(0, most) || n < 0 {
		w.failf("%s: %d whole tokens are said to remain of %v", when, n, tokens)
	}
}

// left judges what a decision says is left after the request.
func (w *World) left(q request, d runtime.Decision, t terms, now int64) {
	if w.err != nil || !t.counts() || q.l.loose() || t.unlimited {
		return
	}
	tokens, _ := q.tokens(now, t).Float64()
	close := 1e-6 + noise(t, q.k.history.missing(now, t, false))
	switch {
	case t.windows.kind == precise && int64(len(q.k.history)) >= t.rate && tokens < 0:
	case d.Value > tokens+close || d.Value < tokens-close && (d.Allowed || q.l.traits["denyCache"] == "no"):
		// A denial that is repeated from memory has the tokens left before.
		w.failf("%v tokens are said to be left, want %v: %s", d.Value, tokens, describe(d))
	case d.Allowed || q.l.traits["denyCache"] == "no":
		w.remaining("a decision", q, now, t, d.Remaining)
	}
}

// due is a key of a limit and the instant at which its tokens are due.
type due struct {
	k  *key
	at int64
}

// jitter judges the jitter of an answer: those that have to wait have one, the same for the same instant.
func (w *World) jitter(q request, d runtime.Decision, now int64) {
	most, wait := q.l.counted().Jitter, max(d.RetryAfter, d.BlockedFor)
	if d.Allowed {
		wait = max(d.Delay, d.BlockedFor)
	}
	t := q.l.at(q.k, q.plan, now)
	switch {
	case d.Jitter < 0 || d.Jitter > most || wait == 0 && d.Jitter != 0:
		w.failf("the jitter is %v, at most %v is right, for a wait of %v", d.Jitter, most, wait)
	case wait == 0 || wait == runtime.Never || t.unlimited:
	case most >= time.Second && d.Jitter == 0:
		// It is one of at least a thousand million.
		w.failf("there is no jitter for a wait of %v", wait)
	default:
		of := due{q.k, now + int64(wait)}
		if before, ok := w.jitters[of]; ok && before != d.Jitter {
			w.failf("the jitter is %v, and was %v for the same instant", d.Jitter, before)
		}
		if w.jitters == nil {
			w.jitters = map[due]time.Duration{}
		}
		w.jitters[of] = d.Jitter
	}
}

// judgeTogether judges a call of several requests: all or none.
func (w *World) judgeTogether(requests []request, verb string, ds runtime.Decisions, rs *runtime.Reservations, err error, now int64, state, where string) {
	can, must, refused := true, true, false
	leased := false
	sums := map[*key]int64{}
	summed := make([]request, len(requests))
	for i := range requests {
		q := requests[i]
		t := q.l.at(q.k, q.plan, now)
		leased = leased || q.l.traits["lease"] == "yes"
		// The counts of takes of one key add up.
		if q.op == runtime.Take && q.n > 0 {
			sums[q.k] += q.n
			q.n = sums[q.k]
		}
		summed[i] = q
		switch {
		case q.n == 0 || t.lifted() || t.mode == runtime.ModeShadow:
		case t.mode == runtime.ModeBlock:
			can, must = false, false
		case q.refused(now) != nil:
			refused = true
		case q.n > q.most(t):
			can, must = false, false
		default:
			f, _ := q.margin(now, t).Float64()
			if q.l.loose() {
				f, must = q.ofShards(now, t), must && q.shardsHave(t)
				can = can && (f >= 0 || q.l.traits["lease"] == "yes")
				continue
			}
			can, must = can && (f >= -q.lenience(now, t) || q.l.traits["lease"] == "yes"), must && f >= q.surplus(t)
		}
	}
	if state != "answers" {
		for _, d := range ds.Each {
			if !d.TakenAt.IsZero() && !leased {
				w.failf("tokens were taken from a store that %s", state)
			}
		}
		opens := err == nil && ds.Allowed
		for _, q := range requests {
			t, p := q.l.at(q.k, q.plan, now), q.l.counted()
			open := state == "fails" || p.Timeout > 0 && p.Timeout < deadline
			if opens && t.mode == runtime.ModeEnforce && (p.OnError == runtime.FailClosed || state == "silent" && !open && !slices.ContainsFunc(requests, func(o request) bool {
				return o.l.counted().Timeout > 0 && o.l.counted().Timeout < deadline
			})) && !leased {
				w.failf("allowed by a store that %s, although %s fails closed", state, p.Name)
			}
		}
		return
	}
	if refused || err != nil {
		if !errors.Is(err, runtime.ErrExceedsCapacity) || !refused {
			w.failf("the error is %v, and a count that never fits %v", err, refused)
		}
		return
	}
	if ds.Allowed && !can || !ds.Allowed && must {
		w.failf("together allowed %v, want %v", ds.Allowed, can)
		return
	}
	for i, d := range ds.Each {
		q := requests[i]
		t := q.l.at(q.k, q.plan, now)
		if t.mode == runtime.ModeShadow && (!d.Allowed || d.Delay != 0 || d.Jitter != 0) {
			w.failf("in shadow mode: %+v", d)
		}
		if !ds.Allowed && !d.TakenAt.IsZero() {
			w.failf("a denied call has taken: %+v", d)
		}
		w.jitter(q, d, now)
		if !ds.Allowed || verb == "group check" {
			w.left(q, d, t, now)
		}
	}
	if !ds.Allowed {
		w.deniedTogether(summed, ds, now)
	}
	if !ds.Allowed || verb == "group check" {
		return
	}
	for i, d := range ds.Each {
		q := requests[i]
		t := q.l.at(q.k, q.plan, now)
		if q.op == runtime.Check || q.n == 0 || t.lifted() || t.mode == runtime.ModeShadow && d.TakenAt.IsZero() {
			continue
		}
		if q.l.traits["lease"] == "yes" {
			q.k.leased = append(q.k.leased, use{now + int64(d.Delay), q.n})
			continue
		}
		before := len(w.open)
		w.take(q, d, t, now, q.n)
		if sums[q.k] == q.n {
			w.left(q, d, t, now)
		}
		if len(w.open) == before {
			continue
		}
		w.open[len(w.open)-1].together = sums[q.k] > q.n
		if rs != nil {
			w.open[len(w.open)-1].reservation = rs.At(i)
		} else if s, ok := ds.Settlement(i); ok {
			w.open[len(w.open)-1].reservation = s
		}
	}
}

// deniedTogether judges when a denied call of several requests passes: when all of them do.
func (w *World) deniedTogether(requests []request, ds runtime.Decisions, now int64) {
	longest := time.Duration(0)
	for _, d := range ds.Each {
		longest = max(longest, d.RetryAfter)
	}
	if ds.RetryAfter != longest || longest <= 0 {
		w.failf("the retry after %v, and the longest is %v", ds.RetryAfter, longest)
	}
	for _, q := range requests {
		// What a key has that is not decided by its count now is not known.
		if q.l.loose() || !q.l.at(q.k, q.plan, now).counts() {
			return
		}
	}
	all := func(passes func(request, int64) bool) func(at int64) bool {
		return func(at int64) bool {
			return !slices.ContainsFunc(requests, func(q request) bool { return !passes(q, at) })
		}
	}
	if longest < runtime.Never {
		w.first("the retry after together", requests, now, longest, all(request.passes), all(request.mayPass))
		return
	}
	for _, q := range requests {
		for _, end := range q.l.ends(q.k, now) {
			if all(request.passes)(end) {
				w.failf("no retry together is said to pass, but one does after %v", time.Duration(end-now))
			}
		}
	}
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

// describe returns a decision with its numbers.
func describe(d runtime.Decision) string {
	taken := "never"
	if !d.TakenAt.IsZero() {
		taken = d.TakenAt.UTC().Format("15:04:05.000000000")
	}
	return fmt.Sprintf("%v; taken %d at %s, value %v, shadowed %v, delay %v, jitter %v, retry after %v, reset after %v, full after %v",
		d, d.Taken, taken, d.Value, d.Shadowed, d.Delay, d.Jitter, d.RetryAfter, d.ResetAfter, d.FullAfter)
}
