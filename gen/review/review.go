// Package review describes what an edit of limits.yaml means before it ships: which limits become looser or
// tighter, in numbers, which calls no longer compile, and how stored counts are affected.
//
// # The model
//
// diff.Files lists the changes as facts, and judge.Review judges them. A [Review] has one [Subject] for each limit that
// changed. A [Finding] groups the changes of one kind, and gives their classes. A change can have
// several classes: more shards both loosen a limit and affect stored state. [Subject.Numbers] are the bounds of the
// limit before and after all its changes together, and each [Note] describes an effect on requests, on callers or on
// stored rows.
//
// # How a change is judged
//
// An edit is loosened if it lets more tokens through in an interval of some length, and tightened if it lets fewer
// through in some; it can be both. Intervals of every length count, not only those that are printed, and so do
// reservations.
//
// A change of the rule has the class of the edit if it has the same effect by itself, which is found by applying it
// alone to the old rule. A rate of 48 per day instead of 2 per hour is the same rate, for example; it is the capacity
// of 48, which follows the rate, that loosens the limit.
//
// A change affects stored state if it gives stored rows another meaning or orphans them. That a new rate or capacity
// applies to existing rows is the purpose of such an edit, so it does not count as a change of stored state.
//
// A limit that is not enforced is judged as if it were, if its mode does not change; a note says so. A change of the mode
// decides alone: the bounds of a version in shadow mode or switched off are unbounded, and those of a blocked one are 0.
//
// # Guarantees
//
// Every number of tokens is a bound for one key that callers can reach and cannot exceed. The bounds come from
// bounds.Within, or from meter.Rule.Step itself: see bounds.FullAfter, bounds.NextAfter, compare.Carried and judge.Together.
// A reserved token counts when its delay has passed, and a leased token when it is spent. Instants are rounded to
// nanoseconds, and sums of tokens to what the runtime allows.
//
// # Non-guarantees
//
//   - A limit with shards is treated as one row, except where a number is about the shards. It can grant fewer tokens,
//     because each shard has a capacity of its own.
//   - Whether a limit was renamed is a guess from its doc, key and rule, and the review says so.
//   - The SQL statements use the table names rate_limits, rate_limit_overrides and rate_limit_registry, and syntax that all supported databases
//     accept, or say which one they are for.
//   - The text that a custom key type produces is unknown.
package review

import (
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/diff"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
)

// Review is what an edit of a limits.yaml means.
type Review struct {
	// Old and New are the names of the files.
	Old, New string
	// Renames are the guesses on which the comparison rests.
	Renames diff.Renames
	// Remark is a sentence about the files, such as that one was moved. It is empty in most reviews.
	Remark string
	// Subjects are the limits that changed, in the order of the new file, and then the groups. The file itself comes before
	// them, and removed limits and groups come after the others.
	Subjects []Subject
}

// Subject is a limit or a group that changed, or the file itself.
type Subject struct {
	// Limit is the name of the limit, the new one if it was renamed; it is empty for the file itself.
	Limit string
	// Group is the name of the group; it is empty for a limit and for the file itself.
	Group string
	// Old and New are the positions of the name of the limit or group in the two files. A position is zero if the file
	// does not contain it.
	Old, New diag.Pos
	// Per are the names of the key's parts: the numbers hold for one value of them. It is empty if all callers share one
	// count.
	Per []string
	// Findings are the changes, in the order of the fields.
	Findings []Finding
	// Risks are the effects to read first, the worst first.
	Risks []Risk
	// Numbers are the bounds of the rule for one key.
	Numbers []Number
	// Notes describe the effects of the changes.
	Notes []Note
	// SQL are statements that adapt stored rows to the edit.
	SQL []Statement
}

// Finding groups the changes of one kind: the rate and the period of a limit are judged together.
type Finding struct {
	Kind    *ids.Meaning
	Changes []Change
}

// Change is a change of one value, with its effect: one of two plans can be looser and the other tighter.
type Change struct {
	diff.Change
	// Classes has at least one class, in the order of [Classes].
	Classes []Class
}

// Classes returns the classes of all changes of the finding.
func (f *Finding) Classes() []Class {
	var all []Class
	for _, c := range f.Changes {
		all = append(all, c.Classes...)
	}
	return InOrder(all)
}

// Risk is an effect of an edit that harms without an error in the program: reviews print the risks first.
type Risk struct {
	Kind RiskKind `json:"kind"`
	// Plan is the plan that it is about; "" for the whole limit.
	Plan string `json:"plan,omitempty"`
	// Averted reports whether it does not happen if the SQL of the subject runs at its moment.
	Averted bool `json:"avertedBySQL"`
}

// RiskKind is a kind of [Risk].
type RiskKind string

