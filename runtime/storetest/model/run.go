package model

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// run sends requests, of which some have the wanted values, and returns the first difference from the model.
func (w *World) run(steps int, want map[string]string) error {
	for i := 0; i < steps && w.err == nil && !w.ended; i++ {
		wanted := map[string]string{}
		if i%3 > 0 {
			wanted = want
		}
		w.pass(wanted)
		switch choose(w.r, wanted, "in") {
		case "commit":
			w.transaction(wanted, true)
		case "rollback":
			w.transaction(wanted, false)
		default:
			w.step(w.limiter, wanted, "store")
		}
	}
	for _, l := range w.limits {
		for _, k := range l.keys {
			w.checkLeased(l, k)
		}
	}
	if w.err != nil {
		limits := ""
		for _, l := range w.limits {
			limits += fmt.Sprintf("%+v\n", l.policies)
		}
		return fmt.Errorf("%w\n%s%s", w.err, limits, strings.Join(w.trace, "\n"))
	}
	return nil
}

// step sends one request.
func (w *World) step(limits *limiter.Limiter, want map[string]string, where string) {
	if w.err != nil || w.ended {
		return
	}
	l := w.limits[0]
	if w.r.IntN(3) == 0 {
		l = oneOf(w.r, w.limits...)
	}
	k := oneOf(w.r, l.keys...)
	verb, state := choose(w.r, want, "verb"), "answers"
	again := k.denied != nil && w.r.IntN(3) == 0
	if again && want["verb"] == "" {
		// Whether a denial still holds shows only if the same is asked again, perhaps after a change.
		verb = oneOf(w.r, "allow", "check", "charge", "cancel", verb)
	}
	if v, ok := want["store"]; ok || w.r.IntN(20) == 0 {
		if state = v; !ok {
			state = oneOf(w.r, Fields["store"]...)
		}
	}
	tags := maps.Clone(l.traits)
	tags["verb"], tags["in"], tags["store"] = verb, where, state
	tags["edited"], tags["clock"] = "no", "forward"
	if l.edits > 0 {
		tags["edited"] = "yes"
	}
	if w.back {
		tags["clock"] = "back"
	}
	plan := 0
	if l.names != nil {
		plan = 1 + w.r.IntN(3)
		if v, ok := want["plan"]; ok {
			plan = max(1, slices.Index(l.names, v))
		}
	}
	if _, wanted := want["plan"]; again && !wanted {
		plan = k.denied.plan
	}
	tags["plan"] = "none"
	if plan > 0 {
		tags["plan"] = l.names[plan]
	}
	w.putInForce(l, k, plan, want["force"], where)
	tags["force"] = l.inForce(k, plan, w.clock.now())
	if verb == "edit" || verb == "sweep" {
		delete(tags, "plan")
		delete(tags, "force")
	}
	for field, v := range tags {
		for other, u := range tags {
			if field < other && Impossible(Value{field, v}, Value{other, u}) != "" {
				return
			}
		}
	}
	for _, l := range w.limits {
		if state != "answers" || l.traits["lease"] == "yes" || l.traits["shards"] == "1" {
			continue
		}
		for _, k := range l.keys {
			k.just = math.NaN()
			if verb != "edit" && w.err == nil {
				w.lookAt(limits, l, k, plan)
			}
		}
	}
	w.store.state = state
	q := request{l: l, k: k, plan: plan, n: oneOf(w.r, 0, 1, 1, 1, 2, 3, 5, 10, w.r.Int64N(40))}
	if again {
		q.n = k.denied.n
	}
	before := len(w.trace)
	done := w.perform(limits, verb, q, state, where)
	w.store.state = "answers"
	if !done {
		return
	}
	w.Steps++
	if len(w.trace) == before {
		w.logf("%s %s %s plan %d n %d", verb, l.policies[len(l.policies)-1].Name, k.of, plan, q.n)
	}
	w.Pairs.Add(tags)
	if state == "answers" && w.err == nil {
		w.compare(limits, l, k, plan, "after "+verb)
	}
}

// transaction sends requests in a transaction, and ends it.
func (w *World) transaction(want map[string]string, commit bool) {
	tx, err := w.env.Begin()
	if err != nil {
		w.failf("begin: %v", err)
		return
	}
	type saved struct {
		at  *event
		was event
	}
	before, leased, lives := map[*key]history{}, map[*key][]use{}, map[*key]int{}
	var events []saved
	for _, l := range w.limits {
		for _, k := range l.keys {
			before[k], leased[k], lives[k] = slices.Clone(k.history), k.leased, k.life
			for _, e := range k.history {
				events = append(events, saved{e, *e})
			}
		}
	}
	open := slices.Clone(w.open)
	where := map[bool]string{true: "commit", false: "rollback"}[commit]
	limits := w.limiter.WithTx(tx)
	w.transactions++
	w.tx = w.transactions
	defer func() { w.tx = 0 }()
	wanted := maps.Clone(want)
	for range 1 + w.r.IntN(3) {
		w.step(limits, wanted, where)
	}
	w.logf("%s", where)
	end := tx.Rollback
	if commit {
		end = tx.Commit
	}
	if err := end(); err != nil {
		w.failf("%s: %v", where, err)
	}
	if commit {
		return
	}
	for k, h := range before {
		k.history, k.leased, k.life, k.seen, k.reported = h, leased[k], lives[k], nil, false
	}
	for _, s := range events {
		*s.at = s.was
	}
	// Tokens that were given back in the transaction are not tried again.
	w.open = slices.DeleteFunc(open, func(t *taken) bool { return !slices.Contains(w.open, t) })
}

