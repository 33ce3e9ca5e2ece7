package runtime

import "fmt"

// OverrideBounds is the most that overrides can give the keys of a limit. The zero OverrideBounds means that the limit has
// no overrides.
type OverrideBounds struct {
	// Rate, Capacity and MaxReserved are in tokens, and at least those of the policy. Rate is positive. Capacity and
	// MaxReserved are 0 if those of the policy are, because a limit that can be reserved always can be.
	Rate, Capacity, MaxReserved int64
	// Unlimited allows overrides that lift the limit: those with a Mode.
	Unlimited bool

	// plans are those that an override can give, nil without plans.
	plans *planSet
	// entry is the log entry that a policy comes from which is in force for some key, and base the policy without it.
	entry int64
	base  *Policy
}

// String returns the bounds in words, without what only this process has.
func (b OverrideBounds) String() string {
	switch {
	case b.Rate == 0:
		return "no overrides"
	case b.Unlimited:
		return fmt.Sprintf("any, or capacity %d, maxReserved %d", b.Capacity, b.MaxReserved)
	}
	return fmt.Sprintf("at most rate %d, capacity %d, maxReserved %d", b.Rate, b.Capacity, b.MaxReserved)
}

// planSet is the plans of a limit.
type planSet struct {
	names    PlanNames
	policies PlanPolicies
}

// policyOf returns the policy of a plan.
func (s *planSet) policyOf(name string) (*Policy, error) {
	if s == nil {
		return nil, fmt.Errorf("%w: the limit has no plans", ErrInvalidPlan)
	}
	plan, err := s.names.Parse(name)
	if err != nil {
		return nil, err
	}
	if plan >= len(s.policies) {
		return nil, noPlan(plan)
	}
	return &s.policies[plan], nil
}

// counted returns p, or for an unlimited plan a plan that is not, if there is one.
func (s *planSet) counted(p *Policy) *Policy {
	if s != nil && p.Mode == ModeUnlimited {
		for i := range s.policies {
			if of := &s.policies[i]; i > 0 && of.Mode != ModeUnlimited {
				return of
			}
		}
	}
	return p
}

// Overridable returns p after naming its plans, so that overrides can give them to keys.
func (p PlanPolicies) Overridable(names PlanNames) PlanPolicies {
	set := &planSet{names, p}
	for i := range p {
		p[i].Overrides.plans = set
	}
	return p
}

// Overridable reports whether keys of the limit can have overrides.
func (p *Policy) Overridable() bool { return p != nil && p.Overrides.Rate != 0 }

// override returns the entry of the log that has put the policy in force, or false if none has.
func (p *Policy) override() (entry int64, ok bool) {
	if p == nil {
		return 0, false
	}
	return p.Overrides.entry, p.Overrides.entry != 0
}

// problem returns what the bounds of a policy must change, or "".
func (b *OverrideBounds) problem(p *Policy) string {
	switch {
	case b.Rate == 0 && (b.Capacity != 0 || b.MaxReserved != 0 || b.Unlimited):
		return "the bounds of overrides have no rate: it must be at least the limit's"
	case b.Rate == 0:
		return ""
	case b.Rate < p.Rate || b.Capacity < p.Capacity || b.MaxReserved < p.MaxReserved:
		return fmt.Sprintf("the bounds of overrides, rate %d, capacity %d and maxReserved %d, are less than the limit's own numbers",
			b.Rate, b.Capacity, b.MaxReserved)
	case b.Rate > MaxTokens || b.Capacity > MaxTokens || b.MaxReserved > MaxTokens:
		return fmt.Sprintf("the bounds of overrides are more than %d", int64(MaxTokens))
	case p.Capacity == 0 && b.Capacity != 0:
		return "overrides cannot give a capacity to a limit with capacity 0"
	case p.MaxReserved == 0 && b.MaxReserved != 0:
		return "overrides cannot give reservations to a limit without them"
	case !p.Kind.Linear() && b.Capacity != b.Rate:
		return fmt.Sprintf("the bounds of overrides of a %v must have equal rate and capacity", p.Kind)
	case p.Precise && b.Rate > MaxPreciseRate:
		return fmt.Sprintf("overrides of a precise limit can have rates up to %d, not %d", MaxPreciseRate, b.Rate)
	}
	return ""
}

