package lease

import "github.com/ratelimitgen/ratelimitgen/runtime"

// returning is a key whose block is being given back. For as long, it counts as a renewal: who resets the key waits
// for it, or tokens from before the reset would come back after it.
type returning struct {
	key  *key
	call runtime.Call
}

// returnAll ends the blocks of the keys whose tokens calls ask for, and returns what is to be given back, until
// returned.
func (s *Store) returnAll(calls []runtime.Call) (all []returning) {
	for _, c := range calls {
		for _, q := range c.Requests {
			asks := q.Op == runtime.Take || q.Op == runtime.Check || q.Op == runtime.Peek
			if !asks || !leases(q) {
				continue
			}
			s.mu.Lock()
			if k := s.keys[id{q.Policy, q.Key}]; k != nil && k.under == nil {
				all = append(all, k.returning()...)
			}
			s.mu.Unlock()
		}
	}
	return all
}

// returning ends the block, and begins to give it back if there was something left. The store is locked.
func (k *key) returning() []returning {
	var all []returning
	for _, call := range k.giveBack() {
		k.under = &renewal{done: make(chan struct{})}
		all = append(all, returning{k, call})
	}
	return all
}

// returned ends what returning began. The keys are forgotten until they are asked of again.
func (s *Store) returned(all []returning) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range all {
		close(r.key.under.done)
		r.key.under = nil
		s.forget(r.key)
	}
}
