package sim

import (
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Sides returns the replays of the two sides.
func (c *Comparison) Sides() (old, new *Replay) { return c.old, c.new }

// Left returns the tokens that a key of a limit has at an instant, in nanoseconds since 1970 UTC, and changes nothing.
// The key is as in [Answer]. It is false for a key without requests, for a limit whose mode keeps no count, and for a
// calendar that differs from key to key.
func (r *Replay) Left(limit, key string, at int64) (tokens float64, ok bool) {
	s := r.byName[limit]
	if s == nil || len(s.Members) > 0 {
		return 0, false
	}
	known, p := s.keys[key], s.Policy
	if known == nil || p.Calendar.PerKey() || !p.Mode.Counts() {
		return 0, false
	}
	k := *known // whose count of picks decides by which shards its next request is decided
	d, err := k.step(at, runtime.Request{Op: runtime.Peek})
	return d.Value, err == nil
}

// HasGroup reports whether a name is that of a group.
func (r *Replay) HasGroup(name string) bool {
	s := r.byName[name]
	return s != nil && len(s.Members) > 0
}
