package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// AgreeSlots makes random requests to limits in flight, at least as many as given, and compares the answers with the
// model of slots: a list of who holds how many until when. Some holders crash, and some renew or release late.
func AgreeSlots(t *testing.T, name string, least int, open func(*testing.T, *Clock) Env) {
	all, begun := counts{}, time.Now()
	for n := 0; all.requests < max(least, *steps); n++ {
		all.agree(t, n, func(t *testing.T, r *rand.Rand, clock *Clock) (*journal, error) {
			w := newSlotWorld(r, fmt.Sprintf("%sslots %d", name, n), clock, open(t, clock))
			w.run(requestsOfWorld)
			return &w.journal, w.report(w.policy)
		})
	}
	t.Logf("%d requests agree, %.0f a second, of which %d have found that a slot was lost; %d callers have left",
		all.requests, float64(all.requests)/time.Since(begun).Seconds(), all.lost, all.departed)
}

// slotWorld is a limit in flight, and what its keys hold.
type slotWorld struct {
	journal
	r      *rand.Rand
	env    Env
	store  *breakable
	limits *limiter.Limiter
	tokens *runtime.Policy
	policy *runtime.Policy
	keys   []*slotKey
	// back means that the clock has gone back.
	back bool
}

// slotKey is a key, with those that hold slots until an end, and those that have a slot in hand, held or not.
type slotKey struct {
	of     runtime.Key
	all    []*slotHolder
	inHand []*slotHolder
	// largest is the largest fence, and deleted that no row may have it: then only the clock makes the next one larger.
	largest int64
	deleted bool
	// slots are those of an override, 0 without one, and mode the one that an override gives in its place.
	slots   int64
	mode    runtime.Mode
	blocked bool
	tokens  int64
}

type slotHolder struct {
	slot *limiter.Slot
	// reservations has the slot too, or is nil, and cancelled means that it was cancelled.
	reservations *limiter.Reservations
	cancelled    bool
	n            int64
	end          int64
	// hold is the policy's, and local the end by the clock of the process.
	hold  time.Duration
	local time.Time
	// released means that a Release has succeeded, and uncertain that the last one has failed.
	released, uncertain bool
}

func newSlotWorld(r *rand.Rand, name string, clock *Clock, env Env) *slotWorld {
	w := &slotWorld{journal: journal{clock: clock}, r: r, env: env,
		store: &breakable{Backend: env.Backend, state: "answers", clock: clock}}
	slots := 1 + r.Int64N(6)
	w.policy = &runtime.Policy{
		Name: name, Kind: runtime.InFlight, Slots: slots, Hold: w.randomHold(),
		Mode: oneOf(r, runtime.ModeEnforce, runtime.ModeEnforce, runtime.ModeShadow, runtime.ModeOff, runtime.ModeBlock),
	}
	if r.IntN(2) == 0 {
		w.policy.Overrides = runtime.OverrideBounds{Slots: 2 * slots, Unlimited: r.IntN(2) == 0}
	}
	w.tokens = &runtime.Policy{Name: name + " tokens", Kind: runtime.FixedWindow, Rate: 20, Capacity: 20,
		Period: runtime.MaxPeriod, Start: runtime.StartOffset(0)}
	for i := range 1 + r.IntN(2) {
		w.keys = append(w.keys, &slotKey{of: runtime.KeyOf(runtime.Int(i)), tokens: 20})
	}
	w.migrate(env, w.policy, w.tokens)
	w.limits = limiter.New(w.store)
	return w
}

func (w *slotWorld) randomHold() time.Duration {
	return oneOf(w.r, time.Millisecond, time.Second, time.Minute, 3*time.Hour)
}

