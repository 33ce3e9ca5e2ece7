package fields

import (
	"fmt"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var maxReservedField = limitField{
	name:    "maxReserved",
	about:   "How many tokens may be reserved before they are granted. Not for a sliding window or a limit in flight.",
	accepts: fmt.Sprintf("a whole number of tokens, 0 to %s, or `%s`; or a map with one for each plan, 0 for all or for none; or `{at most: 100}`, if callers give it", words.Number(mostReserved), unbounded),
	absent:  "0: the limit has no method `Reserve`, except with `prices`",
	example: "100",
	schema:  orByPlan(wordSchema(0, mostReserved, unbounded, object{"label": "0", "body": 0}), false),
	read:    byPlan((*parser).readMaxReserved, (*draft).reservedNumbers),
	check:   (*parser).checkCallerWindows,
	change:  ids.MaxReservedChanged,
	byPlan:  true,
	effective: func(l *spec.Limit) string {
		return unboundedOr(l.Policy.MaxReserved, effectiveNumber(l.Policy.MaxReserved, l.Policy.AtMost.MaxReserved))
	},
	sentences: reservingSentences,
}

// mostReserved is the largest maxReserved that is a number: the next one means unbounded.
const mostReserved = runtime.Unbounded - 1

// unboundedSynonyms are the words for it in other limiters.
var unboundedSynonyms = []string{"unlimited", "infinite", "infinity", "inf", ".inf", "any", "no bound", "nobound"}

func (p *parser) readMaxReserved(l *draft, e document.Entry) bool {
	return p.readReserved(&l.policy.MaxReserved, e)
}

// reservedNumbers returns where the policy has the maxReserved, and the most that callers can give.
func (l *draft) reservedNumbers() (number, most *int64) {
	return &l.policy.MaxReserved, &l.policy.AtMost.MaxReserved
}

// readReserved reads a maxReserved, of the limit or of its overrides.
func (p *parser) readReserved(into *int64, e document.Entry) (ok bool) {
	switch {
	case document.IsWord(e.Value, unbounded):
		*into = runtime.Unbounded
		return true
	case p.meantInstead(e, unbounded, unboundedSynonyms):
		return false
	}
	help := ""
	if slices.Contains([]string{"none", "off", "no", "never"}, string(diag.Fold(e.Value.Value))) {
		help = "leave maxReserved out for no reservations, or write " + unbounded
	}
	*into, ok = p.readWhole(e, 0, mostReserved, wholeHelp{help, "write " + unbounded + " for reservations without a bound"})
	return ok
}

func unboundedOr(n int64, text string) string {
	if n == runtime.Unbounded {
		return unbounded
	}
	return text
}

func reservingSentences(l *spec.Limit) []string {
	switch p := &l.Policy; {
	case !p.Reserves() || l.CountsOnly(): // without a bound, none is ever ahead
		return nil
	case p.MaxReserved == runtime.Unbounded:
		return []string{"Callers may reserve any number of tokens ahead."}
	default:
		return []string{fmt.Sprintf("Callers may reserve at most %s ahead.", words.Count(p.MaxReserved, "token"))}
	}
}
