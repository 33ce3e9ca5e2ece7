package model

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

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
	ctx, now, p, own := context.Background(), w.clock.Now(), q.policy(), &q.k.own
	o := w.limiter.Overrides(p, q.k.of)
	if wholeLimit {
		o, own = w.limiter.OverridesForAll(p), &q.l.whole
	}
	until := now.Add(time.Duration(1 + w.r.Int64N(3*int64(q.l.counted().Period)+int64(time.Second))))
	if w.r.IntN(4) == 0 {
		until = runtime.ForGood
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
		penalized := !wholeLimit && p.Penalizes() && q.k.penalized(now.UnixNano(), q.at(now.UnixNano())) > 0
		_, err = o.Unblock(ctx, end)
		if exists, own.block = blocked || penalized, nil; penalized {
			q.k.penalties = nil
		}
	case "end":
		_, err = o.End(ctx, end)
		exists, *own = blocked || overridden, overrides{}
	}
	w.dropEnded()
	w.logf("%s %q of %s %v, whole limit %v, until %v: %+v: %v", verb, q.k.of, p.Name, q.plan, wholeLimit, until, e.Override, err)
	if exists && err != nil || !exists && !errors.Is(err, runtime.ErrNoOverride) {
		w.failf("%s: the error is %v, and there was one to end: %v", verb, err, exists)
	}
	return true
}

// dropEnded forgets entries that have ended, as a store does when it reads its log: they are not in force again if the clock goes back.
func (w *world) dropEnded() {
	now := w.clock.now()
	drop := func(e **entry) {
		if *e != nil && !(*e).live(now) {
			*e = nil
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
	switch p := q.policy(); {
	case !slices.Contains(choices, what) || what == "numbers" && p.Mode == runtime.ModeUnlimited:
		return false
	case what == "plan":
		e.plan = 1 + r.IntN(3)
		e.Plan = runtime.PlanText(q.l.names[e.plan])
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
	l.edits++
	w.logf("edit %+v", l.policies)
}
