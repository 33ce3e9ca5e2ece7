package fields

import (
	"fmt"
	"strconv"

	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// checkCallerWindows reports a fixed window that ends with tokens missing, if callers give its capacity or maxReserved: with
// smaller ones it forgets any use beyond them, so that changing to them and back would grant tokens again.
func (p *parser) checkCallerWindows(l *draft) {
	policy := &l.policy
	most := policy.AtMost
	if policy.Kind != runtime.FixedWindow || most.Capacity+most.MaxReserved == 0 || policy.Rate == 0 ||
		policy.Capacity+policy.MaxReserved <= policy.Rate {
		return
	}
	at, field := l.given["rate"], "capacity"
	for _, name := range []string{"capacity", "maxReserved"} {
		if e, ok := l.given[name]; ok {
			at, field = e, name
		}
	}
	sum := "capacity " + words.Number(policy.Capacity)
	if policy.MaxReserved == runtime.Unbounded {
		sum += " and unbounded reservations are"
	} else if policy.MaxReserved > 0 {
		sum += " + maxReserved " + words.Number(policy.MaxReserved) + " is"
	} else {
		sum += " is"
	}
	p.doc.Report(at.At, ids.BadNumbers, "let "+field+" be small enough, or use a token bucket",
		"%s more than the rate, %s: a window that ends with smaller numbers of its caller would forget what was used beyond them, so that changing to them and back would grant tokens again",
		sum, words.Number(policy.Rate))
}

// AtMost is a number, after "at most" if callers give it and most is the most that they can.
func AtMost(number, most int64) string {
	if most > 0 {
		return "at most " + words.Number(number)
	}
	return words.Number(number)
}

// callerSentences says which numbers callers give.
func callerSentences(l *spec.Limit) []string {
	if len(l.CallerNumbers()) == 0 {
		return nil
	}
	these := "these"
	if len(l.CallerNumbers()) == 1 {
		these = "this"
	}
	sentences := []string{fmt.Sprintf("Callers give the %s of each request, up to %s; the worst case assumes the largest.",
		words.List(l.CallerFields(), "and"), these)}
	if l.Policy.AtMost.Unlimited {
		sentences = []string{fmt.Sprintf("Callers give the %s of each request, or let it pass without a limit: it is not counted then.", words.List(l.CallerFields(), "and"))}
	}
	if l.Policy.AtMost.Rate > 0 && l.Policy.Reserves() {
		sentences = append(sentences, "Reserved tokens are due by the rate of their request: those of requests with different rates may be due together.")
	}
	return sentences
}

// effectiveNumber returns a number of tokens, or the most that callers can give.
func effectiveNumber(n, most int64) string {
	if most > 0 {
		return "{" + atMost + ": " + words.Underscored(n) + "}"
	}
	return strconv.FormatInt(n, 10)
}
