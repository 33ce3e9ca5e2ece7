package fields

import (
	"fmt"
	"strconv"

	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var preciseField = limitField{
	name: "precise", synonyms: []string{"exact", "strict"},
	about:      "Whether a sliding window is exact: a token comes back a `period` after it was taken, so no period has more than `rate`.",
	more:       "Above a `rate` of 1,000, a token comes back up to a thousandth of the `period` later.",
	accepts:    "`true` or `false`; `true` only for a sliding window without `start`, `shards` and `lease`",
	absent:     "`false`",
	example:    "true",
	schema:     object{"type": "boolean"},
	read:       (*parser).readPrecise,
	conditions: conditions(preciseRefusals, "precise", object{"const": true}),
	check:      (*parser).checkPrecise,
	change:     ids.PreciseChanged,
	effective:  func(l *spec.Limit) string { return strconv.FormatBool(l.Policy.Precise) },
	sentences:  preciseSentences,
}

// readPrecise reads true or false.
func (p *parser) readPrecise(l *draft, e document.Entry) bool {
	// YAML 1.1 has more words for them, which people and YAML 1.2 read as text.
	if text := e.Value.Value; e.Value.Tag == "!!bool" && (text == "true" || text == "false") {
		l.policy.Precise = text == "true"
		return true
	}
	p.doc.Report(e.At, ids.BadPrecise, "", "%s must be true or false, not %s", e.Name, document.Describe(e.Value))
	p.doc.Offer(meantBoolean[e.Value.Value])
	return false
}

// checkPrecise reports the fields that a precise limit does not have.
func (p *parser) checkPrecise(l *draft) {
	if precise, ok := l.given["precise"]; ok && l.policy.Precise {
		p.refuse(l, l.given, ids.BadPrecise, preciseRefusals, precise)
	}
}

// meantBoolean are the other words for true and false in YAML 1.1 and elsewhere.
var meantBoolean = map[string]string{
	"true": "true", "false": "false", // in quotes
	"True": "true", "TRUE": "true", "yes": "true", "Yes": "true", "on": "true", "On": "true", "1": "true",
	"False": "false", "FALSE": "false", "no": "false", "No": "false", "off": "false", "Off": "false", "0": "false",
}

// preciseRefusals are the fields that a precise limit does not have.
var preciseRefusals = []refusal{
	noStart("a precise limit", ""),
	{field: "shards", message: "a precise limit cannot have shards", why: ", which each would have a log of their own"},
	{field: "lease", message: "a precise limit has no lease", why: ", because leased tokens are used later than they are counted"},
}

// notPrecise refuses precise: true for a kind, whose own guarantee is in the help.
func notPrecise(kind, help string) refusal {
	return refusal{field: "precise", message: "a " + kind + " cannot be precise", help: help}
}

// preciseSentences says where a period ends, which the rule of the kind leaves open.
func preciseSentences(l *spec.Limit) []string {
	if !l.Policy.Precise {
		return nil
	}
	after := fmt.Sprintf("%s after it was taken", words.Duration(l.Policy.Period))
	if l.Policy.Rate > runtime.MaxPreciseRate {
		return []string{"A token is available again " + after + ", or up to a thousandth of that later."}
	}
	return []string{"A token is available again exactly " + after + "."}
}
