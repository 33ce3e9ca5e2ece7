package runtime

import "context"

// Spender is a [Store] that holds tokens which have been taken already, and can spend them without being
// asked by Do. See [Lease].
type Spender interface {
	Store
	// Spend takes n tokens of a key, or returns false: then Do is to be asked. The policy has a Lease, and
	// may be invalid if it has not been asked before.
	Spend(p *Policy, key string, n int64) (Decision, bool)
}

// spend takes tokens that the store holds already.
func (h Handle) spend(ctx context.Context, q Ask) (Decision, bool) {
	if h.policy == nil || h.policy.Lease.Tokens == 0 || q.Op != Take || q.Reserve || h.key.err != nil || h.limiter == nil {
		return Decision{}, false
	}
	s, ok := h.limiter.store.(Spender)
	if !ok || ctx.Err() != nil {
		return Decision{}, false
	}
	return s.Spend(h.policy, h.key.text, q.Count)
}
