package model

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// gone reports whether an error is the end of a context that has ended, after which the answer is not known.
func (at turn) gone(err error) bool {
	return at.leaves && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
}

// finished waits until nothing runs any more that callers have left behind.
func (w *world) finished(back bool) {
	synctest.Wait()
	if back {
		// What must be given back may be tried again.
		time.Sleep(2 * time.Second)
	}
}

// departed finds out what requests have taken whose caller has gone, and counts it. They have taken all or nothing, and
// nothing if one of them reserves: it would stay in debt for tokens that no one uses.
func (w *world) departed(requests []request, at turn) {
	back := slices.ContainsFunc(requests, func(q request) bool { return q.reserve })
	w.finished(back)
	w.counts.departed++
	var sums []request
	for _, q := range requests {
		i := slices.IndexFunc(sums, func(o request) bool { return o.k == q.k })
		switch {
		case q.op == runtime.Check:
			q.n = 0
			fallthrough
		case i < 0:
			sums = append(sums, q)
		default:
			sums[i].n += q.n
			if sums[i].op == runtime.Check {
				sums[i].op = q.op
			}
		}
	}
	done, known := false, false
	for _, q := range sums {
		taken, counted := w.departedFrom(q, at, back)
		if counted && known && taken != done {
			w.failf("a call whose caller has gone has taken from one key, and not from another")
		}
		if counted {
			done, known = taken, true
		}
	}
}

// departedFrom finds out whether a request has taken its tokens, and counts them. It reports whether all requests of its
// call have taken too, if that follows.
func (w *world) departedFrom(q request, at turn, back bool) (taken, follows bool) {
	now := w.clock.now()
	before, t := q.at(at.now), q.at(now)
	// A blocked key is charged nonetheless.
	counts := func(t terms) bool { return t.counts() || t.mode == runtime.ModeBlock && q.op == runtime.Charge }
	if !counts(before) || before.unlimited || !counts(t) || w.err != nil {
		return false, false
	}
	b, ok := w.peek(at.limits, q)
	if !ok {
		return false, false
	}
	if b.PenaltyFor > 0 && q.op != runtime.Check {
		q.k.penalize(at.now, before)
	}
	asked := q
	if q.op == runtime.TakeUpTo {
		asked.n = min(1, q.n)
	}
	can, _ := asked.expected(at.now, before)
	if q.op == runtime.TakeUpTo {
		q.n = max(0, min(q.n, int64(math.Floor(q.tokens(at.now, before)+q.lenience(at.now, before)))))
	}
	if back && q.n > 0 && can {
		w.perhapsWritten(q, at, b)
	}
	missing, was, close := float64(t.full())-b.Value, float(q.missing(now, t)), q.close(now, t)
	switch extra := missing - was; {
	case math.Abs(extra) <= close:
		if back && !q.l.constant() && w.err == nil {
			// If it was executed, tokens had come back by its numbers until then: a request with these leaves no doubt.
			at.ctx, at.leaves, at.now = context.Background(), false, now
			w.perform("charge", q.with(1), at)
		}
		return false, q.n > 0 && before.mode == runtime.ModeEnforce
	case back:
		w.failf("the caller has gone with an error, and %v tokens stay reserved: %v are missing, want %v", extra, missing, was)
	case math.Abs(extra-float64(q.n)) > close || q.op != runtime.Charge && !can:
		w.failf("after a request whose caller has gone, %v are missing, neither %v as before nor %d more; it may pass: %v",
			missing, was, q.n, can)
	default:
		w.take(q, runtime.Decision{Taken: -1}, before, at.now)
	}
	return true, before.mode == runtime.ModeEnforce
}

