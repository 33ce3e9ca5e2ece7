package model

import (
	"context"
	"errors"
	"maps"
	"math"
	"math/big"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// putInForce has an operator act, so that a wanted override is in force for the next request.
func (w *World) putInForce(l *limit, k *key, plan int, want, where string) {
	if want == "" || where != "store" || l.traits["overrides"] == "no" || l.inForce(k, plan, w.clock.now()) == want {
		return
	}
	if want == "nothing" {
		for _, whole := range []bool{false, true} {
			w.operate("end", l, k, plan, whole, "")
		}
		return
	}
	w.operate("end", l, k, plan, false, "")
	if want == "block" {
		w.operate("block", l, k, plan, w.r.IntN(2) == 0, "")
		return
	}
	w.operate("end", l, k, plan, true, "")
	w.operate("override", l, k, plan, w.r.IntN(2) == 0, want)
}

// operate puts an override or a block in force, or ends one. It returns false if there was nothing to do.
func (w *World) operate(verb string, l *limit, k *key, plan int, wholeLimit bool, what string) bool {
	now := w.clock.Now()
	p, own := l.of(plan), &k.own
	o := w.limiter.Overriding(p, k.of)
	if wholeLimit {
		o, own = w.limiter.WholeLimit(p), &l.whole
	}
	until := now.Add(time.Duration(1 + w.r.Int64N(3*int64(l.counted().Period)+int64(time.Second))))
	if w.r.IntN(4) == 0 {
		until = runtime.ForGood
	}
	e := &entry{until: until.UnixNano()}
	e.Override = runtime.Override{Until: until, Reason: "a test", Author: "model"}
	end := runtime.OverrideEnd{Reason: "a test", Author: "model"}
	var err, want error
	switch verb {
	case "block":
		_, err = o.Block(context.Background(), runtime.Block{Until: until, Reason: "a test", Author: "model"})
		own.block = e
	case "override":
		if !w.fillOverride(l, e, plan, what) {
			return false
		}
		_, err = o.Override(context.Background(), e.Override)
		own.override = e
	case "unblock":
		if !own.block.live(w.clock.now()) {
			want = runtime.ErrNoOverride
		}
		if _, err = o.Unblock(context.Background(), end); err == nil {
			own.block = nil
		}
	case "end":
		if !own.block.live(w.clock.now()) && !own.override.live(w.clock.now()) {
			want = runtime.ErrNoOverride
		}
		if _, err = o.EndOverride(context.Background(), end); err == nil {
			*own = overrides{}
		}
	}
	w.dropEnded()
	w.logf("%s %q of %s %v, whole limit %v, until %v: %+v: %v", verb, k.of, p.Name, plan, wholeLimit, until, e.Override, err)
	if !errors.Is(err, want) || (err == nil) != (want == nil) {
		w.failf("%s: the error is %v, want %v", verb, err, want)
	}
	return true
}

// dropEnded forgets entries that have ended, as a store does when it reads its log: they are not in force again if the clock goes back.
func (w *World) dropEnded() {
	now := w.clock.now()
	drop := func(o *overrides) {
		if !o.block.live(now) {
			o.block = nil
		}
		if !o.override.live(now) {
			o.override = nil
		}
	}
	for _, l := range w.limits {
		drop(&l.whole)
		for _, k := range l.keys {
			drop(&k.own)
		}
	}
}

// fillOverride chooses what an override gives.
func (w *World) fillOverride(l *limit, e *entry, plan int, what string) bool {
	choices := []string{"numbers"}
	if l.traits["kind"] == "precise" {
		choices = nil
	}
	if l.traits["overrides"] == "any" {
		choices = append(choices, "off", "shadow", "unlimited")
	}
	if l.names != nil {
		choices = append(choices, "plan")
	}
	if what == "" && len(choices) > 0 {
		what = oneOf(w.r, choices...)
	}
	if !slices.Contains(choices, what) {
		return false
	}
	p := l.of(plan)
	switch what {
	case "plan":
		e.plan = 1 + w.r.IntN(3)
		e.Plan = runtime.PlanText(l.names[e.plan])
	case "off":
		e.Mode = runtime.ModeOff
	case "shadow":
		e.Mode = runtime.ModeShadow
	case "unlimited":
		e.Mode = runtime.ModeUnlimited
	case "numbers":
		if p.Mode == runtime.ModeUnlimited {
			return false
		}
		least := int64(max(1, p.Shards))
		e.Rate = least + w.r.Int64N(p.Overrides.Rate-least+1)
		if p.Kind.Linear() && p.Capacity > 0 && w.r.IntN(2) == 0 {
			e.Capacity = least + w.r.Int64N(p.Overrides.Capacity-least+1)
		}
		if p.MaxReserved > 0 && w.r.IntN(2) == 0 {
			e.MaxReserved = least + w.r.Int64N(min(40, p.Overrides.MaxReserved-least+1))
		}
	}
	return true
}

// deadline is the caller's, for a store that is silent.
const deadline = 50 * time.Millisecond

// perform sends the request of a verb, and judges the answer. It returns false if the verb does not apply.
func (w *World) perform(limiter *runtime.Limiter, verb string, q request, state, where string) bool {
	ctx := context.Background()
	if state == "silent" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, deadline)
		defer cancel()
	}
	p, k := q.l.of(q.plan), q.k.of
	limit := limiter.Limit(p, k)
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
		return w.reserve(ctx, limiter, q, now, state, where)
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
		return w.giveBack(ctx, limiter, verb, q, state, where)
	case "all", "group check", "group reserve":
		return w.together(ctx, limiter, verb, q, state, where)
	case "wait", "group wait":
		return w.wait(limiter, verb, q)
	case "too late":
		return w.tooLate(limiter, q)
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

