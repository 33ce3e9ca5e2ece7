package judge

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/compare"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// A group has no counts of its own, so that no change of a group affects stored state. It is looser if its callers take
// fewer tokens or from fewer limits, and tighter if they take more.

func judgeGroupAdded(j *judgement) {
	j.class(review.Added)
	j.describe(review.Rule, j.changes[0].New.Group.Words())
}

func judgeGroupRemoved(j *judgement) {
	g := j.changes[0].Old.Group
	j.class(review.Removed, review.Breaking)
	j.describe(review.RemovedRule, g.Words())
	j.note(review.Calls, "Calls of %s no longer compile. The limits and their counts stay; callers that use fewer of them are limited less.", g.GoName)
}

func judgeGroupGoName(j *judgement) {
	j.class(review.Breaking)
	was, is := j.changes[0].Old.Group.GoName, j.changes[0].New.Group.GoName
	j.note(review.Calls, "Calls of %s must be changed to %s, and its types, such as %[1]sGroup, to %[2]sGroup.", was, is)
}

// judgeGroupMethod describes what follows for a group from its limits.
func judgeGroupMethod(j *judgement) {
	old, new := j.changes[0].Old.Group, j.changes[0].New.Group
	for _, is := range new.Shared() {
		if !slices.Contains(spec.SharedNames(old), is.Name) {
			j.class(review.Breaking)
			j.note(review.Calls, "Calls of %s must pass %s: %s.", new.GoName, is.What, new.Call())
			j.note(review.Rule, "%s", is.Sentence())
		}
	}
	for _, was := range old.Shared() {
		if !slices.Contains(spec.SharedNames(new), was.Name) {
			j.class(review.Breaking)
			j.note(review.Calls, "Calls of %s no longer pass %s: %s.", new.GoName, was.What, new.Call())
		}
	}
	// Other names are a change of the members, which compareCalls describes.
	if was, is := old.Keys(), new.Keys(); slices.Equal(spec.PartNames(was), spec.PartNames(is)) && !slices.Equal(compare.PartGoTypes(was), compare.PartGoTypes(is)) {
		j.class(review.Breaking)
		j.note(review.Calls, "Calls of %s must pass other types, because the keys of its limits have changed.", new.GoName)
	}
	if sameMembers := spec.EffectiveMembers(old.Members()) == spec.EffectiveMembers(new.Members()); sameMembers && usageType(old) != usageType(new) {
		j.class(review.Breaking)
		j.note(review.Calls, "Calls of %s must pass %s in place of %s.", new.GoName, usageType(new), usageType(old))
	}
	j.compareVerbs(new.GoName, old.Verbs(), new.Verbs())
}

func judgeGroupTakes(j *judgement) {
	old, new := groupMembers(j.changes[0].Old.Group), groupMembers(j.changes[0].New.Group)
	j.compareMembers(old[:len(old[0].of.Takes)], new[:len(new[0].of.Takes)], memberWords{
		lost:  "Callers no longer take from %s.",
		field: "The decisions of %s no longer have the field %s.",
		takes: "take",
		gained: func(m groupMember) string {
			return "Callers now also take from " + m.name() + ": its denial denies the group."
		},
	})
	j.compareCalls(old, new)
}

func judgeGroupChecks(j *judgement) {
	old, new := groupMembers(j.changes[0].Old.Group), groupMembers(j.changes[0].New.Group)
	j.compareMembers(old[len(old[0].of.Takes):], new[len(new[0].of.Takes):], memberWords{
		lost:  "Callers need no token of %s any more.",
		field: "The decisions of %s have no field %s, unless the group takes from the limit.",
		takes: "must find",
		gained: func(m groupMember) string {
			return "Callers must now find " + m.Needs() + " of " + m.name() + ", and take none."
		},
	})
	j.compareCalls(old, new)
}

// groupMember is a member of a group, with the name of its field in the decisions.
type groupMember struct {
	spec.Member
	of    *spec.Group
	field string
}

// groupMembers returns the members of a group, which has at least one.
func groupMembers(g *spec.Group) (list []groupMember) {
	names := g.Fields()
	for i, m := range g.Members() {
		list = append(list, groupMember{m, g, names[i]})
	}
	return list
}

// name is the name of the limit, with the parameters if the group has several of its keys.
func (m groupMember) name() string {
	if m.field == m.Limit.GoName {
		return m.Limit.Policy.Name
	}
	return m.InWords()
}

// limitNames returns the names in the old file of the limits of members: the old ones of those that were renamed.
func (j *judgement) limitNames(members []groupMember) []string {
	return words.Of(members, func(m groupMember) string { return cmp.Or(j.renamed.Limits[m.Limit.Policy.Name], m.Limit.Policy.Name) })
}

// paired returns the index in was of each member in is, or -1 for a new one. It is the member of the same limit that has the
// same parameters or, if none has, of the next that has lost its own.
func (j *judgement) paired(was, is []groupMember) []int {
	names := j.limitNames(is)
	before, used := make([]int, len(is)), make([]bool, len(was))
	find := func(i int, same func(old groupMember) bool) {
		before[i] = -1
		for k, old := range was {
			if !used[k] && old.Limit.Policy.Name == names[i] && same(old) {
				before[i], used[k] = k, true
				return
			}
		}
	}
	for i, m := range is {
		find(i, func(old groupMember) bool { return slices.Equal(old.Args, m.Args) })
	}
	for i := range is {
		if before[i] < 0 {
			find(i, func(groupMember) bool { return true })
		}
	}
	return before
}

