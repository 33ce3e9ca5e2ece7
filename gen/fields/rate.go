package fields

import (
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var rateField = limitField{
	name: "rate", requiredBy: kindNeeds("rate"), synonyms: []string{"limit"},
	about:     "The tokens granted per `period`.",
	more:      "A plan with the rate 0 is denied every request.",
	accepts:   fmt.Sprintf("a whole number of tokens, 1 to %s; or a map with such a number, 0 or `unlimited` for each plan; or `{at most: 10_000}`, if callers give it, or `{at most: unlimited}`; or `unlimited` with `count: true`", words.Number(runtime.MaxTokens)),
	absent:    exceptInFlight,
	example:   "10",
	schema:    rateSchema(),
	read:      (*parser).readRates,
	change:    ids.RateChanged,
	byPlan:    true,
	effective: effectiveRate,
	sentences: callerSentences,
}

// rateSchema has the word too, which needs count: see countField.
func rateSchema() object {
	schema := orByPlan(numberSchema(1, runtime.MaxTokens), true)
	schema["pattern"] = fmt.Sprintf("^%s$|%s", unlimited, schema["pattern"])
	return schema
}

// readRates reads the rate of all plans, or one for each.
func (p *parser) readRates(l *draft, e document.Entry) bool {
	switch counts := l.counts(); {
	case counts && isUnlimited(e):
		l.countUnlimited()
		return true
	case counts && p.meantInstead(e, unlimited, unlimitedSynonyms):
		return false
	case document.IsString(e.Value) && slices.Contains(boundless, string(diag.Fold(e.Value.Value))):
		p.doc.Report(e.At, ids.UnlimitedPlan,
			"leave the limit out, let the rate depend on the plan: rate: {free: 10, pro: unlimited}, or add count: true to count what is used",
			"a limit that is unlimited for all plans has no effect")
		return false
	}
	return ratesByPlan(p, l, e)
}

var ratesByPlan = byPlan((*parser).readRate, (*draft).rateNumbers)

// rateNumbers returns where the policy has the rate, and the most that callers can give.
func (l *draft) rateNumbers() (number, most *int64) { return &l.policy.Rate, &l.policy.AtMost.Rate }

// readRate reads a rate, which people also write as "10 per minute".
func (p *parser) readRate(l *draft, e document.Entry) bool {
	if isZero(e.Value) {
		p.doc.Report(e.At, ids.OutOfRange,
			"to deny every request, give any rate and write mode: block; to deny those of a plan, write rate: {free: 0, pro: 10}",
			"rate must be 1 to %s, not 0", words.Number(runtime.MaxTokens))
		return false
	}
	help, implies := "", false
	if e.Value.Tag != "!!int" {
		help, implies = rateHelp(e.Value.Value, l.text("period"))
	}
	n, ok := p.readWhole(e, 1, runtime.MaxTokens, wholeHelp{notWhole: help})
	l.policy.Rate = n
	// The remedy contains the period, so that it need not be reported as missing.
	l.impliesPeriod = l.impliesPeriod || !ok && implies
	return ok
}

// People write a rate as they say it: "5/s", "10 requests per minute", "20rpm", "0.5" or "1k". The hints below name the
// rate and the period that mean the same.

const (
	// spokenNumber is a number with or without a fraction, separators and a scale.
	spokenNumber = `([0-9][0-9_,]{0,17}(?:\.[0-9]{1,9})?) ?([kKM]?)`
	// spokenUnit is the counted thing.
	spokenUnit = `(?:requests?|reqs?|r|tokens?|calls?|queries|messages|times|x)?`
)

var (
	perForm = regexp.MustCompile(`^` + spokenNumber + ` ?` + spokenUnit + ` ?(?:/|per |every |each |an? )(.*)$`)
	// shortForm is a number of requests, queries or tokens per time: 20rps.
	shortForm = regexp.MustCompile(`^` + spokenNumber + ` ?(?i:[rqt]p([smhd]))$`)
	timedForm = regexp.MustCompile(`^[0-9]{1,18}[smhdw]$`)
)

// rateHelp returns the remedy for a rate that is not a whole number of tokens, such as "10/s", "20rpm" or 0.5, beside a
// period, which may be "", and whether the rate itself implies one.
func rateHelp(text, period string) (help string, implies bool) {
	if parts := shortForm.FindStringSubmatch(text); parts != nil {
		return spokenRate(parts[1], parts[2], parts[3])
	}
	if parts := perForm.FindStringSubmatch(text); parts != nil {
		return spokenRate(parts[1], parts[2], strings.TrimSpace(parts[3]))
	}
	if timedForm.MatchString(text) {
		count := strings.TrimRight(text, "mhdwsM")
		return "write rate: " + count + " and period: 1" + text[len(count):] + ", or a number with all its zeros", false
	}
	n, ok := spokenCount(text, "")
	if !ok || n.IsInt() {
		return "", false
	}
	if rate, times, ok := wholeRate(n, period); ok {
		return "tokens are whole: write rate: " + rate + " and period: " + times, false
	}
	if denominator := n.Denom().Int64(); denominator <= mostTimes {
		return "tokens are whole: write rate: " + plain(n.Num().Int64()) + ", and " + n.Denom().String() + " times the period", false
	}
	return "", false
}

// spokenRate is rateHelp for a count per time.
func spokenRate(count, scale, per string) (help string, implies bool) {
	n, ok := spokenCount(count, scale)
	if !ok {
		return "", false
	}
	lengths := meantDuration(per)
	if len(lengths) == 0 {
		if !n.IsInt() {
			return "", false
		}
		return "write rate: " + plain(n.Num().Int64()) + ", and the time as period", false
	}
	rate, period, ok := wholeRate(n, lengths[0])
	if !ok {
		return "", false
	}
	return "write rate: " + rate + " and period: " + period, true
}

// mostTimes is by how much a hint multiplies a period.
const mostTimes = 1000

// wholeRate returns the smallest whole rate, and the period with which it grants n tokens per period. It is false if the
// period is not a duration, or such a period would be odd.
func wholeRate(n *big.Rat, period string) (rate, times string, ok bool) {
	length, ok := exact(period)
	// 1 per 10,000 seconds is a rate that people may mean, but 333,333 per 1,000,000 seconds is a rounded one.
	odd := n.Denom().Int64() > mostTimes && n.Num().Int64() > mostTimes
	if !ok || !length.IsInt() || odd {
		return "", "", false
	}
	if n.IsInt() {
		return plain(n.Num().Int64()), period, true // as it was written
	}
	long := length.Mul(length, new(big.Rat).SetInt(n.Denom()))
	if long.Cmp(new(big.Rat).SetInt64(int64(runtime.MaxPeriod))) > 0 {
		return "", "", false
	}
	return plain(n.Num().Int64()), words.Duration(time.Duration(long.Num().Int64())), true
}

// effectiveRate is empty for a limit in flight.
func effectiveRate(l *spec.Limit) string {
	switch {
	case l.UnlimitedRate, l.CountsOnly():
		return unlimited
	case l.Policy.Kind == runtime.InFlight:
		return ""
	case l.Policy.AtMost.Unlimited:
		return "{" + atMost + ": " + unlimited + "}"
	}
	return effectiveNumber(l.Policy.Rate, l.Policy.AtMost.Rate)
}
