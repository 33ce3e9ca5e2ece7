package review

import (
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

func judgeKey(j *judgement, p pair, _ []spec.Change) {
	was, is := p.old.Key, p.new.Key
	j.class(StoredState)
	switch {
	case slices.Equal(types(was), types(is)) && slices.Equal(sortedNames(was), sortedNames(is)):
		j.class(Breaking)
		j.note(Calls, "Parameters of %s of the same type have changed places, and calls compile as before: look at each.", p.new.GoName)
		j.note(Deploy, "Rows are read with their parts in the new places, so keys inherit the counts of others.")
	case slices.Equal(types(was), types(is)):
		j.note(Calls, "Calls of %s compile as before. If its parts are not what they were, look at each.", p.new.GoName)
		j.note(Deploy, "Counts are kept by value, not by name: if the parts are not what they were, keys inherit the counts of others.")
	case slices.Equal(names(was), names(is)):
		j.class(Breaking)
		j.note(Calls, "Calls of %s must pass other types.", p.new.GoName)
		j.note(Deploy, "Counts are kept where the new type writes the same text as the old one; other keys begin full.")
	default:
		j.class(Breaking)
		j.class(sharing(was, is)...)
		judgeShape(j, p)
	}
	why := "if counts are to begin anew, " + between
	if len(was) != len(is) {
		why = "to delete the rows that are left behind, " + between
	}
	j.run(why, "DELETE FROM rate_limits WHERE name = '%s';", p.new.Policy.Name)
}

// judgeShape says what comes of a key with other parts.
func judgeShape(j *judgement, p pair) {
	was, is := p.old.Key, p.new.Key
	what := "other parameters"
	if slices.Equal(sortedNames(was), sortedNames(is)) {
		what = "their parameters in another order"
	}
	j.note(Calls, "Calls of %s must pass %s.", p.new.GoName, what)
	switch {
	case len(was) == 0:
		j.note(Rule, "Every %s has a count of its own, where all shared one.", spec.List(names(is), "and"))
	case len(is) == 0:
		j.note(Rule, "All share one count, where every %s had its own.", spec.List(names(was), "and"))
	case len(lacks(was, is)) == 0 && len(lacks(is, was)) > 0:
		j.note(Rule, "Every %s has a count of its own, within what was one count.", spec.List(lacks(is, was), "and"))
	case len(lacks(is, was)) == 0 && len(lacks(was, is)) > 0:
		j.note(Rule, "Those that differ in %s only share one count, where each had its own.", spec.List(lacks(was, is), "and"))
	}
	if len(was) == len(is) {
		j.note(Deploy, "Rows are read by the text of their parts in their order; every key without such a row begins full.")
		return
	}
	j.note(Deploy, "Rows are left behind, since their keys have another number of parts, and every key begins full, with up to %s once.",
		spec.Grouped(p.new.Policy.Capacity))
}

// sharing returns whether more counts are kept than before or fewer: Loosened if parts were added,
// Tightened if parts were dropped. If only their order or their types differ, it is neither.
func sharing(was, is []spec.KeyPart) (classes []Class) {
	if len(lacks(is, was)) > 0 {
		classes = append(classes, Loosened)
	}
	if len(lacks(was, is)) > 0 {
		classes = append(classes, Tightened)
	}
	return classes
}

// lacks returns the names of the parts that the other key does not have.
func lacks(parts, other []spec.KeyPart) (missing []string) {
	for _, name := range names(parts) {
		if !slices.Contains(names(other), name) {
			missing = append(missing, name)
		}
	}
	return missing
}

func names(parts []spec.KeyPart) (list []string) {
	for _, part := range parts {
		list = append(list, part.Name)
	}
	return list
}

func sortedNames(parts []spec.KeyPart) []string { return slices.Sorted(slices.Values(names(parts))) }

func types(parts []spec.KeyPart) (list []string) {
	for _, part := range parts {
		list = append(list, part.Type)
	}
	return list
}
