package runtime

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Exception is what limits.yaml gives one key of a limit in place of the numbers of its plan or of the limit: a plan,
// numbers or a Mode, of which it has one. It has no end: see [Override] for numbers that operators give for a time.
type Exception struct {
	// Key is the key as it is stored; see [Key.String].
	Key string
	// Plan is the number of a plan, as in [PlanNames].
	Plan int
	// Numbers replace those of the limit, except for those that are 0. If the limit's capacity equals its rate, a Rate without
	// Capacity is both. They have no effect on a plan without numbers: it is unlimited, or its rate is 0.
	Numbers Numbers
	// Mode is ModeBlock, ModeOff or ModeShadow.
	Mode Mode
	// Reason says why, for people.
	Reason string
}

// Exceptions has the exceptions of a limit. They are in memory, so that no decision needs a statement more.
type Exceptions struct {
	// policies are those of the limit, or with plans those at the plans' numbers.
	policies []*Policy
	list     []Exception
	// byKey has the indexes in list.
	byKey map[string]int32
	// made has the policy for each of list and each of policies, nil before its first use.
	made []atomic.Pointer[Policy]
	// shared has the *Policy of each given that has been used.
	shared sync.Map
}

// given is what an exception makes of a policy.
type given struct {
	policy  *Policy
	plan    int
	numbers Numbers
	mode    Mode
}

// Except returns the exceptions of the keys of a limit, and makes the policy know them. It must be called before the policy
// is used.
func (p *Policy) Except(list []Exception) *Exceptions { return newExceptions([]*Policy{p}, list) }

// Except is [Policy.Except] for a limit with plans.
func (p PlanPolicies) Except(list []Exception) *Exceptions {
	all := make([]*Policy, len(p))
	for i := range p {
		all[i] = &p[i]
	}
	return newExceptions(all, list)
}

func newExceptions(policies []*Policy, list []Exception) *Exceptions {
	// A program does this when it starts, for up to 10,000 keys.
	x := &Exceptions{policies: policies, list: list, byKey: make(map[string]int32, len(list))}
	for i := range list {
		x.byKey[list[i].Key] = int32(i)
	}
	x.made = make([]atomic.Pointer[Policy], len(list)*len(policies))
	for _, p := range policies {
		p.exceptions = x
	}
	return x
}

// For returns the policy of a key, and the key. The parameters may be the results of
// [PlanPolicies.For], and the results are the arguments of limiter.Limiter.Limit. A key without an exception keeps the
// policy.
func (x *Exceptions) For(p *Policy, key Key) (*Policy, Key) {
	if key.err == nil {
		p = x.of(p, key.text)
	}
	return p, key
}

// of returns the policy of a stored key.
func (x *Exceptions) of(p *Policy, key string) *Policy {
	i, ok := x.byKey[key]
	if !ok {
		return p
	}
	e, plan := &x.list[i], slices.Index(x.policies, p)
	if plan < 0 {
		return x.apply(p, e)
	}
	at := &x.made[int(i)*len(x.policies)+plan]
	if at.Load() == nil {
		// One address for equal policies, because leases and memories go by it.
		equal, _ := x.shared.LoadOrStore(given{p, e.Plan, e.Numbers, e.Mode}, x.apply(p, e))
		at.Store(equal.(*Policy))
	}
	return at.Load()
}

// apply returns the policy of a key with an exception.
func (x *Exceptions) apply(p *Policy, e *Exception) *Policy {
	of := *p
	switch {
	case p.excepted != nil:
		return p
	case 0 < e.Plan && e.Plan < len(x.policies):
		of = *x.policies[e.Plan]
	case e.Mode == ModeBlock:
		if p.numberless() {
			// A policy needs numbers, even if it is blocked.
			of = *x.counted(p)
		}
		of.Mode = ModeBlock
	case p.numberless():
		return p
	case e.Mode != ModeEnforce:
		of.Mode = e.Mode
	case e.Numbers.Unlimited && p.Mode.Counts():
		of.Mode = ModeUnlimited
	case !e.Numbers.Unlimited:
		of.except(e.Numbers)
	}
	of.excepted, of.identity, of.relaxed = p, p.identity, p.relaxed
	of.relax()
	return &of
}

// counted returns the first policy of the limit that has numbers, or p.
func (x *Exceptions) counted(p *Policy) *Policy {
	for _, of := range x.policies {
		if !of.numberless() && of.Kind != 0 {
			return of
		}
	}
	return p
}

// except replaces the numbers of the policy by those of an exception. Operators can give at least as much.
func (p *Policy) except(n Numbers) {
	if n.Capacity == 0 && (p.Capacity == p.Rate || !p.Kind.Linear()) {
		n.Capacity = n.Rate
	}
	given := n.each()
	p.change(func(i int, own int64) int64 {
		if given[i] == 0 {
			return own
		}
		return given[i]
	})
	p.Lease.Tokens = min(p.Lease.Tokens, p.Capacity)
	if b := &p.Overrides; p.Overridable() {
		b.Rate, b.Capacity, b.MaxReserved, b.Slots = max(b.Rate, p.Rate), max(b.Capacity, p.Capacity),
			max(b.MaxReserved, p.MaxReserved), max(b.Slots, p.Slots)
	}
}

// numbered returns the policy whose numbers those of an operator replace: not one of an exception that gives none.
func (p *Policy) numbered() *Policy {
	if p.excepted != nil && p.Mode != p.excepted.Mode {
		return p.excepted
	}
	return p
}

// Exceptions returns the exceptions of the limit, in the order of the file.
func (l *CatalogLimit) Exceptions() []Exception {
	if len(l.Policies) == 0 || l.Policies[0].exceptions == nil {
		return nil
	}
	return l.Policies[0].exceptions.list
}

// Exception returns the exception of a key of the limit, or false if it has none.
func (l *CatalogLimit) Exception(key Key) (Exception, bool) {
	if len(l.Policies) > 0 && l.Policies[0].exceptions != nil {
		x := l.Policies[0].exceptions
		if i, ok := x.byKey[key.text]; ok {
			return x.list[i], true
		}
	}
	return Exception{}, false
}
