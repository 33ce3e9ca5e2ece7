package model

import (
	"math"
	"math/big"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// limit is a limit of a world: its policies by plan, its keys, and the overrides in force.
type limit struct {
	// traits are the values of its fields, as they are named in the table of pairs.
	traits values
	names  runtime.PlanNames
	// policies are by the number of the plan; a limit without plans has one, at 0.
	policies runtime.PlanPolicies
	// exceptions are the product's, nil without any; keys have them for the model.
	exceptions *runtime.Exceptions
	// classes are those of its requests, and prices what their units cost; nil without any.
	classes runtime.Priorities
	prices  runtime.Prices
	keys    []*key
	// whole are the overrides of the whole limit.
	whole overrides
	// edits counts the edits of its numbers.
	edits int
	back  bool
}

// key is a key of a limit.
type key struct {
	of      runtime.Key
	windows windows
	history history
	own     overrides
	// exception is the one of the key in the file, or nil.
	exception *runtime.Exception
	// penalties are those that denials have started, the last one at the end.
	penalties []penalty
	// leased are the uses of tokens that may have been leased.
	leased []use
	// life is the number of its life: tokens that were taken in another one cannot be given back.
	life int
	// wasReset means that there was a reset of the key.
	wasReset bool
	// numbers are those of the last request.
	numbers runtime.Numbers
	// denied is the last request that was denied, which callers repeat.
	denied *request
	// seen is what a key of a limit with shards had after the last request.
	seen *seen
	// just is what a key of a limit with shards has before a request.
	just   float64
	justBy terms
	// reported means that the process has learned what the key has after its last request.
	reported bool
	// returned means that tokens were given back of which the stored numbers do not say exactly how many.
	returned bool
	// deleted means that an erasure, or a sweep by a clock that was ahead, may have deleted its row.
	deleted bool
}

// seen is what a key of a limit with shards had at an instant, and how many tokens it had been asked for and used by
// then.
type seen struct {
	at          int64
	value       float64
	by          terms
	taken, used *big.Rat
}

// penalty is one of a key: when it ends, and which of the limit's it is, counted from 0.
type penalty struct {
	until  int64
	number int
}

// use is tokens that were used at an instant.
type use struct{ at, tokens int64 }

// overrides is the newest block and override of a key, or of a whole limit.
type overrides struct{ block, override *entry }

// entry is what an operator has put in force; a block has the Mode of one.
type entry struct {
	runtime.Override
	plan  int
	until int64
}

func (e *entry) live(now int64) bool { return e != nil && now < e.until }

// inUse returns the policies of the plans, or the one of a limit without plans.
func (l *limit) inUse(of runtime.PlanPolicies) runtime.PlanPolicies {
	if l.names != nil {
		return of[1:] // requests without a plan are not made
	}
	return of
}

// termsOf returns the terms of a policy for a key.
func (k *key) termsOf(p *runtime.Policy) terms {
	t := terms{Numbers: numbersOf(p), mode: p.Mode, period: int64(p.Period), windows: k.windows,
		unlimited: p.Mode == runtime.ModeUnlimited, forgive: int64(p.Penalty.Forgive)}
	for _, lasts := range p.Penalty.Steps {
		if lasts > 0 {
			t.penalties = append(t.penalties, int64(lasts))
		}
	}
	if n := len(t.penalties); n > 0 && t.forgive == 0 {
		t.forgive = 10 * t.penalties[n-1]
	}
	return t
}

// numbersOf returns the numbers of a policy.
func numbersOf(p *runtime.Policy) runtime.Numbers {
	return runtime.Numbers{Rate: p.Rate, Capacity: p.Capacity, MaxReserved: p.MaxReserved}
}

// parts returns the numbers one by one.
func parts(n *runtime.Numbers) [3]*int64 { return [...]*int64{&n.Rate, &n.Capacity, &n.MaxReserved} }

// given returns the terms with the numbers that a caller gives in place of those of the policy.
func (t terms) given(p *runtime.Policy, n runtime.Numbers) terms {
	n = allowed(p, n)
	for i, into := range parts(&t.Numbers) {
		if of := *parts(&n)[i]; of > 0 && !t.unlimited {
			*into = of
		}
	}
	return t
}

// allowed returns the numbers that a caller gives, at most those that the policy allows.
func allowed(p *runtime.Policy, n runtime.Numbers) runtime.Numbers {
	return runtime.Numbers{Rate: min(n.Rate, p.AtMost.Rate), Capacity: min(n.Capacity, p.AtMost.Capacity),
		MaxReserved: min(n.MaxReserved, p.AtMost.MaxReserved)}
}

// slowest returns the terms by which a key is full last, of all that its callers can give. Those without a rate are of
// no plan.
func (l *limit) slowest(t terms) terms {
	p := l.counted()
	if t.Rate == 0 || p.AtMost.Rate == 0 {
		return t
	}
	t.Rate = int64(max(1, p.Shards))
	return t
}

// policy returns the policy of a plan.
func (l *limit) of(plan int) *runtime.Policy { return &l.policies[plan] }

// entry returns the entry in force for a key at an instant: a block, and of two the one that ends last; an override; or
// nil.
func (l *limit) entry(k *key, now int64) *entry {
	block := k.own.block
	if b := l.whole.block; b.live(now) && (!block.live(now) || b.until > block.until) {
		block = b
	}
	if block.live(now) {
		return block
	}
	return l.override(k, now)
}

// override returns the override of a key at an instant, also if a block is in force: that of the key itself, that of the
// whole limit, or nil.
func (l *limit) override(k *key, now int64) *entry {
	for _, e := range []*entry{k.own.override, l.whole.override} {
		if e.live(now) {
			return e
		}
	}
	return nil
}

// at returns the terms in force for a key at an instant.
func (l *limit) at(k *key, plan int, n runtime.Numbers, now int64) terms {
	n = allowed(l.of(plan), n)
	t := l.excepted(k, plan, n)
	if override := l.override(k, now); override != nil {
		t = override.apply(l, k, plan, n)
	}
	if e := l.entry(k, now); e != nil && e.Mode == runtime.ModeBlock {
		t.mode = runtime.ModeBlock
	}
	return t
}

// excepted returns the terms that the file gives a key: by its exception, if it has one, and otherwise by the plan.
func (l *limit) excepted(k *key, plan int, n runtime.Numbers) terms {
	t, e := k.termsOf(l.of(plan)).given(l.of(plan), n), k.exception
	switch {
	case e == nil:
	case e.Plan > 0:
		return k.termsOf(l.of(e.Plan))
	case e.Mode == runtime.ModeBlock:
		t = k.termsOf(l.countedOr(plan))
		t.mode = runtime.ModeBlock
	case t.unlimited:
	case e.Mode != runtime.ModeEnforce:
		t.mode = e.Mode
	case e.Numbers.Unlimited && t.counts():
		t.mode, t.unlimited = runtime.ModeUnlimited, true
	case !e.Numbers.Unlimited:
		t.Numbers = exceptional(t.Numbers, e.Numbers, l.of(plan).Kind)
	}
	return t
}

// countedOr returns the policy of a plan, or of the first one with numbers if that has none.
func (l *limit) countedOr(plan int) *runtime.Policy {
	if p := l.of(plan); p.Mode != runtime.ModeUnlimited {
		return p
	}
	return l.counted()
}

// exceptional returns numbers in which an exception replaces some.
func exceptional(own, by runtime.Numbers, kind runtime.Kind) runtime.Numbers {
	if by.Capacity == 0 && (own.Capacity == own.Rate || !kind.Linear()) {
		by.Capacity = by.Rate
	}
	for i, into := range parts(&own) {
		if of := *parts(&by)[i]; of > 0 {
			*into = of
		}
	}
	return own
}

// apply returns the terms that an override gives a key.
func (e *entry) apply(l *limit, k *key, plan int, given runtime.Numbers) terms {
	t := l.excepted(k, plan, given)
	x := k.exception
	switch numbers := e.plan == 0 && e.Mode == runtime.ModeEnforce; {
	case e.plan > 0:
		plan, x = e.plan, nil
		t = k.termsOf(l.of(plan)).given(l.of(plan), given)
	case numbers && x != nil && t.mode != l.of(plan).Mode:
		// The exception gives no numbers that an operator could replace.
		x, t = nil, k.termsOf(l.of(plan)).given(l.of(plan), given)
	case x != nil && x.Plan > 0:
		plan = x.Plan
	}
	p := l.of(plan)
	switch {
	case t.mode == runtime.ModeUnlimited:
		return t
	case e.Mode != runtime.ModeEnforce:
		t.mode = e.Mode
		return t
	}
	n, least := runtime.Numbers{Rate: e.Rate, Capacity: e.Capacity, MaxReserved: e.MaxReserved}, int64(max(1, p.Shards))
	if n.Capacity == 0 && t.Capacity == t.Rate && p.AtMost.Capacity == p.AtMost.Rate || !p.Kind.Linear() {
		n.Capacity = n.Rate
	}
	most := runtime.Numbers{Rate: p.Overrides.Rate, Capacity: p.Overrides.Capacity, MaxReserved: p.Overrides.MaxReserved}
	if x != nil {
		for i, into := range parts(&most) {
			*into = max(*into, *parts(&t.Numbers)[i])
		}
	}
	for i, into := range parts(&t.Numbers) {
		if of := *parts(&n)[i]; of > 0 && *into > 0 {
			*into = min(max(of, least), *parts(&most)[i])
		}
	}
	return t
}

// ends returns the instants after one at which the terms in force for a key change by themselves.
func (l *limit) ends(k *key, now int64) (all []int64) {
	for _, e := range []*entry{k.own.block, k.own.override, l.whole.block, l.whole.override} {
		if e.live(now) && e.until < math.MaxInt64 {
			all = append(all, e.until)
		}
	}
	slices.Sort(all)
	return all
}

// inForce names the entry in force for a key, for the table of pairs.
func (l *limit) inForce(k *key, now int64) string {
	switch e := l.entry(k, now); {
	case e == nil:
		return "nothing"
	case e.plan > 0:
		return "plan"
	case e.Mode != runtime.ModeEnforce:
		return e.Mode.String()
	}
	return "numbers"
}

// counted returns the policy of a plan that is not unlimited. Except for the numbers, plans are the same.
func (l *limit) counted() *runtime.Policy { return l.of(min(1, len(l.policies)-1)) }

// constant reports whether neither the numbers of the limit have changed nor the clock has gone back: each row of a
// limit with shards gets tokens back by the numbers and by the time of the next request for it.
func (l *limit) constant() bool {
	return l.edits == 0 && l.names == nil && l.traits["numbers"] == "file" && l.traits["overrides"] == "no" && !l.back
}

func (l *limit) leased() bool { return l.traits["lease"] == "yes" }

func (l *limit) sharded() bool { return l.traits["shards"] != "1" }

// loose reports whether the model only bounds the decisions of the limit.
func (l *limit) loose() bool { return l.sharded() || l.leased() }

// request is a request for one key.
type request struct {
	l    *limit
	k    *key
	plan int
	// numbers are those of the caller; zero for a limit with those of the file.
	numbers runtime.Numbers
	// class is the number of the request's class; 0 for a limit without classes.
	class   int
	op      runtime.Op
	n       int64
	reserve bool
}

// with returns a request for the same key, by the same plan, numbers and class, for n tokens.
func (q request) with(n int64) request {
	return request{l: q.l, k: q.k, plan: q.plan, numbers: q.numbers, class: q.class, n: n}
}
