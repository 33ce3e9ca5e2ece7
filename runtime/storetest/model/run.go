package model

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

var (
	steps = flag.Int("model.steps", 0, "how many requests at least a store is compared with the model for")
	seed  = flag.Uint64("model.seed", 1, "the seed of the worlds of the model")
)

// requestsOfWorld is how many requests a world gets.
const requestsOfWorld = 30

// agree runs a world, and fails if it differs from the model.
func (c *counts) agree(t *testing.T, number int, run func(*testing.T, *rand.Rand, *Clock) (*journal, error)) {
	var err error
	synctest.Test(t, func(t *testing.T) {
		var j *journal
		j, err = run(t, rand.New(rand.NewPCG(*seed, uint64(number))), &Clock{})
		c.add(j.counts)
	})
	if err != nil {
		t.Fatalf("world %d of seed %d, after %d requests that agree: %v", number, *seed, c.requests, err)
	}
}

// worldsForPairs is how many worlds are enough to meet every pair of values.
const worldsForPairs = 2000

// Agree compares a store with the model in random worlds, for a number of requests at least, and until every pair of
// values that can occur was met. The names of all limits begin with name, so that worlds can share a database. open is
// called for each world, in a bubble of package synctest.
func Agree(t *testing.T, name string, least int, open func(*testing.T, *Clock) Env) {
	unmet, all, met, begun := possiblePairs(), counts{}, false, time.Now()
	least = max(least, *steps)
	for n := 0; len(unmet) > 0 || all.requests < least; n++ {
		if len(unmet) > 0 && n > worldsForPairs {
			t.Fatalf("%d pairs were not met: %v", len(unmet), unmet)
		}
		all.agree(t, n, func(t *testing.T, r *rand.Rand, clock *Clock) (*journal, error) {
			w := newWorld(r, fmt.Sprintf("%s%d limit", name, n), clock, open(t, clock), unmet)
			return &w.journal, w.run(requestsOfWorld)
		})
		if len(unmet) == 0 && !met {
			t.Logf("%d requests in %d worlds have met all pairs of values", all.requests, n+1)
			met = true
		}
	}
	t.Logf("%v, %.0f a second", all, float64(all.requests)/time.Since(begun).Seconds())
}

// run sends requests, and returns the first difference from the model.
func (w *world) run(requests int) error {
	for i := 0; i < requests && w.err == nil; i++ {
		q, all := w.next(values{})
		w.pass(all["clock"])
		if w.putInForce(q, all["force"]); all["in"] == "store" {
			w.step(w.limiter, q, all)
		} else {
			w.transaction(q, all)
		}
	}
	for l, k := range w.keys() {
		w.checkLeased(l, k)
	}
	for l, k := range w.keys() {
		if k.exception != nil {
			w.logf("the exception of %s %s: %+v", l.policies[len(l.policies)-1].Name, k.of, *k.exception)
		}
	}
	return w.report(w.policies()...)
}

// next chooses a key and the values of a request, of which some are fixed. It may be again those of a request that was
// denied.
func (w *world) next(fixed values) (q request, all values) {
	q.l = w.limits[0]
	if w.r.IntN(3) == 0 {
		q.l = oneOf(w.r, w.limits...)
	}
	q.k = oneOf(w.r, q.l.keys...)
	all = maps.Clone(q.l.traits)
	maps.Copy(all, fixed)
	if all["edited"] = "no"; q.l.edits > 0 {
		all["edited"] = "yes"
	}
	if q.k.exception == nil {
		all["exceptions"] = "no"
	}
	usual := len(w.unmet) == 0 || w.r.IntN(4) == 0
	if usual || w.tx > 0 {
		all["force"] = q.l.inForce(q.k, w.clock.now())
	}
	again := usual && q.k.denied != nil && q.l.traits["reserve"] != "only" && w.r.IntN(3) == 0
	if again && q.k.denied.plan > 0 {
		all["plan"] = q.l.names[q.k.denied.plan]
	}
	if again {
		all["class"] = requestFields["class"][q.k.denied.class]
	}
	if usual {
		w.usually(all, again)
	}
	if usual && w.tx == 0 && q.k.history.inDoubt() && w.r.IntN(3) == 0 {
		all["clock"] = "back"
	}
	w.unmet.choose(w.r, all, requestFields)
	q.n = oneOf(w.r, 0, 1, 1, 1, 2, 3, 5, 10, w.r.Int64N(40))
	if again {
		q.n = q.k.denied.n
	}
	q.plan = max(0, slices.Index(q.l.names, all["plan"]))
	q.class = slices.Index(requestFields["class"], all["class"])
	if q.numbers = q.l.numbers(w.r); again || w.r.IntN(4) == 0 {
		q.numbers = q.k.numbers
	}
	if q.numbers != q.k.numbers {
		w.counts.renumbered++
	}
	q.k.numbers = q.numbers
	return q, all
}

