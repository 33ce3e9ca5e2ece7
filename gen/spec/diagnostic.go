package spec

import (
	"cmp"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
)

// Diagnostic is one thing that is wrong with a limits.yaml. There are no warnings: a file with a
// diagnostic is not a valid one.
type Diagnostic struct {
	// ID names the rule that was broken, one of [Rules]: "unknown-field". It never changes.
	ID string
	// File is the name that was given to [Parse].
	File string
	// Pos is the first rune that is wrong, and End is where it ends: on the same line, and past the last rune.
	Pos, End Pos
	// Message says what is wrong, in one line that can be read without the source.
	Message string
	// Help says what to write instead; "" if there is nothing to add.
	Help string
	// Notes are the other places that have a part in it.
	Notes []Note

	shown excerpt
	// meant are what to write instead of what stands from Pos to End, the likeliest first.
	meant []string
}

// Note is a second place that a [Diagnostic] speaks of, in the same file.
type Note struct {
	Pos, End Pos
	Message  string

	shown excerpt
}

// Diagnostics are all that is wrong with a file, in the order of their positions.
type Diagnostics []Diagnostic

// ask puts what was probably meant into the help.
func (ds Diagnostics) ask() {
	for i, d := range ds {
		if len(d.meant) > 0 {
			ds[i].Help = "did you mean " + words.List(d.meant, "or") + "?"
		}
	}
}

func (ds Diagnostics) sort() {
	slices.SortStableFunc(ds, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Column, b.Pos.Column))
	})
}
