package gen

import (
	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

func policyName(l *spec.Limit) string { return "policy" + l.GoName }

// kindNames are the names of the kinds in Go.
var kindNames = map[runtime.Kind]string{
	runtime.TokenBucket:   "TokenBucket",
	runtime.FixedWindow:   "FixedWindow",
	runtime.SlidingWindow: "SlidingWindow",
}

// durabilityNames are the names in Go of the durabilities that a limit can ask for.
var durabilityNames = map[runtime.Durability]string{
	runtime.DurabilityRelaxed: "DurabilityRelaxed",
	runtime.DurabilityFull:    "DurabilityFull",
}

// policyLiteral is a policy with its effective values, in the order in which people read them. Of the
// fields that a limit may do without, those that are zero are left out.
//
//	runtime.Policy{
//		Name:     "sendMessage",
//		Kind:     runtime.TokenBucket,
//		Rate:     10,
//		Period:   time.Minute,
//		Capacity: 20,
//	}
func policyLiteral(p *runtime.Policy) *jen.Statement {
	return jen.Qual(runtimePath, "Policy").CustomFunc(onePerLine, func(g *jen.Group) {
		field(g, "Name", jen.Lit(p.Name))
		field(g, "Kind", jen.Qual(runtimePath, kindNames[p.Kind]))
		field(g, "Rate", tokens(p.Rate))
		field(g, "Period", duration(p.Period))
		field(g, "Capacity", tokens(p.Capacity))
		if p.MaxReserved != 0 {
			field(g, "MaxReserved", maxReserved(p.MaxReserved))
		}
		if p.Start != (runtime.Start{}) {
			field(g, "Start", start(p.Start))
		}
		if p.Shards > 1 {
			field(g, "Shards", jen.Lit(p.Shards))
		}
		if p.Timeout != 0 {
			field(g, "Timeout", duration(p.Timeout))
		}
		if p.OnError == runtime.FailOpen {
			field(g, "OnError", jen.Qual(runtimePath, "FailOpen"))
		}
		if p.DenyCache != 0 {
			field(g, "DenyCache", duration(p.DenyCache))
		}
		if p.Lease != (runtime.Lease{}) {
			field(g, "Lease", lease(p.Lease))
		}
		if p.Durability != runtime.DurabilityDefault {
			field(g, "Durability", jen.Qual(runtimePath, durabilityNames[p.Durability]))
		}
	})
}

// lease is a block on one line: runtime.Lease{Tokens: 100, For: 200 * time.Millisecond}.
func lease(l runtime.Lease) *jen.Statement {
	return jen.Qual(runtimePath, "Lease").Values(
		jen.Id("Tokens").Op(":").Add(tokens(l.Tokens)),
		jen.Id("For").Op(":").Add(duration(l.For)),
	)
}

func field(g *jen.Group, name string, value jen.Code) { g.Id(name).Op(":").Add(value) }

func maxReserved(n int64) *jen.Statement {
	if n == runtime.Unbounded {
		return jen.Qual(runtimePath, "Unbounded")
	}
	return tokens(n)
}
