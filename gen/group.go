package gen

import (
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/describe"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// group has the identifiers of a group's declarations.
type group struct {
	*spec.Group
	names names
	// handle, decisions and reservations are the names of its types; the last two are made by functions with new before the
	// name.
	handle, decisions, reservations string
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

// countParameters are the parameters of the verbs, with the numbers of tokens and the usage.
func (g group) countParameters() (list []jen.Code) {
	for _, name := range g.Counts() {
		list = append(list, jen.Id(g.count(name)).Int64())
	}
	if typ, _ := g.Usage(); typ != "" {
		list = append(list, jen.Id(g.usage()).Id(typ))
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

// withCount calls method with the number of tokens of a member, or the method one if that is 1; "" for none. For a limit
// with prices, it calls the method for its usage, as an item that is checked unless one is "".
func (g group) withCount(m spec.Member, call *jen.Statement, one, method string) *jen.Statement {
	switch {
	case m.Priced() && one == "":
		return call.Dot("Of").Call(g.usageOf(m))
	case m.Priced():
		return call.Dot("CheckedOf").Call(g.usageOf(m))
	case m.CountArg != "":
		return call.Dot(method).Call(jen.Id(g.count(m.CountArg)))
	case m.Count > 1:
		return call.Dot(method).Call(jen.Op(tokens(m.Count)))
	case one != "":
		return call.Dot(one).Call()
	}
	return call
}

// usageOf is the usage of a member of a group, from that of the group:
//
//	LLMSpendUsage{Input: usage.Input}
func (g group) usageOf(m spec.Member) *jen.Statement {
	if typ, _ := g.Usage(); typ == m.Limit.UsageType() {
		return jen.Id(g.usage())
	}
	return jen.Id(m.Limit.UsageType()).ValuesFunc(func(of *jen.Group) {
		for _, price := range m.Limit.Prices {
			name := spec.GoName(price.Name)
			of.Id(name).Op(":").Id(g.usage()).Dot(name)
		}
	})
}

// declareUsage writes the struct with what a request uses of several limits of a group:
//
//	type CompleteUsage struct {
//		Input int64
//	}
func (g group) declareUsage(file *jen.File) {
	typ, units := g.Usage()
	if typ != g.GoName+"Usage" {
		return
	}
	var priced []spec.Member
	for _, m := range g.Members() {
		if m.Priced() {
			priced = append(priced, m)
		}
	}
	declare(file, typ+" is what a request of [Limits."+g.GoName+"] uses, in units. "+words.List(spec.LimitNames(priced), "and")+
		" take what it costs by their prices.",
		jen.Type().Id(typ).StructFunc(func(fields *jen.Group) {
			for _, name := range units {
				fields.Id(spec.GoName(name)).Int64()
			}
		}))
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
	return spec.LimitNames(slices.DeleteFunc(slices.Clone(g.Takes),
		func(m spec.Member) bool { return m.Limit.Policy.Reserves() || m.Acquires() }))
}

// key returns the name of the parameter for a part of a key, unless that would hide a name that the method's body uses.
func (g group) key(name string) string {
	return unhidden(name, "Key", []string{"runtime", "limiter", g.handle}, g.parameters())
}

// count returns the name of the parameter for a number of tokens, unless that would hide a name that a body uses.
func (g group) count(name string) string {
	return unhidden(name, "Count", g.hidden(), g.parameters())
}

// usage returns the name of the parameter with what a request uses, unless that would hide a name that a body uses, or
// another parameter.
func (g group) usage() string {
	return unhidden(spec.UsageArg, "Used", slices.Concat(g.hidden(), g.parameters()), g.parameters())
}

// hidden are the names that the bodies of the verbs use.
func (g group) hidden() []string {
	return []string{"runtime", "limiter", "context", "ctx", "g", "new" + g.decisions, "new" + g.reservations, g.handle}
}

// parameters are the names that the author has given to the parameters of the methods.
func (g group) parameters() []string { return slices.Concat(g.Counts(), g.Parameters()) }

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

// groupVerbs has the declaration of each of [spec.Group.Verbs].
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
		if typ, _ := g.Usage(); typ != "" {
			call.Id(g.usage())
		}
	}).Dot(verb).Call(jen.Id("ctx"))
	method := jen.Func().Params(jen.Id("g").Id(g.handle)).Id(verb).Params(append([]jen.Code{withContext()},
		g.countParameters()...)...)
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

// groupMember is a limit of a group, with what the results have of it.
type groupMember struct {
	limit *spec.Limit
	index int
	// field is the field of its decision or reservation, and slot that of its slot; "" without one.
	field, slot string
	// reserves reports whether the reservations of the group have the field.
	reserves bool
}

func (g group) members() (members []groupMember) {
	fields, slots := g.Fields(), g.SlotFields()
	for i, m := range g.Members() {
		member := groupMember{limit: m.Limit, index: i, field: fields[i]}
		if i < len(g.Takes) {
			member.slot, member.reserves = slots[i], slots[i] == ""
		}
		members = append(members, member)
	}
	return members
}

// declareDecisions writes
//
//	type CompleteDecisions struct {
//		Decisions
//		LLMRequests Decision
//		LLMTokens   Decision
//	}
func (g group) declareDecisions(file *jen.File) {
	doc := g.decisions + " are the decisions of all limits of [Limits." + g.GoName +
		"]. If one of them denies, no token was taken, and\n" +
		"the others are Allowed if they would have passed."
	declare(file, doc, jen.Type().Id(g.decisions).StructFunc(func(fields *jen.Group) {
		fields.Id("Decisions")
		for _, m := range g.members() {
			fields.Id(m.field).Id("Decision")
		}
		g.slotFields(fields)
	}))
}

// slotFields writes the fields with the slots that were acquired:
//
//	// ExportsSlot is what was acquired of [Limits.Exports], to be released; nil if the request was denied.
//	ExportsSlot *Slot
func (g group) slotFields(fields *jen.Group) {
	for _, m := range g.members() {
		if m.slot != "" {
			fields.Comment("// " + m.slot + " is what was acquired of [Limits." + m.limit.GoName +
				"], to be released; nil if the request was denied.")
			fields.Id(m.slot).Op("*").Id("Slot")
		}
	}
}

// decided are the results of the verbs that return decisions.
func (g group) decided() []jen.Code { return []jen.Code{jen.Id(g.decisions), jen.Error()} }

// declareNewDecisions writes
//
//	func newCompleteDecisions(ds Decisions, err error) (CompleteDecisions, error) {
//		d := CompleteDecisions{Decisions: ds}
//		if len(ds.Each) > 0 {
//			d.LLMRequests = ds.Each[0]
//			d.LLMTokens = ds.Each[1]
//		}
//		return d, err
//	}
func (g group) declareNewDecisions(file *jen.File) {
	var fields []jen.Code
	for _, m := range g.members() {
		fields = append(fields, jen.Id("d").Dot(m.field).Op("=").Id("ds").Dot("Each").Index(jen.Lit(m.index)))
	}
	fields = append(fields, g.setSlots("d", "ds")...)
	file.Line()
	file.Func().Id("new"+g.decisions).Params(jen.Id("ds").Id("Decisions"), jen.Err().Error()).Params(g.decided()...).Block(
		jen.Id("d").Op(":=").Id(g.decisions).Values(jen.Id("Decisions").Op(":").Id("ds")),
		jen.If(jen.Len(jen.Id("ds").Dot("Each")).Op(">").Lit(0)).Block(fields...),
		jen.Return(jen.Id("d"), jen.Err()))
}

// setSlots sets the fields of a result with slots:
//
//	d.ExportsSlot, _ = ds.Slot(3)
func (g group) setSlots(result, from string) (list []jen.Code) {
	for _, m := range g.members() {
		if m.slot != "" {
			list = append(list, jen.List(jen.Id(result).Dot(m.slot), jen.Id("_")).Op("=").Id(from).Dot("Slot").Call(jen.Lit(m.index)))
		}
	}
	return list
}

// declareReservations writes
//
//	type CompleteReservations struct {
//		*Reservations
//		LLMTokens *Reservation
//	}
func (g group) declareReservations(file *jen.File) {
	doc := g.reservations + " are the tokens that were taken from the limits of [Limits." + g.GoName +
		"]: each is settled or cancelled by\n" +
		"itself, and Cancel refunds all that are still open."
	declare(file, doc, jen.Type().Id(g.reservations).StructFunc(func(fields *jen.Group) {
		fields.Op("*").Id("Reservations")
		for _, m := range g.members() {
			switch {
			case m.reserves && len(m.limit.Prices) > 0:
				fields.Id(m.field).Op("*").Add(g.names.handle("PricedReservation")).Types(jen.Id(m.limit.UsageType()))
			case m.reserves:
				fields.Id(m.field).Op("*").Id("Reservation")
			}
		}
		g.slotFields(fields)
	}))
}

// reserved are the results of the verbs that return reservations.
func (g group) reserved() []jen.Code { return []jen.Code{jen.Op("*").Id(g.reservations), jen.Error()} }

// declareNewReservations writes
//
//	func newCompleteReservations(rs *Reservations, err error) (*CompleteReservations, error) {
//		if err != nil {
//			return nil, err
//		}
//		r := &CompleteReservations{Reservations: rs}
//		r.LLMTokens = rs.At(0)
//		r.ExportsSlot, _ = rs.Slot(1)
//		return r, nil
//	}
func (g group) declareNewReservations(file *jen.File) {
	body := []jen.Code{
		jen.If(jen.Err().Op("!=").Nil()).Block(jen.Return(jen.Nil(), jen.Err())),
		jen.Id("r").Op(":=").Op("&").Id(g.reservations).Values(jen.Id("Reservations").Op(":").Id("rs")),
	}
	for _, m := range g.members() {
		if !m.reserves {
			continue
		}
		at := jen.Id("rs").Dot("At").Call(jen.Lit(m.index))
		if len(m.limit.Prices) > 0 {
			at = jen.Qual(limiterPath, "PricedReservationOf").Types(jen.Id(m.limit.UsageType())).Call(at)
		}
		body = append(body, jen.Id("r").Dot(m.field).Op("=").Add(at))
	}
	body = append(append(body, g.setSlots("r", "rs")...), jen.Return(jen.Id("r"), jen.Nil()))
	file.Line()
	file.Func().Id("new"+g.reservations).Params(jen.Id("rs").Op("*").Id("Reservations"), jen.Err().Error()).Params(g.reserved()...).Block(body...)
}
