package review

import (
	"fmt"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Windows of a calendar differ in length, so that the formulas for windows of one length do not apply to an edit from or
// to a calendar. The numbers about stored rows are those of a replay instead: of rows that the old rule leaves, read by
// the new one, around the starts of the windows of some years.

func hasCalendar(p *runtime.Policy) bool { return p.Calendar.Unit != 0 }

func (p pair) hasCalendar() bool {
	return p.eitherPolicy(func(p *runtime.Policy) bool { return hasCalendar(p) })
}

// unitChanged reports whether a calendar appears or disappears.
func unitChanged(p pair) bool { return hasCalendar(&p.old.Policy) != hasCalendar(&p.new.Policy) }

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
	j.describe(Rule, p.new.StartWords())
	noteParameter(j, p, old.Anniversary, new.Anniversary, "each key's anniversary, a time.Time")
}

// calendarReadAs says how a row is read by the windows of a calendar that has changed.
func calendarReadAs(p pair) string {
	if !hasCalendar(&p.new.Policy) {
		return "A key's current window ends at another time, and the next one grants the tokens accrued since the current one started."
	}
	return fmt.Sprintf("A key keeps its count until a new window begins that is at least %s after the start of its current one, "+
		"and then gets the tokens of as many windows as fit between the two starts, rounded.", words.Length(p.new.Policy.Period/2))
}

// calendarInstants returns the starts of the windows of both rules around which rows are replayed: those of at most three
// years, and at most 200.
func calendarInstants(policies ...*runtime.Policy) (starts []int64) {
	begin := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	for _, p := range policies {
		if !hasCalendar(p) {
			continue
		}
		rule := p.Rule("")
		for at, n := rule.WindowEnd(begin), 0; n < 200 && at < begin+3*int64(366*24*time.Hour); n++ {
			starts = append(starts, at)
			at = rule.WindowEnd(at)
		}
	}
	slices.Sort(starts)
	return slices.Compact(starts)
}

// calendarVariants returns policies of keys whose windows begin at the instants that matter: for a calendar of each key,
// with several zones and anniversaries, and for windows of one length, with some that begin at or near an instant.
func calendarVariants(p *runtime.Policy, at int64) (list []*runtime.Policy) {
	add := func(change func(p *runtime.Policy)) {
		variant := *p
		change(&variant)
		list = append(list, &variant)
	}
	c := p.Calendar
	_, aligned := p.Start.Offset()
	switch {
	case c.PerKey():
		zones, firsts := []string{c.Zone}, []runtime.Date{c.From}
		if c.ZonePerKey {
			zones = []string{"UTC", "Etc/GMT+12", "Etc/GMT-14", "Etc/GMT-6"}
		}
		if c.Anniversary {
			firsts = nil
			for _, ago := range []time.Duration{0, p.Period / 4, p.Period / 2, p.Period * 3 / 4} {
				firsts = append(firsts, runtime.DateOf(time.Unix(0, at).UTC().Add(-ago)))
			}
		}
		for _, zone := range zones {
			for _, first := range firsts {
				add(func(p *runtime.Policy) {
					p.Calendar.Zone, p.Calendar.ZonePerKey, p.Calendar.From, p.Calendar.Anniversary = zone, false, first, false
				})
			}
		}
	case hasCalendar(p), !windowed(p), p.Start.FirstUse(), aligned:
		add(func(*runtime.Policy) {})
	default:
		for _, start := range []int64{at, at + 1, at - int64(p.Period)/2} {
			add(func(p *runtime.Policy) { p.Start = runtime.StartOffset(time.Duration(start)) })
		}
	}
	return list
}

// carriedByCalendar is [Carried] for an edit from or to a calendar.
func carriedByCalendar(old, new *runtime.Policy) (most int64) {
	for _, at := range calendarInstants(old, new) {
		for _, was := range calendarVariants(old, at) {
			before := was.Rule("")
			period := before.Period
			for _, emptied := range []int64{at, at - 1, at - period + 1, at - period/2, at - period/4} {
				state, _, err := before.Step(runtime.State{}, emptied, runtime.Request{Count: old.Capacity})
				if err != nil {
					panic("review: taking the capacity of a full key failed: " + err.Error())
				}
				_, d, _ := before.Step(state, emptied, runtime.Request{Op: runtime.Check, Count: 1})
				last := emptied + int64(d.RetryAfter) - 1
				for _, now := range []int64{emptied, at, last} {
					if now < emptied || now > last {
						continue
					}
					for _, is := range calendarVariants(new, now) {
						most = max(most, tokensLeft(is, split(was, state, max(1, is.Shards)), now))
					}
				}
			}
		}
	}
	return most
}
