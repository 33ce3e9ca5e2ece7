// Package runtime has the name of a package that generated code imports.
package runtime

// ProcessID writes itself.
type ProcessID string

// MarshalText returns the ID.
func (p ProcessID) MarshalText() ([]byte, error) { return []byte(p), nil }
