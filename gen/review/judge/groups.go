package judge

import (
	"slices"
	"strconv"
	"strings"

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
			j.note(review.Rule, "T%s is that of %s.", is.What[1:], words.List(is.Limits, "and"))
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
	j.compareVerbs(new.GoName, old.Verbs(), new.Verbs())
}

func judgeGroupTakes(j *judgement) {
	old, new := j.changes[0].Old.Group, j.changes[0].New.Group
	j.compareMembers(new, old.Takes, new.Takes, memberWords{
		lost:   "Callers no longer take from %s.",
		field:  "The decisions of %s no longer have the field %s.",
		gained: "Callers now also take from %s: its denial denies the group.",
	})
	j.compareCalls(old, new)
}

func judgeGroupChecks(j *judgement) {
	old, new := j.changes[0].Old.Group, j.changes[0].New.Group
	j.compareMembers(new, old.Checks, new.Checks, memberWords{
		lost:   "Callers need no token of %s any more.",
		field:  "The decisions of %s have no field %s, unless the group takes from the limit.",
		gained: "Callers must now find a token of %s, and do not take it.",
	})
	j.compareCalls(old, new)
}

// memberWords are sentences about a member that a group no longer has, its field in the decisions, and a new member.
type memberWords struct{ lost, field, gained string }

// compareMembers judges the members that a group takes from, or those that it checks.
func (j *judgement) compareMembers(g *spec.Group, was, is []spec.Member, words memberWords) {
	for _, m := range was {
		kept, ok := memberOf(is, m.Limit)
		if ok {
			j.compareCounts(m, kept)
			continue
		}
		j.class(review.Loosened, review.Breaking)
		j.note(review.Rule, words.lost, m.Limit.Policy.Name)
		j.note(review.Calls, words.field, g.GoName, m.Limit.GoName)
	}
	for _, m := range is {
		if _, ok := memberOf(was, m.Limit); !ok {
			j.class(review.Tightened)
			j.note(review.Rule, words.gained, m.Limit.Policy.Name)
		}
	}
}

// compareCounts judges another number of tokens.
func (j *judgement) compareCounts(was, is spec.Member) {
	name := was.Limit.Policy.Name
	switch {
	case was.CountArg != "" && is.CountArg != "" || was.Count == is.Count && was.CountArg == is.CountArg:
	case was.CountArg == is.CountArg:
		j.class(moreOrLess(is.Count, was.Count)...)
		j.note(review.Rule, "Callers take %s of %s, %s before.", words.Count(is.Count, is.Unit()), name, words.Number(was.Count))
	case was.CountArg == "":
		j.class(review.Loosened, review.Tightened)
		j.note(review.Rule, "Callers choose how many tokens of %s they take, by the argument %s. It was always %s.", name, is.CountArg, words.Number(was.Count))
	case is.CountArg == "":
		j.class(review.Loosened, review.Tightened)
		j.note(review.Rule, "Callers always take %s of %s. The number was the argument %s.", words.Count(is.Count, is.Unit()), name, was.CountArg)
	}
}

// compareCalls judges whether calls of a group still compile, and still mean the same keys.
func (j *judgement) compareCalls(old, new *spec.Group) {
	was, is := old.Keys(), new.Keys()
	switch {
	case !slices.Equal(compare.PartGoTypes(was), compare.PartGoTypes(is)) || len(old.Shared()) != len(new.Shared()) || len(old.Counts()) != len(new.Counts()):
		j.class(review.Breaking)
		j.note(review.Calls, "The calls change from %s to %s.", old.Call(), new.Call())
		return
	}
	for _, m := range new.Members() {
		before, ok := memberOf(old.Members(), m.Limit)
		// The compiler does not notice arguments of the same type that are used in another way.
		if ok && !slices.Equal(arguments(old, before), arguments(new, m)) {
			j.class(review.Breaking)
			j.note(review.Calls, "Check every call, because the compiler cannot: %s is now called with %s, and was called with %s.",
				m.Limit.Policy.Name, ordinals(arguments(new, m)), ordinals(arguments(old, before)))
		}
	}
	if !slices.Equal(spec.PartNames(was), spec.PartNames(is)) || !slices.Equal(old.Counts(), new.Counts()) {
		j.note(review.Calls, "The parameters have other names: %s was %s.", new.Call(), old.Call())
	}
	// Members that were added after all others do not move them.
	if !strings.HasPrefix(order(new), order(old)) {
		j.note(review.Calls, "The decisions in Each are in another order.")
	}
}

// arguments returns the positions of the arguments that a member uses, from 1: those of keys, and after them those of
// numbers of tokens.
func arguments(g *spec.Group, m spec.Member) (at []int) {
	keys := g.Parameters()
	for _, arg := range m.Args {
		at = append(at, 1+slices.Index(keys, arg))
	}
	if m.CountArg != "" {
		at = append(at, 1+len(keys)+slices.Index(g.Counts(), m.CountArg))
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

// order lists the members, each with a comma after it.
func order(g *spec.Group) string {
	return strings.Join(words.Of(g.Members(), func(m spec.Member) string { return m.Limit.Policy.Name + "," }), "")
}

// memberOf finds a limit of another file by its name.
func memberOf(members []spec.Member, of *spec.Limit) (spec.Member, bool) {
	for _, m := range members {
		if m.Limit.Policy.Name == of.Policy.Name {
			return m, true
		}
	}
	return spec.Member{}, false
}
