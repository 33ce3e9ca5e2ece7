package judge

import (
	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/compare"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// judgeDoc has nothing to add: the change itself shows both texts.
func judgeDoc(*judgement, compare.Pair, []spec.Change) {}

func judgePackage(j *judgement, _ compare.Pair, changes []spec.Change) {
	j.class(review.Breaking)
	if old, new := changes[0].Old.Value, changes[0].New.Value; old != "" && new != "" {
		j.note(review.Calls, "Update the imports of package %s to package %s.", old, new)
		return
	}
	j.note(review.Calls, "Without package in limits.yaml, the -package flag or the directory names the package. If the name changes, update its imports.")
}

func judgeAdded(j *judgement, p compare.Pair, _ []spec.Change) {
	j.class(review.Added)
	j.describe(review.Rule, fields.WordsOf(p.New))
}

func judgeRemoved(j *judgement, p compare.Pair, _ []spec.Change) {
	// Every request passes that the limit would have denied.
	j.class(review.Removed, review.Loosened, review.Breaking, review.StoredState)
	j.describe(review.RemovedRule, fields.WordsOf(p.Old))
	j.note(review.Calls, "Calls of %s no longer compile. Without another limit in its place, these requests are unlimited.", p.Old.GoName)
	j.note(review.Deploy, "Its rows stay in the table, because Sweep only deletes rows of existing limits. The store's Forget deletes them, as does the statement below.")
	j.statement("after the deploy, to delete its rows", "DELETE FROM rate_limits WHERE name = '%s';", p.Old.Policy.Name)
	if p.Old.Overrides != nil {
		j.note(review.Deploy, "Its blocks and overrides in force have no effect any more, and Ready reports them. Forget ends them too, as does the last statement. "+
			"If the limit was renamed, rename it in an edit of its own: diff then prints the SQL that keeps them.")
		j.endStatement(p, "", "its blocks and overrides", "")
	}
}

// betweenVersions is the only time to change rows that the old version would overwrite and the new one has to find.
const betweenVersions = "after the old version has stopped and before the new one starts"

func judgeRenamed(j *judgement, p compare.Pair, _ []spec.Change) {
	j.class(review.Renamed, review.StoredState)
	was, is := p.Old.Policy.Name, p.New.Policy.Name
	j.note(review.Rule, "%s was probably renamed to %s: one was removed, and the other is new and similar.", was, is)
	j.note(review.Deploy, "Rows are stored under the limit's name. The new version does not read those of %s, so every key of %s starts full: a one-time gain of up to %s.",
		was, is, words.Count(p.New.Policy.Capacity, "token"))
	// The offset of windows is the only thing in a row's meaning that depends on the name.
	if compare.Windowed(&p.Old.Policy) && compare.Windowed(&p.New.Policy) && compare.Carried(p.Old, p.New) > 0 {
		j.note(review.Deploy, "The SQL statement below keeps the counts, but windows start at other times: without start, their offset is derived from the limit's name. "+
			"After it, "+exhaustedKey+" has up to %s.", words.Count(compare.Carried(p.Old, p.New), "token"))
	}
	j.statement("to keep the counts, "+betweenVersions, "UPDATE rate_limits SET name = '%s' WHERE name = '%s';", is, was)
	judgeRenamedLog(j, p)
}

func judgeGoName(j *judgement, p compare.Pair, _ []spec.Change) {
	j.class(review.Breaking)
	j.note(review.Calls, "Calls of %s must be changed to %s.", p.Old.GoName, p.New.GoName)
}