// forgetSwept forgets the history of keys whose rows a sweep has deleted: they have been full for an hour by the numbers of
// every plan and of the override in force, and longer for calendars.
func (w *World) forgetSwept() {
	for _, l := range w.limits {
		for _, k := range l.keys {
			now := w.clock.now() - int64(time.Hour)
			if k.windows.kind == calendar {
				now -= int64(47 * time.Hour)
			}
			if l.traits["kind"] == "calendar by key" {
				now -= int64(l.counted().Period) * 9 / 8
			}
			full := k.windows.kind != firstUse || k.history.windowEnd(now, k.termsOf(l.counted())) == 0
			for i := range l.policies {
				if t := l.at(k, i, w.clock.now()); t.rate > 0 {
					full = full && k.history.missing(now, t, false).Sign() == 0
				}
				if t := k.termsOf(l.of(i)); t.rate > 0 {
					full = full && k.history.missing(now, t, false).Sign() == 0
				}
			}
			for _, at := range k.history.latest() {
				full = full && at <= now
			}
			if full {
				k.history = nil
				w.begin(k)
			}
		}
	}
}

// begin begins another life of a key.
func (w *World) begin(k *key) {
	w.lives++
	k.life, k.seen, k.reported = w.lives, nil, false
}

// policies returns the policies of all plans.
func (w *World) policies() (all []*runtime.Policy) {
	for _, l := range w.limits {
		for i := range l.policies {
			if i > 0 || l.names == nil {
				all = append(all, l.of(i))
			}
		}
	}
	return all
}

