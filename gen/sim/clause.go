package sim

import (
	"math"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// clause is a part of traffic.
type clause struct {
	kind clauseKind
	// n requests are made per a time, or at once.
	n   int64
	per time.Duration
	// at is when they begin, and length for how long they are made.
	at, length time.Duration
	// keys is by how many keys they are made, and taking the count of each.
	keys, taking int64
}

type clauseKind string

const (
	steady  clauseKind = "steady"
	poisson clauseKind = "poisson"
	burst   clauseKind = "burst"
)

// end is when the last request can be made.
func (c clause) end() time.Duration { return c.at + c.length }

// requests is how many requests there are, on average.
func (c clause) requests() float64 {
	if c.kind == burst {
		return float64(c.n)
	}
	return math.Ceil(float64(c.n) * float64(c.length) / float64(c.per))
}

// The bounds of a clause. With them nothing overflows.
const (
	mostPer    = 1_000_000_000
	mostLength = runtime.MaxPeriod
	mostOver   = 1 << 24
	mostTaking = 2 * runtime.MaxTokens
)

// parseTraffic reads the clauses of traffic for a limit.
func parseTraffic(text string, limit Limit) ([]clause, error) {
	p := trafficParser{words: wordsOf(text), text: text, limit: limit}
	var clauses []clause
	for {
		c, err := p.clause()
		if err != nil {
			return nil, err
		}
		clauses = append(clauses, c)
		if p.word().text != ";" {
			break
		}
		p.words = p.words[1:]
	}
	settleLengths(clauses)
	sum := 0.0
	for _, c := range clauses {
		sum += c.requests()
	}
	if sum > mostRequests {
		return nil, &TrafficError{text, 1, "these are more than " + grouped(mostRequests) + " requests"}
	}
	return clauses, nil
}

// settleLengths lets the clauses that do not say for how long end with the last of the others.
func settleLengths(clauses []clause) {
	end := time.Duration(0)
	for _, c := range clauses {
		end = max(end, c.end())
	}
	for i, c := range clauses {
		if c.kind == burst || c.length > 0 {
			continue
		}
		if clauses[i].length = end - c.at; clauses[i].length <= 0 {
			clauses[i].length = time.Minute
		}
	}
}
