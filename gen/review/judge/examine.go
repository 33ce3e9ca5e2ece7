// Package judge makes the [review.Review] of an edit: it judges each change, counts what the edit lets through, and says
// what a deploy does to stored rows.
package judge

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/describe"
	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/diff"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/compare"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Review reviews the changes from one file to another. Both files must be valid.
func Review(old, new *spec.File) *review.Review {
	r := &review.Review{Old: old.Name, New: new.Name}
	all, renamed := diff.Files(old, new)
	r.Renames = renamed
	subjectName := func(c *diff.Change) [2]string { return [2]string{c.Limit, c.Group} }
	for _, changes := range grouped(all, subjectName) {
		r.Subjects = append(r.Subjects, subjectOf(changes, renamed))
	}
	return r
}

func subjectOf(changes []diff.Change, renamed diff.Renames) (s review.Subject) {
	first := changes[0]
	p := compare.Pair{Old: first.Old.Limit, New: first.New.Limit}
	changes, exceptions := withoutExceptions(changes)
	switch {
	case len(changes) == 0:
	case p.ByPlan():
		s = examineByPlan(p, changes, renamed)
	default:
		s = examine(p, changes, renamed)
	}
	if len(exceptions) > 0 {
		judgementOn(p, exceptions, renamed).addTo(&s)
	}
	s.Notes = review.InNoteOrder(slices.Concat(s.Notes, overridesFollow(p, changes), warnFollows(p, changes)))
	s.Limit, s.Group, s.Old, s.New = first.Limit, first.Group, placeOf(first.Old), placeOf(first.New)
	// A changed limit has the key of the new file: callers pass that one.
	if p.New != nil {
		s.Per = spec.PartNames(p.New.Key)
	} else if p.Old != nil {
		s.Per = spec.PartNames(p.Old.Key)
	}
	return s
}

func placeOf(side diff.Side) (at diag.Pos) {
	switch {
	case side.Limit != nil:
		at = side.Limit.Pos
	case side.Group != nil:
		at = side.Group.Pos
	}
	return at
}

// examine judges the changes of a limit that does not depend on the plan.
func examine(p compare.Pair, changes []diff.Change, renamed diff.Renames) (s review.Subject) {
	var judgements []*judgement
	for _, group := range byKind(changes) {
		judgements = append(judgements, judgementOn(p, group, renamed))
	}
	// Whether a change loosens or tightens depends on the other changes of the limit, so it is decided after all of them
	// were judged.
	looseness := loosenessOf(p)
	classifyRuleChanges(p, judgements, looseness)
	for _, j := range judgements {
		j.addTo(&s)
	}
	if p.Old != nil || p.New != nil {
		s.Numbers = boundsOf(p)
		if of := cmp.Or(p.New, p.Old); len(of.CallerNumbers()) > 0 && len(s.Numbers) > 0 {
			s.Notes = append(s.Notes, review.Note{About: review.Rule, Text: "Callers give the " + words.List(of.CallerFields(), "and") + ": the numbers are for the most that they can give."})
		}
		s.Notes = append(s.Notes, modeNote(p, s.Classes())...)
		if len(looseness) == 2 {
			s.Notes = append(s.Notes, compare.IntervalNotes(p)...)
		}
		s.Notes = append(s.Notes, deployNotes(p, changes)...)
	}
	return s
}

// classifyRuleChanges adds Loosened and Tightened to the changes of the rule. The edit as a whole decides which of the
// two apply. They go to the changes that have the effect alone, or to all changes of the rule if none has it alone. If the
// modes differ, no change has such an effect but by the modes.
func classifyRuleChanges(p compare.Pair, judgements []*judgement, looseness []review.Class) {
	if p.ModesDiffer() {
		for _, j := range judgements {
			j.classes = slices.DeleteFunc(j.classes,
				func(c review.Class) bool { return c == review.Loosened || c == review.Tightened })
		}
	}
	ofRule := slices.DeleteFunc(slices.Clone(judgements), func(j *judgement) bool { return !j.ofRule })
	for _, class := range looseness {
		alone := slices.DeleteFunc(slices.Clone(ofRule), func(j *judgement) bool { return len(ofRule) > 1 && !j.hasAlone(class) })
		if len(alone) == 0 {
			alone = ofRule
		}
		for _, j := range alone {
			j.class(class)
		}
	}
}

