package review

import (
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

func judgeAdded(j *judgement, p pair, _ []spec.Change) {
	j.class(Added)
	for _, sentence := range p.new.Words() {
		j.note(Rule, "%s", sentence)
	}
}

func judgeRemoved(j *judgement, p pair, _ []spec.Change) {
	j.class(Removed, Loosened, Breaking, StoredState)
	for _, sentence := range p.old.Words() {
		j.note(Rule, "It was: %s", sentence)
	}
	j.note(Calls, "Calls of %s no longer compile, and nothing is bounded in its place.", p.old.GoName)
	j.note(Deploy, "Its rows are left behind, and no sweep deletes them.")
	j.run("after the deploy, to delete its rows", "DELETE FROM rate_limits WHERE name = '%s';", p.old.Policy.Name)
}

func judgeRenamed(j *judgement, p pair, _ []spec.Change) {
	j.class(Renamed, StoredState)
	was, is := p.old.Policy.Name, p.new.Policy.Name
	j.note(Rule, "That %s was renamed is a guess: it is gone, and %s is like it.", was, is)
	j.note(Deploy, "Counts are kept by name: those of %s are left behind, and every key of %s begins full, with up to %s once.",
		was, is, spec.Grouped(p.new.Policy.Capacity))
	if p.old.Policy.Kind != runtime.TokenBucket && p.new.Policy.Kind != runtime.TokenBucket && Carried(p.old, p.new) > 0 {
		j.note(Deploy, "The statement below keeps the rows, but not when windows begin, which is derived from the name unless start says it. "+
			"After it, a key with less than one token left and nothing reserved has up to %s.", spec.Grouped(Carried(p.old, p.new)))
	}
	j.run("to keep the counts, "+between,
		"UPDATE rate_limits SET name = '%s' WHERE name = '%s';", is, was)
}

// between is when rows can be changed that only the old version knows.
const between = "when the old version has stopped and before the new one begins"

func judgeGoName(j *judgement, p pair, _ []spec.Change) {
	j.class(Breaking)
	j.note(Calls, "Calls of %s must become calls of %s.", p.old.GoName, p.new.GoName)
}
