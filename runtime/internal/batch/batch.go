// Package batch executes calls on stored rows: the part that all stores share.
package batch

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
)

// Batch executes calls on stored rows. It is the part that all implementations of [runtime.Store] share; a store only
// locks, reads and writes:
//
//	b := New(calls)
//	for {
//		// begin, lock and read b.Rows() in their order
//		if b.Run(now, states) {
//			break
//		}
//		// roll back: more rows are needed
//	}
//	// write b.Changes(), commit, return b.Answers()
type Batch struct {
	calls []runtime.Call
	// one: the calls are those of [One].
	one     bool
	rows    []runtime.Row
	stored  []runtime.State
	states  []runtime.State
	answers []runtime.Answer
	// undoLog has the states before the current call.
	undoLog []undoEntry
	seed    uint64
	// rule is the rule of the current request, and of the requests for the same key before it, of which ruled is the last.
	rule  meter.Rule
	ruled runtime.Request
	// decisions are the decisions of all calls, in one allocation; free is the part of them for the calls to come.
	decisions, free []runtime.Decision
	// allShards has the keys of which Rows has all shards, as rows without a shard, and lacking those of which it must have
	// them.
	allShards map[runtime.Row]bool
	lacking   []runtime.Row
	// unsharded means that each key has one row, whatever its policy says.
	unsharded bool
	// turns chooses the shard of a key, or is nil; partial means that it has.
	turns   *Turns
	partial bool
}

// undoEntry is the state of a row before a change.
type undoEntry struct {
	row   int
	state runtime.State
}

// New returns a batch of calls, which are executed in their order.
func New(calls []runtime.Call) *Batch { return NewSeeded(calls, rand.Uint64()) }

// NewSeeded returns a batch that chooses shards by the seed, so that its answers are the same each time it runs on
// the same states. The seed must be as good as random.
func NewSeeded(calls []runtime.Call, seed uint64) *Batch {
	return newBatch(Batch{calls: calls, seed: seed})
}

// NewInTurn returns a batch that reads one shard of a key if that has enough tokens: the one whose turn it is.
func NewInTurn(calls []runtime.Call, turns *Turns) *Batch {
	return newBatch(Batch{calls: calls, seed: rand.Uint64(), turns: turns})
}

// NewUnsharded returns a batch for which each key has one row, whatever its policy says.
func NewUnsharded(calls []runtime.Call) *Batch {
	return newBatch(Batch{calls: calls, unsharded: true})
}

func newBatch(b Batch) *Batch {
	if row, ok := One(b.calls); ok {
		b.one, b.rows = true, []runtime.Row{row}
	} else {
		b.collectRows()
	}
	return &b
}

// collectRows sets the rows to those that the calls need.
func (b *Batch) collectRows() {
	b.rows = make([]runtime.Row, 0, len(b.calls)) // the store may still have the rows that there were
	var last *runtime.Request
	for i := range b.calls {
		for j := range b.calls[i].Requests {
			q := &b.calls[i].Requests[j]
			if last != nil && ofOneKey(q, last) {
				continue // its rows are there
			}
			// An invalid request has no rows, and is answered with an error without them.
			if q.Validate() == nil && q.UsesRows() {
				if b.shardsOf(q.Policy) == 1 {
					last = q
				}
				for _, shard := range b.shards(q) {
					b.rows = append(b.rows, runtime.Row{Name: q.Policy.Name, Key: q.Key, Shard: shard})
				}
			}
		}
	}
	b.sortRows()
	if b.turns != nil {
		b.chooseShards()
	}
}

// sortRows sorts the rows, and removes duplicates.
func (b *Batch) sortRows() {
	slices.SortFunc(b.rows, runtime.Row.Compare)
	b.rows = slices.Compact(b.rows)
}

// chooseShards gives the rows for one of -Shard shards the number whose turn it is. The requests for a key have one such
// row.
func (b *Batch) chooseShards() {
	b.partial = false
	for i := range b.rows {
		if r := &b.rows[i]; r.Shard < 0 {
			r.Shard, b.partial = b.turns.next(r.Name, r.Key, -r.Shard), true
		}
	}
	if b.partial {
		b.sortRows() // the key may have other rows, such as those of refunds
	}
}