// usually chooses the values that most requests have.
func (w *world) usually(all values, again bool) {
	if again && w.r.IntN(5) > 0 {
		// Whether a denial still holds shows only if the same is requested again, perhaps after a change.
		all["verb"] = oneOf(w.r, "allow", "check", "charge", "cancel")
	}
	if w.r.IntN(20) > 0 {
		all["store"] = "answers"
	}
	if w.r.IntN(8) > 0 {
		all["caller"] = "stays"
	}
	if all["clock"] == "" && w.r.IntN(8) > 0 {
		all["clock"] = "forward"
	}
	if all["in"] == "" {
		all["in"] = oneOf(w.r, requestFields["in"]...)
	}
}

// step sends one request.
func (w *world) step(limits *limiter.Limiter, q request, all values) {
	verb, at := all["verb"], turn{limits: limits, state: all["store"], where: all["in"], now: w.clock.now(),
		leaves: all["caller"] == "leaves"}
	if verb == "edit" {
		w.forgetLooks()
	} else if at.answered() {
		w.lookAtAll(at, q)
	}
	before := len(w.trace)
	all["force"] = q.l.inForce(q.k, at.now)
	if !w.send(verb, q, at) {
		return
	}
	w.counts.requests++
	if len(w.trace) == before {
		w.logf("%s %s %s plan %d n %d", verb, q.l.policies[len(q.l.policies)-1].Name, q.k.of, q.plan, q.n)
	}
	w.unmet.meet(all)
	if at.answered() && w.err == nil {
		w.compare(limits, q, "after "+verb)
	}
}

// send performs a verb while the store is in a state.
func (w *world) send(verb string, q request, at turn) bool {
	at.ctx = context.Background()
	if at.leaves {
		var d *departure
		at.ctx, d = departs(w.r, at.ctx, w.env.Remote)
		defer d.cancel()
	}
	if at.state == "silent" {
		var cancel context.CancelFunc
		at.ctx, cancel = context.WithTimeout(at.ctx, deadline)
		defer cancel()
	}
	w.store.state = at.state
	defer func() { w.store.state = "answers" }()
	return w.perform(verb, q, at)
}

