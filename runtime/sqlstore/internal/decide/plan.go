package decide

import (
	"cmp"
	"iter"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/dialect"
)

// plan is a batch arranged for upserts: the rows that statements can take from, and the calls that they cannot answer.
type plan struct {
	calls []runtime.Call
	// now is the instant at which the batch is decided.
	now int64
	// rows are in the order of their limits, and of the rows of each. One statement takes from the rows of one limit.
	rows []meter.RowUpsert
	// requests[i] are the requests that take from rows[i].
	requests []rowRequests
	// rest are the indexes of calls without an upsert, at first.
	rest []int
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
	// call is the index of the call.
	call int
	// alone means that the call has no other request.
	alone bool
}

// newPlan returns the plan of calls at the instant now. The shards are those seen lately, or nil if statements take from none.
func newPlan(calls []runtime.Call, now int64, on *dialect.Dialect, hints *denialHints, shards *seenRows) *plan {
	requests := requestsByRow(calls)
	n := countRows(requests)
	p := &plan{calls: calls, now: now, rows: make([]meter.RowUpsert, 0, n), requests: make([]rowRequests, 0, n)}
	covered := make([]bool, len(calls))
	mixed := false
	for of := range byRow(requests) {
		// Appended before it is known to fit: a variable of its own would be an allocation for each row.
		p.requests = append(p.requests, rowRequests{policy: of[0].Policy, all: of})
		r := &p.requests[len(p.rows)]
		upsert, ok := r.upsert(now, shards)
		// A row that will probably deny is only read: an upsert would lock it, and on some databases log that.
		if !ok || losesTotal(on, of[0]) || hints.expect(runtime.Row{Name: r.policy.Name, Key: of[0].Key}) {
			p.requests = p.requests[:len(p.rows)]
			continue
		}
		p.rows = append(p.rows, meter.RowUpsert{Row: r.row(), Upsert: upsert})
		mixed = mixed || !sameNumbers(&upsert, &p.rows[0].Upsert)
		for _, q := range of {
			covered[q.call] = true
		}
	}
	for i, done := range covered {
		if !done {
			p.rest = append(p.rest, i)
		}
	}
	if mixed {
		// Rows with different numbers are not of one statement, so those with the same must be neighbours.
		sort.Sort(byNumbers{p})
	}
	return p
}

// sameNumbers reports whether one statement can take from two rows of a limit: those of calls that reserve have a debt, and
// the shards of a key may have different shares of its numbers.
func sameNumbers(a, b *meter.Upsert) bool {
	return a.Debt == b.Debt && a.Capacity == b.Capacity && a.Rate == b.Rate
}

// byNumbers sorts the rows of a plan by limit, numbers and key.
type byNumbers struct{ *plan }

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
				all = append(all, request{q, i, len(c.Requests) == 1})
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

// byRow yields the requests of each row.
func byRow(all []request) iter.Seq[[]request] {
	return func(yield func([]request) bool) {
		for from, to := 0, 1; from < len(all); from, to = to, to+1 {
			for to < len(all) && all[from].compareRow(all[to]) == 0 {
				to++
			}
			if !yield(all[from:to:to]) {
				return
			}
		}
	}
}

func countRows(all []request) (n int) {
	for range byRow(all) {
		n++
	}
	return n
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
		if !r.adds(q) {
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
	d = r.policy.Mode.Applied(d, q.Op, q.Count)
	d.Limit, d.Policy = r.policy.Name, q.Policy
	return d
}

// adds reports whether a request can be added to the others. Several reservations cannot, because the debt of
// each has its own bound.
func (r *rowRequests) adds(q request) bool {
	return q.alone && q.Op == runtime.Take && (!q.Reserve || len(r.all) == 1) && q.Policy.Equal(r.policy)
}

// single reports whether the whole batch is about one row, from which an upsert can take.
func (p *plan) single() bool { return len(p.rest) == 0 && len(p.rows) == 1 }

// part is the rows of one statement.
type part struct {
	policy *runtime.Policy
	rows   []meter.RowUpsert
}

// part returns the part that begins at an index of the rows.
func (p *plan) part(from int) part {
	return part{p.requests[from].policy, p.rows[from:p.statementEnd(from)]}
}

// statementEnd returns the index after the rows that are of one statement with those at from.
func (p *plan) statementEnd(from int) int {
	to := from + 1
	for to < len(p.rows) && p.requests[to].policy.Equal(p.requests[from].policy) &&
		sameNumbers(&p.rows[to].Upsert, &p.rows[from].Upsert) {
		to++
	}
	return to
}

// reset clears the results of an earlier attempt.
func (t part) reset() {
	for i := range t.rows {
		t.rows[i].After = runtime.State{}
	}
}

// answer answers the calls whose tokens were taken, and returns the indexes of the others in their order, and marks those
// of which an upsert has taken nothing.
func (p *plan) answer(answers []runtime.Answer) (rest []int, denied []bool) {
	rest = p.rest
	// One allocation for all decisions of the batch.
	decisions := make([]runtime.Decision, len(p.calls))
	for i := range p.rows {
		s := p.rows[i].After
		r := &p.requests[i]
		if !s.Exists {
			if denied == nil {
				denied = make([]bool, len(p.calls))
			}
			for _, q := range r.all {
				rest, denied[q.call] = append(rest, q.call), true
			}
			continue
		}
		// Backwards from the state after all of them: each decision reports the state after its own request.
		for _, q := range slices.Backward(r.all) {
			d := decisions[q.call : q.call+1 : q.call+1]
			d[0] = r.taken(s, p.now, q)
			answers[q.call] = runtime.Answer{Decisions: d, At: p.now}
			s = meter.Before(s, q.Count)
		}
	}
	slices.Sort(rest)
	return rest, denied
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
