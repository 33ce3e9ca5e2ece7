// Package trait has the set of what requests of a policy need beyond the rows of their keys.
package trait

// Set is a set of traits. A plain limit has the zero Set: a call of such limits goes to the store, and its answer
// to the caller.
type Set uint8

const (
	// Overrides: keys may have another policy in force, by a runtime.Override.
	Overrides Set = 1 << iota
	// Mode: the mode is not runtime.ModeEnforce, or the policy denies every request, so that requests may need no rows.
	Mode
	// Timeout: the policy, or for a plan without numbers one of its other plans, has a timeout.
	Timeout
	// Lease: the policy has a runtime.Lease.
	Lease
	// Local: decisions are remembered, for runtime.FailLocal.
	Local
	// Jitter: the policy, or for a plan without numbers one of its other plans, has a jitter.
	Jitter
	// Calendar: the windows of a key depend on its time zone or anniversary.
	Calendar
	// Slots: the policy is runtime.InFlight.
	Slots
)

// Have reports whether the set has a trait, or one of several.
func (s Set) Have(any Set) bool { return s&any != 0 }
