package model

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// together takes from several limits at once.
func (w *World) together(ctx context.Context, limits *limiter.Limiter, verb string, first request, state, where string) bool {
	requests := []request{first}
	for range w.r.IntN(4) {
		l := oneOf(w.r, w.limits...)
		q := request{l: l, k: oneOf(w.r, l.keys...), n: oneOf[int64](w.r, 0, 1, 1, 2, 3, 5)}
		if l.names != nil {
			q.plan = 1 + w.r.IntN(3)
		}
		if i := slices.IndexFunc(requests, func(o request) bool { return o.k == q.k }); i >= 0 {
			q.plan = requests[i].plan
		}
		requests = append(requests, q)
	}
	var items []limiter.Item
	var reserving []limiter.ReserveItem
	for i := range requests {
		q := &requests[i]
		p := q.l.of(q.plan)
		only := q.l.traits["reserve"] == "only"
		if only && verb != "group reserve" {
			return false
		}
		q.op = runtime.Take
		if !only && w.r.IntN(4) == 0 {
			q.op = runtime.Check
		}
		handle := limits.Limit(p, q.k.of)
		switch {
		case only:
			reserving = append(reserving, limits.ReserveOnly(p, q.k.of).N(q.n))
		case q.op == runtime.Check:
			items = append(items, handle.CheckedN(q.n))
			reserving = append(reserving, handle.CheckedN(q.n))
		default:
			items = append(items, handle.N(q.n))
			reserving = append(reserving, handle.N(q.n))
		}
		q.reserve = verb == "group reserve" && q.op == runtime.Take && (p.Reserves() ||
			p.Mode == runtime.ModeUnlimited && p.Overrides.MaxReserved > 0)
	}
	now := w.clock.now()
	var ds limiter.Decisions
	var rs *limiter.Reservations
	var err error
	switch verb {
	case "all":
		ds, err = limits.All(ctx, items...)
	case "group check":
		ds, err = limits.Group(reserving...).Check(ctx)
	default:
		if rs, err = limits.Group(reserving...).Reserve(ctx); err == nil {
			ds = rs.Decisions
		}
	}
	w.logf("%s in %s while the store %s: %+v %v", verb, where, state, ds, err)
	for i, q := range requests {
		w.logf("  %v %s %s plan %d n %d reserve %v", q.op, q.l.of(q.plan).Name, q.k.of, q.plan, q.n, q.reserve)
		if i < len(ds.Each) {
			w.logf("    %s", describe(ds.Each[i]))
		}
	}
	w.judgeTogether(requests, verb, ds, rs, err, now, state, where)
	return true
}

// judgeTogether judges a call of several requests: all or none.
func (w *World) judgeTogether(requests []request, verb string, ds limiter.Decisions, rs *limiter.Reservations, err error, now int64, state, where string) {
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
func (w *World) deniedTogether(requests []request, ds limiter.Decisions, now int64) {
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
