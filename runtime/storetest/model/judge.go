package model

import (
	"context"
	"errors"
	"math"
	"math/big"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

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
	case decides && q.refused(w.clock.now()) != nil:
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