func (w *slotWorld) run(requests int) {
	for i := 0; i < requests && w.err == nil; i++ {
		switch w.r.IntN(12) {
		case 0:
			time.Sleep(w.policy.Hold)
		case 1, 2, 3, 4, 5:
			time.Sleep(time.Duration(w.r.Int64N(int64(w.policy.Hold))))
		case 6:
			if w.r.IntN(4) == 0 {
				w.back = true
				w.clock.goBack(w.r, int64(w.policy.Hold))
				for _, k := range w.keys {
					if k.deleted {
						k.largest = 0
					}
				}
			}
		}
		k := oneOf(w.r, w.keys...)
		switch n := w.r.IntN(16); {
		case n < 2:
			w.transaction(k)
		case n == 2:
			w.crowd(k)
		case n == 3:
			w.noTx(k)
		default:
			w.step(k)
		}
		w.counts.requests++
		w.compare(k)
	}
}

// live returns those that hold slots of a key at an instant, in the order of their ends.
func (k *slotKey) live(now int64) (all []*slotHolder, used int64) {
	for _, h := range k.all {
		if h.end > now {
			all, used = append(all, h), used+h.n
		}
	}
	slices.SortStableFunc(all, func(a, b *slotHolder) int { return int(min(1, max(-1, a.end-b.end))) })
	return all, used
}

// change drops those whose holds have ended, as every change of a key does: they hold nothing if the clock goes back
// later.
func (k *slotKey) change(now int64) { k.all, _ = k.live(now) }

func (k *slotKey) holds(h *slotHolder, now int64) bool {
	return slices.Contains(k.all, h) && h.end > now
}

// inForce returns the slots and the mode in force for a key.
func (w *slotWorld) inForce(k *slotKey) (slots int64, mode runtime.Mode) {
	slots, mode = cmp.Or(k.slots, w.policy.Slots), w.policy.Mode
	switch {
	case k.blocked:
		mode = runtime.ModeBlock
	case k.mode != runtime.ModeEnforce:
		mode = k.mode
	}
	return slots, mode
}

// step makes a request of a key, mostly one of a holder.
func (w *slotWorld) step(k *slotKey) {
	w.store.state = oneOf(w.r, "answers", "answers", "answers", "answers", "answers", "answers", "fails", "loses")
	defer func() { w.store.state = "answers" }()
	switch n := w.r.IntN(20); {
	case n < 3:
		w.store.state = "answers"
		w.operate(k)
	case n == 3 && len(k.inHand) > 0:
		// A holder crashes: its slots are held until their end.
		at := w.r.IntN(len(k.inHand))
		k.inHand = slices.Delete(k.inHand, at, at+1)
		w.logf("crash")
	default:
		w.request(w.limits, k)
	}
}

// request makes a request that may be part of a transaction.
func (w *slotWorld) request(limits *limiter.Limiter, k *slotKey) {
	switch n := w.r.IntN(17); {
	case n < 6:
		w.acquire(limits, k)
	case n < 7:
		w.together(limits, k)
	case n < 8:
		w.check(limits, k)
	case n < 11:
		w.ofHolder(k, "renew")
	case n < 12:
		w.cancel(k)
	default:
		w.ofHolder(k, "release")
	}
}

