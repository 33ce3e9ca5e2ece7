package lease

import (
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// resetAfter is [runtime.Decision.ResetAfter] for tokens of the block.
func (b *block) resetAfter() time.Duration {
	if b.windowEnd.IsZero() {
		return 0
	}
	return max(0, time.Until(b.windowEnd))
}

// lasts reports whether the block can still be spent.
func (b *block) lasts(clock func() time.Time) bool {
	// Until reads only the monotonic clock, which takes half of the time that Now takes.
	return time.Until(b.end) > 0 && (clock == nil || clock().Before(b.endByStore))
}

// spend takes n tokens from the block, and returns the block and its rest, or nil if it has fewer.
func (k *key) spend(n int64, clock func() time.Time) (b *block, left int64) {
	b = k.block.Load()
	if b == nil || !b.lasts(clock) {
		return nil, 0
	}
	for {
		left := b.left.Load()
		if left < n {
			return nil, 0
		}
		if b.left.CompareAndSwap(left, left-n) {
			return b, left - n
		}
	}
}

// endBlock ends the block, and returns it with its rest.
func (k *key) endBlock() (b *block, left int64) {
	if b = k.block.Swap(nil); b == nil {
		return nil, 0
	}
	// A concurrent spend may have loaded the block before: it now finds 0 tokens, so none are both spent and refunded.
	return b, b.left.Swap(0)
}

// endWithRefund ends the block, and returns the call that refunds its rest, if there is one.
func (k *key) endWithRefund() []runtime.Call {
	b, left := k.endBlock()
	if left == 0 {
		return nil
	}
	q := b.refund
	q.Count = left
	return []runtime.Call{k.call(q)}
}

// report gives a decision that has taken tokens the threshold that the takes of blocks have crossed.
func (k *key) report(d *runtime.Decision) {
	if k.crossed.Load() != 0 {
		d.Crossed = max(d.Crossed, uint8(k.crossed.Swap(0)))
	}
}

// reportIn is report for the first of the calls that has taken tokens of the key: its block has ended, possibly before any
// of its tokens were spent.
func (k *key) reportIn(calls []runtime.Call, answers []runtime.Answer) {
	for i, a := range answers {
		for j := range a.Decisions {
			q, d := &calls[i].Requests[j], &a.Decisions[j]
			if q.Policy == k.policy && q.Key == k.key && !d.TakenAt.IsZero() {
				k.report(d)
			}
		}
	}
}

func (k *key) call(q runtime.Request) runtime.Call {
	q.Policy, q.Key = k.policy, k.key
	return runtime.Call{Requests: []runtime.Request{q}}
}

// maxKeys is how many keys can have a block at once. Each uses about 450 bytes and the length of the key, so together they
// use up to 32 MB, or 48 MB with keys of the maximum length.
const maxKeys = 1 << 16

func (s *Store) getOrCreateLocked(at id) *key {
	k := s.keys[at]
	if k == nil {
		// The caller's key may be a substring of a whole HTTP request, which the map would keep in memory.
		at.key = strings.Clone(at.key)
		k = &key{id: at}
		s.keys[at] = k
		s.peak = max(s.peak, len(s.keys))
	}
	return k
}

// smallMap is how large the map of keys may have been and still be kept when it is empty.
const smallMap = 1024

// removeLocked removes a key, unless it is being reset.
func (s *Store) removeLocked(k *key) {
	// The map may have another key of this name by now.
	if s.keys[k.id] == k && k.resets == 0 {
		delete(s.keys, k.id)
	}
	// Go's maps do not shrink: after a burst, an empty one would still use megabytes.
	if len(s.keys) == 0 && s.peak > smallMap {
		s.keys, s.peak = map[id]*key{}, 0
	}
}