// judges has a function for each of [ids.Changes].
var judges = map[*ids.Meaning]func(*judgement){
	ids.PackageChanged:          judgePackage,
	ids.PlansChanged:            judgePlans,
	ids.PlanRenamed:             judgePlanRenamed,
	ids.PlanParameterChanged:    judgePlanParameter,
	ids.NumbersParameterChanged: judgeNumbersParameter,
	ids.PlanAdded:               judgeAdded,
	ids.PlanRemoved:             judgePlanRemoved,
	ids.LimitAdded:              judgeAdded,
	ids.LimitRemoved:            judgeRemoved,
	ids.LimitRenamed:            judgeRenamed,
	ids.DocChanged:              judgeDoc,
	ids.KeyChanged:              judgeKey,
	ids.KindChanged:             judgeKind,
	ids.RateChanged:             judgeRate,
	ids.CapacityChanged:         judgeCapacity,
	ids.HoldChanged:             judgeHold,
	ids.MaxReservedChanged:      judgeMaxReserved,
	ids.StartChanged:            judgeStart,
	ids.ZoneChanged:             judgeZone,
	ids.PreciseChanged:          judgePrecise,
	ids.ShardsChanged:           judgeShards,
	ids.ModeChanged:             judgeMode,
	ids.TimeoutChanged:          judgeTimeout,
	ids.OnErrorChanged:          judgeOnError,
	ids.JitterChanged:           judgeJitter,
	ids.PenaltyChanged:          judgePenalty,
	ids.WarnChanged:             judgeWarn,
	ids.DenyCacheChanged:        judgeDenyCache,
	ids.LeaseChanged:            judgeLease,
	ids.DurabilityChanged:       judgeDurability,
	ids.PricesChanged:           judgePrices,
	ids.OverridesChanged:        judgeOverrides,
	ids.ExceptionsChanged:       judgeExceptions,
	ids.PrioritiesChanged:       judgePriorities,
	ids.GoNameChanged:           judgeGoName,
	ids.GroupAdded:              judgeGroupAdded,
	ids.GroupRemoved:            judgeGroupRemoved,
	ids.GroupTakesChanged:       judgeGroupTakes,
	ids.GroupChecksChanged:      judgeGroupChecks,
	ids.GroupMethodChanged:      judgeGroupMethod,
	ids.GroupGoNameChanged:      judgeGroupGoName,
}

// judgementOn panics if nothing judges changes of this kind, so that a new field cannot pass as a cosmetic change.
func judgementOn(p compare.Pair, changes []diff.Change, renamed diff.Renames) *judgement {
	j := &judgement{Pair: p, changes: changes, renamed: renamed}
	judge := judges[changes[0].Kind]
	if judge == nil {
		panic(fmt.Sprintf("review: changes with the id %q are not judged: add a function to judges in gen/review/judge/examine.go",
			changes[0].Kind.ID))
	}
	judge(j)
	return j
}

// examineNumberless judges the changes by which a plan of a limit becomes unlimited or 0, or no longer is. Changes of other
// fields have no effect on it. If the edit changes the mode, that alone decides what passes.
func examineNumberless(p compare.Pair, changes []diff.Change) (s review.Subject) {
	modeChanges, as := hasKind(changes, ids.ModeChanged), p
	if !modeChanges {
		as = p.Enforced()
	}
	s.Numbers = boundsOf(as)
	for _, group := range byKind(changes) {
		j := &judgement{Pair: p, changes: group, classes: modeLooseness(as)}
		if judgeNumberless(j) {
			j.addTo(&s)
		}
	}
	if limited := p.Limited(); !modeChanges && limited != nil && len(s.Findings) > 0 {
		s.Notes = append(s.Notes, notEnforced(limited)...)
	}
	return s
}

// judgeNumberless describes a change of a plan that is unlimited or 0 on some side, or returns false if it has no effect.
func judgeNumberless(j *judgement) bool {
	kind, wasUnlimited, isUnlimited := j.changes[0].Kind, j.Old.Unlimited(), j.New.Unlimited()
	switch {
	case kind == ids.ModeChanged && j.New.Policy.Mode == runtime.ModeBlock: // the limited plans have the note
	case kind == ids.ModeChanged && j.Old.Policy.Mode == runtime.ModeBlock:
		j.describe(review.Rule, describe.Limit(j.New).Rules())
	case kind != ids.RateChanged && kind != ids.CapacityChanged || wasUnlimited && isUnlimited:
		return false
	case j.Either((*spec.Limit).CountsOnly) && !j.Either((*spec.Limit).Zero):
		judgeCount(j)
	case j.New.Zero():
		j.describe(review.Rule, describe.Limit(j.New).Rules())
		j.note(review.Deploy, "Stored counts stay as they are, until a sweep deletes them.")
	case isUnlimited:
		j.risk(review.Unlimited, false)
		j.describe(review.Rule, describe.Limit(j.New).Rules())
		j.note(review.Deploy, "Stored counts stay as they are, until a sweep deletes them.")
	case j.Old.Zero():
		j.describe(review.Rule, describe.Words(j.New))
		j.note(review.Deploy, "A key without a row starts full.")
	default:
		j.describe(review.Rule, describe.Words(j.New))
		j.note(review.Deploy, "What was taken without a limit was not counted: a key without a row starts full.")
	}
	return true
}

