package gen

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/describe"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

const groupMethod = `func ($l *Limits) $Method($parameters) $Group {
	return $Group{func($counts) limiter.Group {
		return $l.limiter().Group(
			$items,
		)
	}}
}

// $Group is the handle that [Limits.$Method] returns, with the verbs of the group.
type $Group struct {
	of func($counts) limiter.Group
}
`

const groupAllow = `
// Allow takes the tokens of all limits if all are available, and otherwise none.
func (g $Group) Allow(ctx context.Context, $counts) ($Decisions, error) {
	ds, err := g.of($arguments).Allow(ctx)
	return $build(ds), err
}
`

const groupCheck = `
// Check reports whether Allow would take the tokens now, and takes none.
func (g $Group) Check(ctx context.Context, $counts) ($Decisions, error) {
	ds, err := g.of($arguments).Check(ctx)
	return $build(ds), err
}
`

const groupRequire = `
// Require takes the tokens of all limits, and returns a denial as a [*LimitedError].
func (g $Group) Require(ctx context.Context, $counts) error {
	return g.of($arguments).Require(ctx)
}
`

const groupReserve = `
// Reserve takes the tokens of all limits, if necessary before they have accrued: use them after the Delay of the
// reservations, the largest of all.$now
func (g $Group) Reserve(ctx context.Context, $counts) (*$Reservations, error) {
	rs, err := g.of($arguments).Reserve(ctx)
	if err != nil {
		return nil, err
	}
	$bind &$Reservations{
		Reservations: rs,
		$reserved
	}$end
}
`

// slotField is a field with the slot of a limit.
const slotField = "// $Slot is what was acquired of [Limits.$Limit], to be released; nil if the request was denied.\n$Slot *Slot"

// lines joins the texts that are not empty.
func lines(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), "\n")
}

const groupWait = `
// Wait takes the tokens of all limits, and returns when they can be used, or at once if the deadline of ctx is
// earlier. See [limiter.Group.Wait].
func (g $Group) Wait(ctx context.Context, $counts) error {
	return g.of($arguments).Wait(ctx)
}
`

const groupDecisions = `
// $Decisions are the decisions of all limits of [Limits.$Method]. If one of them denies, no token was taken, and
// the others are Allowed if they would have passed.
type $Decisions struct {
	Decisions
	$decisionFields
}

func $build(ds Decisions) $Decisions {
	d := $Decisions{Decisions: ds}
	if len(ds.Each) > 0 {
		$decided
	}
	return d
}
`

const groupReservations = `
// $Reservations are the tokens that were taken from the limits of [Limits.$Method]: each is settled or cancelled by
// itself, and Cancel refunds all that are still open.
type $Reservations struct {
	*Reservations
	$reservationFields
}
`

// groupVerbs are the methods of [spec.Group.Verbs].
var groupVerbs = map[string]string{"Allow": groupAllow, "Check": groupCheck, "Require": groupRequire, "Reserve": groupReserve, "Wait": groupWait}

// group has the identifiers of a group's declarations.
type group struct {
	*spec.Group
	names
	// handle is the name of its type, and build that of the function which makes decisions.
	handle, build string
}

// declareGroup writes a group's method, its handle with the verbs that can succeed, and the types of their results.
func declareGroup(file *jen.File, n names, of *spec.Group) {
	g := group{of, n, of.GoName + "Group", "new" + of.GoName + "Decisions"}
	file.Line()
	comment(file, groupDoc(of))
	text := groupMethod
	for _, verb := range g.Verbs() {
		text += groupVerbs[verb]
	}
	if g.Allows() {
		text += groupDecisions
	}
	if g.Reserves() {
		text += groupReservations
	}
	file.Add(n.source(text, g.parts()...))
}

