package judge

import (
	"cmp"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// judgePlans describes what becomes of the constants and of the names of plans.
func judgePlans(j *judgement) {
	was, is := j.changes[0].Old.File.PlanNames(), j.changes[0].New.File.PlanNames()
	var moved []string
	for i, name := range is {
		switch before := slices.Index(was, name); {
		case before < 0:
			j.note(review.Calls, "%s is new, and ParsePlan accepts %q.", spec.PlanGoName(name), name)
		case before != i:
			moved = append(moved, spec.PlanGoName(name))
		}
	}
	for _, name := range was {
		if !slices.Contains(is, name) {
			j.class(review.Breaking)
			j.note(review.Calls, "%s no longer exists, and ParsePlan(%q) is an error: before the deploy, change the code and the customers that have this plan.", spec.PlanGoName(name), name)
		}
	}
	if len(moved) > 0 {
		j.note(review.Calls, "The numbers of these constants change: %s. That affects only programs that store plans as numbers: encoding/json and database/sql store names.",
			words.List(moved, "and"))
	}
}

// judgePlanRenamed also says what becomes of the overrides, of all limits, that give keys a plan which was renamed.
func judgePlanRenamed(j *judgement) {
	j.class(review.Renamed)
	for _, c := range j.changes {
		j.note(review.Rule, "The plan %s was probably renamed to %s: one was removed, and the other is new and has the same numbers. Counts are kept, because they are stored by key.", c.Old.Value, c.New.Value)
	}
	overridden := func(l *spec.Limit) bool { return l.Overrides != nil && len(l.Plans) > 0 }
	if !slices.ContainsFunc(j.changes[0].Old.File.Limits, overridden) {
		return
	}
	j.note(review.Deploy, "Overrides that give a key a plan have its name. Requests of these keys fail in the version that does not have the plan, and Ready reports them.")
	for _, c := range slices.SortedFunc(slices.Values(j.changes), func(a, b spec.Change) int { return cmp.Compare(a.Plan, b.Plan) }) {
		j.statement(betweenVersions+", to keep overrides that give the plan "+c.Plan, appendEntries,
			"o.name", "o.key", "'"+c.Plan+"'", "o.until_ns", "o.what = 'plan'", "AND o.plan = '"+c.Old.Value+"' ", inForce)
	}
}

func judgePlanParameter(j *judgement) {
	j.class(review.Breaking)
	if j.changes[0].New.Value == "" {
		j.note(review.Calls, "Calls of %s no longer pass the plan.", j.New.GoName)
		return
	}
	j.note(review.Calls, "Calls of %s must pass the plan as the last argument.", j.New.GoName)
}

func judgePlanAdded(j *judgement) {
	j.class(review.Added)
	j.describe(review.Rule, fields.WordsOf(j.New))
}

func judgePlanRemoved(j *judgement) {
	j.class(review.Removed)
	j.describe(review.RemovedRule, fields.WordsOf(j.Old))
	j.note(review.Deploy, "Keys of this plan keep their counts, which apply to the next plan that calls pass.")
}