// ofOneKey reports whether two requests are of one policy and key, with the same windows. Then both are valid or
// neither is.
func ofOneKey(q, o *runtime.Request) bool {
	return q.Policy == o.Policy && q.Key == o.Key && q.Zone == o.Zone && q.Anniversary == o.Anniversary
}

// shards returns the shards of its key that a request needs: two chosen at random, or -n for one of n in turn, or the one
// that it returns tokens to, or all of them if those do not suffice.
func (b *Batch) shards(q *runtime.Request) []int {
	n := b.shardsOf(q.Policy)
	if n == 1 {
		return shardNumbers[:1]
	}
	if b.allShards[wholeKey(q)] {
		return shardNumbers[:n]
	}
	if meter.OfShard(q) {
		return shardNumbers[q.Shard-1 : q.Shard]
	}
	if n > 2 && q.Decides() {
		if b.turns != nil {
			return []int{-n}
		}
		// All requests of the batch for one key get the same two, so that a batch locks few rows.
		first, second := meter.TwoOf(n, arith.Hash(q.Policy.Name, q.Key)^b.seed)
		return []int{first, second}
	}
	return shardNumbers[:n]
}

// oneOf returns one of the shards of a request's key that were read, the same one for all requests of the batch.
func (b *Batch) oneOf(q *runtime.Request, n int) []int {
	from, to := b.find(q, 0), b.find(q, n)
	at := b.rows[from+int(b.seed%uint64(to-from))].Shard
	return shardNumbers[at : at+1]
}

// shardsOf returns how many rows a key with the policy has.
func (b *Batch) shardsOf(p *runtime.Policy) int {
	if b.unsharded {
		return 1
	}
	return max(1, p.Shards)
}

// isOf reports whether a row belongs to a request's key.
func isOf(r runtime.Row, q *runtime.Request) bool { return r.Key == q.Key && r.Name == q.Policy.Name }

// wholeKey identifies a request's key without a shard.
func wholeKey(q *runtime.Request) runtime.Row {
	return runtime.Row{Name: q.Policy.Name, Key: q.Key, Shard: -1}
}

// shardNumbers holds the numbers of all shards that a limit can have, so that shards needs no allocation.
var shardNumbers = func() (all [runtime.MaxShards]int) {
	for i := range all {
		all[i] = i
	}
	return all
}()

// Rows returns the rows that the calls need, without duplicates, in the order of [runtime.Row.Compare].
func (b *Batch) Rows() []runtime.Row { return b.rows }

// Calls returns how many calls the batch has.
func (b *Batch) Calls() int { return len(b.calls) }

// Partial reports whether Rows has one of the shards of a key, so that the calls need more rows if it is missing.
func (b *Batch) Partial() bool { return b.partial }

// Reads reports whether the calls change nothing.
func (b *Batch) Reads() bool {
	for i := range b.calls {
		for j := range b.calls[i].Requests {
			if op := b.calls[i].Requests[j].Op; op != runtime.Check && op != runtime.Peek {
				return false
			}
		}
	}
	return true
}

// Run executes the calls at the instant now, in nanoseconds since 1970 UTC, on the states of Rows. It returns false if
// the calls need more rows: then Rows has grown, and all rows must be read again in a transaction that has locked them
// all.
func (b *Batch) Run(now int64, states []runtime.State) bool {
	// Changes compares with the states read, so that rows without a change are not written.
	b.stored = states
	if b.one {
		b.states = make([]runtime.State, 1)
		b.states[0], b.answers = DecideOne(&b.rule, b.calls, now, states[0])
		return true
	}
	b.states = append(b.states[:0], states...)
	if b.answers == nil {
		requests := 0
		for i := range b.calls {
			requests += len(b.calls[i].Requests)
		}
		b.answers, b.decisions = make([]runtime.Answer, len(b.calls)), make([]runtime.Decision, requests)
	}
	clear(b.decisions)
	b.free = b.decisions
	done := true
	for i := range b.calls {
		answer, ok := b.execute(b.calls[i].Requests, now)
		// The calls after it may need more rows too: all of them are read at once, and not those of one call at a time.
		done = done && ok
		answer.At = now
		b.answers[i] = answer
	}
	if !done {
		if b.allShards == nil {
			b.allShards = map[runtime.Row]bool{}
		}
		for _, key := range b.lacking {
			b.allShards[key] = true
		}
		b.lacking = nil
		b.collectRows()
	}
	return done
}

