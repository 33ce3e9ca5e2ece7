package runtime

import (
	"strings"
)

// Row identifies a stored [State].
type Row struct {
	// Name is that of the policy.
	Name string
	// Key is the key as it is stored.
	Key string
	// Shard counts from 0.
	Shard int
}

// Compare orders rows by name, key and shard. Every store locks rows in this order, so that transactions do not deadlock.
func (r Row) Compare(o Row) int {
	if c := strings.Compare(r.Name, o.Name); c != 0 {
		return c
	}
	if c := strings.Compare(r.Key, o.Key); c != 0 {
		return c
	}
	return r.Shard - o.Shard
}

// State is the stored count of one key of a limit, or of one shard of it. The zero State is that of a new key, which is
// full.
type State struct {
	// Value is minus the number of tokens that the key lacked of a full one as of TS, so that capacity + Value of them
	// were available. For a [SlidingWindow] it is minus the tokens used in the window that begins at TS, and for a precise
	// one minus the tokens in its log. An edit of the capacity does not change Value: what was used stays used.
	Value float64
	// TS is the instant as of which Value holds, in nanoseconds since 1970 UTC. It never moves back.
	TS int64
	// Prev is the number of tokens used in the window before TS, for a [SlidingWindow], or if it was reset, a mark between -1
	// and 0; for a precise one, a number of at most -1 that locates its other rows; otherwise minus the tokens ever taken,
	// from a start derived from the instant of the first take, times [TotalUnit].
	Prev float64
	// Exists distinguishes a stored State from that of a new key.
	Exists bool
}
