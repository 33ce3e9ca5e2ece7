package judge

import (
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/compare"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// judgePlans describes what becomes of the constants and of the names of plans.
func judgePlans(j *judgement, _ compare.Pair, changes []spec.Change) {
	was, is := changes[0].Old.File.PlanNames(), changes[0].New.File.PlanNames()
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

func judgePlanRenamed(j *judgement, _ compare.Pair, changes []spec.Change) {
	j.class(review.Renamed)
	for _, c := range changes {
		j.note(review.Rule, "The plan %s was probably renamed to %s: one was removed, and the other is new and has the same numbers. Counts are kept, because they are stored by key.", c.Old.Value, c.New.Value)
	}
}

func judgePlanParameter(j *judgement, p compare.Pair, changes []spec.Change) {
	j.class(review.Breaking)
	if changes[0].New.Value == "" {
		j.note(review.Calls, "Calls of %s no longer pass the plan.", p.New.GoName)
		return
	}
	j.note(review.Calls, "Calls of %s must pass the plan as the last argument.", p.New.GoName)
}

func judgePlanAdded(j *judgement, p compare.Pair, _ []spec.Change) {
	j.class(review.Added)
	j.describe(review.Rule, fields.WordsOf(p.New))
}

func judgePlanRemoved(j *judgement, p compare.Pair, _ []spec.Change) {
	j.class(review.Removed)
	j.describe(review.RemovedRule, fields.WordsOf(p.Old))
	j.note(review.Deploy, "Keys of this plan keep their counts, which apply to the next plan that calls pass.")
}
