// Package init has a name that no import can have.
package init

// StepID writes itself.
type StepID string

// MarshalText returns the ID.
func (s StepID) MarshalText() ([]byte, error) { return []byte(s), nil }
