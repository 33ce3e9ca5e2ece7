package fields

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var penaltyField = limitField{
	name: "penalty", synonyms: []string{"ban", "bantime", "lockout", "cooldown", "blockduration", "mitigationtimeout", "penalties"},
	about:      "How long all requests for a key are denied after one was denied for lack of tokens, at least until the next token is due. A list is for the first penalty, the second, and so on; the last repeats.",
	more:       "A denied `Allow`, `AllowN`, `AllowUpTo` or `Require` starts it, and the first try of `Wait`, but no `Check`, no count that can never fit, and no request that only another limit of its call has denied.",
	accepts:    fmt.Sprintf("a duration, or a list of up to %d; or a map with one of these or `%s` for each plan; not with `shards`, `lease` and `maxReserved`", runtime.MaxPenaltySteps, penaltyOff),
	absent:     "none",
	example:    "[1m, 10m, 1h]",
	schema:     penaltySchema(),
	conditions: conditions(penaltyRefusals, "penalty", object{"not": object{"enum": []any{penaltyOff, false}}}),
	read:       byPlan((*parser).readPenalty, nil),
	check:      (*parser).checkPenalty,
	change:     ids.PenaltyChanged,
	byPlan:     true,
	effective:  effectivePenalty,
	sentences:  penaltySentences,
}

var forgiveField = lengthOf(func(p *runtime.Policy) *time.Duration { return &p.Penalty.Forgive }, limitField{
	name: "forgive", synonyms: []string{"forgiven", "forgiveafter", "forget"},
	about:   "How long after the end of a `penalty`, without another one, its list begins again.",
	accepts: "a duration, as for `period`; only with a list of penalties",
	absent:  "10 times the last penalty of the list",
	example: "1d",
	conditions: []any{object{"if": having("forgive", object{}), "then": having("penalty", object{
		"type": []string{"array", "object"}, "minItems": 2, "errorMessage": "Give a list of penalties with forgive."})}},
	change: ids.PenaltyChanged,
})

// penaltyOff is the penalty of a plan that has none.
const penaltyOff = "off"

// penaltyOffSynonyms are words for it in other limiters.
var penaltyOffSynonyms = []string{"none", "no", "never", "disabled", "false"}

const penaltyHelp = "write a duration such as penalty: 15m, or a list such as penalty: [1m, 10m, 1h]"

// readPenalty reads how long penalties last.
func (p *parser) readPenalty(l *draft, e document.Entry) bool {
	switch {
	case document.IsWord(e.Value, penaltyOff):
		return true
	case e.Value.Kind != yaml.SequenceNode && slices.Contains(penaltyOffSynonyms, e.Value.Value):
		p.doc.Report(e.At, ids.BadPenalty, "leave penalty out, or write "+penaltyOff,
			"penalty must be a duration or a list of them, not %s", document.Describe(e.Value))
		p.doc.Offer(penaltyOff)
		return false
	case e.Value.Kind != yaml.SequenceNode:
		length, ok := p.readLength(e, false)
		l.policy.Penalty.Steps = [runtime.MaxPenaltySteps]time.Duration{length}
		return ok
	case len(e.Value.Content) == 0:
		p.doc.Report(e.At, ids.BadPenalty, penaltyHelp, "penalty must not be empty")
		return false
	case len(e.Value.Content) > runtime.MaxPenaltySteps:
		p.doc.Report(e.At, ids.BadPenalty, "the last one is repeated: leave some out", "penalty has at most %d steps, not %d",
			runtime.MaxPenaltySteps, len(e.Value.Content))
		return false
	}
	all := true
	var steps [runtime.MaxPenaltySteps]time.Duration
	for i, item := range e.Value.Content {
		if p.doc.Muted(item) {
			all = false
			continue
		}
		length, ok := p.readLength(document.Entry{Name: "penalty", Value: item, Named: e.Named, At: p.doc.Source.At(item)}, false)
		steps[i], all = length, all && ok
	}
	l.policy.Penalty.Steps = steps
	return all
}

// checkPenalty reports a penalty that contradicts other fields.
func (p *parser) checkPenalty(l *draft) {
	policy := &l.policy
	penalty, ok := l.given["penalty"]
	if forgive, given := l.given["forgive"]; given && policy.Penalty.Steps[1] == 0 {
		_, byPlan := l.byPlan["penalty"]
		switch {
		case byPlan: // it is for the plans with several
		case policy.Penalty.Steps[0] != 0:
			p.doc.Report(forgive.At, ids.BadPenalty, "leave forgive out, or give a list such as penalty: [1m, 10m, 1h]",
				"forgive has no effect on a single penalty, which is always the same")
		case !ok || document.IsWord(penalty.Value, penaltyOff):
			p.doc.Report(forgive.At, ids.BadPenalty, "leave forgive out, or give a penalty",
				"forgive has no effect without a penalty")
		}
		policy.Penalty.Forgive = 0
	}
	if ok && policy.Penalty.Steps[0] != 0 {
		p.refuse(l, l.given, ids.BadPenalty, penaltyRefusals, penalty)
	}
}

// penaltyRefusals are the fields that a limit with a penalty does not have.
var penaltyRefusals = []refusal{
	{field: "shards", message: "a limit with a penalty cannot have shards", why: ": a key that is denied is only read, so that its row is not written often"},
	{field: "lease", message: "a limit with a penalty has no lease", why: ": a process would spend its tokens while another one denies the key"},
	{field: "maxReserved", message: "a limit with a penalty has no reservations", why: ": whoever reserves waits for tokens, and is not denied"},
}

// penaltySchema is the schema of penalties or off, or of a map with these for each plan.
func penaltySchema() object {
	all := orByPlan(penaltiesSchema, false)
	all["additionalProperties"] = orFalse(all["additionalProperties"].(object))
	return orFalse(all)
}

// penaltiesSchema is the schema of a duration, a list of them, or off.
var penaltiesSchema = object{
	"type": []string{"string", "array"}, "pattern": "^" + penaltyOff + "$|" + durationForm.String(),
	"minItems": 1, "maxItems": runtime.MaxPenaltySteps, "items": durationSchema,
	"defaultSnippets": []any{object{"label": "15m", "body": "15m"}, object{"label": "[1m, 10m, 1h]", "body": []string{"1m", "10m", "1h"}}},
}

// effectivePenalty returns a penalty as limits.yaml writes it.
func effectivePenalty(l *spec.Limit) string {
	steps := penaltySteps(&l.Policy)
	if len(steps) < 2 {
		return strings.Join(steps, "")
	}
	return "[" + strings.Join(steps, ", ") + "]"
}

// penaltySteps returns the steps of a penalty in words.
func penaltySteps(p *runtime.Policy) []string {
	return words.Of(p.Penalty.Steps[:p.Penalty.Len()], words.Duration)
}

// penaltySentences covers forgive too.
func penaltySentences(l *spec.Limit) []string {
	steps := penaltySteps(&l.Policy)
	var sentence string
	switch n := len(steps); n {
	case 0:
		return nil
	case 1:
		sentence = fmt.Sprintf("After a denial for lack of %ss, a key is denied for %s.", l.Unit(), steps[0])
	default:
		sentence = fmt.Sprintf("After a denial for lack of %ss, a key is denied for %s, and the next times for %s, until there was no penalty for %s.",
			l.Unit(), steps[0], words.List(steps[1:], "and"), words.Duration(l.Policy.Penalty.Forgiveness()))
	}
	if l.Policy.Mode == runtime.ModeShadow {
		sentence += " In shadow mode, these requests pass too, and are counted as denied."
	}
	return []string{sentence}
}
