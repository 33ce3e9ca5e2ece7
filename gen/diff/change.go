package diff

import (
	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// Change is one difference between two files: a fact, without a judgement.
type Change struct {
	// Kind is the way in which the files differ, one of [ids.Changes].
	Kind *ids.Meaning
	// Limit is the name of the limit, the new one if it was renamed; "" for a change of the file itself.
	Limit string
	// Group is the name of the group; "" for a change of a limit or of the file itself.
	Group string
	// Plan is the plan for which the limit changed, by its new name if it was renamed; "" for all plans.
	Plan string
	// Field is the field with another value; "" if the limit or group was added, removed or renamed.
	Field string
	// Old and New are the sides of the change.
	Old, New Side
}

// Side is one side of a [Change].
type Side struct {
	// Limit is the limit in that file; nil if the file lacks it.
	Limit *spec.Limit
	// Group is the group in that file; nil if the file lacks it, or the change is not of a group.
	Group *spec.Group
	// Exception is the exception that changed; nil for other changes, and on a side without it.
	Exception *spec.Exception
	// File is that file; nil if it lacks the limit or the group.
	File *spec.File
	// Value is the effective value of the field in the syntax of limits.yaml; "" if it has no value. If the limit was
	// added, removed or renamed, it is the limit's name.
	Value string
	// Given reports whether the file gives the value. Otherwise it is a default.
	Given bool
	// Pos is the place of the value; if it is not given, of the limit's name or of the file's first rune. It is zero on
	// the side that lacks the limit.
	Pos diag.Pos
}
