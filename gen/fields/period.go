package fields

import (
	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var periodField = limitField{
	name: "period", requiredBy: kindNeeds("period"), synonyms: []string{"window", "interval", "every", "per"},
	implied:    func(l *draft) bool { return l.impliesPeriod },
	about:      "The time in which `rate` tokens are granted: a fixed length or, for a fixed window, a number of calendar days, weeks, months or years in `zone`.",
	accepts:    "a duration such as `90s`, `1h30m`, `1d` or `2w`; units: " + unitsInWords + "; or `day`, `week`, `month`, `year` or `3 months`; at most " + longestPeriod,
	more:       "For a token bucket, it may be a map with a duration for each plan. Windows of several lengths are limits of their own, each with the rate `unlimited` for the plans of the others, and one group takes from all of them.",
	absent:     exceptInFlight,
	example:    "1m",
	schema:     orByPlan(periodSchema, false),
	read:       byPlan((*parser).readPeriod, nil),
	conditions: unlessCalendar(),
	change:     ids.RateChanged,
	byPlan:     true,
	effective:  effectivePeriod,
}

// readPeriod reads a duration, or a number of calendar units.
func (p *parser) readPeriod(l *draft, e document.Entry) (ok bool) {
	calendar, ok := parseCalendar(e.Value.Value)
	if !document.IsString(e.Value) || !ok {
		l.policy.Period, ok = p.readLength(e, l.hasKind(runtime.FixedWindow))
		return ok
	}
	if calendar.Period() > runtime.MaxPeriod {
		p.doc.Report(e.At, ids.OutOfRange, "", "period must be at most %s, not %s", longestPeriod, diag.Clip(e.Value.Value))
		return false
	}
	l.policy.Calendar.Unit, l.policy.Calendar.Count = calendar.Unit, calendar.Count
	l.policy.Period = calendar.Period()
	return true
}

// calendarRefusals refuse the calendar units of a fixed window.
func calendarRefusals(limit string) []refusal {
	const help = "use a fixed window, or a period of fixed length such as " + aFixedLength
	fixed := limit + " has a period of fixed length"
	return []refusal{
		{
			field: "period", applies: func(p *unchecked) bool { return p.Calendar.Unit != 0 }, message: fixed, help: help,
			schema: object{"not": object{"type": "string", "pattern": calendarForm.String()}, "errorMessage": spec.Capital(fixed) + "."},
		},
		{field: "zone", message: limit + " has no zone", help: help},
	}
}

// PeriodOf returns the period of a policy as it reads after "per": "minute", "month", "3 months".
func PeriodOf(p *runtime.Policy) string {
	if p.Calendar.Unit != 0 {
		return calendarPeriod(p.Calendar)
	}
	return words.Period(p.Period)
}

// effectivePeriod returns a period as limits.yaml writes it; "" for a limit in flight.
func effectivePeriod(l *spec.Limit) string {
	if c := l.Policy.Calendar; c.Unit != 0 {
		return calendarPeriod(c)
	}
	return unlessZero(l.Policy.Period)
}

// periodSchema has one pattern too.
var periodSchema = object{"type": "string", "pattern": durationForm.String() + "|" + calendarForm.String()}

// isCalendar is the schema of a period in calendar units.
var isCalendar = object{"type": "string", "pattern": calendarForm.String()}

// unlessCalendar is the schema of limits with another period, which have no zone.
func unlessCalendar() []any {
	return []any{object{
		"if": having("period", object{"not": isCalendar}),
		"then": object{
			"type": "object", "properties": object{"zone": false},
			"errorMessage": "A zone needs a period of calendar days, weeks, months or years.",
		},
	}}
}