// checkNumbers returns an error for numbers that the limit cannot have.
func (v *Override) checkNumbers(p *Policy) error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrInvalidOverride}, args...)...)
	}
	b := &p.Overrides
	for _, n := range []struct {
		name            string
		given, own, top int64
	}{
		{"rate", v.Rate, p.Rate, b.Rate},
		{"capacity", v.Capacity, p.Capacity, b.Capacity},
		{"maxReserved", v.MaxReserved, p.MaxReserved, b.MaxReserved},
	} {
		switch {
		case n.given < 0:
			return invalid("%s %d is negative", n.name, n.given)
		case p.Mode == ModeUnlimited && v.Plan != nil:
			return invalid("its plan is unlimited, so it has no numbers")
		case p.Mode == ModeUnlimited:
			return invalid("the plan of the key is unlimited: give it another plan, too")
		case n.given > 0 && n.own == 0:
			return invalid("the limit has %s 0, which overrides cannot change", n.name)
		case n.given > n.top:
			return invalid("%s %d is more than %d, the most that limits.yaml declares", n.name, n.given, n.top)
		case n.given > 0 && n.given < int64(p.Shards):
			return invalid("%s %d over %d shards leaves a shard without a token", n.name, n.given, p.Shards)
		}
	}
	if !p.Kind.Linear() && v.Capacity != 0 && v.Capacity != v.Rate {
		return invalid("the capacity of a %v is its rate: leave Capacity out", p.Kind)
	}
	return nil
}

// declared returns the bounds as they were declared.
func (b OverrideBounds) declared() OverrideBounds {
	return OverrideBounds{Rate: b.Rate, Capacity: b.Capacity, MaxReserved: b.MaxReserved, Unlimited: b.Unlimited}
}

// apply returns the policy that an entry puts in force for keys of a policy. Numbers beyond the bounds of the policy, as
// after an edit of limits.yaml, are reduced to them: the file has the last word. The result is valid if p is.
func (e *OverrideEntry) apply(p *Policy) (*Policy, error) {
	of := *p
	switch e.What {
	case OverrideBlock:
		of = blocked(p)
	case OverridePlan:
		plan, err := p.Overrides.plans.policyOf(e.Plan)
		if err != nil {
			return nil, fmt.Errorf("%w: entry %d of the log of overrides: %w", ErrUnknownOverride, e.ID, err)
		}
		of = *plan
		e.applyNumbers(&of)
	case OverrideNumbers:
		if p.Mode == ModeUnlimited {
			return p, nil
		}
		e.applyNumbers(&of)
	case OverrideUnlimited, OverrideOff, OverrideShadow:
		if !p.Overrides.Unlimited {
			return p, nil
		}
		switch {
		case p.Mode == ModeUnlimited:
		case e.What == OverrideShadow:
			of.Mode = ModeShadow
		default:
			of.Mode = ModeOff
		}
	default:
		return nil, fmt.Errorf("%w: entry %d of the log of overrides has the kind %q, which this version does not have: update the program", ErrUnknownOverride, e.ID, e.What)
	}
	of.Overrides.entry, of.Overrides.base = e.ID, p
	return &of, of.Validate()
}

// applyNumbers changes the numbers of a policy within its bounds.
func (e *OverrideEntry) applyNumbers(p *Policy) {
	if p.Mode == ModeUnlimited {
		return
	}
	b, shards := &p.Overrides, int64(max(1, p.Shards))
	limited := func(given, own, least, most int64) int64 {
		if given == 0 || own == 0 {
			return own
		}
		return min(max(given, least), most)
	}
	capacity := e.Capacity
	if capacity == 0 && p.Capacity == p.Rate || !p.Kind.Linear() {
		capacity = e.Rate
	}
	p.Rate = limited(e.Rate, p.Rate, shards, b.Rate)
	p.Capacity = limited(capacity, p.Capacity, shards, b.Capacity)
	p.MaxReserved = limited(e.MaxReserved, p.MaxReserved, shards, b.MaxReserved)
	p.Lease.Tokens = min(p.Lease.Tokens, p.Capacity)
}

// blocked returns a policy that denies every request. Refunds of earlier takes still need numbers, which an unlimited plan
// does not have: it gets ones by which rows hardly change.
func blocked(p *Policy) Policy {
	of := *p
	if of.Mode == ModeUnlimited {
		of.Rate, of.Capacity, of.Period = max(1, int64(of.Shards)), MaxTokens, MaxPeriod
		switch {
		case of.Precise:
			of.Rate, of.Capacity = MaxPreciseRate, MaxPreciseRate
		case !of.Kind.Linear():
			of.Rate = MaxTokens
		}
		of.Overrides.Rate, of.Overrides.Capacity, of.Overrides.MaxReserved = of.Rate, of.Capacity, 0
	}
	of.Mode = ModeBlock
	return of
}
