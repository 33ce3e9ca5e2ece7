package review

import (
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// judgement is what is said about a finding.
type judgement struct {
	classes []Class
	notes   []Note
	sql     []Statement
}

func (j *judgement) class(classes ...Class) { j.classes = append(j.classes, classes...) }

func (j *judgement) note(about, format string, args ...any) {
	j.notes = append(j.notes, Note{about, fmt.Sprintf(format, args...)})
}

func (j *judgement) run(why, format string, args ...any) {
	j.sql = append(j.sql, Statement{why, fmt.Sprintf(format, args...)})
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