// The kinds of risks, the worst first.
const (
	// Refused: the new version refuses every request of the limit.
	Refused RiskKind = "refused"
	// PlanUnknown: the new version cannot parse the stored name of a plan, so requests with it fail.
	PlanUnknown RiskKind = "plan-unknown"
	// OverridesLost: blocks and overrides in force have no effect any more.
	OverridesLost RiskKind = "overrides-lost"
	// Unlimited: requests pass that the limit would have denied.
	Unlimited RiskKind = "unlimited"
	// CountsLost: keys start full.
	CountsLost RiskKind = "counts-lost"
)

// riskKinds returns the kinds of risks, the worst first.
func riskKinds() []RiskKind {
	return []RiskKind{Refused, PlanUnknown, OverridesLost, Unlimited, CountsLost}
}

// Note is a sentence about an effect of a change.
type Note struct {
	// About is what the effect is on: [Deploy], [Calls], [Rule] or [RemovedRule].
	About string `json:"about"`
	Text  string `json:"text"`
	// Lead marks what nobody should miss: it is not folded away.
	Lead bool `json:"-"`
}

// The values of [Note.About].
const (
	// Deploy is for effects on stored rows.
	Deploy = "deploy"
	// Calls is for effects on code that calls the limit.
	Calls = "calls"
	// Rule is for effects on which requests pass.
	Rule = "rule"
	// RemovedRule is for the rule of a removed limit.
	RemovedRule = "removed rule"
)

// Statement is an SQL statement, including its semicolon.
type Statement struct {
	// Why says what the statement is for and when to run it.
	Why  string `json:"why"`
	Text string `json:"text"`
	// Keeps is when to run a statement that keeps stored counts; "" for the others, which list or delete.
	Keeps Moment `json:"-"`
	// Dialects are the databases that it is for, by the names of their dialects; nil for all.
	Dialects []string `json:"-"`
}

// Moment is a moment of a deploy.
type Moment string

// The moments, in their order.
const (
	BeforeNew       Moment = "before the first process of the new version starts"
	BetweenVersions Moment = "after the old version has stopped and before the new one starts"
	AfterOld        Moment = "after the old version has stopped"
)

// Class is a kind of effect that reviewers decide on. See [Class.Meaning].
type Class string

// The classes.
const (
	Loosened    Class = "loosened"
	Tightened   Class = "tightened"
	StoredState Class = "stored-state"
	Breaking    Class = "breaking"
	Added       Class = "added"
	Removed     Class = "removed"
	Renamed     Class = "renamed"
	Cosmetic    Class = "cosmetic"
)

// classes are in the order in which reviews list them.
var classes = []struct {
	class   Class
	meaning string
}{
	{Loosened, "The edit lets more tokens through in some interval than before, allows larger reservations, or removes a restriction of a single field, such as a shorter denyCache. Compare the numbers before and after."},
	{Tightened, "The edit lets fewer tokens through in some interval than before, or allows smaller reservations only, so that some requests that passed before are denied. An edit can be both loosened and tightened: for example, looser in short intervals and tighter in long ones."},
	{StoredState, "The edit changes the meaning of stored rows, or leaves rows behind. The notes on the deploy describe the state of a key right after it, and any SQL that helps."},
	{Breaking, "Code that calls the limit no longer compiles, or compiles with another meaning."},
	{Added, "The limit is new. It has no effect until code calls it."},
	{Removed, "The limit is gone, and no other limit replaces it."},
	{Renamed, "The limit probably has a new name: one limit is gone, and a similar one is new. Counts are stored by name."},
	{Cosmetic, "The edit is in none of the other classes: it changes neither decisions, nor stored rows, nor calls."},
}

// Classes returns every class, in the order in which reviews list them.
func Classes() (list []Class) {
	for _, c := range classes {
		list = append(list, c.class)
	}
	return list
}

// Meaning says in sentences what the class means.
func (c Class) Meaning() string {
	for _, of := range classes {
		if of.class == c {
			return of.meaning
		}
	}
	return ""
}

// InNoteOrder sorts notes by subject, and drops those that two changes have in common.
func InNoteOrder(notes []Note) []Note {
	return ordered(notes, []string{Rule, RemovedRule, Calls, Deploy}, func(n Note) string { return n.About })
}

// ordered returns elements in the order of their kinds, without duplicates.
func ordered[E, K comparable](list []E, kinds []K, kindOf func(E) K) (sorted []E) {
	for _, kind := range kinds {
		for _, e := range list {
			if kindOf(e) == kind && !slices.Contains(sorted, e) {
				sorted = append(sorted, e)
			}
		}
	}
	return sorted
}

