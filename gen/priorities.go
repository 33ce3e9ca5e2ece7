package gen

import (
	"strconv"

	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// declarePriorities writes the classes of the requests of a limit:
//
//	type APICallsPriority int
//
//	const (
//		// APICallsInteractive is for requests that may take all tokens.
//		APICallsInteractive APICallsPriority = iota + 1
//		// APICallsBatch is for requests that leave 30% of the capacity to the others.
//		APICallsBatch
//	)
//
//	var prioritiesAPICalls = runtime.Priorities{
//		APICallsInteractive: {Name: "interactive"},
//		APICallsBatch: {Name: "batch", Leaves: 30},
//	}
func declarePriorities(file *jen.File, l *spec.Limit) {
	typ := l.PriorityType()
	declare(file, typ+" is a class of the requests of [Limits."+l.GoName+"], which share one count.\n"+
		"The zero value is none: every method of the limit returns [ErrInvalidPriority] for it.", jen.Type().Id(typ).Int())
	declare(file, "The priorities of [Limits."+l.GoName+"].", jen.Const().DefsFunc(func(g *jen.Group) {
		for i, class := range l.Priorities {
			what := "that may take all tokens"
			if class.Leaves > 0 {
				what = "that leave " + strconv.Itoa(class.Leaves) + "% of the capacity to the others"
			}
			g.Comment("// " + class.GoName + " is for requests " + what + ".")
			constant := g.Id(class.GoName)
			if i == 0 {
				constant.Id(typ).Op("=").Iota().Op("+").Lit(1)
			}
		}
	}))
	declare(file, "String returns the name of the priority, such as "+l.Priorities[0].Name+".",
		jen.Func().Params(jen.Id("p").Id(typ)).Id("String").Params().String().Block(
			jen.Return(jen.Id(prioritiesName(l)).Dot("Of").Call(jen.Int().Call(jen.Id("p"))).Dot("Name"))))
	file.Line()
	file.Var().Id(prioritiesName(l)).Op("=").Qual(runtimePath, "Priorities").CustomFunc(onePerLine, func(g *jen.Group) {
		for _, class := range l.Priorities {
			g.Id(class.GoName).Op(":").ValuesFunc(func(g *jen.Group) {
				g.Id("Name").Op(":").Lit(class.Name)
				if class.Leaves > 0 {
					g.Id("Leaves").Op(":").Lit(class.Leaves)
				}
			})
		}
	})
}
