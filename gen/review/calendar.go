package review

import (
	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// judgeZone judges another time zone of a calendar. A zone that appears or disappears with the calendar is judged with the
// period.
func judgeZone(j *judgement, p pair, _ []spec.Change) {
	old, new := &p.old.Policy, &p.new.Policy
	j.class(StoredState)
	if unitChanged(p) {
		return
	}
	j.compareRules(old, p.withOneChange(func(policy *runtime.Policy) {
		policy.Calendar.Zone, policy.Calendar.ZonePerKey = new.Calendar.Zone, new.Calendar.ZonePerKey
	}))
	j.note(Rule, "Windows begin by the clocks of %s, before of %s.", zoneInWords(new.Calendar), zoneInWords(old.Calendar))
	noteParameter(j, p, old.Calendar.ZonePerKey, new.Calendar.ZonePerKey, "each key's time zone, a *time.Location")
}

func zoneInWords(c runtime.Calendar) string {
	if c.ZonePerKey {
		return "each key's own time zone"
	}
	return c.Zone
}

// noteParameter reports a parameter of the method that appears or disappears.
func noteParameter(j *judgement, p pair, was, is bool, what string) {
	switch {
	case is && !was:
		j.class(Breaking)
		j.note(Calls, "Calls of %s must pass %s.", p.new.GoName, what)
	case was && !is:
		j.class(Breaking)
		j.note(Calls, "Calls of %s no longer pass %s.", p.new.GoName, what)
	}
}

// judgeCalendarStart judges another start of a calendar.
func judgeCalendarStart(j *judgement, p pair) {
	old, new := &p.old.Policy.Calendar, &p.new.Policy.Calendar
	j.class(StoredState)
	if unitChanged(p) {
		return
	}
	j.compareRules(&p.old.Policy, p.withOneChange(func(policy *runtime.Policy) {
		policy.Calendar.From, policy.Calendar.At, policy.Calendar.Anniversary = new.From, new.At, new.Anniversary
	}))
	j.describe(Rule, fields.StartWords(p.new))
	noteParameter(j, p, old.Anniversary, new.Anniversary, "each key's anniversary, a time.Time")
}
