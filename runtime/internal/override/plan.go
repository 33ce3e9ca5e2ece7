package override

// PlanName is the name of a plan, for the Plan of a [runtime.Override] where the generated constants are not known.
type PlanName string

// MarshalText returns the name.
func (p PlanName) MarshalText() ([]byte, error) { return []byte(p), nil }
