package lease

import (
	"context"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// hold forgets the blocks of the keys that calls reset, which are full again without them, and has the keys do
// without one until they are released. It waits for blocks that are under way: they may be taken before the
// reset, and must not be spent after it.
func (s *Store) hold(ctx context.Context, calls []runtime.Call) (held []*key, err error) {
	for _, c := range calls {
		for _, q := range c.Requests {
			if q.Op != runtime.Reset || !leases(q) {
				continue
			}
			k, under := s.holdKey(id{q.Policy, q.Key})
			held = append(held, k)
			if under != nil {
				select {
				case <-under.done:
				case <-ctx.Done():
					return held, ctx.Err()
				}
			}
			k.end()
		}
	}
	return held, nil
}

// holdKey holds a key, and returns the renewal of it that is under way.
func (s *Store) holdKey(at id) (*key, *renewal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.know(at)
	k.held++
	return k, k.under
}

// release lets go of keys, and forgets those that have nothing to be known for.
func (s *Store) release(held []*key) {
	if len(held) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range held {
		k.held--
		if k.block.Load() == nil && k.under == nil {
			s.forget(k)
		}
	}
}
