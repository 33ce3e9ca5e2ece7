package gen

import (
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

const planType = `
// Plan is the plan of a customer. The zero Plan is none of the plans: limits that depend on the plan return
// [ErrInvalidPlan] for it. A key has one count, whatever its plan.
//
// Store a Plan as text, as encoding/json and database/sql do: its number depends on the other plans.
type Plan int

// The plans, in their order in the file.
const (
	$constants
)

// Plans returns all plans, in their order in the file.
func Plans() []Plan {
	return []Plan{$plans}
}

// ParsePlan returns the plan with a name: $names. For other names, the error wraps
// [ErrInvalidPlan] and lists the plans.
func ParsePlan(name string) (Plan, error) {
	plan, err := planNames.Parse(name)
	return Plan(plan), err
}

// String returns the name of the plan, such as $example.
func (p Plan) String() string {
	return planNames.Name(int(p))
}

// MarshalText returns the name of the plan. For the zero Plan, the error is [ErrInvalidPlan].
func (p Plan) MarshalText() ([]byte, error) {
	return planNames.Text(int(p))
}

// UnmarshalText sets p to the plan that [ParsePlan] returns.
func (p *Plan) UnmarshalText(text []byte) error {
	return p.Scan(text)
}

// Value returns the name of the plan for a database. For the zero Plan, the error is [ErrInvalidPlan].
func (p Plan) Value() (driver.Value, error) {
	return planNames.Value(int(p))
}

// Scan sets p to the plan with a name from a database. The error is that of [ParsePlan], for NULL too.
func (p *Plan) Scan(from any) error {
	plan, err := planNames.Scan(from)
	if err == nil {
		*p = Plan(plan)
	}
	return err
}

var planNames = $planNames
`

// plansOf is the source of the type of the plans, and of everything that turns plans into text and back; "" for a file without plans.
func (n names) plansOf(plans []spec.Plan) string {
	if len(plans) == 0 {
		return ""
	}
	var constants []string
	for i, plan := range plans {
		constants = append(constants, "// "+plan.GoName+" is the plan "+plan.Name+".", plan.GoName)
		if i == 0 {
			constants[1] += " Plan = iota + 1"
		}
	}
	names := spec.PlanNames(plans)
	return n.fill(planType, "$constants", strings.Join(constants, "\n"),
		"$planNames", onePerLine("runtime.PlanNames", words.Of(plans, func(plan spec.Plan) string { return quotedField(plan.GoName, plan.Name) })...),
		"$plans", strings.Join(words.Of(plans, func(plan spec.Plan) string { return plan.GoName }), ", "),
		"$names", words.List(names, "or"), "$example", names[0])
}

// policySource is the policy of a limit, or those of its plans:
//
//	runtime.PlanPolicies{
//		PlanFree: {
//			Name: "apiCalls",
//			...
//		},
//	}
func policySource(l *spec.Limit) string {
	if len(l.Plans) == 0 {
		return policyLiteral("runtime.Policy", &l.Policy)
	}
	policies := onePerLine("runtime.PlanPolicies", words.Of(l.Plans, func(of *spec.Limit) string {
		return policyLiteral(spec.PlanGoName(of.Plan)+": ", &of.Policy)
	})...)
	if l.Overrides != nil {
		policies += ".Overridable(planNames)"
	}
	return policies
}

// policyAddresses are the addresses of a limit's policies.
func policyAddresses(l *spec.Limit) []string {
	if len(l.Plans) == 0 {
		return []string{"&" + policyName(l)}
	}
	return words.Of(l.Plans, func(of *spec.Limit) string { return "&" + policyName(l) + "[" + spec.PlanGoName(of.Plan) + "]" })
}
