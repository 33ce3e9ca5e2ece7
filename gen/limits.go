package gen

import (
	"fmt"
	"path"
	"slices"

	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// declareFrame writes the comments above the package clause, and the names of the runtime that callers use.
func declareFrame(file *jen.File, n names, f *spec.File, o Options) {
	file.HeaderComment(headerStart + o.Source + headerEnd)
	_, handle, _ := f.Limits[0].Handle()
	doc := fmt.Sprintf("Package %s has the rate limits of %s.\n\n%s\nEach limit is a method of [Limits]. "+
		"It returns a handle for one key, such as a [%s], which has the verbs.", o.Package, path.Base(o.Source), usage(f, o.Package), n.handleName(handle))
	for _, line := range commentLines(doc) {
		file.PackageComment(line)
	}
	declareVersionGuard(file)
	declareTypes(file, n, f)
	declareErrors(file, f)
	if overridable(f) {
		declareForGood(file)
	}
}

// declareVersionGuard writes a declaration that does not compile with an older runtime:
//
//	const _ = runtime.GeneratedCodeVersion1
func declareVersionGuard(file *jen.File) {
	comment(file.Group, "An error on the next line means that package runtime is older than the ratelimitgen that generated this file.\n"+
		"Update the package, or run go generate again:\n\n\tgo get "+modulePath+"@latest")
	file.Const().Id("_").Op("=").Qual(runtimePath, "GeneratedCodeVersion1")
}

// declareTypes writes the aliases of types:
//
//	type (
//		// Decision is the result of a request: whether it is allowed, and if not, when to retry.
//		Decision = runtime.Decision
//	)
func declareTypes(file *jen.File, n names, f *spec.File) {
	hidden := func(a alias) bool { return n.keyTypes[a.name] }
	declare(file, "The types that callers use.", jen.Type().DefsFunc(func(g *jen.Group) {
		declareAliases(g, f, typeAliases)
		declareAliases(g, f, slices.DeleteFunc(slices.Clone(handleAliases), hidden))
		declarePricedAliases(g, f, slices.DeleteFunc(slices.Clone(pricedAliases), hidden))
	}))
}

// declareErrors writes the aliases of errors:
//
//	var (
//		// ErrLimited is wrapped by every [*LimitedError].
//		ErrLimited = runtime.ErrLimited
//	)
func declareErrors(file *jen.File, f *spec.File) {
	declare(file, "The errors to test for with [errors.Is]. Other errors mean that the request could not be decided.",
		jen.Var().DefsFunc(func(g *jen.Group) { declareAliases(g, f, errorAliases) }))
}

// declareForGood writes
//
//	func ForGood() time.Time { return runtime.ForGood() }
func declareForGood(file *jen.File) {
	declare(file, "ForGood returns the Until of an override or block that has no end.",
		jen.Func().Id("ForGood").Params().Qual(timePath, "Time").Add(oneLine(jen.Return(jen.Qual(runtimePath, "ForGood").Call()))))
}

// declareLimits writes the type that has the limits as methods, its constructor and its other methods:
//
//	type Limits limiter.Limiter
func declareLimits(file *jen.File, n names, f *spec.File) {
	declare(file, "Limits has a method for each limit and group. The zero Limits and a nil *Limits have no store: every request fails.",
		jen.Type().Id("Limits").Qual(limiterPath, "Limiter"))
	declareNew(file)
	all := "All takes tokens from several limits at once: from all of them or, if one denies, from none. An item is the\n" +
		"handle that a method of Limits returns, for one token, or its N(n), for n tokens. Its Checked() must have a token,\n" +
		"and gives none up."
	if hasPrices(f) {
		all += " For a limit with prices, it is the handle's Of(used)."
	}
	n.declareSeveral(file, "All", "Item", jen.Id("Decisions"), all)
	n.declareSeveral(file, "ReserveAll", "ReserveItem", jen.Op("*").Id("Reservations"),
		"ReserveAll takes tokens from several limits at once, if necessary before they have accrued: from all of them or, if\n"+
			"one denies, from none. The tokens may be used after the Delay of the reservations, the largest of all.")
	n.declareSeveral(file, "PeekAll", "ReserveItem", jen.Index().Id("Balance"),
		"PeekAll returns what is used and left of several limits, in the order of the items, as for a page of what a customer\n"+
			"has used. It takes no tokens, and no observer sees it.")
	n.declareWithin(file, "WithTx", "tx", jen.Qual(runtimePath, "Tx"),
		"WithTx returns the limits inside a transaction of the caller, in the database of the store. Their tokens are\n"+
			"taken if and only if tx commits.")
	n.declareWithin(file, "WithConn", "conn", jen.Op("*").Qual("database/sql", "Conn"),
		"WithConn is WithTx for a transaction that was begun by a statement on a connection.")
	n.declareLimiter(file)
}

// declareNew writes
//
//	func New(store runtime.Store, options ...limiter.Option) *Limits {
//		return (*Limits)(limiter.New(store, options...))
//	}
func declareNew(file *jen.File) {
	limiter := jen.Qual(limiterPath, "New").Call(jen.Id("store"), jen.Id("options").Op("..."))
	declare(file, "New returns the limits, with their counts in store. Options such as [limiter.Observe] have them observed.",
		jen.Func().Id("New").Params(jen.Id("store").Qual(runtimePath, "Store"), jen.Id("options").Op("...").Qual(limiterPath, "Option")).
			Op("*").Id("Limits").Block(jen.Return(asLimits(limiter))))
}

// asLimits is the conversion (*Limits)(limiter).
func asLimits(limiter jen.Code) *jen.Statement {
	return jen.Parens(jen.Op("*").Id("Limits")).Parens(limiter)
}

// onLimits begins a method of Limits:
//
//	func (l *Limits) All
func (n names) onLimits(method string) *jen.Statement {
	return jen.Func().Params(jen.Id(n.receiver).Op("*").Id("Limits")).Id(method)
}

// limiter is the Limiter of a method of Limits: l.limiter().
func (n names) limiter() *jen.Statement { return jen.Id(n.receiver).Dot("limiter").Call() }

// declareSeveral writes a method for several limits:
//
//	func (l *Limits) All(ctx context.Context, items ...Item) (Decisions, error) {
//		return l.limiter().All(ctx, items...)
//	}
func (n names) declareSeveral(file *jen.File, method, item string, result jen.Code, doc string) {
	declare(file, doc, n.onLimits(method).Params(withContext(), jen.Id("items").Op("...").Id(item)).Params(result, jen.Error()).Block(
		jen.Return(n.limiter().Dot(method).Call(jen.Id("ctx"), jen.Id("items").Op("...")))))
}

// declareWithin writes a method for the limits inside a transaction:
//
//	func (l *Limits) WithTx(tx runtime.Tx) *Limits {
//		return (*Limits)(l.limiter().WithTx(tx))
//	}
func (n names) declareWithin(file *jen.File, method, parameter string, typ jen.Code, doc string) {
	declare(file, doc, n.onLimits(method).Params(jen.Id(parameter).Add(typ)).Op("*").Id("Limits").Block(
		jen.Return(asLimits(n.limiter().Dot(method).Call(jen.Id(parameter))))))
}

// declareLimiter writes
//
//	func (l *Limits) limiter() *limiter.Limiter {
//		return (*limiter.Limiter)(l)
//	}
func (n names) declareLimiter(file *jen.File) {
	file.Line()
	file.Add(n.onLimits("limiter").Params().Op("*").Qual(limiterPath, "Limiter").Block(
		jen.Return(jen.Parens(jen.Op("*").Qual(limiterPath, "Limiter")).Parens(jen.Id(n.receiver)))))
}
