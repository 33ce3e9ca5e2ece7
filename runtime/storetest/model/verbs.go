package model

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// deciding are the verbs that request tokens of one key, without more.
var deciding = map[string]struct {
	op runtime.Op
	do func(l handle, ctx context.Context, n int64) (runtime.Decision, error)
}{
	"allow":       {runtime.Take, handle.AllowN},
	"allow up to": {runtime.TakeUpTo, handle.AllowUpTo},
	"check":       {runtime.Check, handle.CheckN},
	"require":     {runtime.Take, requireN},
	"charge":      {runtime.Charge, handle.Charge},
}

// requireN returns what AllowN would.
func requireN(l handle, ctx context.Context, n int64) (d runtime.Decision, err error) {
	err = l.RequireN(ctx, n)
	var limited *runtime.LimitedError
	switch {
	case errors.As(err, &limited):
		return limited.Decision, nil
	case err == nil:
		// Nothing else is known of an allowance.
		return runtime.Decision{Allowed: true, Taken: -1}, nil
	}
	return d, err
}

// reset judges a reset, and begins another life of the key.
func (w *world) reset(q request, err error, at turn) {
	w.logf("reset %s %s: %v", q.policy().Name, q.k.of, err)
	if !at.answered() {
		w.failure(q, runtime.Decision{}, err, at)
		return
	}
	if err != nil {
		w.failf("reset: %v", err)
	}
	kept := q.k.history
	q.k.history, q.k.leased, q.k.penalties = nil, nil, nil
	if seen := kept.latest(); q.k.windows.kind == sliding && len(seen) > 0 && !q.at(at.now).unlimited {
		// The later window stays the current one if the clock has gone back.
		q.k.history = history{taking(0, seen[len(seen)-1], kept[len(kept)-1].by)}
	}
	// The key keeps the window of that time.
	w.clock.earliest = at.now
	q.k.wasReset = true
	w.begin(q.k)
}

// erase judges an erasure, after which nothing is left of the key. One with an override or a block in force is refused.
func (w *world) erase(q request, err error, at turn) {
	w.logf("erase %s %s in %s: %v", q.policy().Name, q.k.of, at.where, err)
	inForce := q.k.own.block.live(at.now) || q.k.own.override.live(at.now)
	switch refused := errors.Is(err, runtime.ErrOverrideInForce); {
	case refused && (inForce || q.l.back): // an entry that has ended is in force again if the clock goes back
		return
	case w.env.Apart && at.where != "store" && errors.Is(err, runtime.ErrNoTx):
		return
	case inForce || err != nil:
		w.failf("erase: the error is %v, and an override or a block is in force: %v", err, inForce)
	}
	q.k.history, q.k.leased, q.k.penalties, q.k.deleted = nil, nil, nil, true
	// Of entries that have ended, an erasure removes those of the key, and has the store read the others again.
	w.clock.earliest = at.now
	w.begin(q.k)
}

// tooLate makes a request after the caller's deadline: it must not pass.
func (w *world) tooLate(l handle, at turn) {
	ctx, cancel := context.WithTimeout(context.Background(), -time.Second)
	want := context.DeadlineExceeded
	if w.r.IntN(2) == 0 {
		ctx, cancel = context.WithCancel(context.Background())
		cancel()
		want = context.Canceled
	}
	defer cancel()
	call := oneOf(w.r,
		func() (bool, error) { ds, err := at.limits.All(ctx, l.N(1)); return ds.Allowed, err },
		func() (bool, error) { d, err := l.AllowN(ctx, 1); return d.Allowed, err },
		func() (bool, error) { d, err := l.Charge(ctx, 1); return d.Allowed, err },
		func() (bool, error) { err := l.WaitN(ctx, 1); return err == nil, err },
	)
	if allowed, err := call(); allowed || !errors.Is(err, want) {
		w.failf("after the caller's deadline: allowed %v, error %v", allowed, err)
	}
}

// farZone makes a request for a key in a zone that is farther from UTC than any has been. It is no key, and takes nothing.
func (w *world) farZone(q request, at turn) bool {
	if t := q.at(at.now); !t.counts() || q.n > q.most(t) || q.l.traits["reserve"] == "only" {
		return false
	}
	offset := 57_601 + w.r.IntN(40_000)
	if w.r.IntN(2) == 0 {
		offset = -offset
	}
	far := q.k.of.In(time.FixedZone("far", offset))
	d, err := at.limits.Limit(q.policy(), far).AllowN(at.ctx, max(1, q.n))
	w.logf("allow %s %s %d s from UTC: %v, %v", q.policy().Name, q.k.of, offset, d, err)
	if d.Allowed || !errors.Is(err, runtime.ErrInvalidKey) {
		w.failf("a zone %d s from UTC: allowed %v, the error is %v", offset, d.Allowed, err)
	}
	return true
}

