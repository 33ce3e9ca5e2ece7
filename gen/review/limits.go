package review

import (
	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// judgeDoc has nothing to add: the change itself shows both texts.
func judgeDoc(*judgement, pair, []spec.Change) {}

func judgePackage(j *judgement, _ pair, changes []spec.Change) {
	j.class(Breaking)
	if old, new := changes[0].Old.Value, changes[0].New.Value; old != "" && new != "" {
		j.note(Calls, "Update the imports of package %s to package %s.", old, new)
		return
	}
	j.note(Calls, "Without package in limits.yaml, the -package flag or the directory names the package. If the name changes, update its imports.")
}

func judgeAdded(j *judgement, p pair, _ []spec.Change) {
	j.class(Added)
	j.describe(Rule, fields.WordsOf(p.new))
}

func judgeRemoved(j *judgement, p pair, _ []spec.Change) {
	// Every request passes that the limit would have denied.
	j.class(Removed, Loosened, Breaking, StoredState)
	j.describe(RemovedRule, fields.WordsOf(p.old))
	j.note(Calls, "Calls of %s no longer compile. Without another limit in its place, these requests are unlimited.", p.old.GoName)
	j.note(Deploy, "Its rows stay in the table, because Sweep only deletes rows of existing limits. The store's Forget deletes them, as does the statement below.")
	j.statement("after the deploy, to delete its rows", "DELETE FROM rate_limits WHERE name = '%s';", p.old.Policy.Name)
	if p.old.Overrides != nil {
		j.note(Deploy, "Its blocks and overrides in force have no effect any more, and Ready reports them. Forget ends them too, as does the last statement. "+
			"If the limit was renamed, rename it in an edit of its own: diff then prints the SQL that keeps them.")
		j.endStatement(p, "", "its blocks and overrides", "")
	}
}

// betweenVersions is the only time to change rows that the old version would overwrite and the new one has to find.
const betweenVersions = "after the old version has stopped and before the new one starts"

func judgeRenamed(j *judgement, p pair, _ []spec.Change) {
	j.class(Renamed, StoredState)
	was, is := p.old.Policy.Name, p.new.Policy.Name
	j.note(Rule, "%s was probably renamed to %s: one was removed, and the other is new and similar.", was, is)
	j.note(Deploy, "Rows are stored under the limit's name. The new version does not read those of %s, so every key of %s starts full: a one-time gain of up to %s.",
		was, is, words.Count(p.new.Policy.Capacity, "token"))
	// The offset of windows is the only thing in a row's meaning that depends on the name.
	if windowed(&p.old.Policy) && windowed(&p.new.Policy) && Carried(p.old, p.new) > 0 {
		j.note(Deploy, "The SQL statement below keeps the counts, but windows start at other times: without start, their offset is derived from the limit's name. "+
			"After it, "+exhaustedKey+" has up to %s.", words.Count(Carried(p.old, p.new), "token"))
	}
	j.statement("to keep the counts, "+betweenVersions, "UPDATE rate_limits SET name = '%s' WHERE name = '%s';", is, was)
	judgeRenamedLog(j, p)
}

func judgeGoName(j *judgement, p pair, _ []spec.Change) {
	j.class(Breaking)
	j.note(Calls, "Calls of %s must be changed to %s.", p.old.GoName, p.new.GoName)
}
