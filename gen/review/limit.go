package review

import (
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// Verbs returns the verbs of a limit. Of two that do the same, it is the one without a count.
func Verbs(l *spec.Limit) []string { return slices.Clone(verbs(l)) }

// Length writes a duration as the numbers of a review are written: to three digits or so, rounded up.
func Length(d time.Duration) string { return length(d) }
