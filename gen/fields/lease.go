package fields

import (
	"fmt"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var leaseField = limitField{
	name: "lease", synonyms: []string{"block", "prefetch", "batch"},
	about:   "A block of tokens that a process takes at once, and spends from its memory. Not for windows that start at `first use`.",
	more:    "A lease grants no additional tokens, but those of a token bucket may be used later than they were taken, by up to `for`. A block of a window ends with the window. While a process has a block, `Remaining` is the rest of it. Reservations, requests over several limits and transactions do not use blocks. A process has blocks for at most 65,536 keys, in about 32 MB.",
	accepts: "a map with `tokens` and `for`",
	absent:  "every request reaches the store",
	example: "{tokens: 10, for: 200ms}",
	schema:  mapSchema(leaseFields),
	read:    (*parser).readLease,
	check:   (*parser).checkLease,
	change:  ids.LeaseChanged,
	effective: func(l *spec.Limit) string {
		if l.Policy.Lease == (runtime.Lease{}) {
			return ""
		}
		return effectiveMap(leaseFields, &l.Policy.Lease)
	},
	sentences: leaseSentences,
}

// leaseFields are the fields of the lease of a limit.
var leaseFields = []field[runtime.Lease, runtime.Lease]{
	{
		name: "tokens", required: true, synonyms: []string{"size", "count", "amount"},
		about:     "How many tokens a block has: ideally as many as one process uses of one key within `for`. Requests for more reach the store.",
		accepts:   "a whole number of tokens, 1 to `capacity`",
		example:   "10",
		schema:    numberSchema(1, runtime.MaxTokens),
		read:      numberReader(1, runtime.MaxTokens, func(l *runtime.Lease) *int64 { return &l.Tokens }),
		effective: func(l *runtime.Lease) string { return numberUnlessZero(l.Tokens) },
	},
	{
		name: "for", required: true, synonyms: []string{"ttl", "duration", "time"},
		about:     "How long a block may be spent. Tokens left after that are given back; for a token bucket, less the tokens that have accrued since.",
		accepts:   "a duration, as for `period`",
		example:   "200ms",
		schema:    durationSchema,
		read:      durationReader(func(l *runtime.Lease) *time.Duration { return &l.For }),
		effective: func(l *runtime.Lease) string { return unlessZero(l.For) },
	},
}

const leaseHelp = "write lease: {tokens: 10, for: 200ms}"

func (p *parser) readLease(l *draft, e document.Entry) bool {
	return readMap(p, leaseFields, &l.policy.Lease, e, leaseHelp)
}

// checkLease reports a lease that contradicts other fields.
func (p *parser) checkLease(l *draft) {
	policy := &l.policy
	lease, ok := l.given["lease"]
	if !ok {
		return
	}
	if policy.AtMost != (runtime.Numbers{}) {
		p.doc.Report(lease.At, ids.BadNumbers, "leave lease out, or give the limit numbers of its own",
			"a limit with numbers from callers has no lease: a block taken by the numbers of one request would be spent by those of another")
	}
	if policy.Start.FirstUse() {
		p.doc.Report(lease.At, ids.BadLease, "leave lease out, or give an instant or an offset",
			"windows that start at first use have no lease, because a process cannot compute when they end")
		p.doc.Note(l.given["start"].At, "start is given here")
		return
	}
	most, note := l.given["capacity"], "capacity is given here"
	if most.Value == nil {
		most, note = l.given["rate"], "the capacity is the rate, given here"
	}
	// If neither could be read, the capacity is not known.
	if most.Value == nil || policy.Lease.Tokens <= policy.Capacity {
		return
	}
	help := "leave lease out"
	if policy.Capacity > 0 {
		help = "use at most " + words.Number(policy.Capacity)
	}
	p.doc.Report(p.doc.Part(lease, "tokens").At, ids.BadLease, help,
		"tokens %s is more than the capacity, %s, so no block could ever be taken", words.Number(policy.Lease.Tokens), words.Number(policy.Capacity))
	p.doc.Note(most.At, note)
}

func leaseSentences(l *spec.Limit) []string {
	lease := l.Policy.Lease
	if lease.Tokens == 0 {
		return nil
	}
	return []string{
		fmt.Sprintf("A process takes blocks of %s, and spends each from its memory within %s.", words.Count(lease.Tokens, "token"),
			words.Duration(lease.For)),
		leaseBounds[l.Policy.Kind](&l.Policy),
	}
}

// leaseBounds describe for each kind the bound that holds in spite of a lease.
var leaseBounds = map[runtime.Kind]func(p *runtime.Policy) string{
	runtime.TokenBucket:   bucketLeaseSentence,
	runtime.FixedWindow:   windowLeaseSentence,
	runtime.SlidingWindow: windowLeaseSentence,
}

// bucketLeaseSentence is the formula of [bounds.Within] for any time t.
func bucketLeaseSentence(p *runtime.Policy) string {
	reserved := ""
	switch {
	case p.MaxReserved == runtime.Unbounded:
		reserved = ", plus reserved tokens"
	case p.Reserves():
		reserved = fmt.Sprintf(", or %s + %s*t/%s if that is more", words.Number(p.Capacity+p.MaxReserved), words.Number(p.Rate),
			words.Duration(p.Period))
	}
	return fmt.Sprintf("At most %s + %s*(t + %s)/%s can be used in any time t%s.",
		words.Number(p.Capacity), words.Number(p.Rate), words.Duration(p.Lease.For), words.Duration(p.Period), reserved)
}

func windowLeaseSentence(*runtime.Policy) string {
	return "A block ends with its window, so no window allows more because of it."
}
