package override

import (
	"hash/maphash"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Snapshot is the overrides as of one read. It is never changed.
type Snapshot struct {
	// last is the newest entry that was read.
	last   runtime.OverrideEntry
	shards *parts
	// changed is closed when another snapshot replaces this one.
	changed chan struct{}
}

// Changed returns a channel that is closed when another snapshot replaces this one.
func (s *Snapshot) Changed() <-chan struct{} { return s.changed }

// Has reports whether a block and an override of a key, or with the key "" of the whole limit, are in force.
func (s *Snapshot) Has(limit, key string, now int64) (block, override bool) {
	k := s.of(limit, key).live(now)
	return k.block != nil, k.override != nil
}

// parts is a map in parts, so that a change copies one of them: at 100,000 keys, 200 of these and the 8 kB of the
// parts themselves.
type parts [512]part

type part struct {
	keys map[limitKey]keyOverrides
	// ends is when the first entry ends, or earlier.
	ends int64
}

// limitKey is a key of a limit, or the whole limit if key is empty.
type limitKey struct{ limit, key string }

var shardSeed = maphash.MakeSeed()

func (k limitKey) shard() int {
	return int(maphash.String(shardSeed, k.key) % uint64(len(parts{})))
}

// of returns the overrides of a key, or with the key "" those of the whole limit.
func (s *Snapshot) of(limit, key string) keyOverrides {
	at := limitKey{limit, key}
	return s.shards[at.shard()].keys[at]
}

// keyOverrides is the newest block and override of a key. Each may have ended.
type keyOverrides struct{ block, override *inForce }

// inForce is an entry, and the policies that it puts in force.
type inForce struct {
	entry runtime.OverrideEntry
	until int64
	// policies are made at their first use, and kept: a lease belongs to the address of its policy.
	policies atomic.Pointer[[]effectivePolicy]
}

// effectivePolicy is the policy in force in place of base, until next is.
type effectivePolicy struct {
	base, next, effective *runtime.Policy
	err                   error
}

// maxEffective is how many policies of an entry are kept, more than a limit has plans. Only a program that makes a policy
// for each request has more.
const maxEffective = 256

// policy returns the policy that is in force in place of base, until next is.
func (o *inForce) policy(base, next *runtime.Policy) (*runtime.Policy, error) {
	var known []effectivePolicy
	before := o.policies.Load()
	if before != nil {
		known = *before
	}
	outdated := -1
	for i := range known {
		switch {
		case known[i].base != base:
		case known[i].next == next:
			return known[i].effective, known[i].err
		default:
			outdated = i
		}
	}
	effective, err := o.entry.Apply(base, next)
	kept := slices.Clone(known)
	if made := (effectivePolicy{base, next, effective, err}); outdated < 0 {
		kept = append(kept, made)
	} else {
		kept[outdated] = made
	}
	if len(kept) <= maxEffective && !o.policies.CompareAndSwap(before, &kept) {
		return o.policy(base, next)
	}
	return effective, err
}

// live returns o if it has not ended.
func (o *inForce) live(now int64) *inForce {
	if o == nil || o.until != math.MaxInt64 && now >= o.until {
		return nil
	}
	return o
}

// live returns the entries that have not ended.
func (k keyOverrides) live(now int64) keyOverrides {
	return keyOverrides{k.block.live(now), k.override.live(now)}
}

// Policy returns the policy in force for a key.
func (s *Snapshot) Policy(p *runtime.Policy, key string, now func() int64) (*runtime.Policy, error) {
	p = p.Base() // p may have come from a decision
	whole, own := s.of(p.Name, ""), s.of(p.Name, key)
	if whole == (keyOverrides{}) && own == (keyOverrides{}) {
		return p, nil
	}
	order := [...]*inForce{lastOf(whole.block, own.block), own.override, whole.override}
	return firstOf(order[:], p, now())
}

// firstOf returns the policy that the first of some entries which has not ended puts in force in place of p. The policy has
// the ones that follow it: each is in force only after the entries before it have ended.
func firstOf(order []*inForce, p *runtime.Policy, now int64) (*runtime.Policy, error) {
	for i, o := range order {
		if o = o.live(now); o == nil {
			continue
		}
		var next *runtime.Policy
		if o.until != math.MaxInt64 {
			// nil after an error: the end is then not known.
			next, _ = firstOf(order[i+1:], p, o.until)
		}
		return o.policy(p, next)
	}
	return p, nil
}

// lastOf returns the one that ends last. Both may be nil.
func lastOf(a, b *inForce) *inForce {
	if a == nil || b != nil && b.until > a.until {
		return b
	}
	return a
}

// Lasts returns how long the policies by which requests were denied stay in force. It is 0 if one of them was replaced,
// even by one that denies more: the next try finds that.
func (s *Snapshot) Lasts(requests []runtime.Request, denied []runtime.Decision, now func() int64) time.Duration {
	shortest := runtime.Never
	for i, q := range requests {
		if !q.Policy.Overridable() || denied[i].Policy == nil {
			continue
		}
		p, err := s.Policy(q.Policy, q.Key, now)
		if err != nil {
			continue
		}
		// Not by address, because a cached denial has the policy of another request.
		if !p.Equal(denied[i].Policy) {
			return 0
		}
		if _, ends := p.Next(); ends != 0 {
			shortest = min(shortest, time.Duration(ends-now()))
		}
	}
	return shortest
}
