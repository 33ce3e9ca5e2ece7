package spec

import (
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// preciseConflict is a field that a precise limit cannot have, or some of its values.
type preciseConflict struct {
	field         string
	applies       func(p *unchecked) bool
	message, help func(p *unchecked) string
	// schema is the schema of the values that a precise limit can have, and hint what editors show for the others.
	schema any
	hint   string
}

var preciseConflicts = []preciseConflict{
	{
		field:   "rate",
		applies: func(p *unchecked) bool { return p.Rate > runtime.MaxPreciseRate },
		message: func(p *unchecked) string {
			return fmt.Sprintf("a precise limit has a rate of at most %s, not %s", words.Number(runtime.MaxPreciseRate), words.Number(p.Rate))
		},
		help:   bucketInstead,
		schema: numberSchema(1, runtime.MaxPreciseRate),
		hint:   tooPrecise,
	},
	{
		field: "start", applies: func(p *unchecked) bool { return true },
		message: always("a precise limit has no windows to start"), help: always("leave start out"),
		schema: false, hint: "A precise limit has no windows that start.",
	},
	{
		field: "shards", applies: func(p *unchecked) bool { return p.Shards > 1 },
		message: always("a precise limit cannot have shards, which each would have a log of their own"), help: always("leave shards out"),
		schema: object{"const": 1, "errorMessage": "A precise limit cannot have shards."},
	},
	{
		field: "lease", applies: func(p *unchecked) bool { return true },
		message: always("a precise limit has no lease, because leased tokens are used later than they are counted"), help: always("leave lease out"),
		schema: false, hint: "A precise limit has no lease.",
	},
}

var tooPrecise = fmt.Sprintf("A precise limit has a rate of at most %s.", words.Number(runtime.MaxPreciseRate))

func always(text string) func(*unchecked) string {
	return func(*unchecked) string { return text }
}

// bucketInstead describes the token bucket that keeps the promise of a precise limit: with capacity C and rate N-C per
// period, it never grants more than N in any period.
func bucketInstead(p *unchecked) string {
	return fmt.Sprintf("use a token bucket with rate: %d and capacity: %d, or any other two with this sum: it never grants more than %s in any %s either",
		p.Rate-p.Rate/10, p.Rate/10, words.Number(p.Rate), words.Period(p.Period))
}

// preciseFits reports the fields that a precise limit cannot have.
func (p *checker) preciseFits(policy *unchecked, given map[string]entry) {
	precise, ok := given["precise"]
	if !ok || !policy.Precise {
		return
	}
	for _, c := range preciseConflicts {
		e, ok := given[c.field]
		if ok && c.applies(policy) {
			p.report(e.at, badPrecise, c.help(policy), "%s", c.message(policy))
			p.note(precise.at, "precise is given here")
		}
	}
}
