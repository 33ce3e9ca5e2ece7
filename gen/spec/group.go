package spec

import (
	"slices"
	"strconv"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Group is several limits that one call takes from: from all of them or, if one denies, from none.
type Group struct {
	// Name is the name in the file. It is not stored.
	Name string
	// GoName is the name of the generated method: "Complete" for complete.
	GoName string
	// Doc is the author's text, as for a [Limit].
	Doc string
	// Takes are the limits that the group takes from, and Checks those that must have tokens and give none up. Members of one
	// limit have different Args.
	Takes, Checks []Member
	// Pos is the place of the group's name.
	Pos diag.Pos
	// Places has the places of the values that the file gives, by the name of the field.
	Places map[string]diag.Pos
}

// Member is a limit of a [Group], for one of its keys: the group may have several members of a limit.
type Member struct {
	Limit *Limit
	// At is the place of the limit's name, or of the element of a list of its keys.
	At diag.Span
	// Args has the name of the parameter for each part of the limit's key.
	Args []string
	// Count is the number of tokens, unless CountArg is the name of the parameter that has it, or the limit is Priced: it takes
	// what the usage of the call costs.
	Count    int64
	CountArg string
}

// Priced reports whether the limit has prices.
func (m Member) Priced() bool { return len(m.Limit.Prices) > 0 }

// Members returns the limits that the group takes from, and then those that it checks. Decisions are in this order.
func (g *Group) Members() []Member { return slices.Concat(g.Takes, g.Checks) }

// Keys returns the parameters of the group's method for parts of keys: one for each name, in the order of their first use
// by [Group.Members]. The method has those of [Group.Shared] after them.
func (g *Group) Keys() (keys []KeyPart) {
	for _, m := range g.Members() {
		for i, name := range m.Args {
			// A parameter can be a part of two types with one Go type, such as hashed string and string.
			if key := (KeyPart{name, m.Limit.Key[i].Type}); !slices.ContainsFunc(keys, func(k KeyPart) bool { return k.Name == name }) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// Verbs returns the methods of the group's handle.
func (g *Group) Verbs() (verbs []string) {
	if g.Allows() {
		verbs = append(verbs, "Allow", "Check")
		if !g.Acquires() {
			verbs = append(verbs, "Require")
		}
	}
	if g.Reserves() {
		verbs = append(verbs, "Reserve")
	}
	if !g.Acquires() {
		verbs = append(verbs, "Wait")
		if g.Reserves() {
			verbs = append(verbs, "WaitReserve")
		}
	}
	return verbs
}

// Acquires reports whether the group acquires slots of a limit in flight. Then it has only the verbs whose results have the
// slots, because they could not be released otherwise.
func (g *Group) Acquires() bool { return slices.ContainsFunc(g.Takes, Member.Acquires) }

// Acquires reports whether the limit is one in flight, of which a group that takes from it acquires slots.
func (m Member) Acquires() bool { return m.Limit.Policy.Kind == runtime.InFlight }

// SlotFields returns for each of the limits that the group takes from the name of the field with its slot, or "" if it has
// none.
func (g *Group) SlotFields() []string {
	names := g.Fields()[:len(g.Takes)]
	for i, m := range g.Takes {
		if names[i] += "Slot"; !m.Acquires() {
			names[i] = ""
		}
	}
	return names
}

// Counts returns the names of the parameters with numbers of tokens, which the methods of the group have, in the order
// of their first use.
func (g *Group) Counts() (names []string) {
	for _, m := range g.Members() {
		if m.CountArg != "" && !slices.Contains(names, m.CountArg) {
			names = append(names, m.CountArg)
		}
	}
	return names
}

// UsageArg is the name of the parameter with what a request uses, which the methods of a group have if limits of it have
// prices.
const UsageArg = "usage"

// Usage returns the type of that parameter, and the names of its units; "" and none if no limit of the group has prices. The
// type is that of the limit or, if there are several, a type of the group with the units of all of them.
func (g *Group) Usage() (typ string, units []string) {
	var priced []*Limit
	for _, m := range g.Members() {
		if !m.Priced() || slices.Contains(priced, m.Limit) {
			continue
		}
		priced = append(priced, m.Limit)
		for _, price := range m.Limit.Prices {
			if !slices.Contains(units, price.Name) {
				units = append(units, price.Name)
			}
		}
	}
	switch len(priced) {
	case 0:
		return "", nil
	case 1:
		return priced[0].UsageType(), units
	}
	return g.GoName + "Usage", units
}

// Arguments returns the names of the parameters that the methods of the group have after the context.
func (g *Group) Arguments() []string {
	if typ, _ := g.Usage(); typ != "" {
		return append(g.Counts(), UsageArg)
	}
	return g.Counts()
}

// Call is how callers use the group, such as Complete(team, model).Allow(ctx, tokens).
func (g *Group) Call() string {
	arguments := append([]string{"ctx"}, g.Arguments()...)
	return g.GoName + "(" + strings.Join(g.Parameters(), ", ") + ")." + g.Verbs()[0] + "(" + strings.Join(arguments, ", ") + ")"
}

// Allows reports whether the tokens of the group can be taken without reserving: no limit has capacity 0.
func (g *Group) Allows() bool {
	return !slices.ContainsFunc(g.Takes, func(m Member) bool { return m.Limit.Policy.Full() == 0 })
}

// Reserves reports whether tokens of a limit of the group can be reserved, or are to be settled when the usage is known. The
// other limits are then taken from at once.
func (g *Group) Reserves() bool {
	return slices.ContainsFunc(g.Takes, func(m Member) bool { return m.Limit.Policy.Reserves() || m.Priced() })
}

// Words returns a sentence on each limit of [Group.Members]: "It takes 1 token of llmRequests per team and model."
func (g *Group) Words() (sentences []string) {
	for _, m := range g.Takes {
		takes, token := "takes", m.Unit()
		if m.Acquires() {
			takes = "acquires"
		}
		if m.Priced() {
			sentences = append(sentences, "It takes the cost of the usage from "+m.InWords()+".")
		} else if m.CountArg != "" {
			sentences = append(sentences, "It "+takes+" as many "+token+"s of "+m.InWords()+" as the argument "+m.CountArg+".")
		} else {
			sentences = append(sentences, "It "+takes+" "+words.Count(m.Count, token)+" of "+m.InWords()+".")
		}
	}
	for _, m := range g.Checks {
		sentences = append(sentences, "It checks "+m.InWords()+", which must have "+m.Needs()+" and gives none up.")
	}
	return sentences
}

// Unit is what the limit counts.
func (m Member) Unit() string { return m.Limit.Unit() }

// Needs is what a check must find: "a token", "5 slots" or "as many tokens as the argument n".
func (m Member) Needs() string {
	switch {
	case m.Priced():
		return "the cost of the usage"
	case m.CountArg != "":
		return "as many " + m.Unit() + "s as the argument " + m.CountArg
	case m.Count > 1:
		return words.Count(m.Count, m.Unit())
	}
	return "a " + m.Unit()
}

// Fields returns the names of the fields that the decisions have for [Group.Members]: the Go name of the limit and, if the
// group has several of its keys, the parameters in which they differ, as in TransfersSender and TransfersReceiver.
func (g *Group) Fields() []string {
	members := g.Members()
	of := map[*Limit][]Member{}
	for _, m := range members {
		of[m.Limit] = append(of[m.Limit], m)
	}
	return words.Of(members, func(m Member) string {
		name := m.Limit.GoName
		for i, arg := range m.Args {
			if slices.ContainsFunc(of[m.Limit], func(other Member) bool { return other.Args[i] != arg }) {
				name += GoName(arg)
			}
		}
		return name
	})
}

// InWords is the limit with the parameters of its key: "llmRequests per team and model".
func (m Member) InWords() string {
	if len(m.Args) == 0 {
		return m.Limit.Policy.Name
	}
	return m.Limit.Policy.Name + " per " + words.List(m.Args, "and")
}

// String is the member in the syntax of limits.yaml: "llmTokens: {team: team, model: model, n: tokens}".
func (m Member) String() string { return m.Limit.Policy.Name + ": " + m.binding() }

// binding is what the syntax of limits.yaml has after the name of the limit.
func (m Member) binding() string {
	parts := make([]string, 0, len(m.Args)+1)
	for i, arg := range m.Args {
		parts = append(parts, m.Limit.Key[i].Name+": "+arg)
	}
	switch {
	case m.CountArg != "":
		parts = append(parts, CountPart+": "+m.CountArg)
	case m.Count > 0:
		parts = append(parts, CountPart+": "+strconv.FormatInt(m.Count, 10))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// CountPart is the name of the number of tokens, beside the parts of a key.
const CountPart = "n"

// EffectiveMembers is a map, whether the file has a map or a list. Members of one limit are a list in it.
func EffectiveMembers(members []Member) string {
	if len(members) == 0 {
		return ""
	}
	var entries []string
	for len(members) > 0 {
		n := slices.IndexFunc(members, func(m Member) bool { return m.Limit != members[0].Limit })
		if n < 0 {
			n = len(members)
		}
		entry := members[0].String()
		if n > 1 {
			entry = members[0].Limit.Policy.Name + ": [" + strings.Join(words.Of(members[:n], Member.binding), ", ") + "]"
		}
		entries, members = append(entries, entry), members[n:]
	}
	return "{" + strings.Join(entries, ", ") + "}"
}

// LimitNames returns the names of the limits of members, each once.
func LimitNames(members []Member) (names []string) {
	for _, m := range members {
		if !slices.Contains(names, m.Limit.Policy.Name) {
			names = append(names, m.Limit.Policy.Name)
		}
	}
	return names
}

// GoTypes returns the names of the types that can be generated for a group.
func (g *Group) GoTypes() []string {
	types := []string{g.GoName + "Group", g.GoName + "Decisions", g.GoName + "Reservations"}
	if typ, _ := g.Usage(); typ == g.GoName+"Usage" {
		types = append(types, typ)
	}
	return types
}

// Method is the signature of the group's method, and the verbs: "(team string, plan Plan): Allow, Check".
func (g *Group) Method() string {
	parameters := words.Of(g.Keys(), func(key KeyPart) string { return key.Name + " " + key.GoType() })
	parameters = append(parameters, words.Of(g.Shared(), func(s SharedParameter) string { return s.Name + " " + s.Type })...)
	if typ, _ := g.Usage(); typ != "" {
		parameters = append(parameters, UsageArg+" "+typ)
	}
	return "(" + strings.Join(parameters, ", ") + "): " + strings.Join(g.Verbs(), ", ")
}

// Example is the member with each part of its key bound to a parameter of its own name.
func (m *Member) Example() string {
	own := Member{Limit: m.Limit, Args: PartNames(m.Limit.Key)}
	return own.String()
}

// MostTokens returns the largest number of tokens that can pass a take or a check, with the plan that has the least; "" if
// it is the same for all plans.
func (m *Member) MostTokens(check bool) (least int64, plan string) {
	least = runtime.Unbounded
	for _, of := range m.Limit.Each() {
		policy := &of.Policy
		most := policy.Full()
		if !check {
			most += min(policy.MaxReserved, runtime.Unbounded-most)
		}
		if !of.Unlimited() && !of.Zero() && most < least {
			least, plan = most, of.Plan
		}
	}
	return least, plan
}

// MemberNames are the fields and methods that the decisions and the reservations of every group have.
var MemberNames = []string{
	"Allowed", "RetryAfter", "Each", "DeniedBy", "String", "Err", "Decisions", "Delay", "At", "Cancel", "Reservations", "Slot",
}

// SharedParameter is a parameter that the methods of some limits have after those for the parts of the key. The method of
// a group has it once, and passes it to each of these limits.
type SharedParameter struct {
	// Name is the name of the parameter, and Type its Go type, in which Plan is the generated one.
	Name, Type string
	// What names the argument: "the plan".
	What string
	// Limits are the names of the limits that need it.
	Limits []string
	// numbers marks the numbers that callers give to one limit.
	numbers bool
}

// Sentence says of which limits it is: "The plan is that of llmRequests and llmTokens."
func (s SharedParameter) Sentence() string {
	if s.numbers {
		return "Callers give the numbers of " + s.Limits[0] + "."
	}
	return Capital(s.What) + " is that of " + words.List(s.Limits, "and") + "."
}

// The names of the shared parameters.
const (
	AnniversaryParameter = "anniversary"
	ZoneParameter        = "zone"
	PlanParameter        = "plan"
)

// sharedParameters are in the order of the parameters.
var sharedParameters = []struct {
	SharedParameter
	needed func(l *Limit) bool
}{
	{SharedParameter{Name: AnniversaryParameter, Type: "time.Time", What: "the anniversary"}, func(l *Limit) bool { return l.Policy.Calendar.Anniversary }},
	{SharedParameter{Name: ZoneParameter, Type: "*time.Location", What: "the time zone"}, func(l *Limit) bool { return l.Policy.Calendar.ZonePerKey }},
	{SharedParameter{Name: PlanParameter, Type: "Plan", What: "the plan"}, func(l *Limit) bool { return len(l.Plans) > 0 }},
}

// Shared returns the parameters that the method of a limit has after those for the parts of the key, in their order.
func (l *Limit) Shared() []SharedParameter { return sharedBy([]*Limit{l}) }

// Call is how callers use a verb of the limit, such as SendMessage(userID).Allow(ctx).
func (l *Limit) Call(verb string) string {
	arguments := append(PartNames(l.Key), words.Of(l.Shared(), func(s SharedParameter) string { return s.Name })...)
	call := "(ctx)"
	if len(l.Prices) > 0 {
		call = "(ctx, " + UsageArg + ")"
	}
	return l.GoName + "(" + strings.Join(arguments, ", ") + ")." + verb + call
}

// Shared returns the parameters that the method of the group has after those for parts of keys, in their order.
func (g *Group) Shared() []SharedParameter {
	var limits []*Limit
	for _, m := range g.Members() {
		// Several keys of a limit share its parameters.
		if !slices.Contains(limits, m.Limit) {
			limits = append(limits, m.Limit)
		}
	}
	return sharedBy(limits)
}

func sharedBy(limits []*Limit) (list []SharedParameter) {
	for _, s := range sharedParameters {
		if s.Name == PlanParameter {
			list = append(list, numbersBy(limits)...)
		}
		for _, l := range limits {
			if s.needed(l) {
				s.Limits = append(s.Limits, l.Policy.Name)
			}
		}
		if len(s.Limits) > 0 {
			list = append(list, s.SharedParameter)
		}
	}
	return append(list, prioritiesOf(limits)...)
}

// prioritiesOf returns the parameters with the classes of requests: each limit has its own.
func prioritiesOf(limits []*Limit) (list []SharedParameter) {
	for _, l := range limits {
		if len(l.Priorities) > 0 {
			list = append(list, SharedParameter{Name: l.PriorityParameter(), Type: l.PriorityType(), What: "the priority",
				Limits: []string{l.Policy.Name}})
		}
	}
	return list
}

// numbersBy returns the parameters with the numbers that callers give to limits: each has its own.
func numbersBy(limits []*Limit) (list []SharedParameter) {
	for _, l := range limits {
		if len(l.CallerNumbers()) > 0 {
			list = append(list, SharedParameter{
				Name: l.NumbersParameter(), Type: l.NumbersType(), What: "the numbers of " + l.Policy.Name, Limits: []string{l.Policy.Name}, numbers: true,
			})
		}
	}
	return list
}

// Plans returns the names of the plans if a limit of the group depends on the plan, and otherwise none.
func (g *Group) Plans() []string {
	for _, m := range g.Members() {
		if len(m.Limit.Plans) > 0 {
			return m.Limit.PlanNames()
		}
	}
	return nil
}

// Parameters returns the names of all parameters of the group's method, in their order.
func (g *Group) Parameters() []string {
	return append(PartNames(g.Keys()), SharedNames(g)...)
}

// SharedNames returns the names of the parameters that [Group.Shared] returns.
func SharedNames(g *Group) []string {
	return words.Of(g.Shared(), func(s SharedParameter) string { return s.Name })
}

// SharedWords returns a sentence on each shared parameter: "The plan is that of llmRequests and llmTokens."
func (g *Group) SharedWords() []string {
	return words.Of(g.Shared(), SharedParameter.Sentence)
}

// IsShared reports whether the method of a limit has a shared parameter with a name.
func IsShared(l *Limit, name string) bool {
	return slices.ContainsFunc(l.Shared(), func(s SharedParameter) bool { return s.Name == name })
}
