package override

import (
	"cmp"
	"hash/maphash"
	"math"
	"slices"
	"sync/atomic"
	"time"
	"unique"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
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

// parts is a table in parts, so that a change copies one of them: at 100,000 keys, 400 of these and the 8 kB of the
// parts themselves.
type parts [256]part

type part struct {
	// entries are in the order of their hashes. A slice needs half of the memory of a map, which has free space in it.
	entries []slot
	// ends is when the first entry ends, or earlier.
	ends int64
}

// slot is a block or an override of a key, with the hash of the key.
type slot struct {
	hash uint64
	*inForce
}

// limitKey is a key of a limit, or the whole limit if key is empty.
type limitKey struct{ limit, key string }

var hashSeed = maphash.MakeSeed()

func (k limitKey) hash() uint64 { return maphash.Comparable(hashSeed, k) }

// index returns the index of the part of the keys with a hash.
func (*parts) index(hash uint64) int { return int(hash % uint64(len(parts{}))) }

// of returns the overrides of a key, or with the key "" the overrides of the whole limit.
func (s *Snapshot) of(limit, key string) (k keyOverrides) {
	at := limitKey{limit, key}
	hash := at.hash()
	p := &s.shards[s.shards.index(hash)]
	for _, o := range p.entries[p.search(hash):] {
		switch {
		case o.hash != hash:
			return k
		case !o.isOf(at):
		case o.isBlock():
			k.block = o.inForce
		default:
			k.override = o.inForce
		}
	}
	return k
}

// search returns the index of the first entry with a hash, or of where it would be.
func (p *part) search(hash uint64) int {
	i, _ := slices.BinarySearchFunc(p.entries, hash, func(s slot, hash uint64) int { return cmp.Compare(s.hash, hash) })
	return i
}

// keyOverrides is the newest block and override of a key. Each may have ended.
type keyOverrides struct{ block, override *inForce }

// inForce is an entry, and the policies that it puts in force.
type inForce struct {
	compact
	// policies are made at their first use, and kept: a lease belongs to the address of its policy.
	policies atomic.Pointer[[]effectivePolicy]
}

// compact is an entry in a third of the memory of a [runtime.OverrideEntry].
type compact struct {
	common                      unique.Handle[common]
	key, reason                 string
	id                          int64
	rate, capacity, maxReserved int64
	until, at                   int64
}

// common is what many entries have in common.
type common struct {
	limit, what, plan, author string
	most                      runtime.OverrideBounds
}

func compactOf(e *runtime.OverrideEntry) compact {
	return compact{
		common: unique.Make(common{e.Limit, e.What, e.Plan, e.Author, e.Most}), key: e.Key, reason: e.Reason, id: e.ID,
		rate: e.Rate, capacity: e.Capacity, maxReserved: e.MaxReserved, until: e.Until.UnixNano(), at: e.At.UnixNano(),
	}
}

func (c *compact) entry() runtime.OverrideEntry {
	of := c.common.Value()
	return runtime.OverrideEntry{
		ID: c.id, Limit: of.limit, Key: c.key, What: of.what, Plan: of.plan, Rate: c.rate, Capacity: c.capacity, MaxReserved: c.maxReserved,
		Most: of.most, Until: arith.Time(c.until), Reason: c.reason, Author: of.author, At: arith.Time(c.at),
	}
}

// apply is [runtime.OverrideEntry.Apply] of the entry until an instant, at which it may be in force still.
func (c *compact) apply(p, next *runtime.Policy, until int64) (*runtime.Policy, error) {
	e := c.entry()
	e.Until = arith.Time(until)
	return e.Apply(p, next)
}

func (c *compact) isOf(k limitKey) bool { return c.key == k.key && c.common.Value().limit == k.limit }

func (c *compact) isBlock() bool { return c.common.Value().what == runtime.OverrideBlock }

// effectivePolicy is the policy in force in place of base, until next is.
type effectivePolicy struct {
	base, next, effective *runtime.Policy
	err                   error
}

// maxEffective is how many policies of an entry are kept, more than a limit has plans. Only a program that makes a
// policy for each request has more.
const maxEffective = 256

// policy returns the policy that is in force in place of base until an instant, and next from then on.
func (o *inForce) policy(base, next *runtime.Policy, until int64) (*runtime.Policy, error) {
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
	effective, err := o.apply(base, next, until)
	kept := slices.Clone(known)
	if made := (effectivePolicy{base, next, effective, err}); outdated < 0 {
		kept = append(kept, made)
	} else {
		kept[outdated] = made
	}
	if len(kept) <= maxEffective && !o.policies.CompareAndSwap(before, &kept) {
		return o.policy(base, next, until)
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
	p = p.Inside().Base() // p may have come from a decision
	whole, own := s.of(p.Name, ""), s.of(p.Name, key)
	if whole == (keyOverrides{}) && own == (keyOverrides{}) {
		return p, nil
	}
	order := [...]*inForce{lastOf(whole.block, own.block), own.override, whole.override}
	return firstOf(order[:], p, now())
}

// firstOf returns the policy that the first of some entries which has not ended puts in force in place of p. The policy
// has the ones that follow it: each is in force only after the entries before it have ended.
func firstOf(order []*inForce, p *runtime.Policy, now int64) (*runtime.Policy, error) {
	for i, o := range order {
		if o = o.live(now); o == nil {
			continue
		}
		if o.isBlock() {
			return o.policyOver(order[i:], p, now)
		}
		var next *runtime.Policy
		if o.until != math.MaxInt64 {
			// nil after an error: the end is then not known.
			next, _ = firstOf(order[i+1:], p, o.until)
		}
		return o.policy(p, next, o.until)
	}
	return p, nil
}

// policyOver returns the policy that a block, the first of some entries, puts in force in place of p. Its numbers are those
// of the override behind it, until the first of the two ends.
func (o *inForce) policyOver(order []*inForce, p *runtime.Policy, now int64) (*runtime.Policy, error) {
	behind, err := firstOf(order[1:], p, now)
	if err != nil {
		behind = p
	}
	until, then := o.until, order[1:]
	if _, ends := behind.Inside().Next(); ends != 0 && ends < until {
		until, then = ends, order
	}
	var next *runtime.Policy
	if until != math.MaxInt64 {
		next, _ = firstOf(then, p, until)
	}
	return o.policy(behind, next, until)
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
		if !p.Inside().Equal(denied[i].Policy) {
			return 0
		}
		if _, ends := p.Inside().Next(); ends != 0 {
			shortest = min(shortest, time.Duration(ends-now()))
		}
	}
	return shortest
}
