package gen

import (
	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// declarePlans writes the type of the plans, and everything that turns plans into text and back. It writes nothing for a
// file without plans.
func declarePlans(file *jen.File, plans []spec.Plan) {
	if len(plans) == 0 {
		return
	}
	declare(file, "Plan is the plan of a customer. The zero Plan is none of the plans: limits that depend on the plan return\n"+
		"[ErrInvalidPlan] for it. A key has one count, whatever its plan.\n\n"+
		"Store a Plan as text, as encoding/json and database/sql do: its number depends on the other plans.",
		jen.Type().Id("Plan").Int())
	declarePlanConstants(file, plans)
	declarePlanList(file, plans)
	declareParsePlan(file, plans)
	declarePlanMethod(file, "String", "Name", "String returns the name of the plan, such as "+plans[0].Name+".", jen.String())
	declarePlanMethod(file, "MarshalText", "Text",
		"MarshalText returns the name of the plan. For the zero Plan, the error is [ErrInvalidPlan].", jen.Index().Byte(), jen.Error())
	declareUnmarshalPlan(file)
	declarePlanMethod(file, "Value", "Value",
		"Value returns the name of the plan for a database. For the zero Plan, the error is [ErrInvalidPlan].", jen.Qual("database/sql/driver", "Value"), jen.Error())
	declareScanPlan(file)
	declarePlanNames(file, plans)
}

// declarePlanConstants writes
//
//	const (
//		// PlanFree is the plan free.
//		PlanFree Plan = iota + 1
//	)
func declarePlanConstants(file *jen.File, plans []spec.Plan) {
	declare(file, "The plans, in their order in the file.", jen.Const().DefsFunc(func(g *jen.Group) {
		for i, plan := range plans {
			g.Comment("// " + plan.GoName + " is the plan " + plan.Name + ".")
			constant := g.Id(plan.GoName)
			if i == 0 {
				constant.Id("Plan").Op("=").Iota().Op("+").Lit(1)
			}
		}
	}))
}

// declarePlanList writes
//
//	func Plans() []Plan {
//		return []Plan{PlanFree, PlanPro}
//	}
func declarePlanList(file *jen.File, plans []spec.Plan) {
	declare(file, "Plans returns all plans, in their order in the file.",
		jen.Func().Id("Plans").Params().Index().Id("Plan").Block(
			jen.Return(jen.Index().Id("Plan").ValuesFunc(func(g *jen.Group) {
				for _, plan := range plans {
					g.Id(plan.GoName)
				}
			}))))
}

// declareParsePlan writes
//
//	func ParsePlan(name string) (Plan, error) {
//		plan, err := planNames.Parse(name)
//		return Plan(plan), err
//	}
func declareParsePlan(file *jen.File, plans []spec.Plan) {
	doc := "ParsePlan returns the plan with a name: " + words.List(spec.PlanNames(plans), "or") +
		". For other names, the error wraps\n" +
		"[ErrInvalidPlan] and lists the plans."
	declare(file, doc, jen.Func().Id("ParsePlan").Params(jen.Id("name").String()).Params(jen.Id("Plan"), jen.Error()).Block(
		jen.List(jen.Id("plan"), jen.Err()).Op(":=").Id("planNames").Dot("Parse").Call(jen.Id("name")),
		jen.Return(jen.Id("Plan").Call(jen.Id("plan")), jen.Err())))
}

// declarePlanMethod writes a method of plans that calls one of planNames:
//
//	func (p Plan) String() string {
//		return planNames.Name(int(p))
//	}
func declarePlanMethod(file *jen.File, method, of string, doc string, results ...jen.Code) {
	declare(file, doc, jen.Func().Params(jen.Id("p").Id("Plan")).Id(method).Params().Params(results...).Block(
		jen.Return(jen.Id("planNames").Dot(of).Call(jen.Int().Call(jen.Id("p"))))))
}

// declareUnmarshalPlan writes
//
//	func (p *Plan) UnmarshalText(text []byte) error {
//		return p.Scan(text)
//	}
func declareUnmarshalPlan(file *jen.File) {
	declare(file, "UnmarshalText sets p to the plan that [ParsePlan] returns.",
		jen.Func().Params(jen.Id("p").Op("*").Id("Plan")).Id("UnmarshalText").Params(jen.Id("text").Index().Byte()).Error().Block(
			jen.Return(jen.Id("p").Dot("Scan").Call(jen.Id("text")))))
}

// declareScanPlan writes
//
//	func (p *Plan) Scan(from any) error {
//		plan, err := planNames.Scan(from)
//		if err == nil {
//			*p = Plan(plan)
//		}
//		return err
//	}
func declareScanPlan(file *jen.File) {
	declare(file, "Scan sets p to the plan with a name from a database. The error is that of [ParsePlan], for NULL too.",
		jen.Func().Params(jen.Id("p").Op("*").Id("Plan")).Id("Scan").Params(jen.Id("from").Any()).Error().Block(
			jen.List(jen.Id("plan"), jen.Err()).Op(":=").Id("planNames").Dot("Scan").Call(jen.Id("from")),
			jen.If(jen.Err().Op("==").Nil()).Block(jen.Op("*").Id("p").Op("=").Id("Plan").Call(jen.Id("plan"))),
			jen.Return(jen.Err())))
}

// declarePlanNames writes
//
//	var planNames = runtime.PlanNames{
//		PlanFree: "free",
//	}
func declarePlanNames(file *jen.File, plans []spec.Plan) {
	file.Line()
	file.Var().Id("planNames").Op("=").Qual(runtimePath, "PlanNames").CustomFunc(onePerLine, func(g *jen.Group) {
		for _, plan := range plans {
			g.Id(plan.GoName).Op(":").Lit(plan.Name)
		}
	})
}
