package gen

import (
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// group has the identifiers of a group's declarations.
type group struct {
	*spec.Group
	names
	// handle, decisions and reservations are the names of its types, and build that of the function which makes decisions.
	handle, decisions, reservations, build string
}

// declareGroup writes a group's method, its handle with the verbs that can succeed, and the types of their results.
func declareGroup(file *jen.File, n names, of *spec.Group) {
	g := group{of, n, of.GoName + "Group", of.GoName + "Decisions", of.GoName + "Reservations", "new" + of.GoName + "Decisions"}
	g.method(file)
	g.handleType(file)
	if g.Allows() {
		g.decides(file, "Allow", "Allow takes the tokens of all limits if all are available, and otherwise none.")
		g.decides(file, "Check", "Check reports whether Allow would take the tokens now, and takes none.")
		g.require(file)
	}
	if g.Reserves() {
		g.reserve(file)
	}
	g.wait(file)
	if g.Allows() {
		g.decisionsType(file)
	}
	if g.Reserves() {
		g.reservationsType(file)
	}
}

// // Complete is what one completion costs.
// // ...
//
//	func (l *Limits) Complete(team string, model string) CompleteGroup {
//		return CompleteGroup{func(tokens int64) limiter.Group {
//			return l.limiter().Group(l.LLMRequests(team, model), l.LLMTokens(team, model).N(tokens), l.Suspended().Checked())
//		}}
//	}
func (g group) method(file *jen.File) {
	file.Line()
	comment(file, groupDoc(g.Group))
	// All parameters of the limits that are not numbers of tokens: shared ones come once.
	var parameters []jen.Code
	for _, key := range g.Keys() {
		parameters = append(parameters, jen.Id(g.key(key.Name)).Add(keyType(key.GoType())))
	}
	for _, shared := range g.Shared() {
		parameters = append(parameters, jen.Id(shared.Name).Add(sharedType(shared)))
	}
	items := jen.Id(g.receiver).Dot(limiterMethod).Call().Dot("Group").CustomFunc(argumentPerLine, func(list *jen.Group) {
		for _, m := range g.Takes {
			item := g.memberCall(m)
			switch {
			case m.CountArg != "":
				item.Dot("N").Call(jen.Id(g.count(m.CountArg)))
			case m.Count > 1:
				item.Dot("N").Call(tokens(m.Count))
			}
			list.Add(item)
		}
		for _, m := range g.Checks {
			list.Add(g.memberCall(m).Dot("Checked").Call())
		}
	})
	build := jen.Func().Params(g.countParameters()...).Qual(limiterPath, "Group").Block(jen.Return(items))
	file.Func().Add(g.receiving()).Id(g.GoName).Params(parameters...).Id(g.handle).Block(
		jen.Return(jen.Id(g.handle).Values(build)),
	)
}

func sharedType(shared spec.SharedParameter) *jen.Statement {
	switch shared.Name {
	case spec.AnniversaryParameter:
		return jen.Qual(timePath, "Time")
	case spec.ZoneParameter:
		return jen.Op("*").Qual(timePath, "Location")
	}
	return jen.Id(shared.Type)
}

// memberCall is the call of a limit's method: l.LLMTokens(team, model).
func (g group) memberCall(m spec.Member) *jen.Statement {
	return jen.Id(g.receiver).Dot(m.Limit.GoName).CallFunc(func(args *jen.Group) {
		for _, arg := range m.Args {
			args.Id(g.key(arg))
		}
		for _, shared := range m.Limit.Shared() {
			args.Id(shared.Name)
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
	for i, sentence := range g.Words() {
		l := g.Members()[i].Limit
		rule.WriteString("\n  - " + sentence + "\n    " + strings.Join(fields.Describe(l).Lines(), "\n    "))
	}
	return withDoc(g.GoName, g.Doc, g.GoName+" takes tokens of several limits at once.", rule.String())
}

// // CompleteGroup is a handle for one key of each limit of [Limits.Complete].
//
//	type CompleteGroup struct {
//		of func(tokens int64) limiter.Group
//	}
func (g group) handleType(file *jen.File) {
	file.Line()
	comment(file, g.handle+" is the handle that [Limits."+g.GoName+"] returns, with the verbs of the group.")
	file.Type().Id(g.handle).Struct(jen.Id("of").Func().Params(g.countParameters()...).Qual(limiterPath, "Group"))
}

//	func (g CompleteGroup) Allow(ctx context.Context, tokens int64) (CompleteDecisions, error) {
//		ds, err := g.of(tokens).Allow(ctx)
//		return newCompleteDecisions(ds), err
//	}
func (g group) decides(file *jen.File, verb, doc string) {
	g.verb(file, verb, doc).Params(jen.Id(g.decisions), jen.Error()).Block(
		jen.List(jen.Id("ds"), jen.Err()).Op(":=").Add(g.call(verb)),
		jen.Return(jen.Id(g.build).Call(jen.Id("ds")), jen.Err()),
	)
}

// func (g CompleteGroup) Require(ctx context.Context, tokens int64) error { return g.of(tokens).Require(ctx) }
func (g group) require(file *jen.File) {
	g.verb(file, "Require", "Require takes the tokens of all limits, and returns a denial as a [*LimitedError].").Error().Block(
		jen.Return(g.call("Require")),
	)
}

// func (g CompleteGroup) Wait(ctx context.Context, tokens int64) error { return g.of(tokens).Wait(ctx) }
func (g group) wait(file *jen.File) {
	g.verb(file, "Wait", "Wait takes the tokens of all limits, and returns when they can be used, or at once if the deadline of ctx is\n"+
		"earlier. See [limiter.Group.Wait].").Error().Block(jen.Return(g.call("Wait")))
}

//	func (g CompleteGroup) Reserve(ctx context.Context, tokens int64) (*CompleteReservations, error) {
//		rs, err := g.of(tokens).Reserve(ctx)
//		if err != nil {
//			return nil, err
//		}
//		return &CompleteReservations{Reservations: rs, LLMRequests: rs.At(0), LLMTokens: rs.At(1)}, nil
//	}
func (g group) reserve(file *jen.File) {
	doc := "Reserve takes the tokens of all limits, if necessary before they have accrued: use them after the Delay of the\n" +
		"reservations, the largest of all."
	if at := g.takenAtOnce(); len(at) > 0 {
		doc += " Tokens of " + words.List(at, "and") + " cannot be reserved, and must be available now."
	}
	g.verb(file, "Reserve", doc).Params(jen.Op("*").Id(g.reservations), jen.Error()).Block(
		jen.List(jen.Id("rs"), jen.Err()).Op(":=").Add(g.call("Reserve")),
		jen.If(jen.Err().Op("!=").Nil()).Block(jen.Return(jen.Nil(), jen.Err())),
		jen.Return(jen.Op("&").Id(g.reservations).CustomFunc(onePerLine, func(values *jen.Group) {
			values.Id("Reservations").Op(":").Id("rs")
			for i, m := range g.Takes {
				values.Id(m.Limit.GoName).Op(":").Id("rs").Dot("At").Call(jen.Lit(i))
			}
		}), jen.Nil()),
	)
}

// takenAtOnce lists the limits that Reserve takes from without reserving.
func (g group) takenAtOnce() (names []string) {
	for _, m := range g.Takes {
		if !m.Limit.Policy.Reserves() {
			names = append(names, m.Limit.Policy.Name)
		}
	}
	return names
}

// verb begins a method of the handle with the parameters of the counts.
func (g group) verb(file *jen.File, name, doc string) *jen.Statement {
	file.Line()
	comment(file, doc)
	parameters := append([]jen.Code{jen.Id("ctx").Qual(contextPath, "Context")}, g.countParameters()...)
	return file.Func().Params(jen.Id("g").Id(g.handle)).Id(name).Params(parameters...)
}

// call is g.of(tokens).Allow(ctx).
func (g group) call(verb string) *jen.Statement {
	return jen.Id("g").Dot("of").CallFunc(func(args *jen.Group) {
		for _, name := range g.Counts() {
			args.Id(g.count(name))
		}
	}).Dot(verb).Call(jen.Id("ctx"))
}

func (g group) countParameters() (parameters []jen.Code) {
	for _, name := range g.Counts() {
		parameters = append(parameters, jen.Id(g.count(name)).Int64())
	}
	return parameters
}

// // CompleteDecisions are the decisions of the limits of [Limits.Complete].
//
//	type CompleteDecisions struct {
//		Decisions
//		LLMRequests, LLMTokens, Suspended Decision
//	}
//
//	func newCompleteDecisions(ds Decisions) CompleteDecisions {
//		d := CompleteDecisions{Decisions: ds}
//		if len(ds.Each) > 0 {
//			d.LLMRequests, d.LLMTokens, d.Suspended = ds.Each[0], ds.Each[1], ds.Each[2]
//		}
//		return d
//	}
func (g group) decisionsType(file *jen.File) {
	file.Line()
	comment(file, g.decisions+" are the decisions of all limits of [Limits."+g.GoName+"]. If one of them denies, no token was taken, and\n"+
		"the others are Allowed if they would have passed.")
	file.Type().Id(g.decisions).StructFunc(func(fields *jen.Group) {
		fields.Id("Decisions")
		for _, m := range g.Members() {
			fields.Id(m.Limit.GoName).Id("Decision")
		}
	})
	file.Line()
	file.Func().Id(g.build).Params(jen.Id("ds").Id("Decisions")).Id(g.decisions).Block(
		jen.Id("d").Op(":=").Id(g.decisions).Values(jen.Id("Decisions").Op(":").Id("ds")),
		jen.If(jen.Len(jen.Id("ds").Dot("Each")).Op(">").Lit(0)).BlockFunc(func(block *jen.Group) {
			for i, m := range g.Members() {
				block.Id("d").Dot(m.Limit.GoName).Op("=").Id("ds").Dot("Each").Index(jen.Lit(i))
			}
		}),
		jen.Return(jen.Id("d")),
	)
}

// // CompleteReservations are the tokens taken of the limits of [Limits.Complete].
//
//	type CompleteReservations struct {
//		*Reservations
//		LLMRequests, LLMTokens *Reservation
//	}
func (g group) reservationsType(file *jen.File) {
	file.Line()
	comment(file, g.reservations+" are the tokens that were taken from the limits of [Limits."+g.GoName+"]: each is settled or cancelled by\n"+
		"itself, and Cancel refunds all that are still open.")
	file.Type().Id(g.reservations).StructFunc(func(fields *jen.Group) {
		fields.Op("*").Id("Reservations")
		for _, m := range g.Takes {
			fields.Id(m.Limit.GoName).Op("*").Id("Reservation")
		}
	})
}

// key returns the name of the parameter for a part of a key, unless that would hide a name that the method's body uses.
func (g group) key(name string) string {
	for original := name; name == "runtime" || name == "limiter" || name == g.handle || name != original && hasParameter(g.Group, name); {
		name += "Key"
	}
	return name
}

// count returns the name of the parameter for a number of tokens, unless that would hide a name that a body uses.
func (g group) count(name string) string {
	hidden := []string{"runtime", "limiter", "context", "ctx", "g", "ds", "rs", "err", "nil", g.build, g.handle}
	for original := name; slices.Contains(hidden, name) || name != original && hasParameter(g.Group, name); {
		name += "Count"
	}
	return name
}
