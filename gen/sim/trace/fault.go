package trace

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
	"github.com/ratelimitgen/ratelimitgen/internal/printable"
)

// Fault is an error in a line of a trace.
type Fault struct {
	// Line counts from 1.
	Line int
	// Column is the place in the line, counted in runes from 1; 0 if the fault concerns the whole line.
	Column int
	// Reason describes the fault, without the value of a key.
	Reason string
	// Unknown is the limit of the line, if there is no limit of that name.
	Unknown string
	// Cause is the error of the limiter, or nil.
	Cause error
}

// Error returns the place and the reason: "3:17: count must be a whole number, not a string".
func (f *Fault) Error() string {
	if f.Column == 0 {
		return fmt.Sprintf("%d: %s", f.Line, f.Reason)
	}
	return fmt.Sprintf("%d:%d: %s", f.Line, f.Column, f.Reason)
}

// Unwrap returns Cause.
func (f *Fault) Unwrap() error { return f.Cause }

// Faultf returns a fault of a whole line.
func Faultf(format string, args ...any) *Fault { return &Fault{Reason: fmt.Sprintf(format, args...)} }

// columnFault is a fault at the byte at.
func columnFault(text []byte, at int, format string, args ...any) *Fault {
	f := Faultf(format, args...)
	f.Column = 1 + utf8.RuneCount(text[:at])
	return f
}

// Clip returns a text as [printable.Line] does, cut to width cells. It cuts between escapes, where [cells.Fit] could
// cut one in two.
func Clip(text string, width int) string {
	var out strings.Builder
	used, cut := 0, 0
	for sign := range printable.Signs(text) {
		out.WriteString(sign)
		used += cells.Of(sign)
		switch {
		case used < width:
			cut = out.Len() // the "…" still fits after it
		case used > width:
			return out.String()[:cut] + "…"
		}
	}
	return out.String()
}
