package spec

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Description is a limit in sentences.
type Description struct {
	// Plan is the name of the plan, for an element of Plans.
	Plan string
	// Sentences are on the rule, the most important first: "Token bucket: 10 per minute, at most 20 at once." With Plans,
	// they are the ones that all limited plans have in common, without the rule itself.
	Sentences []string
	// Worst says how many tokens can be used in a period at most, see [bounds.Within]: "Worst case: 30 in any minute." If
	// reservations have no bound, the number is for callers who do not reserve. It is empty for an unlimited element of Plans.
	Worst string
	// Plans describe what differs between the plans of the limit, in their order.
	Plans []Description
}

// Words returns the sentences without the worst case. Each plan has one, which begins with its name.
func (d *Description) Words() (sentences []string) {
	for _, of := range d.Plans {
		sentences = append(sentences, of.Plan+": "+strings.Join(of.Sentences, " "))
	}
	return append(sentences, d.Sentences...)
}

// Lines returns the sentences of [Description.Words], and the worst case.
func (d *Description) Lines() []string {
	if d.Worst == "" {
		return d.Words()
	}
	return append(d.Words(), d.Worst)
}

// Describe returns the limit in sentences.
func (l *Limit) Describe() *Description {
	d := &Description{Plan: l.Plan, Worst: "Worst case" + ifEnforced(l.Policy.Mode) + ": " + l.worstCase() + "."}
	if len(l.Plans) == 0 {
		d.Sentences = l.sentences()
		return d
	}
	common := func(sentence string) bool { return slices.Contains(d.Sentences, sentence) }
	limited := 0
	for _, of := range l.Plans {
		plan := of.Describe()
		d.Plans = append(d.Plans, *plan)
		if of.Unlimited() {
			continue
		}
		if limited++; limited == 1 {
			d.Sentences = slices.Clone(plan.Sentences[1:])
		}
		d.Sentences = slices.DeleteFunc(d.Sentences, func(s string) bool { return !slices.Contains(plan.Sentences, s) })
	}
	for i, of := range l.Plans {
		plan := &d.Plans[i]
		plan.Sentences = slices.DeleteFunc(plan.Sentences, common)
		if of.Unlimited() {
			plan.Worst = ""
		}
	}
	return d
}

// Words returns the sentences of [Description.Words].
func (l *Limit) Words() []string { return l.Describe().Words() }

// sentences describes a limit without plans, or one plan.
func (l *Limit) sentences() (sentences []string) {
	if l.Unlimited() {
		return []string{"Unlimited: every request is allowed, and none is counted."}
	}
	if m := l.Policy.Mode; m != runtime.ModeEnforce && m != runtime.ModeShadow {
		// The other fields have no effect.
		if l.UnlimitedRate {
			return slices.Concat([]string{"Unlimited when it is not blocked."}, modeWords(l), keyWords(l))
		}
		return slices.Concat(ruleWords(l), modeWords(l), keyWords(l))
	}
	for _, f := range limitFields {
		if f.words != nil {
			sentences = append(sentences, f.words(l)...)
		}
	}
	return append(sentences, keyWords(l)...)
}

// worstCase is the worst case as a part of a sentence: "30 in any minute".
func (l *Limit) worstCase() string {
	p := &l.Policy
	switch {
	case len(l.Plans) > 0:
		var worst []string
		for _, of := range l.Plans {
			worst = append(worst, of.Plan+": "+of.worstCase())
		}
		return strings.Join(worst, "; ")
	case l.Unlimited():
		return "no bound"
	case p.MaxReserved == runtime.Unbounded && p.Capacity == 0:
		return "reservations have no bound"
	case p.MaxReserved == runtime.Unbounded:
		// Unbounded reservations have no worst case, but callers who do not reserve have one.
		return mostInPeriod(bounds.Unreserved(p)) + " without reservations, which have no bound"
	case p.Reserves():
		return mostInPeriod(p) + ", counting reserved tokens when their delay has passed"
	}
	return mostInPeriod(p)
}

// mostInPeriod describes the worst case in an interval as long as a period, and for a calendar in a window too.
func mostInPeriod(p *runtime.Policy) string {
	span := bounds.Interval(p)
	around := fmt.Sprintf("%s in any %s", orUncountable(bounds.Within(p, span)), words.Period(span))
	if p.Calendar.Unit == 0 || p.Reserves() {
		return around
	}
	each := "calendar " + p.Calendar.Unit.String()
	if p.Calendar.Count > 1 {
		each = "window"
	}
	return fmt.Sprintf("%s in each %s, and %s", words.Number(p.Capacity), each, around)
}

// ifEnforced is the condition of a bound that does not hold in this mode.
func ifEnforced(m runtime.Mode) string {
	if m == runtime.ModeEnforce || m == runtime.ModeUnlimited {
		return ""
	}
	return ", if it were enforced"
}

func orUncountable(n int64) string {
	if n == math.MaxInt64 {
		return "no bound"
	}
	return words.Number(n)
}

// keyWords describes the parts of the key that are not stored as they are passed. It is not the words of the field key,
// because the rule comes first.
func keyWords(l *Limit) (sentences []string) {
	for _, part := range l.Key {
		switch bits := part.PrefixBits(); {
		case part.Hashed():
			sentences = append(sentences, fmt.Sprintf("Only a SHA-256 of %s is stored.", part.Name))
		case bits > 0:
			sentences = append(sentences, fmt.Sprintf("For an IPv6 address, the first %s of %s count.", words.Count(int64(bits), "bit"), part.Name))
		}
	}
	return sentences
}
