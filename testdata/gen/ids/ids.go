// Package ids has a type that is part of keys.
package ids

// UserID writes itself.
type UserID struct{ ID string }

// MarshalText returns the ID.
func (u UserID) MarshalText() ([]byte, error) { return []byte(u.ID), nil }
