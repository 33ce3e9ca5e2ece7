package gen

import (
	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
)

// groupVerb is a method of a group's handle.
type groupVerb struct {
	// declare writes it, with what it returns.
	declare func(g group, file *jen.File, verb, doc string)
	doc     string
}

// groupVerbs are those of [spec.Group.Verbs].
var groupVerbs = map[string]groupVerb{
	"Allow":   {group.declareDecider, "Allow takes the tokens of all limits if all are available, and otherwise none."},
	"Check":   {group.declareDecider, "Check reports whether Allow would take the tokens now, and takes none."},
	"Require": {group.declarePlain, "Require takes the tokens of all limits, and returns a denial as a [*LimitedError]."},
	"Reserve": {group.declareReserve, "Reserve takes the tokens of all limits, if necessary before they have accrued: use them after the Delay of the\n" +
		"reservations, the largest of all."},
	"Wait": {group.declarePlain, "Wait takes the tokens of all limits, and returns when they can be used, or at once if the deadline of ctx is\n" +
		"earlier. See [limiter.Group.Wait]."},
	"WaitReserve": {group.declareReserver, "WaitReserve is Wait, and returns the tokens as reservations, to settle them when the use is known."},
}

// onHandle begins a verb:
//
//	func (g CompleteGroup) Allow(ctx context.Context, tokens int64)
func (g group) onHandle(verb string) *jen.Statement {
	return jen.Func().Params(jen.Id("g").Id(g.handle)).Id(verb).Params(append([]jen.Code{withContext()}, g.countParameters()...)...)
}

// call is the call of a verb of package limiter: g.of(tokens).Allow(ctx).
func (g group) call(verb string) *jen.Statement {
	return jen.Id("g").Dot("of").CallFunc(func(call *jen.Group) {
		for _, name := range g.Counts() {
			call.Id(g.count(name))
		}
	}).Dot(verb).Call(jen.Id("ctx"))
}

// declareDecider writes a verb that returns decisions:
//
//	func (g CompleteGroup) Allow(ctx context.Context, tokens int64) (CompleteDecisions, error) {
//		return newCompleteDecisions(g.of(tokens).Allow(ctx))
//	}
func (g group) declareDecider(file *jen.File, verb, doc string) {
	declare(file, doc, g.onHandle(verb).Params(g.decided()...).Block(jen.Return(jen.Id("new"+g.decisions).Call(g.call(verb)))))
}

// declarePlain writes a verb that returns an error only:
//
//	func (g CompleteGroup) Require(ctx context.Context, tokens int64) error {
//		return g.of(tokens).Require(ctx)
//	}
func (g group) declarePlain(file *jen.File, verb, doc string) {
	declare(file, doc, g.onHandle(verb).Error().Block(jen.Return(g.call(verb))))
}

// declareReserve writes Reserve, and says which limits do not wait.
func (g group) declareReserve(file *jen.File, verb, doc string) {
	if list := g.takenAtOnce(); len(list) > 0 {
		doc += " Tokens of " + words.List(list, "and") + " cannot be reserved, and must be available now."
	}
	if g.Acquires() {
		doc += " Slots are acquired at once."
	}
	g.declareReserver(file, verb, doc)
}

// declareReserver writes a verb that returns reservations:
//
//	func (g CompleteGroup) Reserve(ctx context.Context, tokens int64) (*CompleteReservations, error) {
//		return newCompleteReservations(g.of(tokens).Reserve(ctx))
//	}
func (g group) declareReserver(file *jen.File, verb, doc string) {
	declare(file, doc, g.onHandle(verb).Params(g.reserved()...).Block(jen.Return(jen.Id("new"+g.reservations).Call(g.call(verb)))))
}