// Answers returns one answer per call, after Run has returned true. They are valid until it is called again.
func (b *Batch) Answers() []runtime.Answer { return b.answers }

// Changes returns the rows that the calls have changed, in the order of [runtime.Row.Compare].
func (b *Batch) Changes() []runtime.StoredRow {
	var changes []runtime.StoredRow
	for i, s := range b.states {
		if s != b.stored[i] {
			if changes == nil {
				changes = make([]runtime.StoredRow, 0, len(b.states)-i)
			}
			changes = append(changes, runtime.StoredRow{Row: b.rows[i], State: s})
		}
	}
	return changes
}

// execute executes a call, and undoes it unless all of its requests pass. It returns false if it needs more rows.
func (b *Batch) execute(requests []runtime.Request, now int64) (answer runtime.Answer, ok bool) {
	b.undoLog = b.undoLog[:0]
	answer, ok = b.decideAll(requests, now)
	if !ok || answer.Allowed() {
		return answer, ok
	}
	b.undoExceptPenalties(requests, answer.Decisions)
	if answer, ok = b.recheck(answer, requests, now); ok {
		ok = b.waitAcrossEnds(answer.Decisions, requests, now)
	}
	return answer, ok
}

// waitAcrossEnds sets the RetryAfter of denials for which overrides end: the policies that follow may grant the tokens
// earlier or later. If the call passes later than the last of its requests would alone, because an override of one ends
// while another one waits, the last one waits for that.
func (b *Batch) waitAcrossEnds(decisions []runtime.Decision, requests []runtime.Request, now int64) (ok bool) {
	if len(decisions) == 0 || !slices.ContainsFunc(requests, func(q runtime.Request) bool { next, _ := q.Policy.Inside().Next(); return next != nil }) {
		return true
	}
	var last *runtime.Decision
	for i := range decisions {
		d := &decisions[i]
		if d.Allowed {
			continue
		}
		if d.RetryAfter, ok = b.passesAfter(decisions, requests, now, i); !ok {
			return false
		}
		if last == nil || d.RetryAfter > last.RetryAfter {
			last = d
		}
	}
	if len(requests) > 1 {
		last.RetryAfter, ok = b.passesAfter(decisions, requests, now, -1)
	}
	return ok
}

// passesAfter returns how long after now a denied call passes, or one request of it, given the decisions now. It
// returns false if it needs more rows.
func (b *Batch) passesAfter(decisions []runtime.Decision, requests []runtime.Request, now int64, only int) (time.Duration, bool) {
	for at := now; ; {
		longest, end := time.Duration(0), int64(math.MaxInt64)
		for i := range requests {
			if only >= 0 && i != only {
				continue
			}
			d, ok := decisions[i], true
			policy, ends := requests[i].Policy.Inside().At(at)
			if at > now || policy != requests[i].Policy {
				d, ok = b.decideAt(requests, i, at)
			}
			if !ok {
				return 0, false
			}
			longest, end = max(longest, d.RetryAfter), min(end, ends)
		}
		// While no policy ends, a request that passes once passes from then on.
		switch passes := arith.Add(at, int64(longest)); {
		case longest == runtime.Never && end == math.MaxInt64:
			return runtime.Never, true
		case passes < end || end == math.MaxInt64:
			return max(1, arith.Between(now, passes)), true
		}
		at = end
	}
}

