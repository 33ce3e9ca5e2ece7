package fields

import (
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var countField = limitField{
	name: "count", synonyms: []string{"counted", "metered", "meter", "track", "usage"},
	about: "Counts the requests of an `unlimited` limit, such as for a bill: `Peek` returns the tokens `Used` in the window, and its end.",
	more: "Without it, such requests never reach the store. A window is gone when it ends: read it before `Balance.ResetAt`, or give a long period, such as `5 years`, " +
		"and bill the use between two readings.",
	accepts:    "`true` or `false`; `true` only for a fixed window with the rate `unlimited`, of the limit, a plan or an exception",
	absent:     "`false`",
	example:    "true",
	schema:     object{"type": "boolean"},
	read:       (*parser).readCount,
	conditions: append(conditions(countRefusals, "count", object{"const": true}), unlimitedConditions()...),
	// It changes together with a rate, of which it is a property.
	change:    ids.RateChanged,
	byPlan:    true,
	effective: effectiveCount,
	sentences: countSentences,
}

// countRefusals are the fields that a limit with count does not have, and unlimitedRefusals those of one without plans,
// whose rate is unlimited.
var (
	countRefusals = []refusal{{
		field: "lease", message: "a limit with count has no lease", why: ", which counts tokens before they are used: those of a process that crashes would be billed",
	}}
	unlimitedRefusals = []refusal{
		{field: "capacity", message: "an unlimited rate has no capacity"},
		{field: "maxReserved", message: "an unlimited rate has no reservations", why: ": tokens are always there", help: "leave maxReserved out: Charge counts what is known only afterwards"},
		{field: "penalty", message: "an unlimited rate has no penalty", why: noDenial},
		{field: "priorities", message: "an unlimited rate has no priorities", why: noDenial},
		{field: "warn", message: "an unlimited rate has no warnings", why: ", because it has no capacity of which a part could be used"},
		{field: "jitter", message: "an unlimited rate has no jitter", why: noDenial},
		{field: "denyCache", message: "an unlimited rate has no denyCache", why: noDenial},
	}
)

const noDenial = ", because no request is denied"

// unlimitedConditions are the schemas of limits whose rate is unlimited for all requests.
func unlimitedConditions() []any {
	isUnlimited := object{"const": unlimited}
	return append(conditions(unlimitedRefusals, "rate", isUnlimited), object{
		"if": having("rate", isUnlimited),
		"then": object{
			"type": "object", "required": []string{"count"}, "properties": object{"count": object{"const": true}},
			"errorMessage": "An unlimited rate without count: true has no effect.",
		},
	})
}

// notCounted refuses count: true for a kind.
func notCounted(message, why string) refusal {
	return refusal{
		field: "count", message: message, why: why,
		help: "use a fixed window, whose period is that of the bill: kind: fixed window, period: month, zone: UTC",
	}
}

// readCount reads true or false.
func (p *parser) readCount(l *draft, e document.Entry) bool {
	if text := e.Value.Value; e.Value.Tag == "!!bool" && (text == "true" || text == "false") {
		return true
	}
	p.doc.Report(e.At, ids.BadCount, "", "%s must be true or false, not %s", e.Name, document.Describe(e.Value))
	p.doc.Offer(meantBoolean[e.Value.Value])
	return false
}

// effectiveCount is empty for a rate that is not unlimited, or not counted.
func effectiveCount(l *spec.Limit) string {
	if l.CountsOnly() {
		return "true"
	}
	return ""
}

// limits reports whether the rate in the file, which may not have been read yet, is not unlimited for all requests.
func (l *draft) limits() bool { return l.text("rate") != unlimited }

// counts reports whether the file has count: true, which may not have been read yet. A wrong value of count is meant as
// true.
func (l *draft) counts() bool { return l.has("count") && l.text("count") != "false" }

// countsOnly is [spec.Limit.CountsOnly].
func (l *draft) countsOnly() bool { return (*runtime.Policy)(&l.policy).Inside().CountsOnly() }

// countUnlimited gives the policy of an unlimited rate the numbers with which it counts and denies nothing.
func (l *draft) countUnlimited() {
	l.policy.Rate, l.policy.Capacity = runtime.MaxTokens, runtime.MaxTokens
}

// checkCount reports the fields that a limit with count does not have, and a count that has no effect. It is for the limit
// as a whole, and not for each plan.
func (p *parser) checkCount(l *draft) {
	count, given := l.given["count"]
	rate, hasRate := l.given["rate"]
	if !given || !l.counts() || !hasRate || l.policy.Kind != runtime.FixedWindow {
		return
	}
	p.refuse(l, l.given, ids.BadCount, countRefusals, count)
	switch {
	case isUnlimited(rate):
		p.refuse(l, l.given, ids.BadCount, unlimitedRefusals, rate)
	case l.policy.AtMost != (runtime.Numbers{}):
		p.doc.Report(count.At, ids.BadCount,
			"leave count out: a request whose caller gives the Rate runtime.MaxTokens is counted, and not denied",
			"a limit with numbers from callers has no count")
	case !l.unlimitedPlan() && !l.unlimitedException():
		p.doc.Report(count.At, ids.BadCount, "leave count out, or write rate: unlimited",
			"count has no effect, because requests of a limit with a rate are counted anyway")
		p.doc.Note(rate.At, "rate is given here")
	}
}

// isUnlimited reports whether the value of an entry is the word unlimited.
func isUnlimited(e document.Entry) bool { return document.IsWord(e.Value, unlimited) }

// unlimitedPlan reports whether a plan has the rate unlimited.
func (l *draft) unlimitedPlan() bool {
	for _, e := range l.byPlan["rate"].values {
		if isUnlimited(e) {
			return true
		}
	}
	return false
}

// unlimitedException reports whether an exception has the rate unlimited.
func (l *draft) unlimitedException() bool {
	e, ok := l.given["exceptions"]
	return ok && slices.ContainsFunc(e.Value.Content, func(item *yaml.Node) bool {
		for i := 0; i+1 < len(item.Content); i += 2 {
			if item.Content[i].Value == "rate" && document.IsWord(item.Content[i+1], unlimited) {
				return true
			}
		}
		return false
	})
}

// countSentences says how counts are read.
func countSentences(l *spec.Limit) []string {
	if !l.CountsOnly() {
		return nil
	}
	return []string{"Peek returns what was used, until the window ends."}
}
