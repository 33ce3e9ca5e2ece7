package judge

import (
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/describe"
	"github.com/ratelimitgen/ratelimitgen/gen/diff"
	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/compare"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// maxDescribed is how many exceptions a review describes. The changes list all.
const maxDescribed = 20

// withoutExceptions splits the changes of a limit: those of single keys do not depend on the plans or on the other changes.
func withoutExceptions(changes []diff.Change) (others, exceptions []diff.Change) {
	for _, c := range changes {
		if c.Kind == ids.ExceptionsChanged {
			exceptions = append(exceptions, c)
		} else {
			others = append(others, c)
		}
	}
	return others, exceptions
}

// judgeExceptions compares the rule of each key before and after the edit.
func judgeExceptions(j *judgement) {
	unlimited := false
	for i, c := range j.changes {
		var classes []review.Class
		p := compare.Pair{Old: ofKey(j.Old, c.Old.Exception), New: ofKey(j.New, c.New.Exception)}
		for _, pair := range j.renamed.PairPlans(p.Old, p.New) {
			if pair.Old == nil || pair.New == nil {
				continue
			}
			one := compare.Pair{Old: pair.Old, New: pair.New}
			unlimited = unlimited || without(one.New) && !without(one.Old)
			if one.Either((*spec.Limit).Numberless) {
				classes = append(classes, modeLooseness(one)...)
			} else {
				classes = append(classes, loosenessOf(one)...)
			}
		}
		j.each = append(j.each, classes)
		switch was, is := rulesInWords(p.Old), rulesInWords(p.New); {
		case i > maxDescribed:
		case i == maxDescribed:
			j.note(review.Rule, "So have %s other keys.", words.Number(int64(len(j.changes)-i)))
		case was == is:
			j.note(review.Rule, "%s keeps its numbers.", keyOf(c))
		default:
			j.note(review.Rule, "%s: %s. Before: %s.%s", keyOf(c), is, was, carriedOfKey(p))
		}
	}
	if unlimited {
		j.risk(review.Unlimited, false)
	}
	j.note(review.Deploy, "Counts are kept, because they are stored by key: used tokens stay used. Until all processes have the new version, the old ones decide by the old numbers.")
}

// ofKey returns the limit for a key with an exception, or without one.
func ofKey(l *spec.Limit, x *spec.Exception) *spec.Limit {
	if x == nil {
		return l
	}
	return l.Except(x)
}

func keyOf(c diff.Change) string {
	if c.New.Exception != nil {
		return fields.KeyText(c.New.Limit, c.New.Exception)
	}
	return fields.KeyText(c.Old.Limit, c.Old.Exception)
}

// rulesInWords is the rule of a limit as a part of a sentence, or those of its plans.
func rulesInWords(l *spec.Limit) string {
	if len(l.Plans) > 0 {
		return rulesByPlan(l.Plans)
	}
	if l.Unlimited() {
		return "unlimited"
	}
	rule := describe.Limit(l).Rules()[0]
	if l.Policy.Mode == runtime.ModeBlock {
		rule = "every request is denied"
	} else if mode := fields.ModeWords(l); len(mode) > 0 {
		rule += " " + mode[0]
	}
	return strings.TrimSuffix(strings.ToLower(rule[:1])+rule[1:], ".")
}

// rulesByPlan names for each rule the plans that have it.
func rulesByPlan(plans []*spec.Limit) string {
	var rules []string
	with := map[string][]string{}
	for _, of := range plans {
		rule := rulesInWords(of)
		if with[rule] == nil {
			rules = append(rules, rule)
		}
		with[rule] = append(with[rule], of.Plan)
	}
	if len(rules) == 1 {
		return rules[0]
	}
	return strings.Join(words.Of(rules,
		func(rule string) string { return "by the plan " + words.List(with[rule], "or") + ", " + rule }), "; ")
}

// carriedOfKey says what an exhausted key has after the edit, if that is one number.
func carriedOfKey(p compare.Pair) string {
	counts := func(l *spec.Limit) bool {
		return len(l.Plans) == 0 && !l.Numberless() && !l.CountsOnly() && l.Policy.Mode.Counts() && !compare.InFlight(&l.Policy)
	}
	if !counts(p.Old) || !counts(p.New) {
		return ""
	}
	if n := compare.Carried(p.Old, p.New); n > 0 {
		return " If it is exhausted, it has up to " + words.Count(n, "token") + " at once after the deploy."
	}
	return ""
}

// ExceptionRows has a row for each of the first exceptions of a limit: its key, its numbers, and the reason.
func ExceptionRows(l *spec.Limit) (rows [][]string) {
	for _, x := range l.Exceptions[:min(maxDescribed, len(l.Exceptions))] {
		rows = append(rows, []string{fields.KeyText(l, x), fields.GivenText(x), x.Given.Reason})
	}
	if more := len(l.Exceptions) - len(rows); more > 0 {
		rows = append(rows, []string{words.Number(int64(more)) + " more", "", ""})
	}
	return rows
}
