package fields

import (
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var overridesField = limitField{
	name: "overrides", synonyms: []string{"override", "maxoverride"},
	about:   "Lets operators, while the program runs, block keys and give them other numbers up to these. `{}` allows numbers within those of the limit.",
	more:    "The first of these is in force: a block of the limit or the key, the override of the key, the override of the whole limit, the exception of the key, the plan.",
	accepts: "a map with any of `rate`, `capacity` and `maxReserved`",
	absent:  "no overrides or blocks",
	example: "{rate: 5_000, capacity: 10_000}",
	schema:  mapSchema(overrideFields),
	read:    (*parser).readOverrides,
	change:  ids.OverridesChanged,
	effective: func(l *spec.Limit) string {
		if l.Overrides == nil {
			return ""
		}
		return effectiveMap(overrideFields, l.Overrides) // other numbers follow those of the limit
	},
	sentences: OverridesWords,
}

// overrideFields are the fields of the overrides of a limit. A number of 0 is not given.
var overrideFields = []field[runtime.OverrideBounds, runtime.OverrideBounds]{
	{
		name: "rate", synonyms: []string{"limit"},
		about:   "The largest rate that operators can give a key, at least that of every plan. With `unlimited`, they can give any, and lift the limit for a key.",
		accepts: fmt.Sprintf("1 to %s tokens, or `%s`", words.Number(runtime.MaxTokens), unlimited),
		absent:  "the limit's `rate`, the largest of all plans",
		example: "5_000",
		schema:  wordSchema(1, runtime.MaxTokens, unlimited),
		read:    (*parser).readMostRate,
		effective: func(b *runtime.OverrideBounds) string {
			if b.Unlimited {
				return unlimited
			}
			return numberUnlessZero(b.Rate)
		},
	},
	{
		name: "capacity", synonyms: []string{"burst", "max"},
		about:     "The largest capacity that operators can give a key.",
		accepts:   fmt.Sprintf("1 to %s tokens", words.Number(runtime.MaxTokens)),
		absent:    "the limit's `capacity`; if that is its `rate`, the largest rate",
		example:   "10_000",
		schema:    numberSchema(1, runtime.MaxTokens),
		read:      numberReader(1, runtime.MaxTokens, func(b *runtime.OverrideBounds) *int64 { return &b.Capacity }),
		effective: func(b *runtime.OverrideBounds) string { return numberUnlessZero(b.Capacity) },
	},
	{
		name:    "maxReserved",
		about:   "The most tokens that operators can let a key reserve, if the limit has reservations.",
		accepts: fmt.Sprintf("1 to %s tokens, or `%s`", words.Number(mostReserved), unbounded),
		absent:  "the limit's `maxReserved`",
		example: "100",
		schema:  wordSchema(1, mostReserved, unbounded),
		read:    (*parser).readMostReserved,
		effective: func(b *runtime.OverrideBounds) string {
			return unboundedOr(b.MaxReserved, numberUnlessZero(b.MaxReserved))
		},
	},
}

const overridesHelp = "write overrides: {rate: 5_000}, or overrides: {} for blocks and numbers within those of the limit"

// readOverrides reads what the file gives. settleOverrides completes it.
func (p *parser) readOverrides(l *draft, e document.Entry) bool {
	l.limit.Overrides = new(runtime.OverrideBounds)
	return readMap(p, overrideFields, l.limit.Overrides, e, overridesHelp)
}

func (p *parser) readMostRate(b *runtime.OverrideBounds, e document.Entry) (ok bool) {
	switch {
	case document.IsWord(e.Value, unlimited):
		b.Unlimited, b.Rate = true, runtime.MaxTokens
		return true
	case p.meantInstead(e, unlimited, unlimitedSynonyms):
		return false
	}
	help, _ := rateHelp(e.Value.Value, "")
	b.Rate, ok = p.readWhole(e, 1, runtime.MaxTokens, wholeHelp{notWhole: help})
	return ok
}

func (p *parser) readMostReserved(b *runtime.OverrideBounds, e document.Entry) bool {
	ok := p.readReserved(&b.MaxReserved, e)
	if ok && b.MaxReserved == 0 {
		p.doc.Report(e.At, ids.OutOfRange, "leave it out", "%s must be at least 1", e.Name)
	}
	return ok && b.MaxReserved > 0
}

// checkOverrides completes the bounds of overrides, and reports those that the limit cannot have. All plans have the same.
func (p *parser) checkOverrides(l *draft) {
	e, ok := l.given["overrides"]
	if !ok || l.limit.Overrides == nil {
		return
	}
	own, follows := largestNumbers(l)
	most := *l.limit.Overrides
	linear, inFlight := l.policy.Kind.Linear(), l.policy.Kind == runtime.InFlight
	without := "a sliding window"
	if inFlight {
		without = "a limit in flight"
	}
	if inFlight && most.Unlimited {
		most.Rate = 0 // slots have no rate to be unlimited
	}
	for _, part := range []struct {
		name       string
		own        int64
		into       *int64
		applicable bool
		otherwise  string
	}{
		{"rate", own.Rate, &most.Rate, !inFlight, "a limit in flight has no rate: give capacity"},
		{"capacity", own.Capacity, &most.Capacity, linear || inFlight, "a sliding window has no capacity of its own"},
		{"maxReserved", own.MaxReserved, &most.MaxReserved, linear, without + " has no reservations"},
	} {
		switch {
		case *part.into == 0:
			*part.into = part.own
		case !part.applicable:
			p.reportOverride(e, part.name, "leave it out", "%s", part.otherwise)
			return
		case part.own == 0:
			p.reportOverride(e, part.name, "leave it out", "the limit has %s 0, which overrides cannot change", part.name)
			return
		case l.countsOnly() && *part.into < part.own:
			p.reportOverride(e, part.name, "write overrides: {}, which allows all numbers",
				"the most that overrides can give, %s, is less than the limit, which is unlimited", words.Number(*part.into))
			return
		case *part.into < part.own:
			p.reportOverride(e, part.name, "give at least "+words.Number(part.own)+
				", or leave it out: overrides can always give less",
				"the most that overrides can give, %s, is less than the %s of the limit, %s", words.Number(*part.into), part.name, words.Number(part.own))
			if at, ok := l.given[part.name]; ok {
				p.doc.Note(at.At, part.name+" is given here")
			}
			return
		}
	}
	switch {
	case inFlight && most.Capacity > runtime.MaxSlots:
		p.reportOverride(e, "capacity", "give at most "+words.Number(runtime.MaxSlots),
			"a limit in flight has at most %s slots, whose holders are in one row", words.Number(runtime.MaxSlots))
		return
	case inFlight:
		most = runtime.OverrideBounds{Slots: most.Capacity, Unlimited: most.Unlimited}
	case !linear || follows && l.limit.Overrides.Capacity == 0:
		most.Capacity = most.Rate
	}
	l.policy.Overrides = most
	for _, of := range l.plans {
		if of.policy.Overrides = most; of.countsOnly() {
			of.policy.Overrides.Rate, of.policy.Overrides.Capacity = runtime.MaxTokens, runtime.MaxTokens
		}
	}
}

func (p *parser) reportOverride(e document.Entry, part, help, message string, args ...any) {
	defer p.doc.Enter("overrides")()
	p.doc.Report(p.doc.Part(e, part).At, ids.BadOverrides, help, message, args...)
}

// largestNumbers returns the largest numbers of all plans as the file has them, and whether the capacity is the rate in
// each of them.
func largestNumbers(l *draft) (largest runtime.OverrideBounds, follows bool) {
	follows = true
	for _, of := range l.eachPlan() {
		if of.unlimited() || of.countsOnly() && !l.countsOnly() {
			continue
		}
		largest.Rate = max(largest.Rate, of.policy.Rate)
		largest.Capacity = max(largest.Capacity, of.policy.Capacity, of.policy.Slots)
		largest.MaxReserved = max(largest.MaxReserved, of.policy.MaxReserved)
		follows = follows && of.policy.Capacity == of.policy.Rate
	}
	return largest, follows
}

// OverridesWords describes what operators can give a key.
func OverridesWords(l *spec.Limit) []string {
	b := l.Policy.Overrides
	if b == (runtime.OverrideBounds{}) {
		return nil
	}
	if b.Unlimited {
		return []string{"Operators can block a key, give it other numbers or lift the limit for it, for a time, without a deploy."}
	}
	if b.Slots > 0 {
		return []string{"Operators can block a key, or give it up to " + words.Count(b.Slots, "slot") +
			", for a time, without a deploy."}
	}
	if l.CountsOnly() {
		return []string{"Operators can block a key, or give it numbers, for a time, without a deploy."}
	}
	numbers := []string{"rate " + words.Number(b.Rate)}
	if l.Policy.Kind.Linear() && b.Capacity > 0 {
		numbers = append(numbers, "capacity "+words.Number(b.Capacity))
	}
	if b.MaxReserved > 0 {
		numbers = append(numbers, "maxReserved "+unboundedOr(b.MaxReserved, words.Number(b.MaxReserved)))
	}
	return []string{"Operators can block a key, or give it other numbers up to " + words.List(numbers, "and") +
		", for a time, without a deploy."}
}

// OverridesMethods returns the names of the generated methods for overrides: "SendMessageOverrides" for those of one key,
// and "SendMessageOverridesForAll" for those of all keys, if the limit has keys. There are none without overrides.
func OverridesMethods(l *spec.Limit) []string {
	switch {
	case l.Overrides == nil || l.GoName == "":
		return nil
	case len(l.Key) == 0:
		return []string{l.GoName + "Overrides"}
	}
	return []string{l.GoName + "Overrides", l.GoName + "OverridesForAll"}
}
