package judge

import (
	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/compare"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// judgeZone judges another time zone of a calendar. A zone that appears or disappears with the calendar is judged with the
// period.
func judgeZone(j *judgement) {
	old, new := &j.Old.Policy, &j.New.Policy
	j.class(review.StoredState)
	if compare.UnitChanged(j.Pair) {
		return
	}
	j.compareRules(old, j.WithOneChange(func(policy *runtime.Policy) {
		policy.Calendar.Zone, policy.Calendar.ZonePerKey = new.Calendar.Zone, new.Calendar.ZonePerKey
	}))
	j.note(review.Rule, "Windows begin by the clocks of %s, before of %s.", zoneInWords(new.Calendar), zoneInWords(old.Calendar))
	noteParameter(j, old.Calendar.ZonePerKey, new.Calendar.ZonePerKey, "each key's time zone, a *time.Location")
}

func zoneInWords(c runtime.Calendar) string {
	if c.ZonePerKey {
		return "each key's own time zone"
	}
	return c.Zone
}

// noteParameter reports a parameter of the method that appears or disappears.
func noteParameter(j *judgement, was, is bool, what string) {
	switch {
	case is && !was:
		j.class(review.Breaking)
		j.note(review.Calls, "Calls of %s must pass %s.", j.New.GoName, what)
	case was && !is:
		j.class(review.Breaking)
		j.note(review.Calls, "Calls of %s no longer pass %s.", j.New.GoName, what)
	}
}

// judgeCalendarStart judges another start of a calendar.
func judgeCalendarStart(j *judgement) {
	old, new := &j.Old.Policy.Calendar, &j.New.Policy.Calendar
	j.class(review.StoredState)
	if compare.UnitChanged(j.Pair) {
		return
	}
	j.compareRules(&j.Old.Policy, j.WithOneChange(func(policy *runtime.Policy) {
		policy.Calendar.From, policy.Calendar.At, policy.Calendar.Anniversary = new.From, new.At, new.Anniversary
	}))
	j.describe(review.Rule, fields.StartWords(j.New))
	noteParameter(j, old.Anniversary, new.Anniversary, "each key's anniversary, a time.Time")
}
