package fields

import (
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// draft is a limit while it is read: values may be missing, or contradict each other. [parser.finish] makes the Limit.
type draft struct {
	// entries are all fields that the file gives, and given those without errors. clean is set if none has one.
	entries []document.Entry
	given   map[string]document.Entry
	clean   bool
	// policy has the values that were read, and limit what the file gives beside it.
	policy unchecked
	limit  spec.Limit
	// byPlan are the fields with a map of plans, and plans the limit of each plan.
	byPlan map[string]planValues
	plans  []*draft
	// numberless is set for the limit of a plan whose rate is 0 or unlimited.
	numberless bool

	// start is the start in the words of a calendar.
	start calendarStart
	// impliesPeriod is set if the rate is "10 per minute" or the like: its diagnostic covers the missing period.
	impliesPeriod bool
	// done is the result; nil until the draft is checked, and if it has a diagnostic.
	done *spec.Limit
}

// unchecked is a policy whose numbers may be missing. It lacks the methods of [runtime.Policy], such as Rule, which are
// for valid policies only.
type unchecked runtime.Policy

// unlimited is [spec.Limit.Unlimited].
func (l *draft) unlimited() bool { return l.policy.Mode == runtime.ModeUnlimited }

// eachPlan is [spec.Limit.Each].
func (l *draft) eachPlan() []*draft {
	if len(l.plans) == 0 {
		return []*draft{l}
	}
	return l.plans
}

// keep keeps the entry of a field without errors.
func (l *draft) keep(field string, e document.Entry) {
	l.given[field], l.limit.Places[field] = e, e.At.Pos
	l.limit.CapacityGiven = l.gives("capacity")
}

// gives reports whether the file gives a field without errors.
func (l *draft) gives(field string) bool {
	_, ok := l.given[field]
	return ok
}

// has reports whether the file gives a field, valid or not.
func (l *draft) has(field string) bool {
	return slices.ContainsFunc(l.entries, func(e document.Entry) bool { return e.Name == field })
}

// text returns the text of a field, which may not have been read yet; "" without one.
func (l *draft) text(field string) string {
	for _, e := range l.entries {
		if e.Name == field && !e.Again && e.Value.Kind == yaml.ScalarNode {
			return e.Value.Value
		}
	}
	return ""
}

// hasKind reports whether the kind in the file, which may not have been read yet, is one of some.
func (l *draft) hasKind(kinds ...runtime.Kind) bool {
	text := l.text("kind")
	return slices.ContainsFunc(kinds, func(k runtime.Kind) bool { return k.String() == text })
}

// planValues are the values of a field by plan.
type planValues struct {
	document.Entry
	// values are those of the plans, each with the name of the field.
	values map[string]document.Entry
	// meant has the plans that unknown names probably mean. If anyPlan is set, they may mean any.
	meant   map[string]bool
	anyPlan bool
}

// calendar returns the calendar of the period in the file, which may not have been read yet, or false if it is in no
// calendar units.
func (l *draft) calendar() (runtime.Calendar, bool) {
	if !l.hasKind(runtime.FixedWindow) {
		return runtime.Calendar{}, false
	}
	return parseCalendar(l.text("period"))
}
