package diff

import (
	"cmp"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// diffExceptions returns a change for each key whose exception was added, removed or changed: those of the new side in its
// order, and then those that were removed.
func diffExceptions(old, new *spec.Limit, renamed Renames) (changes []Change) {
	before := byName(old.Exceptions, func(x *spec.Exception) string { return x.Given.Key })
	add := func(was, is *spec.Exception) {
		changes = append(changes, Change{Kind: ids.ExceptionsChanged, Field: "exceptions", Old: exceptionSide(old, was),
			New: exceptionSide(new, is)})
	}
	for _, is := range new.Exceptions {
		was := before[is.Given.Key]
		delete(before, is.Given.Key)
		if was == nil {
			add(nil, is)
			continue
		}
		same := *was
		if same.Plan = is.Plan; cmp.Or(renamed.Plans[is.Plan], is.Plan) != was.Plan {
			same.Plan = was.Plan
		}
		if fields.ExceptionText(new, &same) != fields.ExceptionText(new, is) {
			add(was, is)
		}
	}
	for _, was := range old.Exceptions {
		if before[was.Given.Key] != nil {
			add(was, nil)
		}
	}
	return changes
}

// exceptionSide is the side of an exception, which is nil on a side without one.
func exceptionSide(l *spec.Limit, x *spec.Exception) Side {
	side := wholeLimit(l)
	side.Value, side.Given, side.Exception = "", false, x
	if x != nil {
		side.Value, side.Given, side.Pos = fields.ExceptionText(l, x), true, x.Pos
	}
	return side
}
