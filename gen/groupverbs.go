package gen

import (
	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
)

// groupVerb is a method of a group's handle: what it returns besides the error, and its comment.
type groupVerb struct {
	returns groupResult
	doc     string
}

type groupResult int

const (
	nothing groupResult = iota
	decisions
	reservations
)

// groupVerbs are those of [spec.Group.Verbs].
var groupVerbs = map[string]groupVerb{
	"Allow":   {decisions, "Allow takes the tokens of all limits if all are available, and otherwise none."},
	"Check":   {decisions, "Check reports whether Allow would take the tokens now, and takes none."},
	"Require": {nothing, "Require takes the tokens of all limits, and returns a denial as a [*LimitedError]."},
	"Reserve": {reservations, "Reserve takes the tokens of all limits, if necessary before they have accrued: use them after the Delay of the\n" +
		"reservations, the largest of all."},
	"Wait": {nothing, "Wait takes the tokens of all limits, and returns when they can be used, or at once if the deadline of ctx is\n" +
		"earlier. See [limiter.Group.Wait]."},
	"WaitReserve": {reservations, "WaitReserve is Wait, and returns the tokens as reservations, to settle them when the use is known."},
}

// declareVerb writes a verb, which passes the results of package limiter on, or converts them:
//
//	func (g CompleteGroup) Require(ctx context.Context, tokens int64) error {
//		return g.of(tokens).Require(ctx)
//	}
//
//	func (g CompleteGroup) Allow(ctx context.Context, tokens int64) (CompleteDecisions, error) {
//		return newCompleteDecisions(g.of(tokens).Allow(ctx))
//	}
func (g group) declareVerb(file *jen.File, verb string) {
	call := jen.Id("g").Dot("of").CallFunc(func(call *jen.Group) {
		for _, name := range g.Counts() {
			call.Id(g.count(name))
		}
	}).Dot(verb).Call(jen.Id("ctx"))
	method := jen.Func().Params(jen.Id("g").Id(g.handle)).Id(verb).Params(append([]jen.Code{withContext()}, g.countParameters()...)...)
	v := groupVerbs[verb]
	switch v.returns {
	case nothing:
		method.Error()
	case decisions:
		method.Params(g.decided()...)
		call = jen.Id("new" + g.decisions).Call(call)
	case reservations:
		method.Params(g.reserved()...)
		call = jen.Id("new" + g.reservations).Call(call)
	}
	if verb == "Reserve" {
		v.doc += g.takenNow()
	}
	declare(file, v.doc, method.Block(jen.Return(call)))
}

// takenNow says which limits Reserve takes from without waiting.
func (g group) takenNow() (sentences string) {
	if list := g.takenAtOnce(); len(list) > 0 {
		sentences = " Tokens of " + words.List(list, "and") + " cannot be reserved, and must be available now."
	}
	if g.Acquires() {
		sentences += " Slots are acquired at once."
	}
	return sentences
}
