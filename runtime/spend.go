package runtime

import "context"

// LocalTaker is a [Store] that holds tokens which it has already taken, and can hand them out in this process. See [Lease].
type LocalTaker interface {
	Store
	// TakeLocal takes n tokens of a key from those that the store holds. If it returns false, nothing was taken and Do
	// decides. The policy has a Lease, and may be invalid.
	TakeLocal(p *Policy, key string, n int64) (Decision, bool)
}

// spend takes tokens that the store holds already.
func (h Handle) spend(ctx context.Context, q Request) (Decision, bool) {
	if h.policy == nil || h.policy.Lease.Tokens == 0 || q.Op != Take || q.Reserve || h.key.err != nil || h.limiter == nil {
		return Decision{}, false
	}
	s, ok := h.limiter.store.(LocalTaker)
	if !ok || ctx.Err() != nil {
		return Decision{}, false
	}
	return s.TakeLocal(h.policy, h.key.text, q.Count)
}