// ofPlan is what the changes of a limit mean for one of its plans.
type ofPlan struct {
	plan string
	review.Subject
}

// examineByPlan judges the changes of a limit for each of its plans.
func examineByPlan(p compare.Pair, changes []diff.Change, renamed diff.Renames) review.Subject {
	var parts []ofPlan
	limited := 0
	for _, of := range renamed.PairPlans(p.Old, p.New) {
		one, part := compare.Pair{Old: of.Old, New: of.New}, ofPlan{plan: of.Plan}
		if one.Old != nil && one.New != nil && !one.ModesDiffer() {
			one = one.Unblocked()
		}
		// The changes for all plans are changes of this one if both sides have it, or one side lacks the whole limit.
		onBoth := of.Old != nil && of.New != nil || p.Old == nil || p.New == nil
		own := slices.DeleteFunc(slices.Clone(changes),
			func(c diff.Change) bool { return c.Plan != of.Plan && (c.Plan != "" || !onBoth) })
		switch {
		case one.Either(func(l *spec.Limit) bool { return l.Unlimited() || l.Zero() }) && one.Old != nil && one.New != nil:
			part.Subject = examineNumberless(one, own)
		case len(own) > 0:
			part.Subject = examine(one, own, renamed)
			if onBoth {
				limited++
			}
		}
		if one.New == nil && p.New != nil {
			part.Numbers = nil // as for a removed limit
		}
		parts = append(parts, part)
	}
	all := merged(parts, limited)
	addUnjudged(&all, p, changes, renamed)
	return all
}

// merged joins the findings of each plan. Risks and notes that all limited plans have in common are listed once; the others,
// and those on a change of one plan only, have the plan.
func merged(parts []ofPlan, limited int) (all review.Subject) {
	for _, part := range parts {
		apart := func(has func(other ofPlan) bool) bool {
			sharing := slices.DeleteFunc(slices.Clone(parts), func(other ofPlan) bool { return !has(other) })
			return part.ownChanges() || len(sharing) < limited
		}
		for _, r := range part.Risks {
			if apart(func(other ofPlan) bool { return slices.Contains(other.Risks, r) }) {
				r.Plan = part.plan
			}
			all.Risks = append(all.Risks, r)
		}
		for _, f := range part.Findings {
			addFinding(&all, f)
		}
		for _, n := range part.Numbers {
			n.Plan = part.plan
			all.Numbers = append(all.Numbers, n)
		}
		for _, n := range part.Notes {
			if apart(func(other ofPlan) bool { return slices.Contains(other.Notes, n) }) {
				n.Text = part.plan + ": " + n.Text
			}
			all.Notes = append(all.Notes, n)
		}
		for _, q := range part.SQL {
			if same := func(o review.Statement) bool { return o.Why == q.Why && o.Text == q.Text }; !slices.ContainsFunc(all.SQL, same) {
				all.SQL = append(all.SQL, q)
			}
		}
	}
	all.Risks = review.InRiskOrder(all.Risks)
	return all
}

// ownChanges reports whether only changes of this plan were examined.
func (of *ofPlan) ownChanges() bool {
	return !slices.ContainsFunc(of.Findings, func(f review.Finding) bool {
		return slices.ContainsFunc(f.Changes, func(c review.Change) bool { return c.Plan == "" })
	})
}

// addFinding adds a finding to the one of the same kind.
func addFinding(s *review.Subject, f review.Finding) {
	i := slices.IndexFunc(s.Findings, func(o review.Finding) bool { return o.Kind == f.Kind })
	if i < 0 {
		s.Findings = append(s.Findings, f)
		return
	}
	known := &s.Findings[i]
	known.Changes = slices.Clone(known.Changes)
	for _, c := range f.Changes {
		k := slices.IndexFunc(known.Changes, func(o review.Change) bool { return o.Change == c.Change })
		if k < 0 {
			known.Changes = append(known.Changes, c)
			continue
		}
		// It is a change for all plans, and has effects on each.
		known.Changes[k].Classes = review.InOrder(slices.Concat(known.Changes[k].Classes, c.Classes))
	}
}

// addUnjudged judges the changes that no plan has, because each has no numbers on one side, by the limits as a whole. It
// sorts all findings by their changes.
func addUnjudged(all *review.Subject, p compare.Pair, changes []diff.Change, renamed diff.Renames) {
	found := all.Findings
	all.Findings = nil
	for _, group := range byKind(changes) {
		i := slices.IndexFunc(found, func(f review.Finding) bool { return f.Kind == group[0].Kind })
		if i >= 0 {
			all.Findings = append(all.Findings, found[i])
			continue
		}
		judgementOn(p, group, renamed).addTo(all)
	}
}
