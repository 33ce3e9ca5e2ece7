package gen

import (
	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

const limiterMethod = "limiter"

// declareLimits writes the type that has the limits as methods, and what goes with it.
func declareLimits(file *jen.File, n names) {
	declareType(file)
	declareNew(file)
	declareAll(file, n)
	declareWithTx(file, n)
	declareLimiter(file, n)
}

// type Limits runtime.Limiter
func declareType(file *jen.File) {
	file.Line()
	comment(file, "Limits asks the limits, one method each. The zero Limits, and nil, have no store: they answer every question\n"+
		"with an error.")
	file.Type().Id("Limits").Qual(runtimePath, "Limiter")
}

// func New(store runtime.Store) *Limits { return (*Limits)(runtime.NewLimiter(store)) }
func declareNew(file *jen.File) {
	file.Line()
	comment(file, "New returns the limits whose counts are in store.")
	file.Func().Id("New").Params(jen.Id("store").Qual(runtimePath, "Store")).Op("*").Id("Limits").Block(
		jen.Return(jen.Parens(jen.Op("*").Id("Limits")).Call(jen.Qual(runtimePath, "NewLimiter").Call(jen.Id("store")))),
	)
}

//	func (l *Limits) All(ctx context.Context, items ...Item) (Decisions, error) {
//		return l.limiter().All(ctx, items...)
//	}
func declareAll(file *jen.File, n names) {
	file.Line()
	comment(file, "All takes from several limits at once: from all of them or, if one denies, from none. An item is what a\n"+
		"method of Limits returns, for one token, or that handle's N(n).")
	file.Func().Add(n.receiving()).Id("All").
		Params(jen.Id("ctx").Qual(contextPath, "Context"), jen.Id("items").Op("...").Id("Item")).
		Params(jen.Id("Decisions"), jen.Error()).
		Block(jen.Return(n.limiter().Dot("All").Call(jen.Id("ctx"), jen.Id("items").Op("..."))))
}

// func (l *Limits) WithTx(tx runtime.Tx) *Limits { return (*Limits)(l.limiter().WithTx(tx)) }
func declareWithTx(file *jen.File, n names) {
	file.Line()
	comment(file, "WithTx returns the limits inside a transaction of the caller's own, of the database that holds the counts: what\n"+
		"they take is taken if and only if tx commits.")
	file.Func().Add(n.receiving()).Id("WithTx").Params(jen.Id("tx").Qual(runtimePath, "Tx")).Op("*").Id("Limits").Block(
		jen.Return(jen.Parens(jen.Op("*").Id("Limits")).Call(n.limiter().Dot("WithTx").Call(jen.Id("tx")))),
	)
}

// func (l *Limits) limiter() *runtime.Limiter { return (*runtime.Limiter)(l) }
func declareLimiter(file *jen.File, n names) {
	file.Line()
	file.Func().Add(n.receiving()).Id(limiterMethod).Params().Op("*").Qual(runtimePath, "Limiter").Block(
		jen.Return(jen.Parens(jen.Op("*").Qual(runtimePath, "Limiter")).Call(jen.Id(n.receiver))),
	)
}

//	func Policies() []*runtime.Policy {
//		return []*runtime.Policy{&policySendMessage}
//	}
func declarePolicies(file *jen.File, limits []*spec.Limit) {
	file.Line()
	comment(file, "Policies returns the rules of all limits, such as the Sweep of a store needs to know what it can forget.")
	list := jen.Index().Op("*").Qual(runtimePath, "Policy").CustomFunc(onePerLine, func(g *jen.Group) {
		for _, limit := range limits {
			g.Op("&").Id(policyName(limit))
		}
	})
	file.Func().Id("Policies").Params().Index().Op("*").Qual(runtimePath, "Policy").Block(jen.Return(list))
}

// receiving is the receiver of a method: (l *Limits).
func (n names) receiving() *jen.Statement { return jen.Params(jen.Id(n.receiver).Op("*").Id("Limits")) }

// limiter is l.limiter().
func (n names) limiter() *jen.Statement { return jen.Id(n.receiver).Dot(limiterMethod).Call() }

// onePerLine is a literal with an element a line, in the order in which they are given.
var onePerLine = jen.Options{Open: "{", Close: "}", Separator: ",", Multi: true}
