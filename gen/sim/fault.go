package sim

import "fmt"

// Fault is what is wrong with a line of a trace.
type Fault struct {
	// Line counts from 1.
	Line int
	// Column is where in the line it is, counted in runes from 1; 0 if it is about the line as a whole.
	Column int
	// Reason says what is wrong, without the value of a key.
	Reason string
	// Unknown is the name of the limit that was asked, if there is none of that name.
	Unknown string

	cause error
}

// Error says where the fault is, and what it is: "3:17: count must be a whole number, not a string".
func (f *Fault) Error() string {
	if f.Column == 0 {
		return fmt.Sprintf("%d: %s", f.Line, f.Reason)
	}
	return fmt.Sprintf("%d:%d: %s", f.Line, f.Column, f.Reason)
}

// Unwrap returns what the limiter said, if it was asked: [runtime.ErrExceedsCapacity] or
// [runtime.ErrInvalidCount].
func (f *Fault) Unwrap() error { return f.cause }

func faultf(format string, args ...any) *Fault { return &Fault{Reason: fmt.Sprintf(format, args...)} }
