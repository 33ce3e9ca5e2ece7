package decide

import (
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/table"
)

// manner is how calls are decided.
type manner struct {
	// bounded: no statement waits for locks of other transactions for more than a moment.
	bounded bool
	// lone: in the goroutine of a caller, by strategies without a transaction of the store, and without trying one again.
	lone bool
	// across is not nil if the rows are on several shards, whose places it knows.
	across *table.Places
}

// plan is a batch while it is decided.
type plan struct {
	manner
	// on runs the statements.
	on      *conn.Executor
	calls   []runtime.Call
	answers []runtime.Answer
	// rest are the indexes of the calls without an answer. denied marks calls for which a statement has taken nothing; it is
	// nil before there is one.
	rest   []int
	denied []bool
	// first is the memory of rest if there is one call.
	first [1]int
	// takes are for the calls with one request. Statements have run for the first of their rows, as many as sent.
	takes
	sent int
	// upsert is how the strategy takes that runs.
	upsert upsertStrategy
}

func newPlan(on *conn.Executor, calls []runtime.Call, answers []runtime.Answer, how manner) *plan {
	p := &plan{manner: how, on: on, calls: calls, answers: answers}
	p.rest = slices.Grow(p.first[:0], len(calls))
	p.findRest()
	return p
}

// findRest sets rest to the calls that have no answer by now.
func (p *plan) findRest() {
	p.rest = p.rest[:0]
	for i := range p.answers {
		if !p.answers[i].Answered() {
			p.rest = append(p.rest, i)
		}
	}
}

// deny marks a call for which a statement has taken nothing.
func (p *plan) deny(call int) {
	if p.denied == nil {
		p.denied = make([]bool, len(p.calls))
	}
	p.denied[call] = true
}

// decideRest runs decide on the calls without an answer, and stores theirs.
func (p *plan) decideRest(decide func(calls []runtime.Call, answers []runtime.Answer) error) error {
	if len(p.rest) == len(p.calls) {
		return decide(p.calls, p.answers)
	}
	return answerAt(p.rest, p.calls, p.answers, decide)
}

// answerAt runs decide on the calls at these indexes and stores their answers.
func answerAt(at []int, calls []runtime.Call, answers []runtime.Answer, decide func([]runtime.Call, []runtime.Answer) error) error {
	some, got := make([]runtime.Call, len(at)), make([]runtime.Answer, len(at))
	for i, index := range at {
		some[i] = calls[index]
	}
	err := decide(some, got)
	for i, a := range got {
		answers[at[i]] = a
	}
	return err
}

// unanswered returns the indexes of the calls that have no answer.
func unanswered(answers []runtime.Answer) []int {
	at := make([]int, 0, len(answers))
	for i, a := range answers {
		if !a.Answered() {
			at = append(at, i)
		}
	}
	return at
}

// durabilityOf returns the durability of calls that are committed together: full if one of them needs it, and
// relaxed if all allow it.
func durabilityOf(calls []runtime.Call) runtime.Durability {
	relaxed := true
	for _, c := range calls {
		for _, q := range c.Requests {
			if q.Policy == nil {
				continue // an invalid request, which changes nothing
			}
			switch q.Policy.Durability {
			case runtime.DurabilityFull:
				return runtime.DurabilityFull
			case runtime.DurabilityDefault:
				relaxed = false
			}
		}
	}
	if relaxed {
		return runtime.DurabilityRelaxed
	}
	return runtime.DurabilityDefault
}
