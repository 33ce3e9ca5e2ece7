package judge

import (
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/compare"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

func judgeKey(j *judgement) {
	was, is := j.Old.Key, j.New.Key
	j.class(review.StoredState)
	switch {
	case slices.Equal(compare.PartTypes(was), compare.PartTypes(is)) &&
		slices.Equal(compare.SortedNames(was), compare.SortedNames(is)):
		// The compiler does not notice swapped arguments of the same type.
		j.class(review.Breaking)
		j.note(review.Calls, "Parameters of %s with the same type changed places. Check every call, because the compiler cannot.",
			j.New.GoName)
		j.note(review.Deploy, "Unless the SQL below moves them, stored rows are read with the parts of the key in the new order, so a key can get the count of another key.")
	case slices.Equal(compare.PartTypes(was), compare.PartTypes(is)):
		j.note(review.Calls, "Calls of %s still compile. If a parameter has another meaning now, check each call.", j.New.GoName)
		j.note(review.Deploy, "Rows are found by the values of the key, not by the names of its parts. If a part has another meaning now, a key can get the count of another key.")
	case slices.Equal(spec.PartNames(was), spec.PartNames(is)) &&
		slices.Equal(compare.PartGoTypes(was), compare.PartGoTypes(is)):
		judgeKeyForms(j)
	case slices.Equal(spec.PartNames(was), spec.PartNames(is)):
		j.class(review.Breaking)
		j.note(review.Calls, "Calls of %s must pass the new types.", j.New.GoName)
		if hashingChanged(was, is) {
			noteHashing(j)
		} else {
			j.note(review.Deploy, "A key keeps its count if the new type is written as the same text as the old one. Other keys start full.")
		}
	default:
		noteNewParts(j)
	}
	why := "to reset all counts, "
	// With another number of parts no old row can match a key, so deleting the rows resets nothing.
	if len(was) != len(is) || hashingChanged(was, is) {
		why = "to delete the rows that are no longer read, "
	}
	j.statement(why+betweenVersions, "DELETE FROM rate_limits WHERE name = '%s';", j.New.Policy.Name)
	if !slices.Equal(compare.PartTypes(was), compare.PartTypes(is)) {
		j.risk(review.Refused, true)
		if slices.ContainsFunc(is, spec.KeyPart.Hashed) {
			j.note(review.Deploy, "If the program hashes keys with a secret, call the store's Adopt with the policies of Catalog().HashKeys(secret) in place of the SQL below that registers the key.")
		}
		j.keep(review.BeforeNew, database{}, "once, "+string(review.BeforeNew)+
			", to register the types of the new key, without which the new version refuses every request",
			"UPDATE rate_limit_registry SET key_types = '(%s)' WHERE name = '%s';", strings.Join(compare.PartTypes(is), ", "), j.New.Policy.Name)
	}
	judgeKeyCounts(j)
	judgeKeyLog(j)
}

// judgeKeyCounts prints the SQL that gives keys whose parts changed places their counts.
func judgeKeyCounts(j *judgement) {
	m := keyMoveOf(j.Old.Key, j.New.Key)
	kept := m.moved && m.lost == "" && len(m.merged) == 0
	severalTypes := func(part spec.KeyPart) bool { return len(part.Alternatives()) > 0 }
	if kept || len(j.Old.Key) != len(j.New.Key) || hashingChanged(j.Old.Key, j.New.Key) ||
		differs(j.Old.Key, j.New.Key, severalTypes) {
		j.risk(review.CountsLost, kept)
	}
	if !kept {
		return
	}
	noteOffsets(j, "key")
	name := j.New.Policy.Name
	for _, d := range keyDialects {
		const why = "in place of the deletion, to keep the counts, " + betweenVersions
		// By way of another name, because a key may take the place of one that is not moved yet.
		for _, to := range d.moves {
			j.keep(review.BetweenVersions, to.database, why, to.text, d.key(m.from), name+" moved", name)
			j.keep(review.BetweenVersions, to.database, why, "UPDATE rate_limits SET name = '%s' WHERE name = '%s';",
				name, name+" moved")
		}
	}
}

// judgeKeyForms judges a key whose parts are passed as before, but stored in another form.
func judgeKeyForms(j *judgement) {
	j.note(review.Calls, "Calls of %s still compile: its parameters have the same types.", j.New.GoName)
	gain := words.Count(j.New.Policy.Full(), spec.Unit(&j.New.Policy))
	for i, was := range j.Old.Key {
		is := j.New.Key[i]
		if len(was.Alternatives()) > 0 {
			judgeAlternatives(j, was, is)
			continue
		}
		judgeFolding(j, was, is)
		switch {
		case bitsOf(was) == bitsOf(is):
		case bitsOf(is) < bitsOf(was):
			j.class(review.Tightened)
			j.note(review.Rule, "IPv6 addresses that differ only after the first %s of %s now share one count.",
				words.Count(bitsOf(is), "bit"), is.Name)
		default:
			j.class(review.Loosened)
			j.note(review.Rule, "IPv6 addresses are counted by %s of %s; before, by %s, so that one subscriber has more counts.",
				words.Count(bitsOf(is), "bit"), is.Name, words.Count(bitsOf(was), "bit"))
		}
	}
	if hashingChanged(j.Old.Key, j.New.Key) {
		noteHashing(j)
		return
	}
	if differs(j.Old.Key, j.New.Key, bitsOf) {
		j.note(review.Deploy, "IPv4 addresses keep their counts. IPv6 addresses are stored in another form and start full: a one-time gain of up to %s.", gain)
	}
	if differs(j.Old.Key, j.New.Key, spec.KeyPart.Folded) {
		j.note(review.Deploy, "Texts in lower case and in the form NFC keep their counts. The counts of other spellings are no longer read: a one-time gain of up to %s.", gain)
	}
}

// judgeAlternatives judges a part that has one of several types in both versions. Rows have the name of the type before the
// value.
func judgeAlternatives(j *judgement, was, is spec.KeyPart) {
	before, after := was.Alternatives(), is.Alternatives()
	added, dropped := lacking(spec.PartNames(before), spec.PartNames(after)),
		lacking(spec.PartNames(after), spec.PartNames(before))
	if len(added) > 0 {
		j.class(review.Loosened)
		j.note(review.Rule, "%s can also be %s, with a count of its own.", is.Name, words.List(added, "or"))
	}
	if len(dropped) > 0 {
		j.class(review.Breaking)
		constructors := words.Of(dropped, func(name string) string { return was.Constructor(spec.KeyPart{Name: name}) })
		j.note(review.Calls, "Calls of %s do not compile.", words.List(constructors, "and"))
		j.note(review.Deploy, "Rows of %s are no longer read.", words.List(dropped, "and"))
	}
	var kept, retyped []string
	for _, of := range after {
		i := slices.Index(spec.PartNames(before), of.Name)
		switch {
		case i < 0:
			continue
		case before[i].Type == of.Type:
			kept = append(kept, of.Name)
			continue
		}
		if before[i].GoType() != of.GoType() {
			j.class(review.Breaking)
			j.note(review.Calls, "Calls of %s must pass the new type.", is.Constructor(of))
		}
		j.note(review.Rule, "%s of %s is %s; before, it was %s.", of.Name, is.Name, of.Type, before[i].Type)
		retyped = append(retyped, of.Name)
	}
	if len(kept) > 0 {
		j.note(review.Deploy, "Counts of %s are kept.", words.List(kept, "and"))
	}
	if len(retyped) > 0 {
		j.note(review.Deploy, "Counts of %s are kept if the new type is written as the same text as the old one. Other keys start full.", words.List(retyped, "and"))
	}
}

// judgeFolding judges a part of which upper and lower case are one key in one version only.
func judgeFolding(j *judgement, was, is spec.KeyPart) {
	switch {
	case is.Folded() && !was.Folded():
		j.class(review.Tightened)
		j.note(review.Rule, "Texts of %s that differ in case only, or in how an accent is written, now share one count.", is.Name)
	case was.Folded() && !is.Folded():
		j.class(review.Loosened)
		j.note(review.Rule, "Texts of %s that differ in case only have a count each; before, they shared one, so that a caller who changes the case has more counts.", is.Name)
	}
}

// differs reports whether a property of a part is another one in the new key, which has the same parts.
func differs[V comparable](was, is []spec.KeyPart, property func(spec.KeyPart) V) bool {
	return !slices.EqualFunc(was, is, func(a, b spec.KeyPart) bool { return property(a) == property(b) })
}

// bitsOf returns how many bits of an IPv6 address a part of a key counts.
func bitsOf(part spec.KeyPart) int64 {
	if bits := part.PrefixBits(); bits > 0 {
		return int64(bits)
	}
	return 128
}

// hashingChanged reports whether a part is hashed in one of the keys only, so that no row of the old key is one of the new
// one. One type of several does not count, because rows of the others are kept.
func hashingChanged(was, is []spec.KeyPart) bool {
	return len(was) == len(is) &&
		differs(was, is, func(part spec.KeyPart) bool { return part.Hashed() && len(part.Alternatives()) == 0 })
}

// noteHashing describes a key of which a part is hashed in one version only.
func noteHashing(j *judgement) {
	for i, was := range j.Old.Key {
		switch is := j.New.Key[i]; {
		case len(was.Alternatives()) > 0 || was.Hashed() == is.Hashed():
		case is.Hashed():
			j.note(review.Rule, "Only a hash of %s is stored. Rows of the old version still contain it as it is.", is.Name)
		default:
			j.note(review.Rule, "%s is stored as it is; before, only a hash of it was.", is.Name)
		}
	}
	j.note(review.Deploy, "Stored rows are no longer read. Every key starts full: a one-time gain of up to %s.",
		words.Count(j.New.Policy.Full(), spec.Unit(&j.New.Policy)))
}

// noteNewParts judges a key whose parts were added, dropped or moved. If parts were added, there are more counts.
func noteNewParts(j *judgement) {
	was, is := j.Old.Key, j.New.Key
	j.class(review.Breaking)
	change := "the new parameters"
	if slices.Equal(compare.SortedNames(was), compare.SortedNames(is)) {
		change = "their parameters in the new order"
	}
	j.note(review.Calls, "Calls of %s must pass %s.", j.New.GoName, change)
	added, dropped := lacking(spec.PartNames(was), spec.PartNames(is)), lacking(spec.PartNames(is), spec.PartNames(was))
	if len(added) > 0 {
		j.class(review.Loosened)
	}
	if len(dropped) > 0 {
		j.class(review.Tightened)
	}
	switch {
	case len(was) == 0:
		j.note(review.Rule, "Each %s has its own count; before, all callers shared one count.",
			words.List(spec.PartNames(is), "and"))
	case len(is) == 0:
		j.note(review.Rule, "All callers share one count; before, each %s had its own.", words.List(spec.PartNames(was), "and"))
	case len(dropped) == 0 && len(added) > 0:
		j.note(review.Rule, "Counts are now kept per %s as well, each with the full capacity.", words.List(added, "and"))
	case len(added) == 0 && len(dropped) > 0:
		j.note(review.Rule, "Keys that differ only in %s now share one count; before, each had its own.",
			words.List(dropped, "and"))
	}
	if len(was) == len(is) {
		j.note(review.Deploy, "Rows are found by the text of the key's parts, in their order. A key without a matching row starts full.")
		return
	}
	j.note(review.Deploy, "Stored rows are no longer read, because the key has a different number of parts. Every key starts full: a one-time gain of up to %s.",
		words.Count(j.New.Policy.Full(), spec.Unit(&j.New.Policy)))
}
