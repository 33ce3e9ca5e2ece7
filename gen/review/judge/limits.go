package judge

import (
	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/compare"
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
	j.describe(review.Rule, fields.WordsOf(j.New))
}

func judgeRemoved(j *judgement) {
	// Every request passes that the limit would have denied.
	j.class(review.Removed, review.Loosened, review.Breaking, review.StoredState)
	j.describe(review.RemovedRule, fields.WordsOf(j.Old))
	j.note(review.Calls, "Calls of %s no longer compile. Without another limit in its place, these requests are unlimited.", j.Old.GoName)
	j.note(review.Deploy, "Its rows stay in the table, because Sweep only deletes rows of existing limits. The store's Forget deletes them, as does the statement below.")
	j.statement("after the deploy, to delete its rows", "DELETE FROM rate_limits WHERE name = '%s';", j.Old.Policy.Name)
	if j.Old.Overrides != nil {
		j.note(review.Deploy, "Its blocks and overrides in force have no effect any more, and Ready reports them. Forget ends them too, as does the last statement. "+
			"If the limit was renamed, rename it in an edit of its own: diff then prints the SQL that keeps them.")
		j.endStatement("", "its blocks and overrides", "")
	}
}

// betweenVersions is the only time to change rows that the old version would overwrite and the new one has to find.
const betweenVersions = "after the old version has stopped and before the new one starts"

func judgeRenamed(j *judgement) {
	j.class(review.Renamed, review.StoredState)
	was, is := j.Old.Policy.Name, j.New.Policy.Name
	j.note(review.Rule, "%s was probably renamed to %s: one was removed, and the other is new and similar.", was, is)
	j.note(review.Deploy, "Rows are stored under the limit's name. The new version does not read those of %s, so every key of %s starts full: a one-time gain of up to %s.",
		was, is, words.Count(j.New.Policy.Capacity, "token"))
	// The offset of windows is the only thing in a row's meaning that depends on the name.
	if compare.Windowed(&j.Old.Policy) && compare.Windowed(&j.New.Policy) && compare.Carried(j.Old, j.New) > 0 {
		j.note(review.Deploy, "The SQL statement below keeps the counts, but windows start at other times: without start, their offset is derived from the limit's name. "+
			"After it, "+exhaustedKey+" has up to %s.", words.Count(compare.Carried(j.Old, j.New), "token"))
	}
	j.statement("to keep the counts, "+betweenVersions, "UPDATE rate_limits SET name = '%s' WHERE name = '%s';", is, was)
	judgeRenamedLog(j)
}

func judgeGoName(j *judgement) {
	j.class(review.Breaking)
	j.note(review.Calls, "Calls of %s must be changed to %s.", j.Old.GoName, j.New.GoName)
}
