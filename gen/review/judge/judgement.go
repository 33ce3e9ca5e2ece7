package judge

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/diff"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/compare"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// judgement is the result of judging the changes of one kind.
type judgement struct {
	// Pair is the limit that changed, or one of its plans; it is empty for a change of the file or of a group.
	compare.Pair
	changes []diff.Change
	renamed diff.Renames
	classes []review.Class
	// each has the classes of each change in place of classes, for changes of which each is of another key.
	each [][]review.Class
	// ofRule marks a change that affects how many tokens the rule lets through. alone has the effects Loosened and Tightened
	// that the change has by itself, and changed, if not nil, is the rule with only this change, from which more are computed.
	// [classifyRuleChanges] needs all three.
	ofRule  bool
	alone   []review.Class
	changed *runtime.Policy
	risks   []review.Risk
	notes   []review.Note
	sql     []review.Statement
}

func (j *judgement) class(classes ...review.Class) { j.classes = append(j.classes, classes...) }

// risk adds a risk. averted reports whether statements of the judgement avert it.
func (j *judgement) risk(kind review.RiskKind, averted bool) {
	j.risks = append(j.risks, review.Risk{Kind: kind, Averted: averted})
}

func (j *judgement) note(about, format string, args ...any) {
	j.notes = append(j.notes, review.Note{About: about, Text: fmt.Sprintf(format, args...)})
}

// describe adds a note for each sentence.
func (j *judgement) describe(about string, sentences []string) {
	for _, sentence := range sentences {
		j.notes = append(j.notes, review.Note{About: about, Text: sentence})
	}
}

func (j *judgement) statement(why, format string, args ...any) {
	j.sql = append(j.sql, review.Statement{Why: why, Text: fmt.Sprintf(format, args...)})
}

// database is what a statement is for. The zero database is all of them.
type database struct {
	// on begins the sentence about the statement.
	on string
	// dialects are the names of its dialects.
	dialects []string
}

// keep adds a statement that keeps stored counts.
func (j *judgement) keep(at review.Moment, d database, why, format string, args ...any) {
	j.sql = append(j.sql, review.Statement{Why: d.on + why, Text: fmt.Sprintf(format, args...), Keeps: at,
		Dialects: d.dialects})
}

// changesRule marks a change of the rule, and returns the rule with only this change.
func (j *judgement) changesRule(change func(policy *runtime.Policy)) *runtime.Policy {
	j.ofRule, j.changed = true, j.WithOneChange(change)
	return j.changed
}

// hasAlone reports whether a change of the rule has an effect by itself.
func (j *judgement) hasAlone(class review.Class) bool {
	if j.changed != nil {
		j.alone, j.changed = append(j.alone, compare.Looseness(&j.Old.Policy, j.changed)...), nil
	}
	return slices.Contains(j.alone, class)
}

// addTo adds the judgement to a subject.
func (j *judgement) addTo(s *review.Subject) {
	f := review.Finding{Kind: j.changes[0].Kind}
	for i, c := range j.changes {
		classes := j.classes
		if j.each != nil {
			classes = j.each[i]
		}
		f.Changes = append(f.Changes, review.Change{Change: c, Classes: review.InOrder(classes)})
	}
	s.Findings = append(s.Findings, f)
	s.Risks = review.InRiskOrder(append(s.Risks, j.risks...))
	s.Notes, s.SQL = append(s.Notes, j.notes...), append(s.SQL, j.sql...)
}

// loosens adds Loosened, or Tightened if the change is not looser.
func (j *judgement) loosens(looser bool) {
	if looser {
		j.class(review.Loosened)
	} else {
		j.class(review.Tightened)
	}
}

// moreOrLess returns Loosened if a number has grown, and Tightened if it has shrunk.
func moreOrLess[T cmp.Ordered](was, is T) []review.Class {
	switch {
	case is > was:
		return []review.Class{review.Loosened}
	case is < was:
		return []review.Class{review.Tightened}
	}
	return nil
}

// exhaustedKey is the subject of the sentences about [compare.Carried].
const exhaustedKey = "an exhausted key (less than one token left, nothing reserved)"

// grouped splits changes into those with the same key, in the order of the first ones.
func grouped[K comparable](changes []diff.Change, keyOf func(*diff.Change) K) (groups [][]diff.Change) {
	known := map[K]int{}
	for i := range changes {
		key := keyOf(&changes[i])
		group, ok := known[key]
		if !ok {
			group = len(groups)
			known[key], groups = group, append(groups, nil)
		}
		groups[group] = append(groups[group], changes[i])
	}
	return groups
}

func byKind(changes []diff.Change) [][]diff.Change {
	return grouped(changes, func(c *diff.Change) *ids.Meaning { return c.Kind })
}

// hasKind reports whether one of the changes is of one of some kinds.
func hasKind(changes []diff.Change, kinds ...*ids.Meaning) bool {
	return slices.ContainsFunc(changes, func(c diff.Change) bool { return slices.Contains(kinds, c.Kind) })
}