// perform sends the request of a verb, and judges the answer. It returns false if the verb does not apply.
func (w *world) perform(verb string, q request, at turn) bool {
	limit, t := q.handle(at.limits), q.at(at.now)
	if at.answered() {
		w.ask(at.limits, q)
	}
	if v, ok := deciding[verb]; ok {
		if verb == "require" && q.l.sharded() && t.mode == runtime.ModeShadow && !q.l.leased() {
			return false // its answer does not tell whether it has taken
		}
		q.op = v.op
		d, err := v.do(limit, at.ctx, q.n)
		if at.gone(err) {
			w.logf("%s %s %s plan %d n %d, and the caller has left: %v", verb, q.policy().Name, q.k.of, q.plan, q.n, err)
			w.departed([]request{q}, at)
			return true
		}
		w.answer(q, d, err, at)
		return true
	}
	switch verb {
	case "reserve":
		w.reserve(q, at)
	case "peek":
		q.op = runtime.Peek
		if at.answered() {
			return true // every step is followed by one
		}
		_, err := limit.Peek(at.ctx)
		w.failure(q, runtime.Decision{}, err, at)
	case "reset":
		q.op = runtime.Reset
		w.reset(q, limit.Reset(at.ctx), at)
	case "erase":
		if w.lastEnd > at.now {
			return false
		}
		w.erase(q, limit.Erase(at.ctx), at)
	case "refund", "settle", "cancel":
		return w.giveBack(verb, q, at)
	case "sweep ahead":
		// A store believes the clock that it was given at once: see the comment of Sweep.
		ahead := int64(time.Hour) + w.r.Int64N(int64(72*time.Hour))
		w.clock.skew.Add(ahead)
		w.logf("a sweep by a clock that is %v ahead for a moment", time.Duration(ahead))
		w.sweep()
		w.clock.skew.Add(-ahead)
		for _, k := range w.keys() {
			k.deleted = true
		}
	case "far zone":
		return w.farZone(q, at)
	case "no transaction":
		return w.outOfTx(q, at)
	case "at once":
		return w.atOnce(q, at)
	case "in any order":
		w.inAnyOrder(q, at)
	case "all", "group check", "group reserve":
		return w.together(verb, q, at)
	case "wait", "group wait":
		return w.wait(verb, q, at)
	case "too late":
		w.tooLate(limit, at)
	case "override", "block", "unblock", "end":
		return w.operate(verb, q, w.r.IntN(4) == 0, "")
	case "edit":
		w.edit(q.l)
	case "sweep":
		w.sweep()
	}
	return true
}

// sweep sweeps the store, which forgets the keys that are not needed and the overrides that have ended.
func (w *world) sweep() {
	if _, err := w.env.Sweep(context.Background(), w.policies()...); err != nil {
		w.failf("sweep: %v", err)
	}
	w.dropEnded()
	w.forgetSwept()
	w.sweeps++
}

// memory is what a rollback restores of a key.
type memory struct {
	history history
	events  []event
	leased  []use
	life    int
	// penalties are those that there were.
	penalties []penalty
}

// transaction sends requests in a transaction, of which it has the first, and ends it.
func (w *world) transaction(q request, all values) {
	tx, err := w.env.Begin()
	if err != nil {
		w.failf("begin: %v", err)
		return
	}
	before := map[*key]memory{}
	for _, k := range w.keys() {
		m := memory{history: slices.Clone(k.history), leased: k.leased, life: k.life, penalties: k.penalties}
		for _, e := range k.history {
			m.events = append(m.events, *e)
		}
		before[k] = m
	}
	open := slices.Clone(w.open)
	w.transactions++
	w.tx = w.transactions
	defer func() { w.tx = 0 }()
	limits, end := w.limiter.WithTx(tx), all["in"]
	w.step(limits, q, all)
	for i := w.r.IntN(3); i > 0 && w.err == nil; i-- {
		q, all = w.next(values{"in": end, "clock": all["clock"]})
		w.step(limits, q, all)
	}
	w.logf("%s", end)
	ends := map[string]func() error{"commit": tx.Commit, "rollback": tx.Rollback}
	if err := ends[end](); err != nil {
		w.failf("%s: %v", end, err)
	}
	if end == "commit" {
		return
	}
	for k, m := range before {
		for i, e := range m.history {
			*e = m.events[i]
		}
		k.history, k.leased, k.life, k.seen, k.reported, k.penalties = m.history, m.leased, m.life, nil, false, m.penalties
	}
	// Tokens that were given back in the transaction are not tried again.
	w.open = slices.DeleteFunc(open, func(t *taken) bool { return !slices.Contains(w.open, t) })
}

// pass lets time pass, or puts the clock back.
func (w *world) pass(clock string) {
	period := int64(oneOf(w.r, w.limits...).counted().Period)
	switch {
	case clock == "back":
		for _, l := range w.limits {
			l.back = true
		}
		w.clock.goBack(w.r, 2*period)
	case w.r.IntN(3) == 0:
	case w.r.IntN(12) == 0:
		time.Sleep(time.Duration(w.r.Int64N(min(3*period, int64(100*24*time.Hour)))))
	default:
		time.Sleep(time.Duration(w.r.Int64N(min(period, int64(40*24*time.Hour))/8 + 1)))
	}
}
