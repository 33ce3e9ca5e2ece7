package gen

import (
	"reflect"

	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// declareExceptions writes the exceptions of the keys of a limit, if it has any:
//
//	var exceptionsAPICalls = policiesAPICalls.Except([]runtime.Exception{
//		{Key: "42", Plan: int(PlanEnterprise), Reason: "contract until 2027"},
//	})
func declareExceptions(file *jen.File, l *spec.Limit) {
	if len(l.Exceptions) == 0 {
		return
	}
	file.Line()
	list := jen.Index().Qual(runtimePath, "Exception").CustomFunc(onePerLine, func(g *jen.Group) {
		for _, x := range l.Exceptions {
			g.ValuesFunc(func(g *jen.Group) {
				g.Id("Key").Op(":").Lit(x.Given.Key)
				if x.Plan != "" {
					g.Id("Plan").Op(":").Int().Call(jen.Id(spec.PlanGoName(x.Plan)))
				}
				if x.Given.Numbers != (runtime.Numbers{}) {
					g.Id("Numbers").Op(":").Add(literal("Numbers", reflect.ValueOf(x.Given.Numbers)))
				}
				if x.Given.Mode != runtime.ModeEnforce {
					g.Id("Mode").Op(":").Add(literal("Mode", reflect.ValueOf(x.Given.Mode)))
				}
				g.Id("Reason").Op(":").Lit(x.Given.Reason)
			})
		}
	})
	file.Var().Id(exceptionsName(l)).Op("=").Id(policyName(l)).Dot("Except").Call(list)
}
