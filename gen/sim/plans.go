package sim

import (
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Plan is a plan of a limit, with the rule for it, or a plan of a group.
type Plan struct {
	Name string
	// Policy has the name of the limit: a key has one count, whatever its plan. That of a group has only the name.
	Policy *runtime.Policy
}

func (l *Limit) policies() []*runtime.Policy {
	list := []*runtime.Policy{l.Policy}
	for _, p := range l.Plans {
		list = append(list, p.Policy)
	}
	return list
}

// plan returns the index of the line's plan in Plans; 0 for a limit without plans. The error is a [*Fault], which wraps
// [runtime.ErrInvalidPlan] if the limit lacks the plan.
func (s *limitState) plan(l *Line) (int, error) {
	if len(s.Plans) == 0 {
		return 0, nil
	}
	for i, p := range s.Plans {
		if p.Name == l.Plan {
			return i, nil
		}
	}
	switch {
	case l.Plan != "":
		fault := faultf("unknown plan \"%s\"; the plans are %s", clip(l.Plan, 60), s.planNames())
		fault.cause = runtime.ErrInvalidPlan
		return 0, fault
	case l.raw != nil && l.raw[fieldPlan] != nil && l.raw[fieldPlan][0] != '"':
		return 0, faultf("plan must be a string; the plans of %s are %s", s.Policy.Name, s.planNames())
	}
	return 0, faultf("the line has no field plan, on which %s depends; add it, or name the plan of all such lines with -plan", s.Policy.Name)
}

func (s *limitState) planNames() string {
	names := make([]string, len(s.Plans))
	for i, p := range s.Plans {
		names[i] = p.Name
	}
	return words.List(names, "and")
}

// use returns the policy of a plan, after making its rule that of the key.
func (s *limitState) use(k *keyState, plan int) *runtime.Policy {
	if len(s.Plans) == 0 {
		return s.Policy
	}
	policy := s.Plans[plan].Policy
	k.usePlan(plan, policy)
	return policy
}

// usePlan makes the rule of the key that of a plan.
func (k *keyState) usePlan(plan int, policy *runtime.Policy) {
	// Keys seldom change their plan, and a rule takes a hash.
	if k.plan != plan+1 {
		k.plan, k.rule = plan+1, policy.Rule(k.key)
	}
}

// planTally counts the decisions of one plan, and the keys that had it.
type planTally struct {
	tally
	keys int
}

func (s *limitState) addToPlan(k *keyState, plan int, l *Line, d runtime.Decision) {
	if len(s.Plans) == 0 {
		return
	}
	if k.plans == nil {
		k.plans = make([]int64, len(s.Plans))
	}
	if k.plans[plan]++; k.plans[plan] == 1 {
		s.byPlan[plan].keys++
	}
	s.byPlan[plan].add(l, d)
}

// planRows has a row for each plan with requests, to go below the row of the limit.
func (s *limitState) planRows(indent string, shadow bool) (rows [][]string) {
	for i := range s.byPlan {
		if t := &s.byPlan[i]; t.requests > 0 {
			rows = append(rows, append([]string{indent + s.Plans[i].Name}, t.row(t.keys, shadow)...))
		}
	}
	return rows
}

// plan returns the value of the field plan. It returns "" for a value of another type: logs may use that name for
// something else, and a limit with plans reports that the plan is missing.
func (v jsonValue) plan() (string, error) {
	if v.text[0] != '"' {
		return "", nil
	}
	return v.str("plan")
}
