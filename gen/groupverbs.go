package gen

import (
	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
)

// groupVerb is a method of a group's handle.
type groupVerb struct {
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
//		ds, err := g.of(tokens).Allow(ctx)
//		return newCompleteDecisions(ds), err
//	}
func (g group) declareDecider(file *jen.File, verb, doc string) {
	declare(file, doc, g.onHandle(verb).Params(jen.Id(g.decisions), jen.Error()).Block(
		jen.List(jen.Id("ds"), jen.Err()).Op(":=").Add(g.call(verb)),
		jen.Return(jen.Id(g.build).Call(jen.Id("ds")), jen.Err())))
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
//		rs, err := g.of(tokens).Reserve(ctx)
//		if err != nil {
//			return nil, err
//		}
//		return &CompleteReservations{
//			Reservations: rs,
//			LLMTokens:    rs.At(0),
//		}, nil
//	}
//
// With slots, the reservations are a variable own, whose slots are set by own.ExportsSlot, _ = rs.Slot(1).
func (g group) declareReserver(file *jen.File, verb, doc string) {
	own := jen.Op("&").Id(g.reservations).CustomFunc(onePerLine, func(fields *jen.Group) {
		fields.Id("Reservations").Op(":").Id("rs")
		for _, m := range g.members() {
			if m.reserves() {
				fields.Id(m.field).Op(":").Id("rs").Dot("At").Call(jen.Lit(m.index))
			}
		}
	})
	result := []jen.Code{jen.Return(own, jen.Nil())}
	if slots := g.setSlots("own", "rs"); len(slots) > 0 {
		result = append([]jen.Code{jen.Id("own").Op(":=").Add(own)}, slots...)
		result = append(result, jen.Return(jen.Id("own"), jen.Nil()))
	}
	declare(file, doc, g.onHandle(verb).Params(jen.Op("*").Id(g.reservations), jen.Error()).Block(append([]jen.Code{
		jen.List(jen.Id("rs"), jen.Err()).Op(":=").Add(g.call(verb)),
		jen.If(jen.Err().Op("!=").Nil()).Block(jen.Return(jen.Nil(), jen.Err())),
	}, result...)...))
}
