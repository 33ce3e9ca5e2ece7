package review

import (
	"fmt"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// judgePlans describes what becomes of the constants and of the names of plans.
func judgePlans(j *judgement, _ pair, changes []spec.Change) {
	was, is := changes[0].Old.File.PlanNames(), changes[0].New.File.PlanNames()
	var moved []string
	for i, name := range is {
		switch before := slices.Index(was, name); {
		case before < 0:
			j.note(Calls, "%s is new, and ParsePlan accepts %q.", spec.PlanGoName(name), name)
		case before != i:
			moved = append(moved, spec.PlanGoName(name))
		}
	}
	for _, name := range was {
		if !slices.Contains(is, name) {
			j.class(Breaking)
			j.note(Calls, "%s no longer exists, and ParsePlan(%q) is an error: before the deploy, change the code and the customers that have this plan.", spec.PlanGoName(name), name)
		}
	}
	if len(moved) > 0 {
		j.note(Calls, "The numbers of these constants change: %s. That affects only programs that store plans as numbers: encoding/json and database/sql store names.",
			words.List(moved, "and"))
	}
}

func judgePlanRenamed(j *judgement, _ pair, changes []spec.Change) {
	j.class(Renamed)
	for _, c := range changes {
		j.note(Rule, "The plan %s was probably renamed to %s: one was removed, and the other is new and has the same numbers. Counts are kept, because they are stored by key.", c.Old.Value, c.New.Value)
	}
}

func judgePlanParameter(j *judgement, p pair, changes []spec.Change) {
	j.class(Breaking)
	if changes[0].New.Value == "" {
		j.note(Calls, "Calls of %s no longer pass the plan.", p.new.GoName)
		return
	}
	j.note(Calls, "Calls of %s must pass the plan as the last argument.", p.new.GoName)
}

func judgePlanAdded(j *judgement, p pair, _ []spec.Change) {
	j.class(Added)
	j.describe(Rule, p.new.Words())
}

func judgePlanRemoved(j *judgement, p pair, _ []spec.Change) {
	j.class(Removed)
	j.describe(RemovedRule, p.old.Words())
	j.note(Deploy, "Keys of this plan keep their counts, which apply to the next plan that calls pass.")
}

// examined is what the changes of a limit mean, or of one of its plans.
type examined struct {
	plan     string
	findings []Finding
	numbers  []Number
	notes    []Note
	sql      []Statement
}

// examine judges the changes of a limit that does not depend on the plan.
func examine(p pair, changes []spec.Change) (e examined) {
	groups := byID(changes)
	judgements := make([]judgement, len(groups))
	for i, group := range groups {
		judgements[i] = judge(p, group)
	}
	// Whether a change loosens or tightens depends on the other changes of the limit, so it is decided after all of them
	// were judged.
	classifyRuleChanges(p, judgements)
	for i, group := range groups {
		j := judgements[i]
		e.findings = append(e.findings, Finding{group[0].ID, group, inOrder(j.classes)})
		e.notes = append(e.notes, j.notes...)
		e.sql = append(e.sql, j.sql...)
	}
	if p.old != nil || p.new != nil {
		e.numbers = numbersOf(p)
		e.notes = append(e.notes, modeNote(p, e.findings)...)
		e.notes = append(e.notes, intervalNotes(p)...)
		e.notes = append(e.notes, deployNotes(p, e.findings)...)
	}
	return e
}

// examineUnlimited judges the changes by which a plan of a limit becomes unlimited, or no longer is. Changes of other
// fields have no effect on it.
func examineUnlimited(p pair, changes []spec.Change) (e examined) {
	modeChanges := slices.ContainsFunc(changes, func(c spec.Change) bool { return c.ID == "mode-changed" })
	e.numbers = numbersOf(p)
	if !modeChanges {
		e.numbers = numbersOf(p.enforced())
	}
	for _, group := range byID(changes) {
		var j judgement
		switch id := group[0].ID; {
		case id == "mode-changed" && p.new.Policy.Mode == runtime.ModeBlock:
			j.class(Tightened) // the limited plans have the note
		case id == "mode-changed" && p.old.Policy.Mode == runtime.ModeBlock:
			j.class(Loosened)
			j.describe(Rule, p.new.Words()[:1])
		case id != "rate-changed" || p.old.Unlimited() && p.new.Unlimited():
			continue
		case p.new.Unlimited():
			j.class(p.unlimitedLooseness(changes, Loosened)...)
			j.describe(Rule, p.new.Words()[:1])
			j.note(Deploy, "Stored counts stay as they are, until a sweep deletes them.")
		default:
			j.class(p.unlimitedLooseness(changes, Tightened)...)
			j.describe(Rule, p.new.Words())
			j.note(Deploy, "What was taken without a limit was not counted: a key without a row starts full.")
		}
		e.findings = append(e.findings, Finding{group[0].ID, group, inOrder(j.classes)})
		e.notes = append(e.notes, j.notes...)
	}
	if limited := p.limited(); !modeChanges && limited != nil && len(e.findings) > 0 {
		e.notes = append(e.notes, notEnforced(limited.Policy.Mode)...)
	}
	return e
}

// limited returns the version of a plan that is not unlimited, or nil if both are.
func (p pair) limited() *spec.Limit {
	if p.old.Unlimited() && p.new.Unlimited() {
		return nil
	}
	if p.old.Unlimited() {
		return p.new
	}
	return p.old
}

// unlimitedLooseness returns the class of a plan that becomes unlimited, or no longer is: otherwise, unless the edit also
// changes the mode, which alone then decides what passes.
func (p pair) unlimitedLooseness(changes []spec.Change, otherwise Class) []Class {
	if slices.ContainsFunc(changes, func(c spec.Change) bool { return c.ID == "mode-changed" }) {
		return p.modeLooseness()
	}
	return []Class{otherwise}
}

// examineByPlan judges the changes of a limit for each of its plans.
func examineByPlan(p pair, changes []spec.Change, renamed map[string]string) examined {
	var parts []examined
	limited := 0
	for _, of := range spec.PairPlans(p.old, p.new, renamed) {
		one := pair{of.Old, of.New}
		own := changesOfPlan(changes, p, of)
		var part examined
		switch {
		case one.either((*spec.Limit).Unlimited) && one.old != nil && one.new != nil:
			part = examineUnlimited(one, own)
		case len(own) > 0:
			part = examine(one, own)
			if existsOnBoth(p, of) {
				limited++
			}
		}
		if part.plan = of.Plan; one.new == nil && p.new != nil {
			part.numbers = nil // as for a removed limit
		}
		parts = append(parts, part)
	}
	all := merge(parts, limited)
	addUnjudged(&all, p, changes)
	return all
}

// changesOfPlan returns the changes for one plan: its own and, if both sides have it, those for all plans.
func changesOfPlan(changes []spec.Change, p pair, of spec.PlanPair) (own []spec.Change) {
	for _, c := range changes {
		if c.Plan == of.Plan || c.Plan == "" && existsOnBoth(p, of) {
			own = append(own, c)
		}
	}
	return own
}

// existsOnBoth reports whether a limit has a plan on each side that has the limit.
func existsOnBoth(p pair, of spec.PlanPair) bool {
	return of.Old != nil && of.New != nil || p.old == nil || p.new == nil
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
	return !slices.ContainsFunc(e.findings, func(f Finding) bool {
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
func (e *examined) addFinding(f Finding) {
	i := slices.IndexFunc(e.findings, func(o Finding) bool { return o.ID == f.ID })
	if i < 0 {
		e.findings = append(e.findings, f)
		return
	}
	known := &e.findings[i]
	known.Classes = inOrder(append(slices.Clone(known.Classes), f.Classes...))
	known.Changes = slices.Clone(known.Changes)
	for _, c := range f.Changes {
		if !slices.Contains(known.Changes, c) {
			known.Changes = append(known.Changes, c)
		}
	}
}

// addUnjudged judges the changes that no plan has, because each is unlimited on one side, by the limits as a whole. It
// sorts all findings by their changes.
func addUnjudged(all *examined, p pair, changes []spec.Change) {
	var findings []Finding
	for _, group := range byID(changes) {
		i := slices.IndexFunc(all.findings, func(f Finding) bool { return f.ID == group[0].ID })
		if i >= 0 {
			findings = append(findings, all.findings[i])
			continue
		}
		j := judge(p, group)
		findings = append(findings, Finding{group[0].ID, group, inOrder(j.classes)})
		all.notes = append(all.notes, j.notes...)
		all.sql = append(all.sql, j.sql...)
	}
	all.findings = findings
}

// either reports whether something holds for the limit before or after the edit.
func (p pair) either(holds func(*spec.Limit) bool) bool {
	return p.old != nil && holds(p.old) || p.new != nil && holds(p.new)
}

// byPlan reports whether the limit depends on the plan before or after the edit.
func (p pair) byPlan() bool {
	return p.either(func(l *spec.Limit) bool { return len(l.Plans) > 0 })
}

// planned returns a name with the plan that it is for, if any.
func planned(plan, name string) string {
	if plan == "" {
		return name
	}
	return fmt.Sprintf("%s: %s", plan, name)
}