// Classes returns the classes of all findings without duplicates, in the order of the package's [Classes].
func (s *Subject) Classes() []Class {
	var all []Class
	for i := range s.Findings {
		all = append(all, s.Findings[i].Classes()...)
	}
	return InOrder(all)
}

// InRiskOrder sorts risks, the worst first, and drops duplicates.
func InRiskOrder(risks []Risk) []Risk {
	return ordered(risks, riskKinds(), func(r Risk) RiskKind { return r.Kind })
}

// InOrder sorts classes and drops duplicates. Cosmetic stays only if there is no other class.
func InOrder(classes []Class) []Class {
	list := ordered(classes, Classes(), func(c Class) Class { return c })
	if list = slices.DeleteFunc(list, func(c Class) bool { return c == Cosmetic }); len(list) == 0 {
		return []Class{Cosmetic}
	}
	return list
}

// ClassNames returns classes as texts.
func ClassNames(classes []Class) []string {
	return words.Of(classes, func(class Class) string { return string(class) })
}

// ClassList returns classes as a text: "loosened, breaking".
func ClassList(classes []Class) string {
	return strings.Join(ClassNames(classes), ", ")
}

// BySeverity returns the subjects with the most severe first: those with risks, in the order of their worst ones, those
// that let more through, then those that break callers, affect stored counts, or let less through. Subjects of equal
// severity keep their order.
func (r *Review) BySeverity() []*Subject {
	list := make([]*Subject, len(r.Subjects))
	for i := range r.Subjects {
		list[i] = &r.Subjects[i]
	}
	severity := make(map[*Subject]int, len(list))
	for _, s := range list {
		severity[s] = s.severity()
	}
	slices.SortStableFunc(list, func(a, b *Subject) int { return severity[a] - severity[b] })
	return list
}

// severity is smaller for more severe subjects.
func (s *Subject) severity() int {
	if len(s.Risks) > 0 {
		return slices.Index(riskKinds(), s.Risks[0].Kind) - len(riskKinds())
	}
	order, classes := []Class{Loosened, Breaking, StoredState, Tightened, Renamed, Added}, s.Classes()
	if i := slices.IndexFunc(order, func(c Class) bool { return slices.Contains(classes, c) }); i >= 0 {
		return i
	}
	return len(order)
}

// SQL returns the statements that keep stored counts and overrides across the edit, in the order of a deploy, each with its
// subject.
func (r *Review) SQL() (list []SubjectSQL) {
	for _, at := range []Moment{BeforeNew, BetweenVersions, AfterOld} {
		for i := range r.Subjects {
			for _, q := range r.Subjects[i].SQL {
				if q.Keeps == at {
					list = append(list, SubjectSQL{&r.Subjects[i], q})
				}
			}
		}
	}
	return list
}

// SubjectSQL is a statement of a subject.
type SubjectSQL struct {
	Subject *Subject
	Statement
}

// Added reports whether the old file has no such limit or group.
func (s *Subject) Added() bool { return s.Limit+s.Group != "" && s.Old == (diag.Pos{}) }

// Removed reports whether the new file has no such limit or group.
func (s *Subject) Removed() bool { return s.Limit+s.Group != "" && s.New == (diag.Pos{}) }

// ShownNumbers returns the numbers to print: those that changed, and beside them how long whoever hits the limit is denied.
// What [Subject.Repeats] says is left out, and so is everything about a removed limit.
func (s *Subject) ShownNumbers() (list []Number) {
	if s.Removed() {
		return nil
	}
	changed := slices.ContainsFunc(s.Numbers, func(n Number) bool { return !Equal(n.Old, n.New) })
	for i, n := range s.Numbers {
		if s.Repeats(i) || Equal(n.Old, n.New) && !(changed && n.Name == NextToken && n.Plan == "") {
			continue
		}
		list = append(list, n)
	}
	return list
}

// Repeats reports whether the number at an index has the same values as a longer interval after it, or as another number
// before it.
func (s *Subject) Repeats(i int) bool {
	same := func(j int) bool {
		return 0 <= j && j < len(s.Numbers) && s.Numbers[i].Plan == s.Numbers[j].Plan &&
			Equal(s.Numbers[i].Old, s.Numbers[j].Old) && Equal(s.Numbers[i].New, s.Numbers[j].New)
	}
	if s.Numbers[i].Interval == 0 {
		return same(i - 1)
	}
	if same(i+1) && s.Numbers[i+1].Interval > s.Numbers[i].Interval {
		return true
	}
	// What has no bound at once has none in any time, and 0 is 0.
	once := i
	for once > 0 && s.Numbers[once].Interval > 0 {
		once--
	}
	endless := func(value *int64) bool { return value == nil || *value == 0 || IsUnbounded(*value) }
	return same(once) && endless(s.Numbers[i].Old) && endless(s.Numbers[i].New)
}