// acquire acquires some slots.
func (w *slotWorld) acquire(limits *limiter.Limiter, k *slotKey) {
	n := oneOf(w.r, 0, 1, 1, 1, 2, 3, 1+w.r.Int64N(8))
	now := w.clock.now()
	var rs *limiter.Reservations
	acquire := limits.Slots(w.policy, k.of).AcquireN
	if w.r.IntN(4) == 0 {
		acquire = func(ctx context.Context, n int64) (*limiter.Slot, error) {
			var err error
			if rs, err = limits.ReserveAll(ctx, limits.Slots(w.policy, k.of).ItemN(n)); err != nil {
				return nil, err
			}
			if s, ok := rs.Slot(0); ok {
				return s, nil
			}
			return &limiter.Slot{Decision: rs.Each[0]}, nil
		}
	}
	s, err := acquire(context.Background(), n)
	w.logf("acquire %d of %v, the store %s, reserved %v: %v, %v", n, k.of, w.store.state, rs != nil, s, err)
	slots, mode := w.inForce(k)
	_, used := k.live(now)
	fits := used+n <= slots
	switch counted := mode == runtime.ModeEnforce || mode == runtime.ModeShadow; {
	case counted && w.store.state != "answers":
		passes := mode == runtime.ModeShadow && err == nil && (n > slots || s.FailedOpen != nil)
		refused := mode == runtime.ModeEnforce && n > slots && errors.Is(err, runtime.ErrExceedsCapacity)
		if !passes && !refused && !errors.Is(err, errBroken) {
			w.failf("acquire while the store %s: %v", w.store.state, err)
		}
		if w.store.state == "loses" && fits && n > 0 {
			k.change(now)
			k.all = append(k.all, &slotHolder{n: n, end: now + int64(w.policy.Hold)})
		}
	case mode == runtime.ModeEnforce && n > slots:
		if !errors.Is(err, runtime.ErrExceedsCapacity) {
			w.failf("acquire %d of %d: %v", n, slots, err)
		}
	case err != nil:
		w.failf("acquire: %v", err)
	case n == 0, !counted && mode != runtime.ModeBlock, mode == runtime.ModeShadow && !fits:
		if !s.Allowed || s.Fence != 0 {
			w.failf("a slot that holds nothing is %v with the fence %d", s, s.Fence)
		}
	case mode == runtime.ModeBlock:
		if s.Allowed || s.RetryAfter != runtime.Never {
			w.failf("a blocked key: %v", s)
		}
	case !fits:
		if s.Allowed || s.RetryAfter != w.free(k, now, slots, n) {
			w.failf("%d of %d are used: %v, want a denial for %v", used, slots, s, w.free(k, now, slots, n))
		}
	default:
		if w.acquired(k, s, n, now); w.err == nil {
			k.inHand[len(k.inHand)-1].reservations = rs
		}
	}
}

// crowd has several callers acquire slots at once, of which some leave meanwhile: these hold none.
func (w *slotWorld) crowd(k *slotKey) {
	most, mode := w.inForce(k)
	now := w.clock.now()
	live, used := k.live(now)
	soon := func(h *slotHolder) bool { return h.end-now < int64(time.Second) }
	if mode != runtime.ModeEnforce || w.policy.Hold < time.Minute || slices.ContainsFunc(live, soon) {
		return // or holds may end before all callers have left
	}
	n := 1 + w.r.Int64N(min(2, most))
	slots, wait := w.limits.Slots(w.policy, k.of), make([]bool, 2+w.r.IntN(5))
	for i := range wait {
		wait[i] = w.r.IntN(4) == 0
	}
	results, errs := make([]*limiter.Slot, len(wait)), make([]error, len(wait))
	crowd(w.r, w.clock, len(wait), func(i int, ctx context.Context) {
		if wait[i] {
			ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			defer cancel()
			results[i], errs[i] = slots.WaitAcquireN(ctx, n)
			return
		}
		results[i], errs[i] = slots.AcquireN(ctx, n)
	})
	left, denied, held := 0, 0, []*limiter.Slot(nil)
	for i, s := range results {
		w.logf("acquire %d of %v at once, waiting %v: %v, %v", n, k.of, wait[i], s, errs[i])
		switch {
		case errors.Is(errs[i], context.Canceled), wait[i] && errors.Is(errs[i], context.DeadlineExceeded):
			left++
		case errs[i] != nil:
			w.failf("acquire: %v", errs[i])
		case !s.Allowed:
			denied++
		default:
			used += n
			held = append(held, s)
		}
	}
	slices.SortFunc(held, func(a, b *limiter.Slot) int { return cmp.Compare(a.Fence, b.Fence) })
	for _, s := range held {
		w.acquired(k, s, n, now)
	}
	if used > most && n > 0 && len(held) > 0 {
		w.failf("%d of %d slots are held", used, most)
	}
	if left == 0 && denied > 0 && used+n <= most {
		w.failf("denied, and %d of %d slots are held", used, most)
	}
	if w.counts.departed += left; left > 0 {
		synctest.Wait()
		time.Sleep(2 * time.Second)
		// Of slots that were given back, only the store knows the fences.
		w.clock.earliest = max(w.clock.earliest, w.clock.now())
	}
}