// perhapsWritten counts a request whose tokens were given back, if it was executed at all: the row may be as of then, which
// shows only if the clock goes back before, and in a window that begins at its first use.
func (w *world) perhapsWritten(q request, at turn, b runtime.Balance) {
	now := w.clock.now()
	w.clock.earliest = max(w.clock.earliest, now)
	if h := q.k.history; q.k.windows.kind == firstUse && b.ResetAfter > 0 && h.windowEnd(now, q.at(now)) == 0 {
		q.k.history = append(h, taking(0, at.now, q.at(at.now)))
	}
}

// crowd runs a function some times at once, with contexts of which half end meanwhile.
func crowd(r *rand.Rand, clock *Clock, n int, run func(i int, ctx context.Context)) {
	var all sync.WaitGroup
	for i := range n {
		ctx := context.Background()
		if r.IntN(2) == 0 {
			var d *departure
			ctx, d = departs(r, ctx, false)
			if r.IntN(2) == 0 {
				defer d.duringReads(clock)()
			} else {
				go d.afterTurns()
			}
		}
		all.Go(func() { run(i, ctx) })
	}
	all.Wait()
}

// atOnce makes several requests for as many tokens of a key at once, of which some callers leave.
func (w *world) atOnce(q request, at turn) bool {
	p, t := q.policy(), q.at(at.now)
	q.op, q.reserve, q.n = runtime.Take, p.Capacity == 0 || p.Reserves() && w.r.IntN(2) == 0, 1+w.r.Int64N(3)
	if t.mode != runtime.ModeEnforce || q.n > q.most(t) {
		return false
	}
	w.ask(at.limits, q)
	request := func(ctx context.Context) (r reserved, err error) {
		if q.reserve {
			return q.reserveFrom(at.limits, ctx)
		}
		d, err := q.handle(at.limits).AllowN(ctx, q.n)
		return reserved{Decision: d}, err
	}
	results, errs := make([]reserved, 2+w.r.IntN(5)), make([]error, 7)
	crowd(w.r, w.clock, len(results), func(i int, ctx context.Context) { results[i], errs[i] = request(ctx) })
	left, denied := 0, 0
	for i, r := range results {
		w.logf("at once %s %s class %d n %d reserve %v: %v, %v", p.Name, q.k.of, q.class, q.n, q.reserve, r.Decision, errs[i])
		can, _ := q.expected(at.now, t)
		switch {
		case errors.Is(errs[i], context.Canceled):
			left++
		case errs[i] != nil:
			w.failf("at once: %v", errs[i])
		case !r.Allowed:
			denied++
		case !can:
			w.failf("at once: allowed, and there is %v more than needed", q.margin(at.now, t))
		default:
			if w.take(q, r.Decision, t, at.now); q.reserve {
				w.open[len(w.open)-1].reservation = r.of
			}
		}
	}
	if _, must := q.expected(at.now, t); denied > 0 && left == 0 && must {
		w.failf("at once: denied, and there is %v more than needed", q.margin(at.now, t))
	}
	w.finished(q.reserve && left > 0)
	w.counts.departed += left
	switch {
	case left == 0:
	case q.reserve:
		w.departedFrom(q, at, true)
	default:
		w.tookAtOnce(q, at, left)
	}
	return true
}

// tookAtOnce finds out how many of some requests whose callers have left have taken their tokens, and counts them.
func (w *world) tookAtOnce(q request, at turn, left int) {
	now := w.clock.now()
	t := q.at(now)
	b, ok := w.peek(at.limits, q)
	extra := float64(t.full()) - b.Value - float(q.missing(now, t))
	took := math.Round(extra / float64(q.n))
	if ok && (math.Abs(extra-took*float64(q.n)) > q.close(now, t) || took < 0 || took > float64(left)) {
		w.failf("after %d requests for %d whose callers have left, %v more are missing", left, q.n, extra)
		return
	}
	for range int(took) {
		if can, _ := q.expected(at.now, t); !can {
			w.failf("a request whose caller has left was allowed, and there is %v more than needed", q.margin(at.now, t))
		}
		w.take(q, runtime.Decision{Taken: -1}, t, at.now)
	}
}
