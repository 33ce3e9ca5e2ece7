package review

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// judgement is the result of judging changes with the same id.
type judgement struct {
	classes []Class
	// ofRule marks a change that affects how many tokens the rule lets through, and alone has Loosened and Tightened as
	// far as the change has these effects by itself. [classifyRuleChanges] needs both.
	ofRule bool
	alone  []Class
	notes  []Note
	sql    []Statement
}

// judge panics if nothing judges changes of this id, so that a new field cannot pass as a cosmetic change.
func judge(p pair, changes []spec.Change) judgement {
	id := changes[0].ID
	of := judges[id]
	if of == nil {
		panic(fmt.Sprintf("review: changes with the id %q are not judged: add a function to judges in gen/review/fields.go", id))
	}
	var j judgement
	of(&j, p, changes)
	return j
}

func (j *judgement) class(classes ...Class) { j.classes = append(j.classes, classes...) }

func (j *judgement) note(about, format string, args ...any) {
	j.notes = append(j.notes, Note{about, fmt.Sprintf(format, args...)})
}

// describe adds a note for each sentence.
func (j *judgement) describe(about string, sentences []string) {
	for _, sentence := range sentences {
		j.notes = append(j.notes, Note{about, sentence})
	}
}

func (j *judgement) statement(why, format string, args ...any) {
	j.sql = append(j.sql, Statement{why, fmt.Sprintf(format, args...)})
}

// compareRules records the effect that a change of the rule has by itself.
func (j *judgement) compareRules(old, new *runtime.Policy) {
	j.ofRule, j.alone = true, looseness(old, new)
}

// classifyRuleChanges adds Loosened and Tightened to the changes of the rule. The edit as a whole decides which of the
// two apply. They go to the changes that have the effect alone, or to all changes of the rule if none has it alone. If the
// modes differ, no change has such an effect but by the modes.
func classifyRuleChanges(p pair, judgements []judgement) {
	if p.modesDiffer() {
		for i, j := range judgements {
			judgements[i].classes = slices.DeleteFunc(j.classes, func(c Class) bool { return c == Loosened || c == Tightened })
		}
	}
	for _, class := range p.looseness() {
		some := slices.ContainsFunc(judgements, func(j judgement) bool { return slices.Contains(j.alone, class) })
		for i, j := range judgements {
			if j.ofRule && (!some || slices.Contains(j.alone, class)) {
				judgements[i].class(class)
			}
		}
	}
}

// looseness compares the whole rules: the tokens in intervals of all lengths, and the largest reservation.
func (p pair) looseness() (classes []Class) {
	if p.old == nil || p.new == nil {
		return nil
	}
	if p.modesDiffer() {
		return p.modeLooseness()
	}
	old, new := &p.old.Policy, &p.new.Policy
	classes = looseness(old, new)
	// How much one call can reserve is no matter of intervals, so it is compared separately.
	switch was, is := bounds.LargestReservation(old), bounds.LargestReservation(new); {
	case is > was:
		classes = append(classes, Loosened)
	case is < was:
		classes = append(classes, Tightened)
	}
	return slices.Compact(slices.Sorted(slices.Values(classes)))
}

// judgeDoc has nothing to add: the change itself shows both texts.
func judgeDoc(*judgement, pair, []spec.Change) {}

func judgePackage(j *judgement, _ pair, changes []spec.Change) {
	j.class(Breaking)
	if old, new := changes[0].Old.Value, changes[0].New.Value; old != "" && new != "" {
		j.note(Calls, "Update the imports of package %s to package %s.", old, new)
		return
	}
	j.note(Calls, "Without package in limits.yaml, the -package flag or the directory names the package. If the name changes, update its imports.")
}

func judgeAdded(j *judgement, p pair, _ []spec.Change) {
	j.class(Added)
	j.describe(Rule, p.new.Words())
}

func judgeRemoved(j *judgement, p pair, _ []spec.Change) {
	// Every request passes that the limit would have denied.
	j.class(Removed, Loosened, Breaking, StoredState)
	j.describe(RemovedRule, p.old.Words())
	j.note(Calls, "Calls of %s no longer compile. Without another limit in its place, these requests are unlimited.", p.old.GoName)
	j.note(Deploy, "Its rows stay in the table, because Sweep only deletes rows of existing limits. The store's Forget deletes them, as does the statement below.")
	j.statement("after the deploy, to delete its rows", "DELETE FROM rate_limits WHERE name = '%s';", p.old.Policy.Name)
	if p.old.Overrides != nil {
		j.note(Deploy, "Its blocks and overrides in force have no effect any more, and Ready reports them. Forget ends them too, as does the last statement. "+
			"If the limit was renamed, rename it in an edit of its own: diff then prints the SQL that keeps them.")
		j.endStatement(p, "", "its blocks and overrides", "")
	}
}

