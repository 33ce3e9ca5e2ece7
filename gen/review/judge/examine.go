// Package judge makes the [review.Review] of an edit: it judges each change, counts what the edit lets through, and says what a
// deploy does to stored rows.
package judge

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/compare"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Review reviews the changes from one file to another. Both files must be valid.
func Review(old, new *spec.File) *review.Review {
	r := &review.Review{Old: old.Name, New: new.Name}
	renamed := fields.PlanRenames(old, new)
	for _, changes := range bySubject(fields.Diff(old, new)) {
		s := subjectOf(changes, renamed)
		isRenamed := func(c spec.Change) bool { return c.ID == "plan-renamed" }
		overridden := func(l *spec.Limit) bool { return l.Overrides != nil && len(l.Plans) > 0 }
		if slices.ContainsFunc(changes, isRenamed) && slices.ContainsFunc(old.Limits, overridden) {
			noteOverriddenPlans(&s, renamed)
		}
		r.Subjects = append(r.Subjects, s)
	}
	return r
}

// bySubject splits changes by limit and group. They are sorted so already.
func bySubject(changes []spec.Change) (subjects [][]spec.Change) {
	for i, c := range changes {
		if i == 0 || c.Limit != changes[i-1].Limit || c.Group != changes[i-1].Group {
			subjects = append(subjects, nil)
		}
		last := &subjects[len(subjects)-1]
		*last = append(*last, c)
	}
	return subjects
}

// subjectOf takes the old names of renamed plans by the new ones.
func subjectOf(changes []spec.Change, renamed map[string]string) review.Subject {
	first := changes[0]
	s := review.Subject{Limit: first.Limit, Group: first.Group}
	p := compare.Pair{Old: first.Old.Limit, New: first.New.Limit}
	if p.Old != nil {
		s.Old, s.Per = p.Old.Pos, compare.PartNames(p.Old.Key)
	}
	// A changed limit has the key of the new file: callers pass that one.
	if p.New != nil {
		s.New, s.Per = p.New.Pos, compare.PartNames(p.New.Key)
	}
	if first.Old.Group != nil {
		s.Old = first.Old.Group.Pos
	}
	if first.New.Group != nil {
		s.New = first.New.Group.Pos
	}
	var found examined
	if p.ByPlan() {
		found = examineByPlan(p, changes, renamed)
	} else {
		found = examine(p, changes)
	}
	s.Findings, s.Numbers, s.Notes, s.SQL = found.findings, found.numbers, review.InNoteOrder(found.notes), found.sql
	return s
}

// noteOverriddenPlans says what becomes of overrides that give keys a plan which was renamed. They are of all limits.
func noteOverriddenPlans(s *review.Subject, renamed map[string]string) {
	var j judgement
	j.note(review.Deploy, "Overrides that give a key a plan have its name. Requests of these keys fail in the version that does not have the plan, and Ready reports them.")
	for _, is := range slices.Sorted(maps.Keys(renamed)) {
		j.statement(betweenVersions+", to keep overrides that give the plan "+is, appendEntries,
			"o.name", "o.key", "'"+is+"'", "o.until_ns", "o.what = 'plan'", "AND o.plan = '"+renamed[is]+"' ", inForce)
	}
	s.Notes, s.SQL = review.InNoteOrder(append(s.Notes, j.notes...)), append(s.SQL, j.sql...)
}

func byID(changes []spec.Change) (groups [][]spec.Change) {
	for _, c := range changes {
		i := slices.IndexFunc(groups, func(group []spec.Change) bool { return group[0].ID == c.ID })
		if i < 0 {
			groups = append(groups, []spec.Change{c})
			continue
		}
		groups[i] = append(groups[i], c)
	}
	return groups
}

// examined is what the changes of a limit mean, or of one of its plans.
type examined struct {
	plan     string
	findings []review.Finding
	numbers  []review.Number
	notes    []review.Note
	sql      []review.Statement
}

// examine judges the changes of a limit that does not depend on the plan.
func examine(p compare.Pair, changes []spec.Change) (e examined) {
	groups := byID(changes)
	judgements := make([]judgement, len(groups))
	for i, group := range groups {
		judgements[i] = judgementOn(p, group)
	}
	// Whether a change loosens or tightens depends on the other changes of the limit, so it is decided after all of them
	// were judged.
	classifyRuleChanges(p, judgements)
	for i, group := range groups {
		j := judgements[i]
		e.findings = append(e.findings, review.Finding{ID: group[0].ID, Changes: group, Classes: review.InOrder(j.classes)})
		e.notes = append(e.notes, j.notes...)
		e.sql = append(e.sql, j.sql...)
	}
	if p.Old != nil || p.New != nil {
		e.numbers = numbersOf(p)
		e.notes = append(e.notes, modeNote(p, e.findings)...)
		e.notes = append(e.notes, compare.IntervalNotes(p)...)
		e.notes = append(e.notes, deployNotes(p, e.findings)...)
	}
	return e
}

