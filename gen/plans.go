package gen

import (
	"strings"

	"github.com/dave/jennifer/jen"

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
`

// declarePlans writes the type of the plans, and everything that turns plans into text and back. It writes nothing for a
// file without plans.
func declarePlans(file *jen.File, n names, plans []spec.Plan) {
	if len(plans) == 0 {
		return
	}
	var constants, identifiers []string
	for i, plan := range plans {
		identifiers = append(identifiers, plan.GoName)
		constants = append(constants, "// "+plan.GoName+" is the plan "+plan.Name+".", plan.GoName)
		if i == 0 {
			constants[1] += " Plan = iota + 1"
		}
	}
	names := spec.PlanNames(plans)
	file.Add(n.source(planType, "$constants", strings.Join(constants, "\n"), "$plans", strings.Join(identifiers, ", "),
		"$names", words.List(names, "or"), "$example", names[0]))
	file.Line()
	file.Var().Id("planNames").Op("=").Qual(runtimePath, "PlanNames").CustomFunc(onePerLine, func(g *jen.Group) {
		for _, plan := range plans {
			g.Id(plan.GoName).Op(":").Lit(plan.Name)
		}
	})
}

// policyVariable is the policy of a limit, or those of its plans:
//
//	var policiesAPICalls = runtime.PlanPolicies{
//		PlanFree: {
//			Name: "apiCalls",
//			...
//		},
//	}
func policyVariable(l *spec.Limit) *jen.Statement {
	if len(l.Plans) == 0 {
		return policyLiteral(&l.Policy)
	}
	policies := jen.Qual(runtimePath, "PlanPolicies").CustomFunc(onePerLine, func(g *jen.Group) {
		for _, of := range l.Plans {
			g.Id(spec.PlanGoName(of.Plan)).Op(":").Add(policyFields(&of.Policy))
		}
	})
	if l.Overrides != nil {
		policies.Dot("Overridable").Call(jen.Id("planNames"))
	}
	return policies
}

// policyAddresses are the addresses of a limit's policies.
func policyAddresses(l *spec.Limit) (list []string) {
	if len(l.Plans) == 0 {
		return []string{"&" + policyName(l)}
	}
	for _, of := range l.Plans {
		list = append(list, "&"+policyName(l)+"["+spec.PlanGoName(of.Plan)+"]")
	}
	return list
}
