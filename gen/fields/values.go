package fields

import (
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// Value is a field whose changes are reported.
type Value[T any] struct {
	Name string
	// Kind is the kind of change that another value is.
	Kind *ids.Meaning
	// ByPlan is set if the value may be a map with a value for each plan.
	ByPlan bool
	// Effective returns the value that applies, given or not, as limits.yaml writes it. Equal values are written alike.
	Effective func(of *T) string
}

// ValuesOf are the fields of a file, a limit and a group, without those that cannot change by themselves: version, defaults,
// limits and groups. The exceptions of a limit are compared one by one.
type ValuesOf struct {
	File  []Value[spec.File]
	Limit []Value[spec.Limit]
	Group []Value[spec.Group]
}

// Values returns the fields that [diff.Files] compares, in their order.
func Values() ValuesOf {
	return ValuesOf{valuesIn(fileFields), valuesIn(limitFields), valuesIn(groupFields)}
}

func valuesIn[D, T any](fields []field[D, T]) (list []Value[T]) {
	for _, f := range fields {
		if f.effective != nil && !f.items {
			list = append(list, Value[T]{f.name, f.change, f.byPlan, f.effective})
		}
	}
	return list
}
