package judge

import (
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/compare"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// judgement is the result of judging changes with the same id.
type judgement struct {
	classes []review.Class
	// ofRule marks a change that affects how many tokens the rule lets through, and alone has Loosened and Tightened as
	// far as the change has these effects by itself. [classifyRuleChanges] needs both.
	ofRule bool
	alone  []review.Class
	notes  []review.Note
	sql    []review.Statement
}

func (j *judgement) class(classes ...review.Class) { j.classes = append(j.classes, classes...) }

func (j *judgement) note(about, format string, args ...any) {
	j.notes = append(j.notes, review.Note{About: about, Text: fmt.Sprintf(format, args...)})
}

// describe adds a note for each sentence.
func (j *judgement) describe(about string, sentences []string) {
	for _, sentence := range sentences {
		j.notes = append(j.notes, review.Note{About: about, Text: sentence})
	}
}

func (j *judgement) statement(why, format string, args ...any) {
	j.sql = append(j.sql, review.Statement{Why: why, Text: fmt.Sprintf(format, args...)})
}

// compareRules records the effect that a change of the rule has by itself.
func (j *judgement) compareRules(old, new *runtime.Policy) {
	j.ofRule, j.alone = true, compare.Looseness(old, new)
}

// exhaustedKey is the subject of the sentences about [compare.Carried].
const exhaustedKey = "an exhausted key (less than one token left, nothing reserved)"