// requireN returns what AllowN would.
func requireN(ctx context.Context, l runtime.Limit, n int64) (d runtime.Decision, err error) {
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

// edit gives a limit other numbers, as an edit of its file does.
func (w *World) edit(l *limit) {
	next := slices.Clone(l.policies)
	for i := range next {
		if p := &next[i]; p.Mode != runtime.ModeUnlimited && p.Name != "" {
			l.renumber(w.r, p, false)
		}
	}
	for i := range next {
		if (i > 0 || l.names == nil) && next[i].Validate() != nil {
			return
		}
	}
	if l.names != nil {
		next.Overridable(l.names)
	}
	l.policies = next
	l.edits++
	w.logf("edit %+v", l.policies)
}

// tooLate makes a request after the caller's deadline: it must not pass.
func (w *World) tooLate(limiter *runtime.Limiter, q request) bool {
	ctx, cancel := context.WithTimeout(context.Background(), -time.Second)
	want := context.DeadlineExceeded
	if w.r.IntN(2) == 0 {
		ctx, cancel = context.WithCancel(context.Background())
		cancel()
		want = context.Canceled
	}
	defer cancel()
	p := q.l.of(q.plan)
	calls := map[string]func() (bool, error){
		"Allow":  func() (bool, error) { d, err := limiter.Limit(p, q.k.of).Allow(ctx); return d.Allowed, err },
		"All":    func() (bool, error) { d, err := limiter.All(ctx, limiter.Limit(p, q.k.of)); return d.Allowed, err },
		"Charge": func() (bool, error) { d, err := limiter.Limit(p, q.k.of).Charge(ctx, 1); return d.Allowed, err },
		"Wait":   func() (bool, error) { err := limiter.Limit(p, q.k.of).Wait(ctx); return err == nil, err },
	}
	names := slices.Sorted(maps.Keys(calls))
	name := oneOf(w.r, names...)
	if allowed, err := calls[name](); allowed || !errors.Is(err, want) {
		w.failf("%s after the caller's deadline: allowed %v, error %v", name, allowed, err)
	}
	return true
}

// reserve makes a reservation.
func (w *World) reserve(ctx context.Context, limiter *runtime.Limiter, q request, now int64, state, where string) bool {
	p := q.l.of(q.plan)
	var r *runtime.Reservation
	var err error
	if p.Capacity == 0 {
		r, err = limiter.ReserveOnly(p, q.k.of).ReserveN(ctx, q.n)
	} else {
		r, err = limiter.Reservable(p, q.k.of).ReserveN(ctx, q.n)
	}
	var d runtime.Decision
	if r != nil {
		d = r.Decision
		if want := time.Duration(min(math.MaxInt64-int64(d.Jitter), int64(d.Delay))) + d.Jitter; d.Allowed && r.Delay() != want {
			w.failf("the delay with jitter is %v, want %v", r.Delay(), want)
		}
	}
	before := len(w.open)
	w.judge(q, d, err, now, state, where)
	switch {
	case r == nil:
	case len(w.open) > before:
		w.open[len(w.open)-1].reservation = r
	case q.n > 0 && state == "answers":
		// Denied, or allowed without being counted.
		w.open = append(w.open, &taken{request: q, d: d, reservation: r, tx: w.tx, life: q.k.life, sweeps: w.sweeps, edits: q.l.edits})
	}
	return true
}

// giveBack settles a reservation, or refunds a decision.
func (w *World) giveBack(ctx context.Context, limiter *runtime.Limiter, verb string, q request, state, where string) bool {
	if state == "answers" && w.r.IntN(4) == 0 && w.twice(ctx, limiter, verb, q) {
		return true
	}
	earlier := w.r.IntN(2) == 0 // from an earlier life of the key, if it had one
	find := func() int {
		if i := slices.IndexFunc(w.open, func(t *taken) bool {
			return earlier && t.l == q.l && t.life != t.k.life && t.event != nil && (t.tx == w.tx || w.tx == 0) && (verb == "refund" || t.reservation != nil)
		}); i >= 0 {
			return i
		}
		return slices.IndexFunc(w.open, func(t *taken) bool {
			// A reservation of the store cannot be settled in a transaction.
			return t.l == q.l && (verb == "refund" && t.event != nil || verb != "refund" && t.reservation != nil && (t.tx == w.tx || w.tx == 0))
		})
	}
	i := find()
	if i < 0 && state == "answers" {
		first := oneOf(w.r, "all", "group reserve", "reserve")
		if verb == "refund" {
			first = oneOf(w.r, "allow", "allow up to", "charge")
		}
		if first == "reserve" && !q.l.counted().Reserves() {
			return false
		}
		w.perform(limiter, first, q, state, where)
		i = find()
	}
	if i < 0 || w.err != nil {
		return false
	}
	t := w.open[i]
	if t.life != t.k.life && state == "answers" {
		// So that there is something that could be given back wrongly.
		w.perform(limiter, "charge", request{l: t.l, k: t.k, plan: t.plan, n: 1 + t.n}, state, where)
	}
	now := w.clock.now()
	if t.l.traits["shards"] != "1" && t.l.traits["lease"] != "yes" && state == "answers" {
		// What a first request of this step has taken is gone.
		t.k.just = math.NaN()
		w.lookAt(limiter, t.l, t.k, t.plan)
	}
	in := t.l.at(t.k, t.plan, now)
	if in.unlimited && in.mode == runtime.ModeBlock {
		return false
	}
	if t.life != t.k.life {
		// A reset by a plan without numbers deletes the row. The next one of a sliding window does not say when it was made, and
		// others do not if they are made at once. Then tokens of others would be given back, as a log does at one instant.
		deleted, atOnce := len(t.l.policies) > 1, slices.Contains(t.k.history.latest(), t.d.TakenAt.UnixNano())
		if deleted && t.k.windows.kind == sliding || (deleted || t.k.windows.kind == precise) && atOnce {
			return false
		}
	}
	used := t.n
	var err error
	switch verb {
	case "refund":
		n := oneOf(w.r, 0, 1, t.n, t.n+3, w.r.Int64N(t.n+1))
		_, err = limiter.Limit(t.l.of(t.plan), t.k.of).RefundN(ctx, t.d, n)
		// In shadow mode, more may be used than was taken.
		used = min(t.n, t.d.Taken-min(n, t.d.Taken))
	case "cancel":
		used = 0
		err = t.reservation.Cancel(ctx)
	case "settle":
		if used = w.r.Int64N(t.n + 3); t.edits != t.l.edits {
			used = min(used, t.n)
		}
		err = t.reservation.Settle(ctx, used)
	}
	w.logf("%s %s %s: %d used of %d, taken at %v: %v", verb, t.l.of(t.plan).Name, t.k.of, used, t.n, t.d.TakenAt.UTC(), err)
	if state != "answers" {
		if err == nil && in.counts() && used != t.n && t.event != nil && verb != "refund" {
			w.failf("settled with a store that %s", state)
		}
		if err == nil {
			w.open = slices.Delete(w.open, i, i+1)
		}
		return true
	}
	w.open = slices.Delete(w.open, i, i+1)
	if t.event == nil && !t.d.Allowed {
		if !errors.Is(err, runtime.ErrNotReserved) {
			w.failf("%s of a denied reservation: %v", verb, err)
		}
		return true
	}
	if err != nil {
		w.failf("%s: %v", verb, err)
		return true
	}
	if used != t.n || verb != "refund" {
		// A refund of no tokens is none.
		w.closed = append(w.closed, t)
	}
	w.Settled++
	if t.l.traits["lease"] == "yes" {
		t.k.returned = true
		return true
	}
	if t.life != t.k.life && used <= t.n {
		return true // nothing is given back
	}
	if t.event == nil || in.lifted() || t.reservation != nil && !t.event.by.counts() {
		return true
	}
	if used > t.n {
		t.k.history = append(t.k.history, &event{now: now, tokens: whole(used - t.n), used: whole(used - t.n), by: in})
		return true
	}
	w.givenBack(limiter, t, now, in, used)
	return true
}

// twice tries again to give back tokens that were given back. It returns false without any.
func (w *World) twice(ctx context.Context, limiter *runtime.Limiter, verb string, q request) bool {
	i := slices.IndexFunc(w.closed, func(t *taken) bool {
		return t.l == q.l && t.tx == 0 && (verb == "refund" && t.event != nil || verb != "refund" && t.reservation != nil)
	})
	if i < 0 {
		return false
	}
	t := w.closed[i]
	var err, want error
	switch verb {
	case "refund":
		_, err = limiter.Limit(t.l.of(t.plan), t.k.of).RefundN(ctx, t.d, t.n)
	case "cancel":
		err, want = t.reservation.Cancel(ctx), runtime.ErrNotReserved
	default:
		err, want = t.reservation.Settle(ctx, w.r.Int64N(t.n+3)), runtime.ErrNotReserved
	}
	w.logf("%s again of %d by %s %s: %v", verb, t.n, t.l.of(t.plan).Name, t.k.of, err)
	if !errors.Is(err, want) {
		w.failf("%s a second time: the error is %v, want %v", verb, err, want)
	}
	w.compare(limiter, t.l, t.k, t.plan, "after a second "+verb)
	return true
}

// together takes from several limits at once.
func (w *World) together(ctx context.Context, limiter *runtime.Limiter, verb string, first request, state, where string) bool {
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
	var items []runtime.Item
	var reserving []runtime.ReserveItem
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
		handle := limiter.Limit(p, q.k.of)
		switch {
		case only:
			reserving = append(reserving, limiter.ReserveOnly(p, q.k.of).N(q.n))
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
	var ds runtime.Decisions
	var rs *runtime.Reservations
	var err error
	switch verb {
	case "all":
		ds, err = limiter.All(ctx, items...)
	case "group check":
		ds, err = limiter.Group(reserving...).Check(ctx)
	default:
		if rs, err = limiter.Group(reserving...).Reserve(ctx); err == nil {
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

// wait waits until tokens can be used.
func (w *World) wait(limiter *runtime.Limiter, verb string, q request) bool {
	p := q.l.of(q.plan)
	now := w.clock.now()
	t := q.l.at(q.k, q.plan, now)
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
	limit := limiter.Limit(p, q.k.of)
	var err error
	begun := time.Now()
	if verb == "wait" {
		err = limit.WaitN(ctx, q.n)
	} else {
		var item runtime.ReserveItem = limit.N(q.n)
		if p.Capacity == 0 && p.Mode != runtime.ModeUnlimited {
			item = limiter.ReserveOnly(p, q.k.of).N(q.n)
		}
		err = limiter.Group(item).Wait(ctx)
	}
	slept := time.Since(begun)
	w.logf("%s %s %s plan %d n %d, at most %v: %v after %v", verb, p.Name, q.k.of, q.plan, q.n, bound, err, slept)
	switch {
	case q.n == 0 || t.lifted():
		if err != nil || slept > 0 {
			w.failf("the wait for nothing: %v after %v", err, slept)
		}
	case t.mode == runtime.ModeBlock:
		if !errors.Is(err, runtime.ErrLimited) || slept > 0 {
			w.failf("the wait for a blocked key: %v after %v", err, slept)
		}
	case t.mode == runtime.ModeShadow && q.l.loose():
		// Whether it has taken cannot be seen.
		q.k.history, q.l.back = nil, true
		w.open = slices.DeleteFunc(w.open, func(t *taken) bool { return t.k == q.k })
	case t.mode == runtime.ModeShadow:
		if err != nil || slept > 0 {
			w.failf("the wait in shadow mode: %v after %v", err, slept)
		}
		// As one that is enforced, it does not reserve what would be due after the deadline.
		if q.n <= q.most(t) && q.margin(now, t).Sign() >= 0 && (!q.reserve || q.usable(now, now+int64(bound), t)) {
			w.take(q, runtime.Decision{Taken: -1}, t, now, q.n)
		}
	case q.n > q.most(t):
		if !errors.Is(err, runtime.ErrExceedsCapacity) {
			w.failf("the wait for more than can pass: %v", err)
		}
	case q.l.loose():
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			w.failf("the wait: %v after %v", err, slept)
		}
		switch {
		case err != nil:
		case q.l.traits["lease"] == "yes":
			q.k.leased = append(q.k.leased, use{now + int64(slept), q.n})
		case q.reserve:
			w.take(q, runtime.Decision{Taken: -1}, t, now, q.n)
		default:
			w.take(q, runtime.Decision{Taken: -1}, t, now+int64(slept), q.n)
		}
	case err != nil:
		if !errors.Is(err, context.DeadlineExceeded) || slept > 0 {
			w.failf("the wait: %v after %v", err, slept)
		}
		last := now + int64(bound) - 1_000_000
		if t.reserved == 0 && q.margin(last, t).Sign() >= 0 || t.reserved > 0 && q.usable(now, last, t) {
			w.failf("the wait has failed although tokens can be used within %v", bound)
		}
	case q.reserve:
		if !q.usableNearly(now, now+int64(slept), t) {
			w.failf("the wait for a reservation has ended too early, after %v", slept)
		}
		if early := now + int64(slept) - int64(q.l.counted().Jitter) - 2000; early > now && q.usable(now, early, t) {
			w.failf("the wait for a reservation has ended too late, after %v", slept)
		}
		w.take(q, runtime.Decision{Taken: -1}, t, now, q.n)
	default:
		end := now + int64(slept)
		if !q.mayPass(end) {
			w.failf("the wait has ended too early, after %v", slept)
		}
		if early := end - int64(q.l.counted().Jitter) - 2000; early > now && q.passes(early) {
			w.failf("the wait has ended too late, after %v", slept)
		}
		w.take(q, runtime.Decision{Taken: -1}, q.l.at(q.k, q.plan, end), end, q.n)
	}
	return true
}
