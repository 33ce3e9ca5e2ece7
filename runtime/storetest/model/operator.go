package model

import (
	"context"
	"errors"
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
	o := w.limiter.Overrides(p, k.of)
	if wholeLimit {
		o, own = w.limiter.OverridesForAll(p), &l.whole
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
		_, err = o.Set(context.Background(), e.Override)
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
		if _, err = o.End(context.Background(), end); err == nil {
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
