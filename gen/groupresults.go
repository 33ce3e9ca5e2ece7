package gen

import (
	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

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
	doc := g.decisions + " are the decisions of all limits of [Limits." + g.GoName + "]. If one of them denies, no token was taken, and\n" +
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
			fields.Comment("// " + m.slot + " is what was acquired of [Limits." + m.limit.GoName + "], to be released; nil if the request was denied.")
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
	doc := g.reservations + " are the tokens that were taken from the limits of [Limits." + g.GoName + "]: each is settled or cancelled by\n" +
		"itself, and Cancel refunds all that are still open."
	declare(file, doc, jen.Type().Id(g.reservations).StructFunc(func(fields *jen.Group) {
		fields.Op("*").Id("Reservations")
		for _, m := range g.members() {
			if m.reserves {
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
		if m.reserves {
			body = append(body, jen.Id("r").Dot(m.field).Op("=").Id("rs").Dot("At").Call(jen.Lit(m.index)))
		}
	}
	body = append(append(body, g.setSlots("r", "rs")...), jen.Return(jen.Id("r"), jen.Nil()))
	file.Line()
	file.Func().Id("new"+g.reservations).Params(jen.Id("rs").Op("*").Id("Reservations"), jen.Err().Error()).Params(g.reserved()...).Block(body...)
}
