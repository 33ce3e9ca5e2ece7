package meter

import "github.com/ratelimitgen/ratelimitgen/runtime"

// Applied returns the decision of an enforced limit as a mode changes it, given the operation of the request and its
// count: in ModeShadow a denial becomes an allowance, a delay becomes 0, and a TakeUpTo may use its whole count; these
// are Shadowed.
func Applied(m runtime.Mode, d runtime.Decision, op runtime.Op, count int64) runtime.Decision {
	if m != runtime.ModeShadow {
		return d
	}
	if !d.Allowed || d.UsableAfter > 0 {
		d.Allowed, d.Shadowed, d.RetryAfter, d.UsableAfter = true, true, 0, 0
	}
	if op.UpTo() && d.Taken < count {
		d.Shadowed, d.Receipt.Free, d.Taken = true, count-d.Taken, count
	}
	return d
}

// Decided returns d, the decision of an enforced limit on a request at the instant now, as the policy's mode changes
// it.
func Decided(q *runtime.Request, d runtime.Decision, now int64) runtime.Decision {
	d = Applied(q.Policy.Mode, d, q.Op, q.Count)
	d.Limit, d.Policy, d.BlockedFor = q.Policy.Name, q.Policy, q.Policy.Inside().BlockedFor(now)
	return d
}
