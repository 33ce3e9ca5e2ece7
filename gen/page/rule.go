package page

import (
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// jsRule is a rule as step.js reads it. Instants are in nanoseconds since a base.
type jsRule struct {
	Kind     string `json:"kind"`
	Precise  bool   `json:"precise,omitempty"`
	Rate     int64  `json:"rate"`
	Capacity int64  `json:"capacity"`
	Debt     int64  `json:"debt,omitempty"`
	Period   int64  `json:"period"`
	Phase    int64  `json:"phase,omitempty"`
	FirstUse bool   `json:"firstUse,omitempty"`
	// Penalties are how long each penalty lasts, and Forgive how long after its end it counts.
	Penalties []int64 `json:"penalties,omitempty"`
	Forgive   int64   `json:"forgive,omitempty"`
	// Warn has the thresholds, in percent.
	Warn []int `json:"warn,omitempty"`
	// Priorities are the classes of requests.
	Priorities []jsPriority `json:"priorities,omitempty"`
	// Starts has the starts of the windows of a calendar, the first at or before the base.
	Starts []int64 `json:"starts,omitempty"`
}

// jsPriority is a class of requests, which leave a percentage of the capacity.
type jsPriority struct {
	Name   string `json:"name"`
	Leaves int    `json:"leaves"`
}

// calendarWindows is how many windows of a calendar a page has. Later ones have the mean length.
const calendarWindows = 24

// asTokens returns a policy with the numbers of a limit in flight as step.js has them: the slots are the rate and the
// capacity, and the hold is the period.
func asTokens(p *runtime.Policy) *runtime.Policy {
	if p.Slots == 0 {
		return p
	}
	of := *p
	of.Rate, of.Capacity, of.Period = p.Slots, p.Slots, p.Hold
	return &of
}

// ruleFor returns a rule of a policy relative to a base, in nanoseconds since 1970 UTC, with so many windows of a calendar.
func ruleFor(p *runtime.Policy, rule *meter.Rule, base int64, windows int) jsRule {
	p = asTokens(p)
	js := jsRule{
		Kind: p.Kind.String(), Precise: p.Precise, Rate: p.Rate, Capacity: p.Capacity, Debt: p.MaxReserved,
		Period: int64(p.Period), FirstUse: p.Start.FirstUse(),
	}
	for _, step := range p.Penalty.Steps[:p.Penalty.Len()] {
		js.Penalties, js.Forgive = append(js.Penalties, int64(step)), int64(p.Penalty.Forgiveness())
	}
	for _, percent := range p.Warn[:p.Warn.Len()] {
		js.Warn = append(js.Warn, int(percent))
	}
	switch {
	case p.Calendar.Unit != 0:
		// The last start at or before the base: two windows earlier, one has begun.
		at := base - 2*int64(p.Period)
		for next := rule.WindowEnd(at); next <= base; next = rule.WindowEnd(at) {
			at = next
		}
		for range windows {
			js.Starts = append(js.Starts, at-base)
			at = rule.WindowEnd(at)
		}
	case p.Precise:
		js.Phase = (rule.Grain() - base%rule.Grain()) % rule.Grain()
	case p.Kind.Windowed() && !js.FirstUse:
		js.Phase = (rule.WindowEnd(base) - base) % js.Period
	}
	return js
}