// betweenVersions is the only time to change rows that the old version would overwrite and the new one has to find.
const betweenVersions = "after the old version has stopped and before the new one starts"

func judgeRenamed(j *judgement, p pair, _ []spec.Change) {
	j.class(Renamed, StoredState)
	was, is := p.old.Policy.Name, p.new.Policy.Name
	j.note(Rule, "%s was probably renamed to %s: one was removed, and the other is new and similar.", was, is)
	j.note(Deploy, "Rows are stored under the limit's name. The new version does not read those of %s, so every key of %s starts full: a one-time gain of up to %s.",
		was, is, words.Count(p.new.Policy.Capacity, "token"))
	// The offset of windows is the only thing in a row's meaning that depends on the name.
	if windowed(&p.old.Policy) && windowed(&p.new.Policy) && Carried(p.old, p.new) > 0 {
		j.note(Deploy, "The SQL statement below keeps the counts, but windows start at other times: without start, their offset is derived from the limit's name. "+
			"After it, "+exhaustedKey+" has up to %s.", words.Count(Carried(p.old, p.new), "token"))
	}
	j.statement("to keep the counts, "+betweenVersions, "UPDATE rate_limits SET name = '%s' WHERE name = '%s';", is, was)
	judgeRenamedLog(j, p)
}

func judgeGoName(j *judgement, p pair, _ []spec.Change) {
	j.class(Breaking)
	j.note(Calls, "Calls of %s must be changed to %s.", p.old.GoName, p.new.GoName)
}

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

func partGoTypes(parts []spec.KeyPart) (list []string) {
	for _, part := range parts {
		list = append(list, part.GoType())
	}
	return list
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

func partNames(parts []spec.KeyPart) (list []string) {
	for _, part := range parts {
		list = append(list, part.Name)
	}
	return list
}

func sortedNames(parts []spec.KeyPart) []string {
	return slices.Sorted(slices.Values(partNames(parts)))
}

func partTypes(parts []spec.KeyPart) (list []string) {
	for _, part := range parts {
		list = append(list, part.Type)
	}
	return list
}

// Verbs returns the methods that the generated type of a limit has. Methods that differ only in a final N, which take a
// count, are listed once, without the N.
func Verbs(l *spec.Limit) []string { return slices.Clone(verbs(l)) }

func verbs(l *spec.Limit) []string {
	switch {
	case l.Policy.Capacity == 0:
		return reserveOnlyVerbs
	case l.Policy.Reserves():
		return reservableVerbs
	}
	return limitVerbs
}

var (
	limitVerbs       = verbsOf(reflect.TypeFor[runtime.Limit]())
	reservableVerbs  = verbsOf(reflect.TypeFor[runtime.ReservableLimit]())
	reserveOnlyVerbs = verbsOf(reflect.TypeFor[runtime.ReserveOnlyLimit]())
)

func verbsOf(handle reflect.Type) (verbs []string) {
	for i := range handle.NumMethod() {
		name := handle.Method(i).Name
		// The method N itself, which sets a count, has no twin.
		if _, twin := handle.MethodByName(strings.TrimSuffix(name, "N")); name == "N" || !strings.HasSuffix(name, "N") || !twin {
			verbs = append(verbs, name)
		}
	}
	return verbs
}

// noteVerbs reports methods that appear or disappear, because a limit only has methods that can succeed.
func noteVerbs(j *judgement, p pair) { j.compareVerbs(p.new.GoName, verbs(p.old), verbs(p.new)) }

func (j *judgement) compareVerbs(name string, was, is []string) {
	lost := slices.DeleteFunc(slices.Clone(was), func(verb string) bool { return slices.Contains(is, verb) })
	gained := slices.DeleteFunc(slices.Clone(is), func(verb string) bool { return slices.Contains(was, verb) })
	if len(lost) > 0 {
		j.class(Breaking)
		j.note(Calls, "%s no longer has %s: code that calls %s no longer compiles.", name, methodsInWords(lost), itOrThem(lost))
	}
	if len(gained) > 0 {
		j.note(Calls, "%s now has %s.", name, methodsInWords(gained))
	}
}

func methodsInWords(verbs []string) string {
	if len(verbs) == 1 {
		return "the method " + verbs[0]
	}
	return "the methods " + words.List(verbs, "and")
}

func itOrThem(verbs []string) string {
	if len(verbs) == 1 {
		return "it"
	}
	return "them"
}