// memberWords are sentences about a member that a group no longer has, its field in the decisions, and a new member, and
// what callers do with tokens.
type memberWords struct {
	lost, field, takes string
	gained             func(m groupMember) string
}

// compareMembers judges the members that a group takes from, or those that it checks.
func (j *judgement) compareMembers(was, is []groupMember, say memberWords) {
	before := j.paired(was, is)
	for k, m := range was {
		i := slices.Index(before, k)
		if i < 0 {
			j.class(review.Loosened, review.Breaking)
			j.note(review.Rule, say.lost, m.name())
			j.note(review.Calls, say.field, m.of.GoName, m.field)
			continue
		}
		j.compareCounts(m, is[i], say.takes)
		if renamed := m.Limit.Policy.Name != is[i].Limit.Policy.Name; m.field != is[i].field && (renamed || m.Limit.GoName == is[i].Limit.GoName) {
			j.class(review.Breaking)
			j.note(review.Calls, "The field %s of the decisions of %s is now %s.", m.field, m.of.GoName, is[i].field)
		}
	}
	for i, m := range is {
		if before[i] < 0 {
			j.class(review.Tightened)
			j.note(review.Rule, "%s", say.gained(m))
		}
	}
}

// compareCounts judges another number of tokens, which callers take or must find.
func (j *judgement) compareCounts(was, is groupMember, takes string) {
	name := is.name()
	switch {
	case was.Priced() && is.Priced(): // an edit of the prices is one of the limit
	case is.Priced():
		j.class(review.Loosened, review.Tightened)
		j.note(review.Rule, "Callers %s the cost of their usage from %s.", takes, name)
	case was.Priced():
		j.class(review.Loosened, review.Tightened)
		j.note(review.Rule, "Callers %s %s of %s. It was the cost of their usage.", takes, is.Needs(), name)
	case was.CountArg != "" && is.CountArg != "" || was.Count == is.Count && was.CountArg == is.CountArg:
	case was.CountArg == is.CountArg:
		j.class(moreOrLess(is.Count, was.Count)...)
		j.note(review.Rule, "Callers %s %s of %s, %s before.", takes, words.Count(is.Count, is.Unit()), name,
			words.Number(was.Count))
	case was.CountArg == "":
		j.class(review.Loosened, review.Tightened)
		j.note(review.Rule, "Callers choose how many tokens of %s they %s, by the argument %s. It was always %s.", name, takes,
			is.CountArg, words.Number(was.Count))
	case is.CountArg == "":
		j.class(review.Loosened, review.Tightened)
		j.note(review.Rule, "Callers always %s %s of %s. The number was the argument %s.", takes, words.Count(is.Count, is.Unit()),
			name, was.CountArg)
	}
}

// compareCalls judges whether calls of a group still compile, and still mean the same keys.
func (j *judgement) compareCalls(was, is []groupMember) {
	old, new := was[0].of, is[0].of
	before, after := old.Keys(), new.Keys()
	if !slices.Equal(compare.PartGoTypes(before), compare.PartGoTypes(after)) || len(old.Shared()) != len(new.Shared()) ||
		len(old.Counts()) != len(new.Counts()) || usageType(old) != usageType(new) {
		j.class(review.Breaking)
		if old.Call() != new.Call() {
			j.note(review.Calls, "The calls change from %s to %s.", old.Call(), new.Call())
		}
		if was, is := usageType(old), usageType(new); was != is && was != "" && is != "" {
			j.note(review.Calls, "Calls of %s must pass %s in place of %s.", new.GoName, is, was)
		}
		return
	}
	for i, k := range j.paired(was, is) {
		// The compiler does not notice arguments of the same type that are used in another way.
		if k >= 0 && !slices.Equal(was[k].arguments(), is[i].arguments()) {
			j.class(review.Breaking)
			j.note(review.Calls, "Check every call, because the compiler cannot: %s is now called with %s, and was called with %s.",
				is[i].Limit.Policy.Name, ordinals(is[i].arguments()), ordinals(was[k].arguments()))
		}
	}
	if !slices.Equal(spec.PartNames(before), spec.PartNames(after)) || !slices.Equal(old.Counts(), new.Counts()) {
		j.note(review.Calls, "The parameters have other names: %s was %s.", new.Call(), old.Call())
	}
	// Members that were added after all others do not move them.
	if names := j.limitNames(is); len(names) < len(was) || !slices.Equal(names[:len(was)], words.Of(was, func(m groupMember) string { return m.Limit.Policy.Name })) {
		j.note(review.Calls, "The decisions in Each are in another order.")
	}
}

// usageType is the type of the usage that callers of a group pass, or "".
func usageType(g *spec.Group) string {
	typ, _ := g.Usage()
	return typ
}

// arguments returns the positions of the arguments that a member uses, from 1: those of keys, and after them those of
// numbers of tokens.
func (m groupMember) arguments() (at []int) {
	keys := m.of.Parameters()
	for _, arg := range m.Args {
		at = append(at, 1+slices.Index(keys, arg))
	}
	if m.CountArg != "" {
		at = append(at, 1+len(keys)+slices.Index(m.of.Counts(), m.CountArg))
	}
	return at
}

// ordinals is "argument 2" or "arguments 1 and 2".
func ordinals(at []int) string {
	texts := words.Of(at, strconv.Itoa)
	switch len(at) {
	case 0:
		return "none"
	case 1:
		return "argument " + texts[0]
	}
	return "arguments " + words.List(texts, "and")
}
