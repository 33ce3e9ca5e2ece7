// Package ids has the name of another package with types that are parts of keys.
package ids

// TeamID writes itself.
type TeamID string

// MarshalText returns the ID.
func (t TeamID) MarshalText() ([]byte, error) { return []byte(t), nil }