// classifyRuleChanges adds Loosened and Tightened to the changes of the rule. The edit as a whole decides which of the
// two apply. They go to the changes that have the effect alone, or to all changes of the rule if none has it alone. If the
// modes differ, no change has such an effect but by the modes.
func classifyRuleChanges(p compare.Pair, judgements []judgement) {
	if p.ModesDiffer() {
		for i, j := range judgements {
			judgements[i].classes = slices.DeleteFunc(j.classes, func(c review.Class) bool { return c == review.Loosened || c == review.Tightened })
		}
	}
	for _, class := range loosenessOf(p) {
		some := slices.ContainsFunc(judgements, func(j judgement) bool { return slices.Contains(j.alone, class) })
		for i, j := range judgements {
			if j.ofRule && (!some || slices.Contains(j.alone, class)) {
				judgements[i].class(class)
			}
		}
	}
}

// loosenessOf compares the whole rules: the tokens in intervals of all lengths, and the largest reservation.
func loosenessOf(p compare.Pair) (classes []review.Class) {
	if p.Old == nil || p.New == nil {
		return nil
	}
	if p.ModesDiffer() {
		return modeLooseness(p)
	}
	old, new := &p.Old.Policy, &p.New.Policy
	classes = compare.Looseness(old, new)
	// How much one call can reserve is no matter of intervals, so it is compared separately.
	switch was, is := bounds.LargestReservation(old), bounds.LargestReservation(new); {
	case is > was:
		classes = append(classes, review.Loosened)
	case is < was:
		classes = append(classes, review.Tightened)
	}
	return slices.Compact(slices.Sorted(slices.Values(classes)))
}

// judges has a function for each id of [fields.ChangeKinds]: those of limits.go, keys.go, fields.go, calendar.go, modes.go,
// plans.go and groups.go.
var judges = map[string]func(*judgement, compare.Pair, []spec.Change){
	"package-changed":        judgePackage,
	"plans-changed":          judgePlans,
	"plan-renamed":           judgePlanRenamed,
	"plan-parameter-changed": judgePlanParameter,
	"plan-added":             judgePlanAdded,
	"plan-removed":           judgePlanRemoved,
	"limit-added":            judgeAdded,
	"limit-removed":          judgeRemoved,
	"limit-renamed":          judgeRenamed,
	"doc-changed":            judgeDoc,
	"key-changed":            judgeKey,
	"kind-changed":           judgeKind,
	"rate-changed":           judgeRate,
	"capacity-changed":       judgeCapacity,
	"max-reserved-changed":   judgeMaxReserved,
	"start-changed":          judgeStart,
	"zone-changed":           judgeZone,
	"precise-changed":        judgePrecise,
	"shards-changed":         judgeShards,
	"mode-changed":           judgeMode,
	"timeout-changed":        judgeTimeout,
	"on-error-changed":       judgeOnError,
	"jitter-changed":         judgeJitter,
	"deny-cache-changed":     judgeDenyCache,
	"lease-changed":          judgeLease,
	"durability-changed":     judgeDurability,
	"overrides-changed":      judgeOverrides,
	"go-name-changed":        judgeGoName,

	"group-added":           judgeGroupAdded,
	"group-removed":         judgeGroupRemoved,
	"group-takes-changed":   judgeGroupTakes,
	"group-checks-changed":  judgeGroupChecks,
	"group-method-changed":  judgeGroupMethod,
	"group-go-name-changed": judgeGroupGoName,
}

// judge panics if nothing judges changes of this id, so that a new field cannot pass as a cosmetic change.
func judgementOn(p compare.Pair, changes []spec.Change) judgement {
	id := changes[0].ID
	of := judges[id]
	if of == nil {
		panic(fmt.Sprintf("review: changes with the id %q are not judged: add a function to judges in gen/review/judge/examine.go", id))
	}
	var j judgement
	of(&j, p, changes)
	return j
}

// examineUnlimited judges the changes by which a plan of a limit becomes unlimited, or no longer is. Changes of other
// fields have no effect on it.
func examineUnlimited(p compare.Pair, changes []spec.Change) (e examined) {
	modeChanges := slices.ContainsFunc(changes, func(c spec.Change) bool { return c.ID == "mode-changed" })
	e.numbers = numbersOf(p)
	if !modeChanges {
		e.numbers = numbersOf(p.Enforced())
	}
	for _, group := range byID(changes) {
		var j judgement
		switch id := group[0].ID; {
		case id == "mode-changed" && p.New.Policy.Mode == runtime.ModeBlock:
			j.class(review.Tightened) // the limited plans have the note
		case id == "mode-changed" && p.Old.Policy.Mode == runtime.ModeBlock:
			j.class(review.Loosened)
			j.describe(review.Rule, fields.WordsOf(p.New)[:1])
		case id != "rate-changed" || p.Old.Unlimited() && p.New.Unlimited():
			continue
		case p.New.Unlimited():
			j.class(unlimitedLooseness(p, changes, review.Loosened)...)
			j.describe(review.Rule, fields.WordsOf(p.New)[:1])
			j.note(review.Deploy, "Stored counts stay as they are, until a sweep deletes them.")
		default:
			j.class(unlimitedLooseness(p, changes, review.Tightened)...)
			j.describe(review.Rule, fields.WordsOf(p.New))
			j.note(review.Deploy, "What was taken without a limit was not counted: a key without a row starts full.")
		}
		e.findings = append(e.findings, review.Finding{ID: group[0].ID, Changes: group, Classes: review.InOrder(j.classes)})
		e.notes = append(e.notes, j.notes...)
	}
	if limited := p.Limited(); !modeChanges && limited != nil && len(e.findings) > 0 {
		e.notes = append(e.notes, notEnforced(limited.Policy.Mode)...)
	}
	return e
}

