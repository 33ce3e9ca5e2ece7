package decide

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
)

// manner is how calls are decided.
type manner struct {
	// bounded: no statement waits for locks of other transactions for more than a moment.
	bounded bool
	// lone: in the goroutine of a caller, by strategies that have one statement, and without trying one again.
	lone bool
}

// plan is a batch while it is decided.
type plan struct {
	manner
	// on runs the statements.
	on      *conn.Executor
	calls   []runtime.Call
	answers []runtime.Answer
	// rest are the indexes of the calls without an answer. denied marks calls for which a statement has taken nothing; it is nil before
	// there is one.
	rest   []int
	denied []bool
	// takes are for the calls with one request. Statements have run for the first of their rows, as many as sent.
	takes
	sent int
	// upsert is how the strategy takes that runs.
	upsert upsertStrategy
}

func newPlan(on *conn.Executor, calls []runtime.Call, answers []runtime.Answer, how manner) *plan {
	p := &plan{manner: how, on: on, calls: calls, answers: answers, rest: make([]int, 0, len(calls))}
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

// takes are rows from which statements can take, and what they take for.
type takes struct {
	// now is the instant of the takes.
	now int64
	// rows are in the order of their limits, and of the rows of each. One statement takes from the rows of one limit.
	rows []meter.RowUpsert
	// requests[i] are the requests that take from rows[i].
	requests []rowRequests
	// decisions are the decisions of all calls, in one allocation, or those that no answer has yet.
	decisions []runtime.Decision
}

// rowRequests is the requests of calls that take from one row.
type rowRequests struct {
	policy *runtime.Policy
	rule   meter.Rule
	// shard is the number of the row, and whole the rule of the key of which it is a shard, or nil.
	shard int
	whole *meter.Rule
	// all are in the order of the calls.
	all []request
}

// request is a request of a call.
type request struct {
	*runtime.Request
	// call is the index of the call, and index the request's in the call.
	call, index int
}

// known is what the takes of a batch depend on.
type known struct {
	dialect *dialect.Dialect
	hints   *denialHints
	// shards are those seen lately, or nil if statements take from none.
	shards *seenRows
	// together: one statement takes for all calls or none, so that a call may have several requests.
	together bool
}

// newTakes returns the takes of calls at the instant now. The calls of a row stay in their order: if it is left out, all of them are.
func newTakes(calls []runtime.Call, now int64, k known) takes {
	requests := requestsByRow(calls)
	t := takes{now: now, decisions: make([]runtime.Decision, len(requests))}
	left, mixed := make([]bool, len(calls)), false
	for i := range calls {
		all := calls[i].Requests
		left[i] = len(all) != 1 && !k.together || slices.ContainsFunc(all, func(q runtime.Request) bool { return q.Policy == nil })
	}
	for from, to := 0, 0; from < len(requests); from = to {
		to = rowEnd(requests, from)
		of := requests[from:to:to]
		// Appended before it is known to fit: a variable of its own would be an allocation for each row.
		t.requests = append(t.requests, rowRequests{policy: of[0].Policy, all: of})
		r := &t.requests[len(t.rows)]
		upsert, ok := meter.Upsert{}, !slices.ContainsFunc(of, func(q request) bool { return left[q.call] })
		if ok {
			upsert, ok = r.upsert(now, k.shards)
		}
		t.rows = append(t.rows, meter.RowUpsert{Row: r.row(), Upsert: upsert})
		// A row that will probably deny is only read: an upsert would lock it, and on some databases log that.
		if !ok || losesTotal(k.dialect, of[0]) || k.hints.expect(head(r.row())) {
			for _, q := range of {
				left[q.call] = true
			}
		}
		mixed = mixed || !sameNumbers(&upsert, &t.rows[0].Upsert)
	}
	if slices.Contains(left, true) {
		t.leaveOut(left)
	}
	if mixed && !k.together {
		// Rows with different numbers are not of one statement, so those with the same must be neighbours.
		sort.Sort(byNumbers{&t})
	}
	return t
}

// leaveOut removes the rows of calls that are left out, and with them the calls about these rows.
func (t *takes) leaveOut(left []bool) {
	isLeft := func(q request) bool { return left[q.call] }
	for again := true; again; {
		again = false
		for _, r := range t.requests {
			if !slices.ContainsFunc(r.all, isLeft) {
				continue
			}
			for _, q := range r.all {
				again, left[q.call] = again || !left[q.call], true
			}
		}
	}
	kept := 0
	for i, r := range t.requests {
		if !isLeft(r.all[0]) {
			t.rows[kept], t.requests[kept] = t.rows[i], r
			kept++
		}
	}
	t.rows, t.requests = t.rows[:kept], t.requests[:kept]
}

// sameNumbers reports whether one statement can take from two rows of a limit: those of calls that reserve have a debt, and
// the shards of a key may have different shares of its numbers.
func sameNumbers(a, b *meter.Upsert) bool {
	return a.Debt == b.Debt && a.Capacity == b.Capacity && a.Rate == b.Rate
}

// byNumbers sorts rows by limit, numbers and key.
type byNumbers struct{ *takes }

func (p byNumbers) Len() int { return len(p.rows) }

func (p byNumbers) Swap(i, j int) {
	p.rows[i], p.rows[j] = p.rows[j], p.rows[i]
	p.requests[i], p.requests[j] = p.requests[j], p.requests[i]
}

func (p byNumbers) Less(i, j int) bool {
	a, b := &p.rows[i], &p.rows[j]
	return cmp.Or(
		strings.Compare(a.Row.Name, b.Row.Name), cmp.Compare(a.Upsert.Debt, b.Upsert.Debt),
		cmp.Compare(a.Upsert.Capacity, b.Upsert.Capacity), cmp.Compare(a.Upsert.Rate, b.Upsert.Rate),
		strings.Compare(a.Row.Key, b.Row.Key),
	) < 0
}

// losesTotal reports whether statements that take do not return the total of the row, without which tokens that were taken
// in advance could often not be refunded.
func losesTotal(d *dialect.Dialect, q request) bool {
	return d.TakeInsertID != "" && (q.Reserve || q.Leased)
}

// requestsByRow returns the requests of calls in the order of their rows, and for each row in the order of the calls.
func requestsByRow(calls []runtime.Call) []request {
	all := make([]request, 0, len(calls))
	for i, c := range calls {
		for j := range c.Requests {
			if q := &c.Requests[j]; q.Policy != nil {
				all = append(all, request{q, i, j})
			}
		}
	}
	slices.SortFunc(all, func(a, b request) int { return cmp.Or(a.compareRow(b), a.call-b.call) })
	return all
}

// compareRow compares the rows of two requests as [runtime.Row.Compare] does.
func (q request) compareRow(o request) int {
	// Most batches have one policy: comparing pointers saves comparing its name.
	if q.Policy != o.Policy {
		if c := strings.Compare(q.Policy.Name, o.Policy.Name); c != 0 {
			return c
		}
	}
	return strings.Compare(q.Key, o.Key)
}

// rowEnd returns the index after the requests that are about the same row as the one at from.
func rowEnd(all []request, from int) (to int) {
	for to = from + 1; to < len(all) && all[from].compareRow(all[to]) == 0; {
		to++
	}
	return to
}

// row returns the row of the requests.
func (r *rowRequests) row() runtime.Row {
	return runtime.Row{Name: r.policy.Name, Key: r.all[0].Key, Shard: r.shard}
}

// upsert returns the numbers of the statement at the instant now, or false if the requests have no such form. A statement takes from
// one shard of a key, and only if it was seen lately.
func (r *rowRequests) upsert(now int64, shards *seenRows) (u meter.Upsert, ok bool) {
	first := r.all[0]
	// In the other modes a take has no row.
	counted := r.policy.Mode == runtime.ModeEnforce || r.policy.Mode == runtime.ModeShadow
	if first.Validate() != nil || !counted {
		return u, false
	}
	r.rule = meter.RuleOf(r.policy, first.Key).For(*first.Request)
	if r.policy.Shards > 1 && (shards == nil || first.Reserve || !r.chooseShard(now, shards)) {
		return u, false
	}
	sum := runtime.Request{Reserve: first.Reserve}
	for i, q := range r.all {
		// Two takes of one call are decided as their sum.
		if !r.adds(q) || i > 0 && q.call == r.all[i-1].call {
			return u, false
		}
		// Equal neighbours, which are most, are checked once.
		if i == 0 || *q.Request != *r.all[i-1].Request {
			if _, ok := r.rule.Upsert(now, *q.Request); !ok {
				return u, false
			}
		}
		// Above that, a sum of whole tokens is no longer exact in a double.
		if sum.Count += q.Count; sum.Count > 2*runtime.MaxTokens {
			return u, false
		}
	}
	u, ok = r.rule.Upsert(now, sum)
	if r.whole != nil {
		u.OutOfDebt()
	}
	return u, ok
}

// mostTries is how many shards are looked for, to find two that were seen.
const mostTries = 8

// chooseShard makes the requests take from the fuller one of two shards, by what was last seen of them.
func (r *rowRequests) chooseShard(now int64, shards *seenRows) bool {
	var numbers [2]int
	var rules [2]meter.Rule
	var states [2]runtime.State
	found, n := 0, r.policy.Shards
	for i, first := 0, rand.IntN(n); i < min(n, mostTries) && found < 2; i++ {
		row := runtime.Row{Name: r.policy.Name, Key: r.all[0].Key, Shard: (first + i) % n}
		if seen := shards.find(row); seen != nil {
			numbers[found], rules[found], states[found] = row.Shard, r.rule.Shard(row.Shard, n), seen.state
			found++
		}
	}
	if found < 2 {
		return false
	}
	i, ok := meter.Shards{Rules: rules[:], States: states[:]}.Fuller(now)
	if ok {
		whole := r.rule
		r.whole, r.rule, r.shard = &whole, rules[i], numbers[i]
	}
	return ok
}

// taken returns the decision for a request that has left the row in a state.
func (r *rowRequests) taken(after runtime.State, now int64, q request) runtime.Decision {
	d := r.rule.Taken(after, now, *q.Request)
	if r.whole != nil {
		d = meter.OfKey(r.whole, r.shard, &r.rule, d)
	}
	d = meter.Applied(r.policy.Mode, d, q.Op, q.Count)
	d.Limit, d.Policy = r.policy.Name, q.Policy
	return d
}

// adds reports whether a request can be added to the others. Several reservations cannot, because the debt of
// each has its own bound.
func (r *rowRequests) adds(q request) bool {
	return q.Op == runtime.Take && (!q.Reserve || len(r.all) == 1) && q.Policy.Equal(r.policy)
}

// part is the rows of one statement.
type part struct {
	policy *runtime.Policy
	rows   []meter.RowUpsert
}

// part returns the part that begins at an index of the rows.
func (t *takes) part(from int) part {
	to := from + 1
	for to < len(t.rows) && t.requests[to].policy.Equal(t.requests[from].policy) &&
		sameNumbers(&t.rows[to].Upsert, &t.rows[from].Upsert) {
		to++
	}
	return part{t.requests[from].policy, t.rows[from:to]}
}

// reset clears the results of an earlier attempt.
func (t part) reset() {
	for i := range t.rows {
		t.rows[i].After = runtime.State{}
	}
}

// answer answers the calls for which was taken from rows[from:to]. Those of other rows it leaves.
func (t *takes) answer(from, to int, calls []runtime.Call, answers []runtime.Answer) {
	for i := from; i < to; i++ {
		s, r := t.rows[i].After, &t.requests[i]
		if !s.Exists {
			continue
		}
		// Backwards from the state after all of them: each decision reports the state after its own request.
		for _, q := range slices.Backward(r.all) {
			a := &answers[q.call]
			if a.Decisions == nil {
				n := len(calls[q.call].Requests)
				*a = runtime.Answer{Decisions: t.decisions[:n:n], At: t.now}
				t.decisions = t.decisions[n:]
			}
			a.Decisions[q.index] = r.taken(s, t.now, q)
			s = meter.Before(s, q.Count)
		}
	}
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