// decideAt returns the decision on a request of a denied call at a later instant, by the policy that is then in force.
func (b *Batch) decideAt(requests []runtime.Request, i int, at int64) (runtime.Decision, bool) {
	q := requests[i]
	read := q.UsesRows()
	q.Policy, _ = q.Policy.Inside().At(at)
	q = q.AsCheck()
	if !read && q.UsesRows() {
		// The tokens of a key that is blocked, or has no limit now, are unknown.
		if rule := meter.RuleFor(&q); q.Policy.Mode == runtime.ModeShadow || rule.Refuse(&q) == nil {
			return runtime.Decision{Allowed: true}, true
		}
		return runtime.Decision{RetryAfter: runtime.Never}, true
	}
	d, ok, err := b.decide(q, TakenBefore(requests, i), at)
	if err != nil {
		return runtime.Decision{RetryAfter: runtime.Never}, true
	}
	return d, ok
}

// decideAll executes the requests of a call, and goes on after a denial: a denied call reports which of its limits
// would have passed.
func (b *Batch) decideAll(requests []runtime.Request, now int64) (answer runtime.Answer, ok bool) {
	n := len(requests)
	decisions := b.free[:n:n]
	b.free = b.free[n:]
	// Checks come first, so that each sees the tokens before those of its call are taken, whatever the order of the items.
	for _, checks := range [...]bool{true, false} {
		for i := range requests {
			if (requests[i].Op == runtime.Check) != checks {
				continue
			}
			err := refuseTogether(&requests[i], requests)
			if err == nil {
				decisions[i], ok, err = b.decide(requests[i], TakenBefore(requests, i), now)
			}
			switch {
			case err != nil:
				return runtime.Answer{Err: errorOf(requests, i, err)}, true
			case !ok:
				return runtime.Answer{}, false
			}
			if q := &requests[i]; q.Op == runtime.Take && !q.Empty() && q.Policy.Warn[0] != 0 {
				// It was decided as the sum with the earlier takes from this key, which it has undone.
				for j := range takesOf(requests[:i], &requests[i]) {
					decisions[j].Crossed = 0
				}
			}
			if d := decisions[i]; requests[i].Op == runtime.Take && d.Shadowed && d.TakenAt.IsZero() {
				// Neither did the earlier requests for this key take anything: see decide.
				for j := range takesOf(requests[:i], &requests[i]) {
					decisions[j] = d
				}
			}
		}
	}
	return runtime.Answer{Decisions: decisions}, true
}

// RefuseTogether returns the error of a call in which the request with an index cannot be with the others: each must be a
// Take or a Check, and those for one key must have equal policies, and the same zone and anniversary. Different keys of a
// name may have different plans.
func RefuseTogether(requests []runtime.Request, i int) error {
	err := refuseTogether(&requests[i], requests)
	if err != nil {
		err = errorOf(requests, i, err)
	}
	return err
}

func refuseTogether(q *runtime.Request, all []runtime.Request) error {
	if len(all) == 1 {
		return nil
	}
	if !q.Op.Together() {
		return fmt.Errorf("%w: a call with several requests must contain only Take and Check, not %v",
			runtime.ErrInvalidCall, q.Op)
	}
	for i := range all {
		other := all[i].Policy
		if q.Policy != other && q.Key == all[i].Key && q.Policy != nil && other != nil && q.Policy.Name == other.Name &&
			!q.Policy.Inside().Equal(other) {
			return fmt.Errorf("%w: two different policies have this name and key", runtime.ErrInvalidCall)
		}
		if all[i].Key == q.Key && other != nil && q.Policy != nil && q.Policy.Name == other.Name && !q.SameWindows(&all[i]) {
			return fmt.Errorf("%w: one key has two time zones or anniversaries", runtime.ErrInvalidCall)
		}
		if other := &all[i]; other != q && q.Acquires() && other.Acquires() && q.Key == other.Key && q.Policy.Name == other.Policy.Name {
			return fmt.Errorf("%w: the slots of one key have one holder: acquire all of them by one request", runtime.ErrInvalidCall)
		}
	}
	return nil
}

