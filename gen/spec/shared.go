package spec

import (
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
)

// SharedParameter is a parameter that the methods of some limits have after those for the parts of the key. The method of
// a group has it once, and passes it to each of these limits.
type SharedParameter struct {
	// Name is the name of the parameter, and Type its Go type, in which Plan is the generated one.
	Name, Type string
	// What names the argument: "the plan".
	What string
	// Limits are the names of the limits that need it.
	Limits []string
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

// Shared returns the parameters that the method of the group has after those for parts of keys, in their order.
func (g *Group) Shared() []SharedParameter {
	var limits []*Limit
	for _, m := range g.Members() {
		limits = append(limits, m.Limit)
	}
	return sharedBy(limits)
}

func sharedBy(limits []*Limit) (list []SharedParameter) {
	for _, s := range sharedParameters {
		for _, l := range limits {
			if s.needed(l) && !slices.Contains(s.Limits, l.Policy.Name) {
				s.Limits = append(s.Limits, l.Policy.Name)
			}
		}
		if len(s.Limits) > 0 {
			list = append(list, s.SharedParameter)
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
func (g *Group) Parameters() (names []string) {
	for _, key := range g.Keys() {
		names = append(names, key.Name)
	}
	return append(names, sharedNames(g)...)
}

func sharedNames(g *Group) (names []string) {
	for _, s := range g.Shared() {
		names = append(names, s.Name)
	}
	return names
}

// SharedWords returns a sentence on each shared parameter: "The plan is that of llmRequests and llmTokens."
func (g *Group) SharedWords() (sentences []string) {
	for _, s := range g.Shared() {
		sentences = append(sentences, "T"+s.What[1:]+" is that of "+words.List(s.Limits, "and")+".")
	}
	return sentences
}

// notShared reports parameters of a group that have the name of a shared one and are something else.
func (p *parser) notShared(g *Group) {
	for _, s := range g.Shared() {
		other, taken := p.parameters[s.Name]
		if !taken {
			continue
		}
		p.report(other.at, parameterType, "give it another name: {part: parameter}",
			"the parameter %s is %s here, but %s needs %s as a parameter of this name", s.Name, other.typ, s.Limits[0], s.What)
		for _, l := range p.file.Limits {
			if name := l.Policy.Name; name == s.Limits[0] {
				p.note(span{l.Pos, Pos{l.Pos.Line, l.Pos.Column + len(name)}}, "the limit is here")
			}
		}
	}
}

// isShared reports whether the method of a limit has a shared parameter with a name.
func isShared(l *Limit, name string) bool {
	return slices.ContainsFunc(l.Shared(), func(s SharedParameter) bool { return s.Name == name })
}
