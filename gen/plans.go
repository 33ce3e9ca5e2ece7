package gen

import (
	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// planErrors are the errors of a package with plans, besides errorAliases.
var planErrors = []alias{
	{runtimePath, "ErrInvalidPlan", "ErrInvalidPlan is returned for the zero Plan, and for a name or a number that is no plan."},
}

// declarePlans writes the type of the plans, and everything that turns plans into text and back. It writes nothing for a
// file without plans.
func declarePlans(file *jen.File, plans []spec.Plan) {
	if len(plans) == 0 {
		return
	}
	declarePlanType(file, plans)
	declareParsePlan(file, plans)
	declarePlanMethods(file, plans[0].Name)
	declarePlanNames(file, plans)
}

// type Plan int
//
// const (
//
//	// PlanFree is the plan free.
//	PlanFree Plan = iota + 1
//	...
//
// )
//
// func Plans() []Plan { return []Plan{PlanFree, PlanPro} }
func declarePlanType(file *jen.File, plans []spec.Plan) {
	file.Line()
	comment(file, "Plan is the plan of a customer. The zero Plan is none of the plans: limits that depend on the plan return\n"+
		"[ErrInvalidPlan] for it. A key has one count, whatever its plan.\n\n"+
		"Store a Plan as text, as encoding/json and database/sql do: its number depends on the other plans.")
	file.Type().Id("Plan").Int()
	file.Line()
	comment(file, "The plans, in their order in the file.")
	file.Const().DefsFunc(func(g *jen.Group) {
		for i, plan := range plans {
			g.Comment("// " + plan.GoName + " is the plan " + plan.Name + ".")
			constant := g.Id(plan.GoName)
			if i == 0 {
				constant.Id("Plan").Op("=").Iota().Op("+").Lit(1)
			}
		}
	})
	file.Line()
	comment(file, "Plans returns all plans, in their order in the file.")
	list := jen.Index().Id("Plan").ValuesFunc(func(g *jen.Group) {
		for _, plan := range plans {
			g.Id(plan.GoName)
		}
	})
	file.Func().Id("Plans").Params().Index().Id("Plan").Block(jen.Return(list))
}

//	func ParsePlan(name string) (Plan, error) {
//		plan, err := planNames.Parse(name)
//		return Plan(plan), err
//	}
func declareParsePlan(file *jen.File, plans []spec.Plan) {
	names := make([]string, len(plans))
	for i, plan := range plans {
		names[i] = plan.Name
	}
	file.Line()
	comment(file, "ParsePlan returns the plan with a name: "+words.List(names, "or")+". For other names, the error wraps\n"+
		"[ErrInvalidPlan] and lists the plans.")
	file.Func().Id("ParsePlan").Params(jen.Id("name").String()).Params(jen.Id("Plan"), jen.Error()).Block(
		jen.List(jen.Id("plan"), jen.Err()).Op(":=").Id("planNames").Dot("Parse").Call(jen.Id("name")),
		jen.Return(jen.Id("Plan").Call(jen.Id("plan")), jen.Err()),
	)
}

// func (p Plan) String() string { return planNames.Name(int(p)) }
// func (p Plan) MarshalText() ([]byte, error) { return planNames.Text(int(p)) }
// func (p *Plan) UnmarshalText(text []byte) error { return p.Scan(text) }
// func (p Plan) Value() (driver.Value, error) { return planNames.Value(int(p)) }
// func (p *Plan) Scan(from any) error { ... }
func declarePlanMethods(file *jen.File, example string) {
	plan, pointer := jen.Id("p").Id("Plan"), jen.Id("p").Op("*").Id("Plan")
	number := jen.Int().Call(jen.Id("p"))
	method := func(doc string, receiver *jen.Statement, name string) *jen.Statement {
		file.Line()
		comment(file, doc)
		return file.Func().Params(receiver).Id(name)
	}
	method("String returns the name of the plan, such as "+example+".", plan, "String").
		Params().String().Block(jen.Return(jen.Id("planNames").Dot("Name").Call(number)))
	method("MarshalText returns the name of the plan. For the zero Plan, the error is [ErrInvalidPlan].", plan, "MarshalText").
		Params().Params(jen.Index().Byte(), jen.Error()).Block(jen.Return(jen.Id("planNames").Dot("Text").Call(number)))
	method("UnmarshalText sets p to the plan that [ParsePlan] returns.", pointer, "UnmarshalText").
		Params(jen.Id("text").Index().Byte()).Error().Block(jen.Return(jen.Id("p").Dot("Scan").Call(jen.Id("text"))))
	method("Value returns the name of the plan for a database. For the zero Plan, the error is [ErrInvalidPlan].", plan, "Value").
		Params().Params(jen.Qual(driverPath, "Value"), jen.Error()).Block(jen.Return(jen.Id("planNames").Dot("Value").Call(number)))
	method("Scan sets p to the plan with a name from a database. The error is that of [ParsePlan], for NULL too.", pointer, "Scan").
		Params(jen.Id("from").Any()).Error().Block(
		jen.List(jen.Id("plan"), jen.Err()).Op(":=").Id("planNames").Dot("Scan").Call(jen.Id("from")),
		jen.If(jen.Err().Op("==").Nil()).Block(jen.Op("*").Id("p").Op("=").Id("Plan").Call(jen.Id("plan"))),
		jen.Return(jen.Err()),
	)
}

//	var planNames = runtime.PlanNames{
//		PlanFree: "free",
//		PlanPro:  "pro",
//	}
func declarePlanNames(file *jen.File, plans []spec.Plan) {
	file.Line()
	file.Var().Id("planNames").Op("=").Qual(runtimePath, "PlanNames").CustomFunc(onePerLine, func(g *jen.Group) {
		for _, plan := range plans {
			g.Id(plan.GoName).Op(":").Lit(plan.Name)
		}
	})
}

// handleArguments are the arguments of the method of Limiter that returns a handle: the policy and the key. If the limit
// depends on the plan, both come from one call, because an invalid plan makes the key invalid:
//
//	policiesAPICalls.For(int(plan), runtime.KeyOf(runtime.Int64(org)))
func (n names) handleArguments(l *spec.Limit) []jen.Code {
	if len(l.Plans) == 0 {
		return []jen.Code{jen.Op("&").Id(policyName(l)), n.key(l)}
	}
	return []jen.Code{jen.Id(policyName(l)).Dot("For").Call(jen.Int().Call(jen.Id(planParameter)), n.key(l))}
}

// policyVariable is the policy of a limit, or those of its plans:
//
//	var policiesAPICalls = runtime.PlanPolicies{
//		PlanFree: {
//			Name: "apiCalls",
//			...
//		},
//	}
func (n names) policyVariable(l *spec.Limit) *jen.Statement {
	if len(l.Plans) == 0 {
		return policyLiteral(&l.Policy)
	}
	policies := jen.Qual(runtimePath, "PlanPolicies").CustomFunc(onePerLine, func(g *jen.Group) {
		for _, of := range l.Plans {
			g.Id(n.plans[of.Plan]).Op(":").Add(policyFields(&of.Policy))
		}
	})
	if l.Overrides != nil {
		policies.Dot("Overridable").Call(jen.Id("planNames"))
	}
	return policies
}

// policiesOf are the addresses of a limit's policies.
func (n names) policiesOf(l *spec.Limit) (list []jen.Code) {
	if len(l.Plans) == 0 {
		return []jen.Code{jen.Op("&").Id(policyName(l))}
	}
	for _, of := range l.Plans {
		list = append(list, jen.Op("&").Id(policyName(l)).Index(jen.Id(n.plans[of.Plan])))
	}
	return list
}
