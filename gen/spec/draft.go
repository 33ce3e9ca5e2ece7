package spec

import (
	"slices"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// draft is a limit while it is read: values may be missing, or contradict each other. [checker.check] makes the Limit.
type draft struct {
	policy unchecked
	plans  []*draft
	// limit is the result; nil until the draft is checked, and if it has a diagnostic.
	limit *Limit

	// calendarStart is the start in the words of a calendar, and gaveZone is set if the limit has a zone, valid or not.
	calendarStart calendarStart
	gaveZone      bool
	// writtenPeriod is the text of the period, or "". impliesPeriod is set if the rate is "10 per minute" or the like: its
	// diagnostic covers the missing period.
	writtenPeriod string
	impliesPeriod bool

	// These are as in Limit.
	plan          string
	unlimitedRate bool
	overrides     *runtime.OverrideBounds
	goName, doc   string
	key           []KeyPart
	pos           Pos
	given         map[string]Pos
}

// unchecked is a policy whose numbers may be missing. It lacks the methods of [runtime.Policy], such as Rule, which are
// for valid policies only.
type unchecked runtime.Policy

// unlimited is [Limit.Unlimited].
func (d *draft) unlimited() bool { return d.policy.Mode == runtime.ModeUnlimited }

// each is [Limit.Each].
func (d *draft) each() []*draft {
	if len(d.plans) == 0 {
		return []*draft{d}
	}
	return d.plans
}

// entry is one "name: value" of a map.
type entry struct {
	name  string
	value *yaml.Node
	// named is the place of the name; at is the place of the value, or of the name if the value is empty.
	named, at span
	// again is set if the map has the name above too. The first one counts.
	again bool
}

// calendarStart is a start in the words of a calendar: each is "" or 0 if it is not given.
type calendarStart struct {
	anniversary bool
	date        runtime.Date
	month       time.Month
	day         int
	weekday     string
	at          string
}

// parameter is the first use of a parameter of a group.
type parameter struct {
	typ string
	at  span
}

// owner is a limit or a group with its method, or the method that the overrides of a limit need.
type owner struct {
	what, name, method string
	overrides          bool
	at                 Pos
}

// owners are those of a file by name and by method.
type owners struct{ byName, byMethod map[string][]owner }

func (o *owners) add(one owner) {
	if o.byName == nil {
		o.byName, o.byMethod = map[string][]owner{}, map[string][]owner{}
	}
	if !one.overrides {
		o.byName[one.name] = append(o.byName[one.name], one)
	}
	o.byMethod[one.method] = append(o.byMethod[one.method], one)
}

// alike returns the first of those with the name of another, and the first with its method.
func (o *owners) alike(other owner) (list []owner) {
	for _, some := range [][]owner{o.byName[other.name], o.byMethod[other.method]} {
		if len(some) > 0 && !slices.Contains(list, some[0]) {
			list = append(list, some[0])
		}
	}
	return list
}