// reserve makes a reservation.
func (w *world) reserve(q request, at turn) {
	q.op, q.reserve = runtime.Take, true
	p := q.policy()
	made, err := q.reserveFrom(at.limits, at.ctx)
	r, d := made.of, made.Decision
	if r != nil {
		if want := time.Duration(min(math.MaxInt64-int64(d.Jitter), int64(d.UsableAfter))) + d.Jitter; d.Allowed && r.Delay() != want {
			w.failf("the delay with jitter is %v, want %v", r.Delay(), want)
		}
	}
	if at.gone(err) {
		w.logf("reserve %s %s plan %d n %d, and the caller has left: %v", p.Name, q.k.of, q.plan, q.n, err)
		w.departed([]request{q}, at)
		return
	}
	before := len(w.open)
	w.answer(q, d, err, at)
	switch {
	case r == nil:
	case len(w.open) > before:
		w.open[len(w.open)-1].reservation = r
	case q.n > 0 && at.answered():
		// Denied, or allowed without being counted.
		w.opened(q, d, nil).reservation = r
	}
}

// wait waits until tokens can be used.
func (w *world) wait(verb string, q request, at turn) bool {
	p, now, t := q.policy(), at.now, q.at(at.now)
	q.op, q.reserve = runtime.Take, p.Reserves() || p.Mode == runtime.ModeUnlimited && p.Overrides.MaxReserved > 0
	if len(q.l.ends(q.k, now)) > 0 || t.mode == runtime.ModeEnforce && q.reserve && !q.l.loose() && !q.passes(now) && q.n <= q.most(t) {
		// When it will have reserved cannot be seen.
		return false
	}
	bound := 3000 * time.Hour
	if w.r.IntN(2) == 0 {
		bound = time.Duration(1 + w.r.Int64N(2*int64(q.l.counted().Period)))
	}
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	limit := q.handle(at.limits)
	wait := func() error { return limit.WaitN(ctx, q.n) }
	if verb == "group wait" {
		var item limiter.ReserveItem = limit.N(q.n)
		if p.Capacity == 0 && p.Mode != runtime.ModeUnlimited {
			item = at.limits.ReserveOnly(p, q.k.of).N(q.n)
		}
		wait = func() error { return at.limits.Group(item).Wait(ctx) }
	}
	begun := time.Now()
	err := wait()
	slept := time.Since(begun)
	w.logf("%s %s %s plan %d n %d, at most %v: %v after %v", verb, p.Name, q.k.of, q.plan, q.n, bound, err, slept)
	w.waited(q, t, now, bound, slept, err)
	return true
}

// waited judges a wait that began at an instant, and has slept for some of the bound.
func (j *judge) waited(q request, t terms, now int64, bound, slept time.Duration, err error) {
	end, last := now+int64(slept), now+int64(bound)
	atOnce := func(want error) {
		if !errors.Is(err, want) || slept > 0 {
			j.failf("the wait: %v after %v, want %v at once", err, slept, want)
		}
	}
	instant, enough := end, slack(toPass)
	if q.reserve {
		instant, enough = now, func(q request, at int64) float64 { return q.after(now, at, t) }
	}
	// The first try is denied, and the others start no penalty.
	denied := q.n > 0 && q.n <= q.most(t) && t.counts() && !q.reserve &&
		(err != nil || slept > 0 || t.mode == runtime.ModeShadow && q.margin(now, t) < 0)
	before := q.k.penalized(now, t)
	if denied {
		q.k.penalize(now, t)
	}
	take := func() { j.take(q, runtime.Decision{Taken: -1}, q.at(instant), instant) }
	switch {
	case q.n == 0 || t.lifted():
		atOnce(nil)
	case t.mode == runtime.ModeBlock:
		atOnce(runtime.ErrLimited)
	case t.mode == runtime.ModeShadow && q.l.loose():
		// Whether it has taken cannot be seen, so that from now on nothing is judged by the tokens that are missing.
		take()
		q.l.back = true
	case t.mode == runtime.ModeShadow:
		atOnce(nil)
		// As one that is enforced, it does not reserve what would be due after the deadline.
		if before == 0 && q.n <= q.most(t) && q.margin(now, t) >= 0 && (!q.reserve || enough(q, last) >= 0) {
			take()
		}
	case q.n > q.most(t):
		atOnce(runtime.ErrExceedsCapacity)
	case err != nil && q.l.loose():
		if !errors.Is(err, context.DeadlineExceeded) {
			j.failf("the wait: %v after %v", err, slept)
		}
	case q.l.leased():
		q.k.leased = append(q.k.leased, use{end, q.n})
	case q.l.loose():
		take()
	case err != nil:
		atOnce(context.DeadlineExceeded)
		if enough(q, last-1_000_000) >= 0 {
			j.failf("the wait has failed although tokens can be used within %v", bound)
		}
	default:
		early := end - int64(q.l.counted().Jitter) - 2000
		if !enough.nearly(q, end) || early > now && enough(q, early) >= 0 {
			j.failf("the wait has ended too early or too late, after %v", slept)
		}
		take()
	}
}

