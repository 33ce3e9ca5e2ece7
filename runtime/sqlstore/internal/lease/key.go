package lease

import (
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// key is what is known of one key of a limit. All but its block is locked by the store.
type key struct {
	id
	block atomic.Pointer[block]
	// under is the renewal that is under way, nil if there is none.
	under *renewal
	// held counts those who reset it: until they have, it does without a block.
	held int
	// alone is until when the key does without a block, for there are not enough tokens for one.
	alone time.Time
	// timer forgets the key when its block has ended, or it is no longer alone.
	timer *time.Timer
}

// block is tokens that have been taken.
type block struct {
	left atomic.Int64
	// ends is when it can no longer be spent, by this process's clock, and over the same by the store's.
	ends, over time.Time
	// takenAt is when it was taken, by the clock of the store behind.
	takenAt int64
}

// left returns how many tokens the block has that can be spent.
func (k *key) left(clock func() time.Time) int64 {
	if b := k.block.Load(); b != nil && b.lasts(clock) {
		return b.left.Load()
	}
	return 0
}

// lasts reports whether the block can still be spent. (Until asks the monotonic clock only, in half of the time that
// Now takes.)
func (b *block) lasts(clock func() time.Time) bool {
	return time.Until(b.ends) > 0 && (clock == nil || clock().Before(b.over))
}

// spend takes n tokens from the block, and returns it and how many are left; nil if it does not have them.
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

// end ends the block, and returns it with what was left in it.
func (k *key) end() (b *block, left int64) {
	if b = k.block.Swap(nil); b == nil {
		return nil, 0
	}
	return b, b.left.Swap(0)
}

// giveBack ends the block, and returns the call that gives back what was left in it.
func (k *key) giveBack() []runtime.Call {
	b, left := k.end()
	if left == 0 {
		return nil
	}
	return []runtime.Call{k.call(runtime.Request{Op: runtime.Refund, Count: left, TakenAt: b.takenAt})}
}

func (k *key) call(q runtime.Request) runtime.Call {
	q.Policy, q.Key = k.policy, k.key
	return runtime.Call{Requests: []runtime.Request{q}}
}
