package model

import (
	"cmp"
	"context"
	"math"
	"math/big"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// peek returns what a key has.
func (j *judge) peek(limits *limiter.Limiter, q request) (b runtime.Balance, ok bool) {
	b, err := q.handle(limits).Peek(context.Background())
	if err != nil {
		j.failf("peek: %v", err)
	}
	return b, err == nil
}

// compare compares what a key has with the model.
func (w *world) compare(limits *limiter.Limiter, q request, when string) {
	if w.err != nil || q.l.leased() {
		return
	}
	q.op = runtime.Peek
	now := w.clock.now()
	t := q.at(now)
	b, ok := w.peek(limits, q)
	switch {
	case !ok:
	case t.lifted():
		if b.Remaining != runtime.MaxTokens {
			w.failf("%s: a limit that is lifted has %+v", when, b)
		}
	case t.unlimited:
		blocked, _ := q.blockedFor(now)
		if want := (runtime.Balance{Limit: q.policy().Name, Capacity: runtime.MaxTokens, Value: runtime.MaxTokens, BlockedFor: blocked}); b != want {
			w.failf("%s: a blocked key whose plan has no limit has %+v, want %+v", when, b, want)
		}
	default:
		q.k.reported = limits == w.limiter
		if q.l.loose() {
			w.conserved(when, q, t, now, b.Value)
			return
		}
		w.balance(when, q, t, now, b)
	}
}

// balance judges what a key is said to have.
func (j *judge) balance(when string, q request, t terms, now int64, b runtime.Balance) {
	q.learn(now, t, b.Value)
	tokens := q.tokens(now, t)
	if math.Abs(b.Value-tokens) > q.close(now, t) {
		j.failf("%s: Peek has %v, want %v: %+v\nterms %+v\nhistory %v", when, b.Value, tokens, b, t, q.k.history)
		return
	}
	blocked := time.Duration(0)
	if t.mode == runtime.ModeBlock {
		blocked, _ = q.blockedFor(now)
	}
	if b.BlockedFor != blocked || blocked > 0 && b.Remaining != 0 {
		j.failf("%s: a key that is blocked for %v: %+v", when, blocked, b)
	}
	reset := time.Duration(0)
	if end := q.k.history.windowEnd(now, t); end != 0 {
		reset = time.Duration(max(0, end-now))
	}
	if b.ResetAfter != reset {
		j.failf("%s: the window ends after %v, want %v", when, b.ResetAfter, reset)
	}
	if at := time.Unix(0, now+int64(reset)); reset > 0 && !b.ResetAt.Equal(at) || reset == 0 && !b.ResetAt.IsZero() {
		j.failf("%s: the window ends at %v, want %v", when, b.ResetAt, at)
	}
	j.counts.balances++
	if used, close := float64(b.Used)-(float64(t.full())-tokens), q.close(now, t); used < -close || used >= 1+close {
		j.failf("%s: %d tokens are used, want those missing from %d with %v left", when, b.Used, t.full(), tokens)
	}
	j.penalty(when, q, now, t, b.PenaltyFor)
	if blocked == 0 {
		j.remaining(when, q, now, t, b.Remaining)
	}
	if b.FullAfter > 0 || tokens < float64(t.full())-q.lenience(now, t) {
		j.first("full after", []request{q}, now, b.FullAfter, toBeFull)
	}
}

// lookAt sees what a key of a limit with shards has before a request. A limit with plans is seen by the first without
// one.
func (w *world) lookAt(limits *limiter.Limiter, q request) {
	if q.l.names == nil {
		q.plan = 0
	} else if q.plan == 0 {
		q.plan = 1
	}
	q.class = 0
	if t := q.at(w.clock.now()); t.counts() {
		b, _ := w.peek(limits, q)
		q.k.just, q.k.justBy = b.Value, t
	}
}

// lookAtAll sees what all keys of limits with shards have before a request.
func (w *world) lookAtAll(at turn, q request) {
	w.forgetLooks()
	for l, k := range w.keys() {
		if l.sharded() && !l.leased() && w.err == nil {
			w.lookAt(at.limits, request{l: l, k: k, plan: q.plan, numbers: k.numbers})
		}
	}
}

// forgetLooks forgets what keys had before the last request.
func (w *world) forgetLooks() {
	for _, k := range w.keys() {
		k.just = math.NaN()
	}
}

// forgetSwept forgets the history of the keys that a sweep has deleted: they have been full for an hour by the numbers
// of every plan and of the override in force, and longer for calendars.
func (w *world) forgetSwept() {
	for l, k := range w.keys() {
		now, byKey := w.clock.now()-int64(time.Hour), l.traits["kind"] == "calendar by key"
		if k.windows.kind == calendar {
			now -= int64(47 * time.Hour)
		}
		if byKey {
			now -= int64(l.counted().Period) * 9 / 8
		}
		full := k.windows.kind != firstUse || k.history.windowEnd(now, k.termsOf(l.counted())) == 0
		for i := range l.policies {
			if l.of(i).Name == "" {
				continue // plans begin with 1
			}
			for _, t := range []terms{l.slowest(l.at(k, i, runtime.Numbers{}, w.clock.now())), l.slowest(k.termsOf(l.of(i)))} {
				full = full && (len(t.penalties) == 0 || k.forgiven(now, t))
				switch {
				case t.Rate == 0:
				case byKey:
					full = full && k.history.fullIn(windowsOf(l.of(i), "", nil, time.Unix(0, 0).UTC()), now, t)
				default:
					full = full && k.history.missing(now, t, false).Sign() == 0
				}
			}
		}
		for _, at := range k.history.latest() {
			full = full && (byKey || at <= now)
		}
		// Tokens that the settlement may have left in the log were not back by then.
		full = full && !slices.ContainsFunc(k.history, func(e *event) bool { return e.other != nil && e.settled > now })
		if full {
			k.history, k.penalties = nil, nil
			w.begin(k)
		}
	}
}

// fullIn reports whether a key is full by a row of it that has the start of its last window, but neither its zone nor its
// anniversary. Then it is judged by the windows of a key without them.
func (h history) fullIn(w windows, now int64, t terms) bool {
	if len(h) == 0 {
		return true
	}
	missing, last := h.inWindows()
	start := t.windows.starts[last]
	t.windows = w
	missing, _ = t.enter(missing, t.window(start), now)
	return start <= now && missing.Sign() == 0
}

// begin begins another life of a key.
func (w *world) begin(k *key) {
	w.lives++
	k.life, k.seen, k.reported = w.lives, nil, false
}

// conserved judges the tokens that the shards of a key have together. They have no more than one row would have. By
// those after the last request they have lost no tokens, and while none can have come back, they have not gained any.
func (j *judge) conserved(when string, q request, t terms, now int64, value float64) {
	if one := float64(t.full()) - float(q.k.history.missing(now, t, true)); q.l.constant() && value > one+q.close(now, t) {
		j.failf("%s: shards have %v tokens, and one row would have %v", when, value, one)
	}
	this, last := &seen{at: now, value: value, by: t, taken: new(big.Rat), used: new(big.Rat)}, q.k.seen
	for _, e := range q.k.history {
		this.taken.Add(this.taken, e.tokens)
		this.used.Add(this.used, e.used)
	}
	q.k.seen = this
	if last == nil || !last.by.sameNumbers(t) || q.l.back {
		return
	}
	had, has := float64(last.by.full())-last.value, float64(t.full())-value
	taken, used := float(new(big.Rat).Sub(this.taken, last.taken)), float(new(big.Rat).Sub(this.used, last.used))
	lacked := had
	if q.l.constant() && t.windows.kind != sliding {
		lacked = max(0, had-t.comesBack(last.at, now, int64(q.l.counted().Shards)))
	}
	if has > lacked+taken+1e-6 {
		j.failf("%s: shards lack %v tokens, and lacked %v before %v were taken, of which at most %v have not come back", when, has,
			had, taken, lacked)
	}
	// A refund to all shards shares the tokens that they lacked at the last write, so that more have come back since.
	if used == taken && t.accruesNothing(last.at, now) && has < had+used-1e-6 {
		j.failf("%s: shards lack %v tokens, and lacked %v before %v were used, when none had come back", when, has, had, used)
	}
}

// checkLeased checks the bound of tokens that may have been leased.
func (j *judge) checkLeased(l *limit, k *key) {
	if !l.leased() || !l.constant() || k.returned {
		return
	}
	t := l.excepted(k, 0, runtime.Numbers{})
	if t.mode != runtime.ModeEnforce {
		return
	}
	p := *l.of(0)
	p.Rate, p.Capacity, p.MaxReserved = t.Rate, t.Capacity, t.MaxReserved
	uses := slices.Clone(k.leased)
	slices.SortStableFunc(uses, func(a, b use) int { return cmp.Compare(a.at, b.at) })
	for i := range uses {
		sum := int64(0)
		for _, u := range uses[i:] {
			sum += u.tokens
			if most := mostLeased(&p, k.windows, uses[i].at, u.at); whole(sum).Cmp(most.Add(most, big.NewRat(1, 1000))) > 0 {
				j.failf("%s: %d leased tokens were used in %v: %+v", p.Name, sum, time.Duration(u.at-uses[i].at), uses)
			}
		}
	}
}
