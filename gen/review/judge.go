package review

import (
	"fmt"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// judgement is what is said about a finding.
type judgement struct {
	classes []Class
	// rule says that the change is one of the rule, and alone is whether it lets more or fewer tokens through by
	// itself. Whether it is loosened or tightened is decided by all changes of the rule together: see [decide].
	rule  bool
	alone []Class
	notes []Note
	sql   []Statement
}

func (j *judgement) class(classes ...Class) { j.classes = append(j.classes, classes...) }

func (j *judgement) note(about, format string, args ...any) {
	j.notes = append(j.notes, Note{about, fmt.Sprintf(format, args...)})
}

func (j *judgement) run(why, format string, args ...any) {
	j.sql = append(j.sql, Statement{why, fmt.Sprintf(format, args...)})
}

// bounds notes what a change of the rule comes to by itself.
func (j *judgement) bounds(old, new *runtime.Policy) {
	j.rule, j.alone = true, looseness(old, new)
}

// decide adds to the judgements of an edit whether it is loosened or tightened. The edit is what its rule comes to
// before and after, and a change that would do the same by itself has the class. If none would, all of them have it.
func decide(p pair, judgements []judgement) {
	for _, class := range p.looseness() {
		alone := slices.ContainsFunc(judgements, func(j judgement) bool { return slices.Contains(j.alone, class) })
		for i, j := range judgements {
			if j.rule && (!alone || slices.Contains(j.alone, class)) {
				judgements[i].class(class)
			}
		}
	}
}

// looseness returns whether the edit lets more or fewer tokens through in intervals of some length, or lets more or
// fewer be reserved at once.
func (p pair) looseness() (classes []Class) {
	if p.old == nil || p.new == nil {
		return nil
	}
	old, new := &p.old.Policy, &p.new.Policy
	classes = looseness(old, new)
	switch was, is := LargestReservation(old), LargestReservation(new); {
	case is > was:
		classes = append(classes, Loosened)
	case is < was:
		classes = append(classes, Tightened)
	}
	return slices.Compact(slices.Sorted(slices.Values(classes)))
}

// judges hold what judges the changes of each id, which are those of [spec.ChangeKinds].
var judges = map[string]func(*judgement, pair, []spec.Change){
	"package-changed":      judgePackage,
	"limit-added":          judgeAdded,
	"limit-removed":        judgeRemoved,
	"limit-renamed":        judgeRenamed,
	"doc-changed":          judgeDoc,
	"key-changed":          judgeKey,
	"kind-changed":         judgeKind,
	"rate-changed":         judgeRate,
	"capacity-changed":     judgeCapacity,
	"max-reserved-changed": judgeMaxReserved,
	"start-changed":        judgeStart,
	"shards-changed":       judgeShards,
	"timeout-changed":      judgeTimeout,
	"on-error-changed":     judgeOnError,
	"deny-cache-changed":   judgeDenyCache,
	"lease-changed":        judgeLease,
	"durability-changed":   judgeDurability,
	"go-name-changed":      judgeGoName,
}

// judge says what the changes of one id come to. Those of a field that has no judge yet are told as facts.
func judge(p pair, changes []spec.Change) judgement {
	var j judgement
	if of := judges[changes[0].ID]; of != nil {
		of(&j, p, changes)
	}
	return j
}

func judgeDoc(*judgement, pair, []spec.Change) {}

func judgePackage(j *judgement, _ pair, changes []spec.Change) {
	j.class(Breaking)
	if old, new := changes[0].Old.Value, changes[0].New.Value; old != "" && new != "" {
		j.note(Calls, "What imports package %s must say %s now.", old, new)
		return
	}
	j.note(Calls, "The package is named by the -package flag or the directory if the file does not say. What imports it must follow if its name changes.")
}