// unlimitedLooseness returns the class of a plan that becomes unlimited, or no longer is: otherwise, unless the edit also
// changes the mode, which alone then decides what passes.
func unlimitedLooseness(p compare.Pair, changes []spec.Change, otherwise review.Class) []review.Class {
	if slices.ContainsFunc(changes, func(c spec.Change) bool { return c.ID == "mode-changed" }) {
		return modeLooseness(p)
	}
	return []review.Class{otherwise}
}

// examineByPlan judges the changes of a limit for each of its plans.
func examineByPlan(p compare.Pair, changes []spec.Change, renamed map[string]string) examined {
	var parts []examined
	limited := 0
	for _, of := range fields.PairPlans(p.Old, p.New, renamed) {
		one := compare.Pair{Old: of.Old, New: of.New}
		own := changesOfPlan(changes, p, of)
		var part examined
		switch {
		case one.Either((*spec.Limit).Unlimited) && one.Old != nil && one.New != nil:
			part = examineUnlimited(one, own)
		case len(own) > 0:
			part = examine(one, own)
			if existsOnBoth(p, of) {
				limited++
			}
		}
		if part.plan = of.Plan; one.New == nil && p.New != nil {
			part.numbers = nil // as for a removed limit
		}
		parts = append(parts, part)
	}
	all := merge(parts, limited)
	addUnjudged(&all, p, changes)
	return all
}

// changesOfPlan returns the changes for one plan: its own and, if both sides have it, those for all plans.
func changesOfPlan(changes []spec.Change, p compare.Pair, of fields.PlanPair) (own []spec.Change) {
	for _, c := range changes {
		if c.Plan == of.Plan || c.Plan == "" && existsOnBoth(p, of) {
			own = append(own, c)
		}
	}
	return own
}

// existsOnBoth reports whether a limit has a plan on each side that has the limit.
func existsOnBoth(p compare.Pair, of fields.PlanPair) bool {
	return of.Old != nil && of.New != nil || p.Old == nil || p.New == nil
}

// merge joins the findings of each plan. Notes that all limited plans have in common are listed once; the others, and
// those on a change of one plan only, begin with the plan.
func merge(parts []examined, limited int) (all examined) {
	for _, part := range parts {
		for _, f := range part.findings {
			all.addFinding(f)
		}
		for _, n := range part.numbers {
			n.Plan = part.plan
			all.numbers = append(all.numbers, n)
		}
		for _, n := range part.notes {
			has := func(o examined) bool { return slices.Contains(o.notes, n) }
			if part.ownChanges() || countFunc(parts, has) < limited {
				n.Text = part.plan + ": " + n.Text
			}
			all.notes = append(all.notes, n)
		}
		for _, q := range part.sql {
			if !slices.Contains(all.sql, q) {
				all.sql = append(all.sql, q)
			}
		}
	}
	return all
}

// ownChanges reports whether only changes of this plan were examined.
func (e *examined) ownChanges() bool {
	return !slices.ContainsFunc(e.findings, func(f review.Finding) bool {
		return slices.ContainsFunc(f.Changes, func(c spec.Change) bool { return c.Plan == "" })
	})
}

func countFunc[T any](list []T, holds func(T) bool) (n int) {
	for _, one := range list {
		if holds(one) {
			n++
		}
	}
	return n
}

// addFinding adds a finding to the one with the same id.
func (e *examined) addFinding(f review.Finding) {
	i := slices.IndexFunc(e.findings, func(o review.Finding) bool { return o.ID == f.ID })
	if i < 0 {
		e.findings = append(e.findings, f)
		return
	}
	known := &e.findings[i]
	known.Classes = review.InOrder(append(slices.Clone(known.Classes), f.Classes...))
	known.Changes = slices.Clone(known.Changes)
	for _, c := range f.Changes {
		if !slices.Contains(known.Changes, c) {
			known.Changes = append(known.Changes, c)
		}
	}
}

// addUnjudged judges the changes that no plan has, because each is unlimited on one side, by the limits as a whole. It
// sorts all findings by their changes.
func addUnjudged(all *examined, p compare.Pair, changes []spec.Change) {
	var findings []review.Finding
	for _, group := range byID(changes) {
		i := slices.IndexFunc(all.findings, func(f review.Finding) bool { return f.ID == group[0].ID })
		if i >= 0 {
			findings = append(findings, all.findings[i])
			continue
		}
		j := judgementOn(p, group)
		findings = append(findings, review.Finding{ID: group[0].ID, Changes: group, Classes: review.InOrder(j.classes)})
		all.notes = append(all.notes, j.notes...)
		all.sql = append(all.sql, j.sql...)
	}
	all.findings = findings
}
