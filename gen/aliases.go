package gen

import (
	"slices"

	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// alias is a name of another package that the generated package declares too, so that its users need not import both.
type alias struct {
	from, name, doc string
	// needed reports whether a file needs the name; nil for one that every file does.
	needed func(f *spec.File) bool
}

// someLimit returns whether a file has a limit for which has is true.
func someLimit(has func(*spec.Limit) bool) func(*spec.File) bool {
	return func(f *spec.File) bool { return slices.ContainsFunc(f.Limits, has) }
}

var (
	hasPlans   = func(f *spec.File) bool { return len(f.Plans) > 0 }
	hasSlots   = someLimit(func(l *spec.Limit) bool { return l.Policy.Kind == runtime.InFlight })
	hasNumbers = someLimit(func(l *spec.Limit) bool { return len(l.CallerNumbers()) > 0 })
	hasClasses = someLimit(func(l *spec.Limit) bool { return len(l.Priorities) > 0 })
	// overridable reports whether operators can override a limit.
	overridable = someLimit(func(l *spec.Limit) bool { return l.Overrides != nil })
)

var typeAliases = []alias{
	{runtimePath, "Decision", "Decision is the result of a request: whether it is allowed, and if not, when to retry.", nil},
	{limiterPath, "Decisions", "Decisions are the results of a request over several limits, see [Limits.All].", nil},
	{limiterPath, "Reservations", "Reservations are the tokens of several limits taken in advance, see [Limits.ReserveAll].", nil},
	{runtimePath, "Balance", "Balance is the number of tokens used and left of a limit for one key.", nil},
	{limiterPath, "Reservation", "Reservation is a number of tokens taken in advance. They may be used after its Delay, or its Wait; later Settle or Cancel it.", nil},
	{limiterPath, "Item", "Item is one limit, key and count of a request over several limits, see [Limits.All].", nil},
	{limiterPath, "ReserveItem", "ReserveItem is an item of [Limits.ReserveAll] and [Limits.PeekAll]: an [Item], or one of a limit with capacity 0.", nil},
	{runtimePath, "LimitedError", "LimitedError is a denial as an error. Require returns it, with the Decision.", nil},
	{limiterPath, "Slot", "Slot is what one holder has acquired of a limit in flight, until Release or the end of its hold, unless Renew or Do prolong it.", hasSlots},
	{runtimePath, "Override", "Override is what operators give a key in place of its numbers, for a time: a plan, numbers or a mode.", overridable},
	{runtimePath, "Block", "Block denies all requests for a key, for a time.", overridable},
	{runtimePath, "OverrideEnd", "OverrideEnd says why overrides are ended before their time.", overridable},
	{runtimePath, "OverrideEntry", "OverrideEntry is an entry of the log of overrides.", overridable},
}

var errorAliases = []alias{
	{runtimePath, "ErrLimited", "ErrLimited is wrapped by every [*LimitedError].", nil},
	{runtimePath, "ErrExceedsCapacity", "ErrExceedsCapacity is returned for a count above the capacity of the limit: waiting does not help.", nil},
	{runtimePath, "ErrInvalidCount", "ErrInvalidCount is returned for a negative count.", nil},
	{runtimePath, "ErrNotReserved", "ErrNotReserved is returned for a reservation that was denied, or is already settled or cancelled.", nil},
	{runtimePath, "ErrInvalidPlan", "ErrInvalidPlan is returned for the zero Plan, and for a name or a number that is no plan.", hasPlans},
	{runtimePath, "ErrInvalidPriority", "ErrInvalidPriority is returned for the zero value of a priority, and for a number that is none.", hasClasses},
	{runtimePath, "ErrSlotLost", "ErrSlotLost is returned for a slot that is not held any more: it was released, or its hold has ended.", hasSlots},
	{runtimePath, "ErrInvalidNumbers", "ErrInvalidNumbers is returned for numbers that the file does not allow.", hasNumbers},
	{runtimePath, "ErrInvalidOverride", "ErrInvalidOverride is returned for an override that exceeds limits.yaml, or lacks an end, a reason or an author.", overridable},
	{runtimePath, "ErrNoOverride", "ErrNoOverride is returned if there is no override or block to end.", overridable},
}

func declareAliases(g *jen.Group, f *spec.File, aliases []alias) {
	for _, a := range aliases {
		if a.needed == nil || a.needed(f) {
			comment(g, a.doc)
			g.Id(a.name).Op("=").Qual(a.from, a.name)
		}
	}
}
