package gen

import (
	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

var hasPrices = someLimit(func(l *spec.Limit) bool { return len(l.Prices) > 0 })

// pricedAliases are the types of handles of limits with prices. Each has the type of the usage as its argument.
var pricedAliases = []alias{
	{limiterPath, "PricedLimit", verbsOf[limiter.PricedLimit[limiter.Usage]](pricedVerbs,
		"is one key of a limit with prices: a request takes the cost of what it uses.\nIt is a small value: keep it, or make one for each call"), hasPrices},
	{limiterPath, "PricedReservation",
		"PricedReservation is the cost of an estimate, taken in advance. It may be used after its Delay, or its Wait; later Settle it for the usage, or Cancel it.", hasPrices},
}

// pricedVerbs are the methods of the first.
var pricedVerbs = []verb{
	{"Allow", "ctx, used", "takes the cost if so many tokens are available"},
	{"Require", "ctx, used", "takes the cost, and returns a denial as a *LimitedError"},
	{"Reserve", "ctx, estimate", "takes the cost of an estimate, to be settled"},
	{"Resume", "text", "returns the reservation with a text of MarshalText"},
	{"Wait", "ctx, used", "takes the cost, and returns when it can be used"},
	{"WaitReserve", "ctx, estimate", "takes the cost of an estimate, and returns it when it can be used"},
	{"Check", "ctx, used", "decides, and takes nothing"},
	{"Refund", "ctx, d", "gives back what d took"},
	{"Charge", "ctx, used", "takes the cost, available or not"},
	{"Peek", "ctx", "returns what is used and left"},
	{"Reset", "ctx", "forgets what is used"},
	{"Erase", "ctx", "deletes the key from the store"},
	{"Of", "used", "is an item that takes the cost"},
	{"CheckedOf", "used", "is an item that is checked for the cost, and takes nothing"},
}

// declarePricedAliases writes
//
//	// PricedLimit is one key of a limit with prices.
//	PricedLimit[U limiter.Usage] = limiter.PricedLimit[U]
func declarePricedAliases(g *jen.Group, f *spec.File, aliases []alias) {
	for _, a := range aliases {
		if a.needed(f) {
			comment(g, a.doc)
			g.Id(a.name).Types(jen.Id("U").Qual(limiterPath, "Usage")).Op("=").Qual(a.from, a.name).Types(jen.Id("U"))
		}
	}
}

// pricesName is the variable with the prices of a limit.
func pricesName(l *spec.Limit) string { return "prices" + l.GoName }

// declareUsage writes the struct with what a request uses, and the prices:
//
//	type LLMSpendUsage struct {
//		// Input costs 3 tokens a unit.
//		Input int64
//	}
//
//	func (u LLMSpendUsage) Cost() (int64, error) {
//		return pricesLLMSpend.Cost(u.Input)
//	}
//
//	var pricesLLMSpend = runtime.Prices{
//		{Name: "input", Millionths: 3_000_000},
//	}
func declareUsage(file *jen.File, l *spec.Limit) {
	declare(file, l.UsageType()+" is what a request of [Limits."+l.GoName+"] uses, in units. What is left out is 0.",
		jen.Type().Id(l.UsageType()).StructFunc(func(g *jen.Group) {
			for _, price := range l.Prices {
				g.Comment("// " + spec.GoName(price.Name) + " costs " + fields.TokensInWords(price.Millionths) + " a unit.")
				g.Id(spec.GoName(price.Name)).Int64()
			}
		}))
	declare(file, "Cost returns the tokens that the usage takes: the sum of price times units, rounded up. The error is [ErrInvalidCount] if units\n"+
		"are less than 0, and [ErrExceedsCapacity] if the cost is no int64.",
		jen.Func().Params(jen.Id("u").Id(l.UsageType())).Id("Cost").Params().Params(jen.Int64(), jen.Error()).Block(
			jen.Return(jen.Id(pricesName(l)).Dot("Cost").CallFunc(func(g *jen.Group) {
				for _, price := range l.Prices {
					g.Id("u").Dot(spec.GoName(price.Name))
				}
			}))))
	file.Line()
	file.Var().Id(pricesName(l)).Op("=").Qual(runtimePath, "Prices").CustomFunc(onePerLine, func(g *jen.Group) {
		for _, price := range l.Prices {
			g.Values(jen.Id("Name").Op(":").Lit(price.Name), jen.Id("Millionths").Op(":").Op(tokens(price.Millionths)))
		}
	})
}