// putInForce has an operator act, so that a wanted override is in force for the next request.
func (w *world) putInForce(q request, want string) {
	if q.l.inForce(q.k, w.clock.now()) == want {
		return
	}
	w.operate("end", q, false, "")
	if want == "block" {
		w.operate("block", q, w.r.IntN(2) == 0, "")
		return
	}
	w.operate("end", q, true, "")
	if want != "nothing" {
		w.operate("override", q, w.r.IntN(2) == 0, want)
	}
}

// operate puts an override or a block in force, or ends one. It returns false if there was nothing to do.
func (w *world) operate(verb string, q request, wholeLimit bool, what string) bool {
	ctx, now, p, own := context.Background(), w.clock.time(), q.ofFile(), &q.k.own
	o := w.limiter.Overrides(p, q.k.of)
	if wholeLimit {
		o, own = w.limiter.OverridesForAll(p), &q.l.whole
	}
	until := now.Add(time.Duration(1 + w.r.Int64N(3*int64(q.l.counted().Period)+int64(time.Second))))
	if w.r.IntN(4) == 0 {
		until = runtime.ForGood()
	}
	e := &entry{until: until.UnixNano(), Override: runtime.Override{Until: until, Reason: "a test", Author: "model"}}
	end := runtime.OverrideEnd{Reason: e.Reason, Author: e.Author}
	blocked, overridden := own.block.live(now.UnixNano()), own.override.live(now.UnixNano())
	var err error
	exists := true
	switch verb {
	case "block":
		_, err = o.Block(ctx, runtime.Block{Until: until, Reason: e.Reason, Author: e.Author})
		own.block, e.Mode = e, runtime.ModeBlock
	case "override":
		if !e.fill(w.r, q, what) {
			return false
		}
		_, err = o.Set(ctx, e.Override)
		own.override = e
	case "unblock":
		penalized := !wholeLimit && q.l.counted().Mode != runtime.ModeOff && q.k.penalizedByAny(now.UnixNano())
		_, err = o.Unblock(ctx, end)
		if exists, own.block = blocked || penalized, nil; penalized {
			q.k.penalties = nil
		}
	case "end":
		_, err = o.End(ctx, end)
		exists, *own = blocked || overridden, overrides{}
	}
	w.dropEnded()
	w.logf("%s %q of %s %v, whole limit %v, until %v: %+v: %v", verb, q.k.of, p.Name, q.plan, wholeLimit,
		until, e.Override, err)
	if exists && err != nil || !exists && !errors.Is(err, runtime.ErrNoOverride) {
		w.failf("%s: the error is %v, and there was one to end: %v", verb, err, exists)
	}
	return true
}

// dropEnded forgets entries that have ended, as a store does when it reads its log: they are not in force again if the
// clock goes back.
func (w *world) dropEnded() {
	now := w.clock.now()
	drop := func(e **entry) {
		if *e != nil && !(*e).live(now) {
			w.lastEnd, *e = max(w.lastEnd, (*e).until), nil
		}
	}
	for l, k := range w.keys() {
		for _, o := range []*overrides{&l.whole, &k.own} {
			drop(&o.block)
			drop(&o.override)
		}
	}
}

// fill chooses what an override gives.
func (e *entry) fill(r *rand.Rand, q request, what string) bool {
	choices := []string{"numbers"}
	if q.l.traits["overrides"] == "any" {
		choices = append(choices, "off", "shadow", "unlimited")
	}
	if q.l.names != nil {
		choices = append(choices, "plan")
	}
	if what == "" && len(choices) > 0 {
		what = oneOf(r, choices...)
	}
	switch p := q.ofFile(); {
	case !slices.Contains(choices, what) || what == "numbers" && p.Mode == runtime.ModeUnlimited:
		return false
	case what == "plan":
		e.plan = 1 + r.IntN(3)
		e.Plan = override.PlanName(q.l.names[e.plan])
	case what == "numbers":
		e.fillNumbers(r, p)
	default:
		e.Mode = named([]runtime.Mode{runtime.ModeOff, runtime.ModeShadow, runtime.ModeUnlimited}, what)
	}
	return true
}

func (e *entry) fillNumbers(r *rand.Rand, p *runtime.Policy) {
	least := int64(max(1, p.Shards))
	e.Rate = least + r.Int64N(p.Overrides.Rate-least+1)
	if p.Kind.Linear() && p.Capacity > 0 && r.IntN(2) == 0 {
		e.Capacity = least + r.Int64N(p.Overrides.Capacity-least+1)
	}
	if p.MaxReserved > 0 && r.IntN(2) == 0 {
		e.MaxReserved = least + r.Int64N(min(40, p.Overrides.MaxReserved-least+1))
	}
}

// edit gives a limit other numbers, as an edit of its file does.
func (w *world) edit(l *limit) {
	next := slices.Clone(l.policies)
	for i := range next {
		if p := &next[i]; p.Mode != runtime.ModeUnlimited && p.Name != "" {
			l.renumber(w.r, p, false)
		}
	}
	if !l.valid(next) {
		return
	}
	if l.names != nil {
		next.Overridable(l.names)
	}
	l.policies = next
	l.except()
	l.edits++
	w.logf("edit %+v", l.policies)
}
