package review

import (
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
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
	j.describe(Rule, fields.WordsOf(p.new))
}

func judgePlanRemoved(j *judgement, p pair, _ []spec.Change) {
	j.class(Removed)
	j.describe(RemovedRule, fields.WordsOf(p.old))
	j.note(Deploy, "Keys of this plan keep their counts, which apply to the next plan that calls pass.")
}