// noTx acquires in what is no transaction: it fails, and holds nothing.
func (w *slotWorld) noTx(k *slotKey) {
	limits, done, want := w.env.noTx(w.r, w.limits)
	defer done()
	s, err := limits.Slots(w.policy, k.of).Acquire(context.Background())
	w.logf("acquire in no transaction: %v, %v", s, err)
	slots, mode := w.inForce(k)
	if counted := mode == runtime.ModeEnforce || mode == runtime.ModeShadow; !counted || slots < 1 {
		return
	}
	if !errors.Is(err, want) || s != nil && s.Allowed {
		w.failf("acquire in no transaction: %v, %v", s, err)
	}
}

// free returns how long it takes until n slots are free if no one renews or releases.
func (w *slotWorld) free(k *slotKey, now, slots, n int64) time.Duration {
	all, used := k.live(now)
	for _, h := range all {
		if used -= h.n; used+n <= slots {
			return time.Duration(h.end - now)
		}
	}
	return runtime.Never
}

func (w *slotWorld) acquired(k *slotKey, s *limiter.Slot, n, now int64) {
	if !s.Allowed || s.Fence <= k.largest || s.TakenAt.UnixNano() != now || s.Taken != n {
		w.failf("%v with the fence %d of %d, taken at %v, want it to hold", s, s.Fence, k.largest, s.TakenAt)
		return
	}
	k.largest, k.deleted = s.Fence, false
	hold := w.policy.Hold
	k.change(now)
	h := &slotHolder{slot: s, n: n, end: now + int64(hold), hold: hold, local: time.Now().Add(hold)}
	k.all, k.inHand = append(k.all, h), append(k.inHand, h)
}

// together acquires a slot and takes tokens, or neither.
func (w *slotWorld) together(limits *limiter.Limiter, k *slotKey) {
	w.store.state = "answers"
	n, now := 1+w.r.Int64N(2), w.clock.now()
	ds, err := limits.All(context.Background(), limits.Limit(w.tokens, k.of).N(4), limits.Slots(w.policy, k.of).ItemN(n))
	w.logf("acquire %d with 4 of %d tokens: %v, %v", n, k.tokens, ds, err)
	slots, mode := w.inForce(k)
	if refused := mode == runtime.ModeEnforce && n > slots; refused || err != nil {
		if !refused || !errors.Is(err, runtime.ErrExceedsCapacity) {
			w.failf("together: %v", err)
		}
		return
	}
	_, used := k.live(now)
	fits := used+n <= slots
	passes := fits || mode == runtime.ModeShadow || mode == runtime.ModeOff
	if want := k.tokens >= 4 && passes && mode != runtime.ModeBlock; ds.Allowed != want {
		w.failf("together: %v with %d of %d used and %d tokens", ds, used, slots, k.tokens)
	}
	if !ds.Allowed {
		return
	}
	k.tokens -= 4
	s, _ := ds.Slot(1)
	if fits && mode != runtime.ModeOff {
		w.acquired(k, s, n, now)
	}
}

