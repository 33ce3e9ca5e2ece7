package decide

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
)

// takes are rows from which statements can take, and the requests for which they do.
type takes struct {
	// now is the instant of the takes.
	now int64
	// rows are in the order of their limits, and of the rows of each. One statement takes from the rows of one limit.
	rows []takeRow
	// each: rows of one statement may have numbers of their own.
	each bool
	// decisions are the decisions of all calls, in one allocation, or those that no answer has yet.
	decisions []runtime.Decision
}

// takeRow is a row from which a statement takes for some requests together, for all or none. Adding them up is exact: a row
// that has enough for all of them has enough for each in turn, and subtracting whole tokens one by one leaves the same bits
// as subtracting the sum.
type takeRow struct {
	runtime.Row
	policy *runtime.Policy
	rule   meter.Rule
	// whole is the rule of the key of which the row is a shard, or nil.
	whole *meter.Rule
	// requests are in the order of the calls.
	requests []request
	// upsert is the sum of the requests.
	upsert meter.Upsert
	// after is the state in which the row was left. If it does not exist, nothing was taken.
	after runtime.State
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

// newTakes returns the takes of calls at the instant now. The calls of a row stay in their order: if it is left out, all of
// them are.
func newTakes(calls []runtime.Call, now int64, k known) takes {
	if len(calls) == 1 && len(calls[0].Requests) == 1 {
		return newTake(&calls[0].Requests[0], now, k)
	}
	requests := requestsByRow(calls)
	// Counted first, because the rows are large.
	rows := 0
	for rest := requests; len(rest) > 0; rest = rest[rowEnd(rest):] {
		rows++
	}
	t := takes{now: now, rows: make([]takeRow, 0, rows), decisions: make([]runtime.Decision, len(requests)),
		each: k.dialect.TakeEach != "" && !k.together}
	left, mixed := make([]bool, len(calls)), false
	for i := range calls {
		all := calls[i].Requests
		left[i] = len(all) != 1 && !k.together || slices.ContainsFunc(all, func(q runtime.Request) bool { return q.Policy == nil })
	}
	isLeft := func(q request) bool { return left[q.call] }
	for len(requests) > 0 {
		n := rowEnd(requests)
		t.rows = append(t.rows, newTakeRow(requests[:n:n]))
		r := &t.rows[len(t.rows)-1]
		if slices.ContainsFunc(r.requests, isLeft) || !r.fits(now, k) {
			r.mark(left)
		}
		mixed = mixed || !t.eachOf(r) && compareNumbers(&r.upsert, &t.rows[0].upsert) != 0
		requests = requests[n:]
	}
	if slices.Contains(left, true) {
		t.leaveOut(left)
	}
	if mixed && !k.together {
		// Those with the same numbers must be neighbours, where others are not of their statement.
		slices.SortFunc(t.rows, func(a, b takeRow) int {
			c := strings.Compare(a.Name, b.Name)
			if c == 0 && !t.eachOf(&a) {
				c = compareNumbers(&a.upsert, &b.upsert)
			}
			return cmp.Or(c, strings.Compare(a.Key, b.Key))
		})
	}
	return t
}

// newTake is newTakes for a call of one request, which most are.
func newTake(q *runtime.Request, now int64, k known) takes {
	t := takes{now: now, decisions: make([]runtime.Decision, 1)}
	if q.Policy != nil {
		// One allocation in place of two.
		one := &struct {
			rows     [1]takeRow
			requests [1]request
		}{requests: [1]request{{Request: q}}}
		one.rows[0] = newTakeRow(one.requests[:])
		if one.rows[0].fits(now, k) {
			t.rows = one.rows[:]
		}
	}
	return t
}

// newTakeRow returns the row of requests, the first one of their key.
func newTakeRow(all []request) takeRow {
	return takeRow{Row: runtime.Row{Name: all[0].Policy.Name, Key: all[0].Key}, policy: all[0].Policy, requests: all}
}

// mark marks the calls of the requests.
func (r *takeRow) mark(calls []bool) {
	for _, q := range r.requests {
		calls[q.call] = true
	}
}

// leaveOut removes the rows of calls that are left out, and with them the calls about these rows.
func (t *takes) leaveOut(left []bool) {
	isLeft := func(q request) bool { return left[q.call] }
	for again := true; again; {
		again = false
		for _, r := range t.rows {
			if slices.ContainsFunc(r.requests, isLeft) && !r.all(isLeft) {
				r.mark(left)
				again = true
			}
		}
	}
	t.rows = slices.DeleteFunc(t.rows, func(r takeRow) bool { return isLeft(r.requests[0]) })
}

// all reports whether f is true for all requests.
func (r *takeRow) all(f func(request) bool) bool {
	return !slices.ContainsFunc(r.requests, func(q request) bool { return !f(q) })
}

// compareNumbers returns 0 if one statement can take from two rows of a limit: those of calls that reserve have a debt, and
// the shards of a key may have different shares of its numbers.
func compareNumbers(a, b *meter.Upsert) int {
	return cmp.Or(cmp.Compare(a.Debt, b.Debt), cmp.Compare(a.Capacity, b.Capacity), cmp.Compare(a.Rate, b.Rate))
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

// rowEnd returns how many of the requests, which are sorted, are about the row of the first.
func rowEnd(all []request) (n int) {
	for n = 1; n < len(all) && all[0].compareRow(all[n]) == 0; {
		n++
	}
	return n
}

// fits sets the numbers of the statement at the instant now, and reports whether one may take from the row. A row that will
// probably deny is only read: an upsert would lock it, and on some databases log that.
func (r *takeRow) fits(now int64, k known) bool {
	first := &r.requests[0]
	// Some statements do not return the total of the row, without which tokens that were taken in advance could often not be
	// refunded.
	losesTotal := k.dialect.TakeInsertID != "" &&
		slices.ContainsFunc(r.requests, func(q request) bool { return q.Reserve || q.Leased })
	if losesTotal || first.Validate() != nil || !first.UsesRows() {
		return false
	}
	r.rule = meter.RuleFor(first.Request)
	// A statement takes from one shard of a key, and only if it was seen lately.
	if r.policy.Shards > 1 && (k.shards == nil || first.Reserve || !r.chooseShard(now, k.shards)) {
		return false
	}
	return r.addUp(now) && !k.hints.expect(head(r.Row))
}

// addUp sets the numbers of the statement at the instant now, or returns false if the requests have no such form.
func (r *takeRow) addUp(now int64) (ok bool) {
	sum := runtime.Request{Reserve: r.requests[0].Reserve}
	for i, q := range r.requests {
		// Two takes of one call are decided as their sum.
		if !r.adds(q) || i > 0 && q.call == r.requests[i-1].call {
			return false
		}
		// Equal neighbours, which are most, are checked once.
		if i == 0 || *q.Request != *r.requests[i-1].Request {
			if r.upsert, ok = r.rule.Upsert(now, *q.Request); !ok {
				return false
			}
		}
		// Above that, a sum of whole tokens is no longer exact in a double.
		if sum.Count += q.Count; sum.Count > 2*runtime.MaxTokens {
			return false
		}
	}
	if len(r.requests) > 1 {
		r.upsert, ok = r.rule.Upsert(now, sum)
	}
	if r.whole != nil {
		r.upsert.OutOfDebt()
	}
	return ok
}

// adds reports whether a request can be added to the others. Several reservations cannot, because the debt of
// each has its own bound.
func (r *takeRow) adds(q request) bool {
	return q.Op == runtime.Take && (!q.Reserve || len(r.requests) == 1) && q.Policy.Inside().Equal(r.policy)
}

// mostTries is how many shards are looked for, to find two that were seen.
const mostTries = 8

// chooseShard makes the requests take from the fuller one of two shards, by what was last seen of them.
func (r *takeRow) chooseShard(now int64, shards *seenRows) bool {
	var numbers [2]int
	var rules [2]meter.Rule
	var states [2]runtime.State
	found, n := 0, r.policy.Shards
	for i, first := 0, rand.IntN(n); i < min(n, mostTries) && found < 2; i++ {
		row := runtime.Row{Name: r.Name, Key: r.Key, Shard: (first + i) % n}
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
		r.whole, r.rule, r.Shard = &whole, rules[i], numbers[i]
	}
	return ok
}

// taken returns the decision for a request that has left the row in a state.
func (r *takeRow) taken(after runtime.State, now int64, q request) runtime.Decision {
	d := r.rule.Taken(after, now, *q.Request)
	if r.whole != nil {
		d = meter.OfKey(r.whole, r.Shard, &r.rule, d)
	}
	d = meter.Applied(r.policy.Mode, d, q.Op, q.Count)
	d.Limit, d.Policy = r.policy.Name, q.Policy
	return d
}

// answer answers the calls for which was taken from a row.
func (t *takes) answer(r *takeRow, calls []runtime.Call, answers []runtime.Answer) {
	// Backwards from the state after all of them: each decision reports the state after its own request.
	s := r.after
	for _, q := range slices.Backward(r.requests) {
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

// part is the rows of one statement.
type part []takeRow

// part returns the rows of the statement that takes from the one at an index.
func (t *takes) part(from int) part {
	to := from + 1
	for to < len(t.rows) && t.share(&t.rows[to], &t.rows[from]) {
		to++
	}
	return t.rows[from:to]
}

// share reports whether one statement can take from two rows.
func (t *takes) share(a, b *takeRow) bool {
	if t.eachOf(a) {
		return a.Name == b.Name && a.policy.Durability == b.policy.Durability
	}
	return a.policy.Inside().Equal(b.policy) && compareNumbers(&a.upsert, &b.upsert) == 0
}

// eachOf reports whether a statement can take from a row together with rows of the limit that have other numbers.
func (t *takes) eachOf(r *takeRow) bool { return t.each && r.policy.Shards <= 1 }

// mostParts is how many statements take for a batch. Each commits, and a transaction for all rows is as many round trips.
const mostParts = 4

// inFew reports whether few statements take from the rows from an index.
func (t *takes) inFew(from int) bool {
	for n := 0; from < len(t.rows); from += len(t.part(from)) {
		if n++; n > mostParts {
			return false
		}
	}
	return true
}

// reset clears the results of an earlier attempt.
func (t part) reset() {
	for i := range t {
		t[i].after = runtime.State{}
	}
}

// find returns the index of the row of a key, which is expected at an index: databases mostly return rows in the order in
// which they got them.
func (t part) find(key string, expected int) (int, bool) {
	if expected < len(t) && t[expected].Key == key {
		return expected, true
	}
	return slices.BinarySearchFunc(t, key, func(r takeRow, key string) int { return strings.Compare(r.Key, key) })
}