// recheck replaces the decisions that allowed a Take of an undone call: the tokens left are those without the call. So
// it does for those with a penalty, which is undone if the sum with later requests can never pass: see refused.
func (b *Batch) recheck(answer runtime.Answer, requests []runtime.Request, now int64) (runtime.Answer, bool) {
	for i, d := range answer.Decisions {
		undone := d.Allowed || d.PenaltyFor > 0 && len(requests) > 1
		if !undone || requests[i].Op == runtime.Check {
			continue
		}
		// A Check changes no row, so that the rechecks do not depend on each other.
		q := requests[i]
		q.Op = runtime.Check
		d, ok, _ := b.decide(q, TakenBefore(requests, i), now)
		if !ok {
			return runtime.Answer{}, false
		}
		answer.Decisions[i] = d
	}
	return answer, true
}

// decide executes a request, after earlier ones of its call have taken tokens from its key.
func (b *Batch) decide(q runtime.Request, taken int64, now int64) (d runtime.Decision, ok bool, err error) {
	same := b.ruled.Policy != nil && ofOneKey(&q, &b.ruled)
	if !same {
		if err := q.Validate(); err != nil {
			return runtime.Decision{}, true, err
		}
	}
	if !q.UsesRows() {
		d, err := withoutRows(&q, now)
		return meter.Decided(&q, d, now), true, err
	}
	// The rule is a field, because a local variable whose address reaches an interface is allocated for every request.
	if !same {
		b.rule, b.ruled = meter.RuleFor(&q), q
	}
	whole := &b.rule
	// Each count is checked before it is added to a sum, so that the sum cannot overflow.
	count := q.Count
	if err := whole.Refuse(&q); err != nil {
		q.Count = min(q.Count, maxSum) + taken
		return b.refused(whole, q, err, now)
	}
	// Requests of one call for one key are executed as one request for the sum: only so is it an error if the sum can
	// never pass, and only so are RetryAfter and Delay those of the sum.
	if taken > 0 {
		q.Count += taken
		b.undo(func(r runtime.Row) bool { return isOf(r, &q) })
	}
	d, ok, err = b.step(whole, &q, now)
	if err != nil {
		return b.refused(whole, q, err, now)
	}
	d = meter.Decided(&q, d, now)
	d.Taken = min(d.Taken, count)
	return d, ok, nil
}

// refused returns the error of a request, or a decision: a count beyond the capacity is a denial in ModeShadow, and if
// an override that ends gives the key less than the count.
func (b *Batch) refused(whole *meter.Rule, q runtime.Request, err error, now int64) (runtime.Decision, bool, error) {
	if !q.Decides() || !errors.Is(err, runtime.ErrExceedsCapacity) ||
		q.Policy.Mode != runtime.ModeShadow && !meter.FitsLater(&q) {
		return runtime.Decision{}, true, err
	}
	if b.shardsOf(q.Policy) > 2 && !b.allShards[wholeKey(&q)] {
		b.lacking = append(b.lacking, wholeKey(&q))
		return runtime.Decision{}, false, nil
	}
	// The requests before it for this key take nothing either: see decideAll.
	b.undo(func(r runtime.Row) bool { return isOf(r, &q) })
	q.Op = runtime.Peek
	d, ok, err := b.step(whole, &q, now)
	d.Allowed, d.RetryAfter = false, runtime.Never
	return meter.Decided(&q, d, now), ok, err
}

// TakenBefore returns how many tokens the requests before one of a call take from its key; 0 for a Check, which does
// not depend on them, and for a count of 0.
func TakenBefore(requests []runtime.Request, at int) int64 {
	q, sum := &requests[at], int64(0)
	if at == 0 || q.Op != runtime.Take || q.Policy == nil || q.Empty() {
		return 0
	}
	for _, e := range takesOf(requests[:at], q) {
		// A request that has passed in ModeShadow may have any count.
		sum = min(sum+min(e.Count, maxSum), maxSum)
	}
	return sum
}

// maxSum is more than any request can take. Twice as much does not overflow.
const maxSum = 4 * runtime.MaxTokens

// takesOf yields the requests that take from the key of q, with their indexes.
func takesOf(requests []runtime.Request, q *runtime.Request) iter.Seq2[int, *runtime.Request] {
	return func(yield func(int, *runtime.Request) bool) {
		for i := range requests {
			r := &requests[i]
			if r.Op == runtime.Take && r.Key == q.Key && r.Policy.Name == q.Policy.Name && !yield(i, r) {
				return
			}
		}
	}
}

