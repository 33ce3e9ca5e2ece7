package operate

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// suggestion returns the word nearest to one that is misspelled, as ` (did you mean "word"?)`, or "".
func suggestion(written string, words []string) string {
	best, least := "", 3
	for _, word := range words {
		if d := distance(strings.ToLower(written), strings.ToLower(word)); d < least && d < len(word) {
			best, least = word, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}

// distance is the number of letters to insert, delete or replace to turn one text into another.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// Moment returns an instant as it is printed: in UTC, to the second.
func Moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// tokens returns a number of tokens with at most two digits after the point.
func tokens(n float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(n, 'f', 2, 64), "0"), ".")
}

// ErrUsage is the errors of a command line or a [Change] that cannot be executed as it is written. Nothing was written.
var ErrUsage error = usageError{errors.New("usage error")}

// usageError is an [ErrUsage].
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

func (u usageError) Is(target error) bool { return target == ErrUsage }

// Origin is for [runtime.OriginOf].
func (usageError) Origin() runtime.Origin { return runtime.OriginRequest }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Describe returns what an entry of the log does, in words.
func Describe(e runtime.OverrideEntry) string {
	var words []string
	switch e.What {
	case runtime.OverrideGranted, runtime.OverrideTaken:
		return fmt.Sprintf("%s %d", e.What, e.Rate)
	case runtime.OverrideNone:
		return "ended"
	case runtime.OverrideUnblock:
		return "unblocked"
	case runtime.OverrideReset, runtime.OverrideErased:
		return e.What
	case runtime.OverridePlan:
		words = append(words, "plan "+e.Plan)
	case runtime.OverrideNumbers:
	default:
		words = append(words, e.What)
	}
	for _, n := range []struct {
		name string
		n    int64
	}{{"rate", e.Rate}, {"capacity", e.Capacity}, {"maxReserved", e.MaxReserved}} {
		if n.n != 0 {
			words = append(words, fmt.Sprintf("%s %d", n.name, n.n))
		}
	}
	until := "for good"
	if !e.Until.Equal(runtime.ForGood()) {
		until = "until " + Moment(e.Until)
	}
	return strings.Join(append(words, until), ", ")
}

// Exception says what limits.yaml gives a key of a limit in place of its numbers, and why; "" for a key without an
// exception.
func (p Program) Exception(l *runtime.CatalogLimit, key runtime.Key) string {
	x, ok := l.Exception(key)
	if !ok {
		return ""
	}
	var gives []string
	add := func(name string, n int64) {
		if n > 0 {
			gives = append(gives, fmt.Sprintf("%s %d", name, n))
		}
	}
	if 0 < x.Plan && x.Plan <= len(p.Catalog.Plans) {
		gives = append(gives, "plan "+p.Catalog.Plans[x.Plan-1])
	}
	if x.Mode != runtime.ModeEnforce {
		gives = append(gives, "mode "+x.Mode.String())
	}
	if x.Numbers.Unlimited {
		gives = append(gives, "rate unlimited")
	}
	add("rate", x.Numbers.Rate)
	add("capacity", x.Numbers.Full())
	add("maxReserved", x.Numbers.MaxReserved)
	return strings.Join(gives, ", ") + ": " + printable.Line(x.Reason)
}
