package judge

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/describe"
	"github.com/ratelimitgen/ratelimitgen/gen/diff"
	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/compare"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// judgeDoc has nothing to add: the change itself shows both texts.
func judgeDoc(*judgement) {}

func judgePackage(j *judgement) {
	j.class(review.Breaking)
	if old, new := j.changes[0].Old.Value, j.changes[0].New.Value; old != "" && new != "" {
		j.note(review.Calls, "Update the imports of package %s to package %s.", old, new)
		return
	}
	j.note(review.Calls, "Without package in limits.yaml, the -package flag or the directory names the package. If the name changes, update its imports.")
}

func judgeAdded(j *judgement) {
	j.class(review.Added)
	j.describe(review.Rule, describe.Words(j.New))
}

func judgeRemoved(j *judgement) {
	// Every request passes that the limit would have denied.
	j.class(review.Removed, review.Loosened, review.Breaking, review.StoredState)
	j.risk(review.Unlimited, false)
	j.describe(review.RemovedRule, describe.Words(j.Old))
	j.note(review.Calls, "Calls of %s no longer compile. Without another limit in its place, these requests are unlimited.",
		j.Old.GoName)
	j.note(review.Deploy, "Its rows stay in the table, because Sweep only deletes rows of existing limits. The store's Forget deletes them, as does the statement below.")
	j.statement("after the deploy, to delete its rows", "DELETE FROM rate_limits WHERE name = '%s';", j.Old.Policy.Name)
	j.statement("after the deploy, to delete the record of its owner", "DELETE FROM rate_limit_registry WHERE name = '%s';",
		j.Old.Policy.Name)
	if j.Old.Overrides != nil {
		j.risk(review.OverridesLost, false)
		j.note(review.Deploy, "Its blocks and overrides in force have no effect any more, and Ready reports them. Forget ends them too, as does the last statement. "+
			"If the limit was renamed, rename it in an edit of its own: diff then prints the SQL that keeps them.")
		j.endStatement("its blocks and overrides")
	}
}

// betweenVersions is the only time to change rows that the old version would overwrite and the new one has to find.
const betweenVersions = string(review.BetweenVersions)

func judgeRenamed(j *judgement) {
	j.class(review.Renamed, review.StoredState)
	j.risk(review.CountsLost, true)
	was, is := j.Old.Policy.Name, j.New.Policy.Name
	j.note(review.Rule, "%s was probably renamed to %s: one was removed, and the other is new and similar.", was, is)
	j.note(review.Deploy, "Rows are stored under the limit's name. The new version does not read those of %s, so every key of %s starts full: a one-time gain of up to %s.",
		was, is, words.Count(j.New.Policy.Full(), spec.Unit(&j.New.Policy)))
	noteOffsets(j, "name")
	j.keep(review.BetweenVersions, database{}, "to keep the counts, "+betweenVersions,
		"UPDATE rate_limits SET name = '%s' WHERE name = '%s';", is, was)
	j.keep(review.BetweenVersions, database{}, "to register the new name, "+betweenVersions,
		"UPDATE rate_limit_registry SET name = '%s' WHERE name = '%s';", is, was)
	judgeRenamedLog(j)
}

// noteOffsets notes what the SQL that moves rows does not keep: the offset of windows is the only thing in a row's meaning
// that depends on its name and key.
func noteOffsets(j *judgement, from string) {
	if compare.Windowed(&j.Old.Policy) && compare.Windowed(&j.New.Policy) && compare.Carried(j.Old, j.New) > 0 {
		j.note(review.Deploy, "The SQL statement below keeps the counts, but windows start at other times: without start, their offset is derived from the limit's %s. "+
			"After it, "+exhaustedKey+" has up to %s.", from, words.Count(compare.Carried(j.Old, j.New), "token"))
	}
}

func judgeGoName(j *judgement) {
	j.class(review.Breaking)
	j.note(review.Calls, "Calls of %s must be changed to %s.", j.Old.GoName, j.New.GoName)
	var named []string
	for i, was := range fields.OverridesMethods(j.Old) {
		if is := fields.OverridesMethods(j.New); len(is) > i {
			named = append(named, was+" to "+is[i])
		}
	}
	if len(j.Old.CallerNumbers()) > 0 && len(j.New.CallerNumbers()) > 0 {
		named = append(named, j.Old.NumbersType()+" to "+j.New.NumbersType())
	}
	if len(j.Old.Prices) > 0 && len(j.New.Prices) > 0 {
		named = append(named, j.Old.UsageType()+" to "+j.New.UsageType())
	}
	for _, g := range j.changes[0].New.File.Groups {
		for i, m := range g.Members() {
			// The members of a group have changed if the limit was renamed.
			if name := m.Limit.Policy.Name; name == j.New.Policy.Name && name == j.Old.Policy.Name {
				field := g.Fields()[i]
				named = append(named, "the field "+j.Old.GoName+strings.TrimPrefix(field, j.New.GoName)+" of the decisions of "+
					g.GoName+" to "+field)
			}
		}
	}
	if len(named) > 0 {
		j.note(review.Calls, "So must what is named after it: %s.", words.List(named, "and"))
	}
}

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
			j.risks = append(j.risks, review.Risk{Kind: review.PlanUnknown, Plan: name})
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
	// Another program may have a plan of that name in the same table. Entries of a limit with another name have been copied to
	// it by now.
	var names []string
	for _, f := range []*spec.File{j.changes[0].Old.File, j.changes[0].New.File} {
		for _, l := range f.Limits {
			if l.Overrides != nil && len(l.Plans) > 0 {
				names = append(names, "'"+l.Policy.Name+"'")
			}
		}
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	which := "o.name IN (" + strings.Join(slices.Compact(names), ", ") + ")"
	j.note(review.Deploy, "Overrides that give a key a plan have its name. Requests of these keys fail in the version that does not have the plan, and Ready reports them.")
	for _, c := range slices.SortedFunc(slices.Values(j.changes), func(a, b diff.Change) int { return cmp.Compare(a.Plan, b.Plan) }) {
		j.keep(review.BetweenVersions, database{}, betweenVersions+", to keep overrides that give the plan "+c.Plan, appendEntries,
			"o.name", "o.key", "'"+c.Plan+"'", "o.until_ns", which, "AND o.what = 'plan' AND o.plan = '"+c.Old.Value+"' ", inForce)
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

func judgeNumbersParameter(j *judgement) {
	j.class(review.Breaking)
	is := j.New.CallerFields()
	if len(is) == 0 {
		j.note(review.Calls, "Calls of %s no longer pass numbers: those of the file are for all.", j.New.GoName)
		return
	}
	j.note(review.Calls, "Calls of %s must pass %s with the %s.", j.New.GoName, j.New.NumbersType(), words.List(is, "and"))
}

func judgePlanRemoved(j *judgement) {
	j.class(review.Removed)
	j.describe(review.RemovedRule, describe.Words(j.Old))
	j.note(review.Deploy, "Keys of this plan keep their counts, which apply to the next plan that calls pass.")
}