// lookAt sees what a key of a limit with shards has before a request.
func (w *World) lookAt(limits *limiter.Limiter, l *limit, k *key, plan int) {
	if l.names == nil {
		plan = 0
	} else if plan == 0 {
		plan = 1
	}
	if !l.at(k, plan, w.clock.now()).counts() {
		return
	}
	b, err := limits.Limit(l.of(plan), k.of).Peek(context.Background())
	if err != nil {
		w.failf("peek: %v", err)
	}
	k.just, k.justBy = b.Value, l.at(k, plan, w.clock.now())
}

// pass lets time pass, or puts the clock back.
func (w *World) pass(want map[string]string) {
	l := oneOf(w.r, w.limits...)
	period := int64(l.counted().Period)
	w.back = false
	switch {
	case choose(w.r, want, "clock") == "back" && (want["clock"] != "" || w.r.IntN(4) == 0):
		w.back, w.ended = true, w.ended || w.unsure
		for _, l := range w.limits {
			l.back = true
		}
		// An hour is how long a store keeps ended entries for such a clock.
		w.latest = max(w.latest, w.clock.now())
		w.clock.skew.Add(-w.r.Int64N(max(1, min(2*period, w.clock.now()-max(w.earliest, w.latest-int64(50*time.Minute))))))
	case w.r.IntN(3) == 0:
	case w.r.IntN(12) == 0:
		time.Sleep(time.Duration(w.r.Int64N(min(3*period, int64(100*24*time.Hour)))))
	default:
		time.Sleep(time.Duration(w.r.Int64N(min(period, int64(40*24*time.Hour))/8 + 1)))
	}
}

// perform sends the request of a verb, and judges the answer. It returns false if the verb does not apply.
func (w *World) perform(limits *limiter.Limiter, verb string, q request, state, where string) bool {
	ctx := context.Background()
	if state == "silent" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, deadline)
		defer cancel()
	}
	p, k := q.l.of(q.plan), q.k.of
	limit := limits.Limit(p, k)
	now := w.clock.now()
	switch verb {
	case "allow":
		q.op = runtime.Take
		d, err := limit.AllowN(ctx, q.n)
		w.judge(q, d, err, now, state, where)
	case "allow up to":
		q.op = runtime.TakeUpTo
		d, err := limit.AllowUpTo(ctx, q.n)
		w.judge(q, d, err, now, state, where)
	case "check":
		q.op = runtime.Check
		d, err := limit.CheckN(ctx, q.n)
		w.judge(q, d, err, now, state, where)
	case "require":
		q.op = runtime.Take
		if q.l.loose() && q.l.at(q.k, q.plan, now).mode == runtime.ModeShadow && q.l.traits["lease"] != "yes" {
			return false // its answer does not tell whether it has taken
		}
		d, err := requireN(ctx, limit, q.n)
		w.judge(q, d, err, now, state, where)
	case "reserve":
		q.op, q.reserve = runtime.Take, true
		return w.reserve(ctx, limits, q, now, state, where)
	case "charge":
		q.op = runtime.Charge
		if t := q.l.at(q.k, q.plan, now); t.unlimited && t.mode == runtime.ModeBlock {
			return false
		}
		d, err := limit.Charge(ctx, q.n)
		w.judge(q, d, err, now, state, where)
	case "peek":
		q.op = runtime.Peek
		if state == "answers" {
			return true // every step is followed by one
		}
		_, err := limit.Peek(ctx)
		w.judgeFailure(q, runtime.Decision{}, err, state)
	case "reset":
		q.op = runtime.Reset
		err := limit.Reset(ctx)
		w.logf("reset %s %s: %v", p.Name, k, err)
		if state != "answers" {
			w.judgeFailure(q, runtime.Decision{}, err, state)
			return true
		}
		if err != nil {
			w.failf("reset: %v", err)
		}
		kept := q.k.history
		q.k.history, q.k.leased = nil, nil
		if at := kept.latest(); q.k.windows.kind == sliding && len(at) > 0 && !q.l.at(q.k, q.plan, now).unlimited {
			// The later window stays the current one if the clock has gone back.
			q.k.history = history{{now: at[len(at)-1], tokens: new(big.Rat), used: new(big.Rat), by: kept[len(kept)-1].by}}
		}
		w.earliest = now
		w.begin(q.k)
	case "refund", "settle", "cancel":
		return w.giveBack(ctx, limits, verb, q, state, where)
	case "all", "group check", "group reserve":
		return w.together(ctx, limits, verb, q, state, where)
	case "wait", "group wait":
		return w.wait(limits, verb, q)
	case "too late":
		return w.tooLate(limits, q)
	case "override", "block", "unblock", "end":
		return w.operate(verb, q.l, q.k, q.plan, w.r.IntN(4) == 0, "")
	case "edit":
		w.edit(q.l)
	case "sweep":
		if _, err := w.env.Sweep(ctx, w.policies()...); err != nil {
			w.failf("sweep: %v", err)
		}
		w.dropEnded()
		w.forgetSwept()
		w.sweeps++
	}
	return true
}