// step executes a request on the rows of its key.
func (b *Batch) step(whole *meter.Rule, q *runtime.Request, now int64) (d runtime.Decision, ok bool, err error) {
	if b.shardsOf(q.Policy) == 1 {
		i := b.find(q, 0)
		next, d, err := whole.Step(b.states[i], now, *q)
		b.set(i, next)
		return d, true, err
	}
	numbers := b.shards(q)
	if numbers[0] < 0 {
		numbers = b.oneOf(q, -numbers[0])
	}
	s := b.read(whole, q, numbers)
	if d, ok, err = s.Step(whole, q.Policy.Shards, now, q); !ok {
		b.lacking = append(b.lacking, wholeKey(q))
		return runtime.Decision{}, false, nil
	}
	for i, n := range numbers {
		b.set(b.find(q, n), s.States[i])
	}
	if d.Receipt.Shard > 0 {
		d.Receipt.Shard = numbers[d.Receipt.Shard-1] + 1
	}
	return d, true, err
}

// read returns a copy of the shards of a request's key with the given numbers.
func (b *Batch) read(whole *meter.Rule, q *runtime.Request, numbers []int) meter.Shards {
	s := meter.Shards{Rules: make([]meter.Rule, len(numbers)), States: make([]runtime.State, len(numbers))}
	for i, n := range numbers {
		s.Rules[i] = whole.Shard(n, q.Policy.Shards)
		s.States[i] = b.states[b.find(q, n)]
	}
	return s
}

// find returns the index of a shard's row in Rows.
func (b *Batch) find(q *runtime.Request, shard int) int {
	i, _ := slices.BinarySearchFunc(b.rows, runtime.Row{Name: q.Policy.Name, Key: q.Key, Shard: shard}, runtime.Row.Compare)
	return i
}

// set changes the state of a row, until undo.
func (b *Batch) set(i int, s runtime.State) {
	if b.states[i] != s {
		b.undoLog = append(b.undoLog, undoEntry{i, b.states[i]})
		b.states[i] = s
	}
}

// undo returns the matching rows to their states before the call.
func (b *Batch) undo(match func(runtime.Row) bool) {
	// Backward, because a row that has changed twice is in the log twice: the first entry must be applied last.
	for _, u := range slices.Backward(b.undoLog) {
		if match(b.rows[u.row]) {
			b.states[u.row] = u.state
		}
	}
}

// undoExceptPenalties returns all rows to their states before the call, but for the penalties of requests that were
// denied for lack of their own tokens.
func (b *Batch) undoExceptPenalties(requests []runtime.Request, decisions []runtime.Decision) {
	after := map[int]runtime.State{}
	for i, d := range decisions {
		if q := &requests[i]; d.PenaltyFor > 0 && q.Takes() && q.UsesRows() && (!d.Allowed || d.Shadowed) {
			row := b.find(q, 0)
			after[row] = b.states[row]
		}
	}
	b.undo(func(runtime.Row) bool { return true })
	b.undoLog = b.undoLog[:0]
	for row, is := range after {
		b.states[row] = meter.KeepPenalty(b.states[row], is)
	}
}

// withoutRows decides a request that does not use rows at the instant now.
func withoutRows(q *runtime.Request, now int64) (runtime.Decision, error) {
	r := meter.Boundless(q.Policy.Kind)
	if err := r.Refuse(q); err != nil {
		return runtime.Decision{}, err
	}
	blocked, zero := q.Policy.Inside().BlockedFor(now), q.Policy.Inside().Zero()
	switch {
	case q.Policy.Mode.Passes():
	case q.Decides() && blocked > 0 && !q.Empty():
		return runtime.Decision{RetryAfter: blocked}, nil
	case q.Decides() && zero && !q.Empty():
		return runtime.Decision{RetryAfter: runtime.Never}, nil
	case zero, q.Decides():
		return runtime.Decision{Allowed: true}, nil
	}
	d := runtime.Decision{Allowed: true, Remaining: runtime.MaxTokens, Value: runtime.MaxTokens}
	if q.Takes() {
		d.Taken = q.Count
	}
	return d, nil
}
