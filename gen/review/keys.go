package review

import (
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

func judgeKey(j *judgement, p pair, _ []spec.Change) {
	was, is := p.old.Key, p.new.Key
	j.class(StoredState)
	switch {
	case slices.Equal(partTypes(was), partTypes(is)) && slices.Equal(sortedNames(was), sortedNames(is)):
		// The compiler does not notice swapped arguments of the same type.
		j.class(Breaking)
		j.note(Calls, "Parameters of %s with the same type changed places. Check every call, because the compiler cannot.", p.new.GoName)
		j.note(Deploy, "Stored rows are read with the parts of the key in the new order, so a key can get the count of another key.")
	case slices.Equal(partTypes(was), partTypes(is)):
		j.note(Calls, "Calls of %s still compile. If a parameter has another meaning now, check each call.", p.new.GoName)
		j.note(Deploy, "Rows are found by the values of the key, not by the names of its parts. If a part has another meaning now, a key can get the count of another key.")
	case slices.Equal(partNames(was), partNames(is)) && slices.Equal(partGoTypes(was), partGoTypes(is)):
		judgeKeyForms(j, p)
	case slices.Equal(partNames(was), partNames(is)):
		j.class(Breaking)
		j.note(Calls, "Calls of %s must pass the new types.", p.new.GoName)
		j.note(Deploy, "A key keeps its count if the new type is written as the same text as the old one. Other keys start full.")
	default:
		j.class(Breaking)
		j.class(countsKept(was, is)...)
		noteNewParts(j, p)
	}
	why := "to reset all counts, "
	// With another number of parts no old row can match a key, so deleting the rows resets nothing.
	if len(was) != len(is) || hashingChanged(was, is) {
		why = "to delete the rows that are no longer read, "
	}
	j.statement(why+betweenVersions, "DELETE FROM rate_limits WHERE name = '%s';", p.new.Policy.Name)
	judgeKeyLog(j, p)
}

// judgeKeyForms judges a key whose parts are passed as before, but stored in another form.
func judgeKeyForms(j *judgement, p pair) {
	j.note(Calls, "Calls of %s still compile: its parameters have the same types.", p.new.GoName)
	gain := words.Count(p.new.Policy.Capacity, "token")
	for i, was := range p.old.Key {
		is := p.new.Key[i]
		switch {
		case was.Type == is.Type:
		case is.Hashed():
			j.note(Rule, "Only a SHA-256 of %s is stored. Rows of the old version still contain it as it is.", is.Name)
		case was.Hashed():
			j.note(Rule, "%s is stored as it is; before, only a SHA-256 of it was.", is.Name)
		case bitsOf(is) < bitsOf(was):
			j.class(Tightened)
			j.note(Rule, "IPv6 addresses that differ only after the first %s of %s now share one count.", words.Count(bitsOf(is), "bit"), is.Name)
		default:
			j.class(Loosened)
			j.note(Rule, "IPv6 addresses are counted by %s of %s; before, by %s, so that one subscriber has more counts.",
				words.Count(bitsOf(is), "bit"), is.Name, words.Count(bitsOf(was), "bit"))
		}
	}
	if hashingChanged(p.old.Key, p.new.Key) {
		j.note(Deploy, "Stored rows are no longer read. Every key starts full: a one-time gain of up to %s.", gain)
		return
	}
	j.note(Deploy, "IPv4 addresses keep their counts. IPv6 addresses are stored in another form and start full: a one-time gain of up to %s.", gain)
}

// bitsOf returns how many bits of an IPv6 address a part of a key counts.
func bitsOf(part spec.KeyPart) int64 {
	if bits := part.PrefixBits(); bits > 0 {
		return int64(bits)
	}
	return 128
}

// hashingChanged reports whether a part of the same Go type is hashed in one of the keys only.
func hashingChanged(was, is []spec.KeyPart) bool {
	if !slices.Equal(partGoTypes(was), partGoTypes(is)) {
		return false
	}
	for i := range was {
		if was[i].Hashed() != is[i].Hashed() {
			return true
		}
	}
	return false
}

func noteNewParts(j *judgement, p pair) {
	was, is := p.old.Key, p.new.Key
	change := "the new parameters"
	if slices.Equal(sortedNames(was), sortedNames(is)) {
		change = "their parameters in the new order"
	}
	j.note(Calls, "Calls of %s must pass %s.", p.new.GoName, change)
	added, dropped := missingFrom(was, is), missingFrom(is, was)
	switch {
	case len(was) == 0:
		j.note(Rule, "Each %s has its own count; before, all callers shared one count.", words.List(partNames(is), "and"))
	case len(is) == 0:
		j.note(Rule, "All callers share one count; before, each %s had its own.", words.List(partNames(was), "and"))
	case len(dropped) == 0 && len(added) > 0:
		j.note(Rule, "Counts are now kept per %s as well, each with the full capacity.", words.List(added, "and"))
	case len(added) == 0 && len(dropped) > 0:
		j.note(Rule, "Keys that differ only in %s now share one count; before, each had its own.", words.List(dropped, "and"))
	}
	if len(was) == len(is) {
		j.note(Deploy, "Rows are found by the text of the key's parts, in their order. A key without a matching row starts full.")
		return
	}
	j.note(Deploy, "Stored rows are no longer read, because the key has a different number of parts. Every key starts full: a one-time gain of up to %s.",
		words.Count(p.new.Policy.Capacity, "token"))
}

// countsKept returns Loosened if parts were added to a key, so that there are more counts, and Tightened if parts were
// dropped.
func countsKept(was, is []spec.KeyPart) (classes []Class) {
	if len(missingFrom(was, is)) > 0 {
		classes = append(classes, Loosened)
	}
	if len(missingFrom(is, was)) > 0 {
		classes = append(classes, Tightened)
	}
	return classes
}

// missingFrom returns the names of parts that a key does not have.
func missingFrom(key, parts []spec.KeyPart) (missing []string) {
	for _, name := range partNames(parts) {
		if !slices.Contains(partNames(key), name) {
			missing = append(missing, name)
		}
	}
	return missing
}