// ofHolder has one of those that have a slot in hand renew or release it.
func (w *slotWorld) ofHolder(k *slotKey, verb string) {
	if len(k.inHand) == 0 {
		return
	}
	h := oneOf(w.r, k.inHand...)
	now, state := w.clock.now(), w.store.state
	held := k.holds(h, now)
	run := h.slot.Renew
	if verb == "release" {
		run = h.slot.Release
	}
	err := run(context.Background())
	w.logf("%s %d, the store %s: %v", verb, h.slot.Fence, state, err)
	done := held && state != "fails"
	want, freed := runtime.ErrSlotLost, h.uncertain && time.Now().Before(h.local)
	switch {
	case verb == "release" && h.released:
		done = false
	case state != "answers":
		want = errBroken
	case held, verb == "release" && freed:
		want = nil
	default:
		w.counts.lost++
	}
	_, mode := w.inForce(k)
	if errors.Is(want, runtime.ErrSlotLost) && mode == runtime.ModeShadow {
		want = nil
	}
	if !errors.Is(err, want) {
		w.failf("%s of a slot that is held %v: %v, want %v", verb, held, err, want)
	}
	// A Release after one with an unknown answer writes in any case, so that the other one has no effect later.
	if done || verb == "release" && freed && !h.released && state != "fails" {
		k.change(now)
	}
	switch {
	case done && verb == "renew":
		h.end = now + int64(h.hold)
	case done:
		k.all = slices.DeleteFunc(k.all, func(of *slotHolder) bool { return of == h })
	}
	switch {
	case verb == "renew" && err == nil && held:
		h.local = time.Now().Add(h.hold)
	case verb == "release" && !h.released:
		h.uncertain = state != "answers"
		h.released = state == "answers" && (held || freed)
		if h.released || !held && state == "answers" {
			k.inHand = slices.DeleteFunc(k.inHand, func(of *slotHolder) bool { return of == h && w.r.IntN(3) > 0 })
		}
	}
}

// cancel has one of those that have reserved a slot cancel that, whether it is still held or not.
func (w *slotWorld) cancel(k *slotKey) {
	at := slices.IndexFunc(k.inHand, func(h *slotHolder) bool { return h.reservations != nil })
	if at < 0 {
		return
	}
	h, now, state := k.inHand[at], w.clock.now(), w.store.state
	err := h.reservations.Cancel(context.Background())
	w.logf("cancel %d, the store %s: %v", h.slot.Fence, state, err)
	want := error(nil)
	switch {
	case h.cancelled:
		want = runtime.ErrNotReserved
	case state != "answers":
		want = errBroken
	}
	if !errors.Is(err, want) {
		w.failf("cancel of a slot: %v, want %v", err, want)
	}
	if state == "fails" || h.cancelled {
		return
	}
	h.cancelled = state == "answers"
	if k.holds(h, now) {
		k.change(now)
		k.all = slices.DeleteFunc(k.all, func(of *slotHolder) bool { return of == h })
	}
}

// check compares a Check.
func (w *slotWorld) check(limits *limiter.Limiter, k *slotKey) {
	w.store.state = "answers"
	slots, mode := w.inForce(k)
	n, now := 1+w.r.Int64N(slots), w.clock.now()
	d, err := limits.Slots(w.policy, k.of).CheckN(context.Background(), n)
	w.logf("check %d: %v, %v", n, d, err)
	_, used := k.live(now)
	want := mode != runtime.ModeBlock && (used+n <= slots || mode != runtime.ModeEnforce)
	if err != nil || d.Allowed != want {
		w.failf("check %d with %d of %d used: %v, %v", n, used, slots, d, err)
	}
}