// parts returns the replacements of the parts of the texts above.
func (g group) parts() []string {
	var parameters, counts, arguments []string
	for _, key := range g.Keys() {
		parameters = append(parameters, g.key(key.Name)+" "+g.goType(key))
	}
	// Parameters that limits share come once.
	for _, shared := range g.Shared() {
		parameters = append(parameters, shared.Name+" "+shared.Type)
	}
	for _, name := range g.Counts() {
		counts, arguments = append(counts, g.count(name)+" int64"), append(arguments, g.count(name))
	}
	now := ""
	if at := g.takenAtOnce(); len(at) > 0 {
		now = " Tokens of " + words.List(at, "and") + " cannot be reserved, and must be available now."
	}
	if g.Acquires() {
		now += " Slots are acquired at once."
	}
	bind, end := "return", ", nil"
	if slots := g.each("own.$Slot, _ = rs.Slot($i)", slotMembers); slots != "" {
		bind, end = "own :=", "\n"+slots+"\nreturn own, nil"
	}
	return []string{
		"$Method", g.GoName, "$Group", g.handle, "$Decisions", g.GoName + "Decisions", "$Reservations", g.GoName + "Reservations", "$build", g.build,
		"$parameters", strings.Join(parameters, ", "), "$counts", strings.Join(counts, ", "), "$arguments", strings.Join(arguments, ", "),
		"$items", strings.Join(g.items(), ",\n"), "$now", now,
		"$decisionFields", lines(g.each("$Field Decision", members), g.each(slotField, slotMembers)),
		"$decided", lines(g.each("d.$Field = ds.Each[$i]", members), g.each("d.$Slot, _ = ds.Slot($i)", slotMembers)),
		"$reservationFields", lines(g.each("$Field *Reservation", tokenMembers), g.each(slotField, slotMembers)),
		"$reserved", g.each("$Field: rs.At($i),", tokenMembers), "$bind", bind, "$end", end,
	}
}

// memberKind is some of the members of a group.
type memberKind int

const (
	// members is each of them, tokenMembers those of which the group takes tokens, and slotMembers those of which it acquires slots.
	members memberKind = iota
	tokenMembers
	slotMembers
)

// each returns a line for each member of a kind, in which $Field is its field, $Limit for the Go name of the limit, $Slot for
// the field of its slot, and $i for its index.
func (g group) each(line string, of memberKind) string {
	var all []string
	fields, slots := g.Fields(), append(g.SlotFields(), make([]string, len(g.Checks))...)
	for i, m := range g.Members() {
		taken := i < len(g.Takes)
		if of == members || of == tokenMembers && taken && slots[i] == "" || of == slotMembers && slots[i] != "" {
			all = append(all, strings.NewReplacer("$Field", fields[i], "$Limit", m.Limit.GoName, "$Slot", slots[i], "$i", strconv.Itoa(i)).Replace(line))
		}
	}
	return strings.Join(all, "\n")
}

// items are the limits that the group takes from, and those that it checks:
//
//	l.LLMTokens(team, model).N(tokens)
func (g group) items() (items []string) {
	for _, m := range g.Takes {
		method := "N"
		if m.Acquires() {
			method = "ItemN"
		}
		items = append(items, g.memberCall(m)+g.ofCount(m, "", method))
	}
	for _, m := range g.Checks {
		items = append(items, g.memberCall(m)+g.ofCount(m, ".Checked()", "CheckedN"))
	}
	return items
}

// ofCount is a call of method with the number of tokens of a member, or one if that is 1.
func (g group) ofCount(m spec.Member, one, method string) string {
	switch {
	case m.CountArg != "":
		return "." + method + "(" + g.count(m.CountArg) + ")"
	case m.Count > 1:
		return "." + method + "(" + tokens(m.Count) + ")"
	}
	return one
}

// memberCall is the call of a limit's method: l.LLMTokens(team, model).
func (g group) memberCall(m spec.Member) string {
	var arguments []string
	for _, arg := range m.Args {
		arguments = append(arguments, g.key(arg))
	}
	for _, shared := range m.Limit.Shared() {
		arguments = append(arguments, shared.Name)
	}
	return g.receiver + "." + m.Limit.GoName + "(" + strings.Join(arguments, ", ") + ")"
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
	hidden := []string{"runtime", "limiter", "context", "ctx", "g", "ds", "rs", "own", "err", "nil", g.build, g.handle}
	return unhidden(name, "Count", hidden, g.parameters())
}

// parameters are the names that the author has given to the parameters of the methods.
func (g group) parameters() []string { return slices.Concat(g.Counts(), g.Parameters()) }
