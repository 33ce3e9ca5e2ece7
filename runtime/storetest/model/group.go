package model

import (
	"errors"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// together takes from several limits at once.
func (w *world) together(verb string, first request, at turn) bool {
	requests := w.withOthers(first)
	var items []limiter.Item
	var reserving []limiter.ReserveItem
	for i := range requests {
		q := &requests[i]
		p := q.policy()
		handle := q.handle(at.limits)
		if at.answered() {
			w.ask(at.limits, *q)
		}
		q.op, q.reserve = runtime.Take, verb == "group reserve" &&
			(p.Reserves() || p.Mode == runtime.ModeUnlimited && p.Overrides.MaxReserved > 0)
		switch only := q.l.traits["reserve"] == "only"; {
		case only && verb != "group reserve":
			return false
		case only:
			reserving = append(reserving, at.limits.ReserveOnly(p, q.k.of).N(q.n))
		case w.r.IntN(4) == 0:
			q.op, q.reserve = runtime.Check, false
			items, reserving = append(items, handle.CheckedN(q.n)), append(reserving, handle.CheckedN(q.n))
		default:
			items, reserving = append(items, handle.N(q.n)), append(reserving, handle.N(q.n))
		}
	}
	if at.leaves && slices.ContainsFunc(requests, func(q request) bool { return q.l.loose() }) {
		return false // what was taken could not be seen
	}
	g := group{requests: requests, at: at, takes: verb != "group check"}
	switch verb {
	case "all":
		g.Decisions, g.err = at.limits.All(at.ctx, items...)
	case "group check":
		g.Decisions, g.err = at.limits.Group(reserving...).Check(at.ctx)
	default:
		if g.reservations, g.err = at.limits.Group(reserving...).Reserve(at.ctx); g.err == nil {
			g.Decisions = g.reservations.Decisions
		}
	}
	w.logf("%s in %s while the store %s: %+v %v", verb, at.where, at.state, g.Decisions, g.err)
	for i, q := range requests {
		w.logf("  %v %s %s plan %d class %d numbers %v n %d reserve %v", q.op, q.policy().Name, q.k.of, q.plan, q.class,
			q.numbers, q.n, q.reserve)
		if i < len(g.Each) {
			w.logf("    %s", describe(g.Each[i]))
		}
	}
	if at.gone(g.err) {
		for i := range requests {
			if !g.takes {
				requests[i].op = runtime.Check
			}
		}
		w.departed(requests, at)
	} else if at.answered() {
		w.answeredTogether(g)
	} else {
		w.failedTogether(g)
	}
	return true
}

// withOthers adds requests for some other keys, or again for the same: those of one key have one plan and
// class.
func (w *world) withOthers(first request) []request {
	requests := []request{first}
	for range w.r.IntN(4) {
		l := oneOf(w.r, w.limits...)
		q := request{l: l, k: oneOf(w.r, l.keys...), class: l.class(w.r), n: oneOf[int64](w.r, 0, 1, 1, 2, 3, 5)}
		if l.names != nil {
			q.plan = 1 + w.r.IntN(3)
		}
		q.numbers = l.numbers(w.r)
		if i := slices.IndexFunc(requests, func(o request) bool { return o.k == q.k }); i >= 0 {
			q.plan, q.numbers, q.class = requests[i].plan, requests[i].numbers, requests[i].class
		}
		requests = append(requests, q)
	}
	return requests
}

// group is a call of several requests, with its answer.
type group struct {
	requests []request
	at       turn
	// takes is false if the whole group is only checked.
	takes bool
	limiter.Decisions
	reservations *limiter.Reservations
	err          error
}

// sums returns how many tokens the call takes from each key.
func (g group) sums() map[*key]int64 {
	all := map[*key]int64{}
	for _, q := range g.requests {
		if q.op == runtime.Take {
			all[q.k] += q.n
		}
	}
	return all
}

// summed returns the requests with the counts that decide: those of takes of one key add up.
func (g group) summed() []request {
	all, sums := slices.Clone(g.requests), map[*key]int64{}
	for i, q := range all {
		if q.op == runtime.Take && q.n > 0 {
			sums[q.k] += q.n
			all[i].n = sums[q.k]
		}
	}
	return all
}

// expected returns whether the call may pass, whether it must, and whether it never can.
func (g group) expected() (can, must, refused bool) {
	can, must = true, true
	for _, q := range g.summed() {
		t := q.at(g.at.now)
		switch {
		case q.n == 0 || t.open():
		case t.mode == runtime.ModeBlock:
			can, must = false, false
		case q.refused(g.at.now) != nil:
			refused = true
		default:
			may, shall := q.expected(g.at.now, t)
			can, must = can && (may || q.l.leased() && q.n <= q.most(t)), must && shall
		}
	}
	return can, must, refused
}

// failedTogether judges a call for which the store has failed or does not answer.
func (j *judge) failedTogether(g group) {
	if slices.ContainsFunc(g.requests, func(q request) bool { return q.l.leased() }) {
		return
	}
	opens := slices.ContainsFunc(g.requests, func(q request) bool { return g.at.opens(q.l.counted()) })
	for _, q := range g.requests {
		closed := q.l.counted().OnError == runtime.FailClosed || !opens
		if g.err == nil && g.Allowed && q.at(g.at.now).mode == runtime.ModeEnforce && closed {
			j.failf("allowed by a store that %s, although %s fails closed", g.at.state, q.l.counted().Name)
		}
	}
	for _, d := range g.Each {
		if !d.TakenAt.IsZero() {
			j.failf("tokens were taken from a store that %s", g.at.state)
		}
	}
}

// answeredTogether judges a call of several requests: all or none.
func (j *judge) answeredTogether(g group) {
	can, must, refused := g.expected()
	switch {
	case refused || g.err != nil:
		if !errors.Is(g.err, runtime.ErrExceedsCapacity) || !refused {
			j.failf("the error is %v, and a count that never fits %v", g.err, refused)
		}
		return
	case g.Allowed && !can || !g.Allowed && must:
		j.failf("together allowed %v, want %v", g.Allowed, can)
		return
	}
	before := j.penalizeTogether(g)
	for i, d := range g.Each {
		q, t := g.requests[i], g.requests[i].at(g.at.now)
		if q.op == runtime.Check {
			// It was decided before the takes.
			k := *q.k
			k.penalties, q.k = before[q.k], &k
		}
		if t.mode == runtime.ModeShadow && (!d.Allowed || d.UsableAfter != 0 || d.Jitter != 0) {
			j.failf("in shadow mode: %+v", d)
		}
		if !g.Allowed && !d.TakenAt.IsZero() {
			j.failf("a denied call has taken: %+v", d)
		}
		j.jitter(q, d, g.at.now)
		if !g.Allowed || !g.takes {
			j.left(q, d, t, g.at.now)
		}
	}
	switch {
	case !g.Allowed:
		j.deniedTogether(g)
	case g.takes:
		j.takeTogether(g)
	}
}

// penalizeTogether starts the penalties of the keys that lacked tokens, also if the whole call was denied, and returns
// those before.
func (j *judge) penalizeTogether(g group) map[*key][]penalty {
	before, sums := map[*key][]penalty{}, g.sums()
	for _, q := range g.requests {
		before[q.k] = q.k.penalties
	}
	for i, d := range g.Each {
		q, t := g.requests[i], g.requests[i].at(g.at.now)
		if q.op == runtime.Take && q.n > 0 && g.takes && t.counts() && sums[q.k] <= q.most(t) && (!d.Allowed || d.Shadowed) {
			q.k.penalize(g.at.now, t)
		}
	}
	return before
}

// takeTogether counts the tokens that a call has taken.
func (j *judge) takeTogether(g group) {
	now, sums := g.at.now, g.sums()
	for i, q := range g.requests {
		d, t := g.Each[i], q.at(now)
		switch {
		case q.op == runtime.Check || q.n == 0 || t.lifted() || t.mode == runtime.ModeShadow && d.TakenAt.IsZero():
			continue
		case q.l.leased():
			q.k.leased = append(q.k.leased, use{now + int64(d.UsableAfter), q.n})
			continue
		}
		j.take(q, d, t, now)
		alone := sums[q.k] == q.n
		if alone {
			j.left(q, d, t, now)
		}
		newest := j.open[len(j.open)-1]
		newest.together = !alone
		if g.reservations != nil {
			newest.reservation = q.reservationOf(g.reservations.At(i))
		} else if s, ok := g.Settlement(i); ok {
			newest.reservation = q.reservationOf(s)
		}
	}
}

// deniedTogether judges when a denied call of several requests passes: when all of them do.
func (j *judge) deniedTogether(g group) {
	longest := time.Duration(0)
	for _, d := range g.Each {
		longest = max(longest, d.RetryAfter)
	}
	if g.RetryAfter != longest || longest <= 0 {
		j.failf("the retry after %v, and the longest is %v", g.RetryAfter, longest)
	}
	requests := g.summed()
	for _, q := range requests {
		// What a key has that is not decided by its count now is not known.
		if q.l.loose() || !q.at(g.at.now).counts() {
			return
		}
	}
	if longest == runtime.Never {
		j.never(requests, g.at.now)
		return
	}
	j.first("the retry after together", requests, g.at.now, longest, toPass)
}