// operate does what operators do, and edits the limit.
func (w *slotWorld) operate(k *slotKey) {
	ctx := context.Background()
	slots, overrides := w.limits.Slots(w.policy, k.of), w.limits.Overrides(w.policy, k.of)
	const reason, author = "r", "a"
	var err error
	switch verb := w.r.IntN(8); {
	case verb == 0:
		w.logf("reset")
		err, k.all = slots.Reset(ctx), nil
	case verb == 1 && k.slots == 0 && k.mode == runtime.ModeEnforce && !k.blocked:
		w.logf("erase")
		err, k.all = slots.Erase(ctx), nil
		k.forget(w.back)
		time.Sleep(time.Millisecond) // see [limiter.SlotLimit.Erase]
	case verb == 2:
		w.logf("sweep")
		_, err = w.env.Sweep(ctx, w.policy)
		for _, k := range w.keys {
			k.forget(w.back)
		}
	case verb == 3:
		edited := *w.policy
		edited.Slots, edited.Hold = 1+w.r.Int64N(6), w.randomHold()
		if edited.Overridable() && edited.Slots > edited.Overrides.Slots {
			return
		}
		w.logf("edit: %d for %v", edited.Slots, edited.Hold)
		w.policy = &edited
	case !w.policy.Overridable():
	case verb == 4 && w.policy.Overrides.Unlimited && w.r.IntN(2) == 0:
		mode := oneOf(w.r, runtime.ModeOff, runtime.ModeUnlimited, runtime.ModeShadow)
		w.logf("override %v", mode)
		_, err = overrides.Set(ctx, runtime.Override{Mode: mode, Until: runtime.ForGood(), Reason: reason, Author: author})
		if k.mode, k.slots = mode, 0; mode == runtime.ModeUnlimited {
			k.mode = runtime.ModeOff
		}
	case verb == 4:
		slots := 1 + w.r.Int64N(w.policy.Overrides.Slots)
		w.logf("override %d", slots)
		_, err = overrides.Set(ctx, runtime.Override{Slots: slots, Until: runtime.ForGood(), Reason: reason, Author: author})
		k.slots, k.mode = slots, runtime.ModeEnforce
	case verb == 5:
		w.logf("block")
		_, err = overrides.Block(ctx, runtime.Block{Until: runtime.ForGood(), Reason: reason, Author: author})
		k.blocked = true
	case k.slots > 0 || k.mode != runtime.ModeEnforce || k.blocked:
		w.logf("end")
		_, err = overrides.End(ctx, runtime.OverrideEnd{Reason: reason, Author: author})
		k.slots, k.mode, k.blocked = 0, runtime.ModeEnforce, false
	}
	if err != nil {
		w.failf("operate: %v", err)
	}
}

// forget is called when the row may have been deleted. If the clock has gone back, the next fence may then be smaller.
func (k *slotKey) forget(back bool) {
	if k.deleted = true; back {
		k.largest = 0
	}
}

// transaction makes requests in a transaction, and commits it or rolls it back.
func (w *slotWorld) transaction(k *slotKey) {
	tx, err := w.env.Begin()
	if err != nil {
		w.failf("begin: %v", err)
		return
	}
	limits, before := w.limits.WithTx(tx), *k
	before.all, before.inHand = slices.Clone(k.all), slices.Clone(k.inHand)
	w.logf("begin")
	k.inHand = nil
	for range 1 + w.r.IntN(3) {
		w.request(limits, k)
	}
	end := oneOf(w.r, "commit", "rollback")
	w.logf("%s", end)
	if end == "commit" {
		k.inHand = append(before.inHand, k.inHand...)
		err = tx.Commit()
	} else {
		*k = before
		err = tx.Rollback()
	}
	if err != nil {
		w.failf("%s: %v", end, err)
	}
}

// compare compares what a key has with the model.
func (w *slotWorld) compare(k *slotKey) {
	if w.err != nil {
		return
	}
	b, err := w.limits.Slots(w.policy, k.of).Peek(context.Background())
	slots, mode := w.inForce(k)
	all, used := k.live(w.clock.now())
	full := time.Duration(0)
	if len(all) > 0 {
		full = time.Duration(all[len(all)-1].end - w.clock.now())
	}
	left := max(0, slots-used)
	switch mode {
	case runtime.ModeOff:
		if err != nil || b.Remaining != runtime.MaxTokens {
			w.failf("a limit that is off has %+v, %v", b, err)
		}
		return
	case runtime.ModeBlock:
		left = 0
	}
	if err != nil || b.Used != used || b.Capacity != slots || b.Remaining != left || b.FullAfter != full {
		w.failf("peek: %+v, %v, want %d of %d used, for %v", b, err, used, slots, full)
	}
}
