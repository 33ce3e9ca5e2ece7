package runtime

import (
	"database/sql/driver"
	"fmt"
	"strings"
)

// PlanNames has the name of each plan of limits.yaml at the plan's number. Numbers begin with 1, so that the zero Plan of
// generated code is no plan.
type PlanNames []string

// Parse returns the number of the plan with a name: it must be written as in limits.yaml. The error wraps
// [ErrInvalidPlan] and lists the plans.
func (n PlanNames) Parse(name string) (plan int, err error) {
	for i := 1; i < len(n); i++ {
		if n[i] == name {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%w %q: the plans are %s", ErrInvalidPlan, name, strings.Join(n[min(1, len(n)):], ", "))
}

// Name returns the name of the plan with a number, or "Plan(7)" for one that does not exist.
func (n PlanNames) Name(plan int) string {
	if plan < 1 || plan >= len(n) {
		return fmt.Sprintf("Plan(%d)", plan)
	}
	return n[plan]
}

// Text returns the name of the plan with a number. If no plan has it, the error wraps [ErrInvalidPlan]: text that Parse
// would not accept must not be stored.
func (n PlanNames) Text(plan int) ([]byte, error) {
	if plan < 1 || plan >= len(n) {
		return nil, noPlan(plan)
	}
	return []byte(n[plan]), nil
}

// Value returns the name of the plan with a number, as [driver.Valuer] does. The error is that of Text.
func (n PlanNames) Value(plan int) (driver.Value, error) {
	text, err := n.Text(plan)
	if err != nil {
		return nil, err
	}
	return string(text), nil
}

// Scan returns the number of the plan with a name from a database: a string or bytes. The error wraps [ErrInvalidPlan].
func (n PlanNames) Scan(from any) (plan int, err error) {
	switch from := from.(type) {
	case string:
		return n.Parse(from)
	case []byte:
		return n.Parse(string(from))
	case nil:
		return 0, fmt.Errorf("%w: the value is NULL", ErrInvalidPlan)
	}
	return 0, fmt.Errorf("%w: a value of type %T is not the name of a plan", ErrInvalidPlan, from)
}

// PlanPolicies has the policy of one limit for each plan, at the plan's number as in [PlanNames]. They have the same name,
// so that a key has one count whatever its plan: its use is kept when the plan changes.
type PlanPolicies []Policy

// For returns the policy of a plan, and the key. If there is no plan with that number, every method of the limit returns
// an error that wraps [ErrInvalidPlan]. The results are the arguments of limiter.Limiter.Limit, limiter.Limiter.Reservable and
// limiter.Limiter.ReserveOnly.
func (p PlanPolicies) For(plan int, key Key) (*Policy, Key) {
	switch {
	case 1 <= plan && plan < len(p):
		return &p[plan], key
	case len(p) < 2:
		return nil, Key{err: noPlan(plan)}
	}
	// Any of the policies has the name of the limit, which the error needs.
	return &p[1], Key{err: noPlan(plan)}
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

// calendar returns the calendar of the limit. An unlimited plan has none of its own, but an override can give its key a
// plan that has.
func (p *Policy) calendar() *Calendar { return &p.plans.counted(p).Calendar }

// Overridable returns p after naming its plans, so that overrides can give them to keys.
func (p PlanPolicies) Overridable(names PlanNames) PlanPolicies {
	set := &planSet{names, p}
	for i := range p {
		p[i].plans = set
	}
	return p
}

func noPlan(plan int) error {
	const remedy = "pass one of the generated constants, or the result of ParsePlan"
	if plan == 0 {
		return fmt.Errorf("%w: the zero Plan is not a plan: %s", ErrInvalidPlan, remedy)
	}
	return fmt.Errorf("%w: there is no plan with the number %d: %s", ErrInvalidPlan, plan, remedy)
}
