package gen

import (
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/describe"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// group has the identifiers of a group's declarations.
type group struct {
	*spec.Group
	names names
	// handle, decisions and reservations are the names of its types; the last two are made by functions with new before the name.
	handle, decisions, reservations string
}

// declareGroup writes a group's method, its handle with the verbs that can succeed, and the types of their results.
func declareGroup(file *jen.File, n names, of *spec.Group) {
	g := group{of, n, of.GoName + "Group", of.GoName + "Decisions", of.GoName + "Reservations"}
	g.declareMethod(file)
	g.declareHandle(file)
	for _, verb := range g.Verbs() {
		g.declareVerb(file, verb)
	}
	if g.Allows() {
		g.declareDecisions(file)
		g.declareNewDecisions(file)
	}
	if g.Reserves() {
		g.declareReservations(file)
		g.declareNewReservations(file)
	}
}

// declareMethod writes
//
//	func (l *Limits) Complete(team string, model string) CompleteGroup {
//		return CompleteGroup{func(tokens int64) limiter.Group {
//			return l.limiter().Group(
//				l.LLMRequests(team, model),
//				l.LLMTokens(team, model).N(tokens),
//			)
//		}}
//	}
func (g group) declareMethod(file *jen.File) {
	items := jen.Custom(jen.Options{Open: "(", Close: ")", Separator: ",", Multi: true}, g.items()...)
	of := jen.Func().Params(g.countParameters()...).Qual(limiterPath, "Group").Block(jen.Return(g.names.limiter().Dot("Group").Add(items)))
	declare(file, groupDoc(g.Group), g.names.onLimits(g.GoName).Params(g.keyParameters()...).Id(g.handle).Block(jen.Return(jen.Id(g.handle).Values(of))))
}

// declareHandle writes
//
//	type CompleteGroup struct {
//		of func(tokens int64) limiter.Group
//	}
func (g group) declareHandle(file *jen.File) {
	declare(file, g.handle+" is the handle that [Limits."+g.GoName+"] returns, with the verbs of the group.",
		jen.Type().Id(g.handle).Struct(jen.Id("of").Func().Params(g.countParameters()...).Qual(limiterPath, "Group")))
}

// keyParameters are the parameters of the group's method: for parts of keys, and those that limits share, which come once.
func (g group) keyParameters() (list []jen.Code) {
	for _, key := range g.Keys() {
		list = append(list, jen.Id(g.key(key.Name)).Add(g.names.keyType(key)))
	}
	for _, shared := range g.Shared() {
		list = append(list, jen.Id(shared.Name).Add(sharedType(shared)))
	}
	return list
}

// countParameters are the parameters of the verbs, with the numbers of tokens.
func (g group) countParameters() (list []jen.Code) {
	for _, name := range g.Counts() {
		list = append(list, jen.Id(g.count(name)).Int64())
	}
	return list
}

// items are the limits that the group takes from, and those that it checks:
//
//	l.LLMTokens(team, model).N(tokens)
func (g group) items() (items []jen.Code) {
	for _, m := range g.Takes {
		method := "N"
		if m.Acquires() {
			method = "ItemN"
		}
		items = append(items, g.withCount(m, g.memberCall(m), "", method))
	}
	for _, m := range g.Checks {
		items = append(items, g.withCount(m, g.memberCall(m), "Checked", "CheckedN"))
	}
	return items
}

// withCount calls method with the number of tokens of a member, or the method one if that is 1; "" for none.
func (g group) withCount(m spec.Member, call *jen.Statement, one, method string) *jen.Statement {
	switch {
	case m.CountArg != "":
		return call.Dot(method).Call(jen.Id(g.count(m.CountArg)))
	case m.Count > 1:
		return call.Dot(method).Call(jen.Op(tokens(m.Count)))
	case one != "":
		return call.Dot(one).Call()
	}
	return call
}

// memberCall is the call of a limit's method: l.LLMTokens(team, model).
func (g group) memberCall(m spec.Member) *jen.Statement {
	return jen.Id(g.names.receiver).Dot(m.Limit.GoName).CallFunc(func(call *jen.Group) {
		for _, arg := range m.Args {
			call.Id(g.key(arg))
		}
		for _, shared := range m.Limit.Shared() {
			call.Id(shared.Name)
		}
	})
}

// groupDoc returns the text of a method's doc comment: the doc of the author, and the rule and the worst case of each limit.
func groupDoc(g *spec.Group) string {
	var rule strings.Builder
	rule.WriteString("All limits must allow a request: if one denies it, no token is taken from any of them.\n")
	for _, sentence := range g.SharedWords() {
		rule.WriteString(sentence + "\n")
	}
	if len(g.Plans()) > 0 {
		rule.WriteString("For the zero Plan, every method returns [ErrInvalidPlan].\n")
	}
	var described []*spec.Limit
	for i, sentence := range g.Words() {
		rule.WriteString("\n  - " + sentence)
		if l := g.Members()[i].Limit; !slices.Contains(described, l) {
			described = append(described, l)
			rule.WriteString("\n    " + strings.Join(describe.Limit(l).Lines(), "\n    "))
		}
	}
	return withDoc(g.GoName, g.Doc, g.GoName+" takes tokens of several limits at once.", rule.String())
}

// takenAtOnce lists the limits that Reserve takes from without reserving.
func (g group) takenAtOnce() []string {
	return spec.LimitNames(slices.DeleteFunc(slices.Clone(g.Takes), func(m spec.Member) bool { return m.Limit.Policy.Reserves() || m.Acquires() }))
}

// key returns the name of the parameter for a part of a key, unless that would hide a name that the method's body uses.
func (g group) key(name string) string {
	return unhidden(name, "Key", []string{"runtime", "limiter", g.handle}, g.parameters())
}

// count returns the name of the parameter for a number of tokens, unless that would hide a name that a body uses.
func (g group) count(name string) string {
	hidden := []string{"runtime", "limiter", "context", "ctx", "g", "new" + g.decisions, "new" + g.reservations, g.handle}
	return unhidden(name, "Count", hidden, g.parameters())
}

// parameters are the names that the author has given to the parameters of the methods.
func (g group) parameters() []string { return slices.Concat(g.Counts(), g.Parameters()) }
