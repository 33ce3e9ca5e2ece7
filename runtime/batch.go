package runtime

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Batch executes calls on stored rows. It is the part that all implementations of [Store] share; a store only locks,
// reads and writes:
//
//	b := NewBatch(calls)
//	for {
//		// begin, lock and read b.Rows() in their order
//		if b.Run(now, states) {
//			break
//		}
//		// roll back, or if b.Guarded() lock and read the new rows too: more rows are needed
//	}
//	// write b.Changes(), commit, return b.Answers()
type Batch struct {
	calls   []Call
	rows    []Row
	stored  []State
	states  []State
	answers []Answer
	// undoLog has the states before the current call.
	undoLog []undoEntry
	seed    uint64
	// rule is that of the current request.
	rule Rule
	// allShards has the keys of which all shards are needed, as rows without a shard.
	allShards map[Row]bool
	// requested are the rows beside heads that the logs of precise limits need.
	requested map[Row]bool
	// written are rows beside heads that are written without having been read, in the order of their states after those of
	// rows, and their indexes.
	written   []Row
	writtenAt map[Row]int
	// regrown means that all rows must be read again.
	regrown bool
	// unsharded means that each key has one row, whatever its policy says.
	unsharded bool
}

// undoEntry is the state of a row before a change.
type undoEntry struct {
	row   int
	state State
}

// Change is a row to be written, or to be deleted if its State does not Exist.
type Change struct {
	Row   Row
	State State
}

// NewBatch returns a batch of calls, which are executed in their order.
func NewBatch(calls []Call) *Batch { return NewSeededBatch(calls, rand.Uint64()) }

// NewSeededBatch returns a batch that chooses shards by the seed, so that its answers are the same each time it runs on
// the same states. The seed must be as good as random.
func NewSeededBatch(calls []Call, seed uint64) *Batch {
	b := &Batch{calls: calls, seed: seed}
	b.collectRows()
	return b
}

// NewUnsharded returns a batch for which each key has one row, whatever its policy says.
func NewUnsharded(calls []Call) *Batch {
	b := &Batch{calls: calls, unsharded: true}
	b.collectRows()
	return b
}

// collectRows sets the rows to those that the calls need.
func (b *Batch) collectRows() {
	b.rows = nil // the store may still have the rows that there were
	for row := range b.requested {
		b.rows = append(b.rows, row)
	}
	for i := range b.calls {
		for j := range b.calls[i].Requests {
			// An invalid request has no rows, and is answered with an error without them.
			if q := &b.calls[i].Requests[j]; q.Validate() == nil && q.UsesRows() {
				for _, shard := range b.shards(q) {
					b.rows = append(b.rows, Row{q.Policy.Name, q.Key, shard})
				}
			}
		}
	}
	slices.SortFunc(b.rows, Row.Compare)
	b.rows = slices.Compact(b.rows)
}

// shards returns the shards of its key that a request needs: two chosen at random, or the one that it returns tokens to, or
// all of them if those do not suffice.
func (b *Batch) shards(q *Request) []int {
	n := b.shardsOf(q.Policy)
	if n == 1 {
		return shardNumbers[:1]
	}
	if b.allShards[wholeKey(q)] {
		return shardNumbers[:n]
	}
	if q.ofShard() {
		return shardNumbers[q.Shard-1 : q.Shard]
	}
	if n > 2 && q.Decides() {
		// All requests of the batch for one key get the same two, so that a batch locks few rows.
		first, second := twoOf(n, hash(q.Policy.Name, q.Key)^b.seed)
		return []int{first, second}
	}
	return shardNumbers[:n]
}

// shardsOf returns how many rows a key with the policy has.
func (b *Batch) shardsOf(p *Policy) int {
	if b.unsharded {
		return 1
	}
	return max(1, p.Shards)
}

// useAllShards makes the batch read all shards of a request's key.
func (b *Batch) useAllShards(q *Request) {
	b.regrown = true
	if b.allShards == nil {
		b.allShards = map[Row]bool{}
	}
	b.allShards[wholeKey(q)] = true
}

// isOf reports whether a row belongs to a request's key.
func isOf(r Row, q *Request) bool { return r.Key == q.Key && r.Name == q.Policy.Name }

// wholeKey identifies a request's key without a shard.
func wholeKey(q *Request) Row { return Row{q.Policy.Name, q.Key, -1} }

// shardNumbers holds the numbers of all shards that a limit can have, so that shards needs no allocation.
var shardNumbers = func() (all [MaxShards]int) {
	for i := range all {
		all[i] = i
	}
	return all
}()

// Rows returns the rows that the calls need, without duplicates, in the order of [Row.Compare].
func (b *Batch) Rows() []Row { return b.rows }

// Run executes the calls at the instant now, in nanoseconds since 1970 UTC, on the states of Rows. It returns false if
// the calls need more rows: then Rows has grown. If Guarded, the new rows can be read in the same transaction, and
// otherwise all rows must be read again in a transaction that has locked them all.
func (b *Batch) Run(now int64, states []State) bool {
	// Changes compares with the states read, so that rows without a change are not written.
	b.stored = states
	b.states = slices.Clone(states)
	b.written, b.writtenAt, b.regrown = nil, nil, false
	b.answers = make([]Answer, len(b.calls))
	done := true
	for i := range b.calls {
		answer, ok := b.execute(b.calls[i].Requests, now)
		done = done && ok
		if b.regrown {
			break
		}
		// After a call that needs guarded rows, the others go on, so that the rows of all of them are read at once.
		answer.At = now
		b.answers[i] = answer
	}
	if !done {
		b.collectRows()
	}
	return done
}

// Guarded reports, after Run has returned false, whether the locks of the rows that Run got protect the new rows too:
// a row beside the head of a precise limit is locked only after the head. Then the new rows can be locked in any order
// after the others.
func (b *Batch) Guarded() bool { return !b.regrown }

// Answers returns one answer per call, after Run has returned true.
func (b *Batch) Answers() []Answer { return b.answers }

// Changes returns the rows that the calls have changed, in the order of [Row.Compare].
func (b *Batch) Changes() []Change {
	var changes []Change
	for i, s := range b.states {
		if i < len(b.rows) && s != b.stored[i] || i >= len(b.rows) && s != unread {
			changes = append(changes, Change{b.row(i), s})
		}
	}
	if len(b.written) > 0 {
		slices.SortFunc(changes, func(c, o Change) int { return c.Row.Compare(o.Row) })
	}
	return changes
}

// execute executes a call, and undoes it unless all of its requests pass. It returns false if it needs more rows.
func (b *Batch) execute(requests []Request, now int64) (answer Answer, ok bool) {
	b.undoLog = b.undoLog[:0]
	answer, ok = b.decideAll(requests, now)
	if !ok || answer.Allowed() {
		return answer, ok
	}
	b.undo(func(Row) bool { return true })
	if answer, ok = b.recheck(answer, requests, now); ok {
		ok = b.waitAcrossEnds(answer.Decisions, requests, now)
	}
	return answer, ok
}

// waitAcrossEnds sets the RetryAfter of denials for which overrides end: the policies that follow may grant the tokens
// earlier or later. If the call passes later than the last of its requests would alone, because an override of one ends
// while another one waits, the last one waits for that.
func (b *Batch) waitAcrossEnds(decisions []Decision, requests []Request, now int64) (ok bool) {
	if len(decisions) == 0 || !slices.ContainsFunc(requests, func(q Request) bool { next, _ := q.Policy.Next(); return next != nil }) {
		return true
	}
	var last *Decision
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

// passesAfter returns how long after now a denied call passes, or one request of it, given the decisions now. It returns
// false if it needs more rows.
func (b *Batch) passesAfter(decisions []Decision, requests []Request, now int64, only int) (time.Duration, bool) {
	for at := now; ; {
		longest, end := time.Duration(0), int64(math.MaxInt64)
		for i := range requests {
			if only >= 0 && i != only {
				continue
			}
			d, ok := decisions[i], true
			policy, ends := requests[i].Policy.At(at)
			if at > now || policy != requests[i].Policy {
				d, ok = b.decideAt(requests, i, at)
			}
			if !ok {
				return 0, false
			}
			longest, end = max(longest, d.RetryAfter), min(end, ends)
		}
		// While no policy ends, a request that passes once passes from then on.
		switch passes := addSaturating(at, int64(longest)); {
		case longest == Never && end == math.MaxInt64:
			return Never, true
		case passes < end || end == math.MaxInt64:
			return max(1, wait(now, passes)), true
		}
		at = end
	}
}

// decideAt returns the decision on a request of a denied call at a later instant, by the policy that is then in force.
func (b *Batch) decideAt(requests []Request, i int, at int64) (Decision, bool) {
	q := requests[i]
	read := q.UsesRows()
	q.Policy, _ = q.Policy.At(at)
	if q.Op == TakeUpTo {
		q.Count = min(q.Count, 1)
	}
	q.Op = Check
	if !read && q.UsesRows() {
		// The tokens of a key that is blocked, or has no limit now, are unknown.
		if rule := q.rule(); q.Policy.Mode == ModeShadow || rule.refuse(&q) == nil {
			return Decision{Allowed: true}, true
		}
		return Decision{RetryAfter: Never}, true
	}
	d, ok, err := b.decide(q, takenBefore(requests, i), at)
	if err != nil {
		return Decision{RetryAfter: Never}, true
	}
	return d, ok
}

// decideAll executes the requests of a call, and goes on after a denial: a denied call reports which of its limits would
// have passed.
func (b *Batch) decideAll(requests []Request, now int64) (answer Answer, ok bool) {
	decisions := make([]Decision, len(requests))
	// Checks come first, so that each sees the tokens before those of its call are taken, whatever the order of the items.
	for _, checks := range [...]bool{true, false} {
		for i := range requests {
			if (requests[i].Op == Check) != checks {
				continue
			}
			err := refuseTogether(&requests[i], requests)
			if err == nil {
				decisions[i], ok, err = b.decide(requests[i], takenBefore(requests, i), now)
			}
			switch {
			case err != nil:
				return Answer{Err: &RequestError{i, fmt.Errorf("%v: %w", Call{requests[i : i+1]}, err)}}, true
			case !ok:
				return Answer{}, false
			}
			if d := decisions[i]; requests[i].Op == Take && d.Shadowed && d.TakenAt.IsZero() {
				// Neither did the earlier requests for this key take anything: see decide.
				for j := range takesOf(requests[:i], &requests[i]) {
					decisions[j] = d
				}
			}
		}
	}
	return Answer{Decisions: decisions}, true
}

// RequestError is the error of a call that one of its requests has.
type RequestError struct {
	// Index is the position of the request.
	Index int
	Err   error
}

// Error returns the text of Err.
func (e *RequestError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *RequestError) Unwrap() error { return e.Err }

// refuseTogether returns an error for a request that cannot be in a call with others: each must be a Take or a Check, and
// those for one key must have equal policies, and the same zone and anniversary. Different keys of a name may have
// different plans.
func refuseTogether(q *Request, all []Request) error {
	if len(all) > 1 && q.Op != Take && q.Op != Check {
		return fmt.Errorf("%w: a call with several requests must contain only Take and Check, not %v", ErrInvalidCall, q.Op)
	}
	for i := range all {
		other := all[i].Policy
		if q.Policy != other && q.Key == all[i].Key && q.Policy != nil && other != nil && q.Policy.Name == other.Name && *q.Policy != *other {
			return fmt.Errorf("%w: two different policies have this name and key", ErrInvalidCall)
		}
		if all[i].Key == q.Key && other != nil && q.Policy != nil && q.Policy.Name == other.Name && !q.SameWindows(&all[i]) {
			return fmt.Errorf("%w: one key has two time zones or anniversaries", ErrInvalidCall)
		}
	}
	return nil
}

// recheck replaces the decisions that allowed a Take of an undone call: the tokens left are those without the call.
func (b *Batch) recheck(answer Answer, requests []Request, now int64) (Answer, bool) {
	for i, d := range answer.Decisions {
		if !d.Allowed || requests[i].Op == Check {
			continue
		}
		// A Check changes no row, so that the rechecks do not depend on each other.
		q := requests[i]
		q.Op = Check
		d, ok, _ := b.decide(q, takenBefore(requests, i), now)
		if !ok {
			return Answer{}, false
		}
		answer.Decisions[i] = d
	}
	return answer, true
}

// decide executes a request, after earlier ones of its call have taken tokens from its key.
func (b *Batch) decide(q Request, taken int64, now int64) (d Decision, ok bool, err error) {
	if err := q.Validate(); err != nil {
		return Decision{}, true, err
	}
	if !q.UsesRows() {
		d, err := q.withoutRows(now)
		return q.Decided(d, now), true, err
	}
	// The rule is a field, because a local variable whose address reaches an interface is allocated for every request.
	b.rule = q.rule()
	whole := &b.rule
	// Each count is checked before it is added to a sum, so that the sum cannot overflow.
	count := q.Count
	if err := whole.refuse(&q); err != nil {
		q.Count = min(q.Count, maxSum) + taken
		return b.refused(whole, q, err, now)
	}
	// Requests of one call for one key are executed as one request for the sum: only so is it an error if the sum can
	// never pass, and only so are RetryAfter and Delay those of the sum.
	if taken > 0 {
		q.Count += taken
		b.undo(func(r Row) bool { return isOf(r, &q) })
	}
	d, ok, err = b.step(whole, &q, now)
	if err != nil {
		return b.refused(whole, q, err, now)
	}
	d = q.Decided(d, now)
	d.Taken = min(d.Taken, count)
	return d, ok, nil
}

// refused returns the error of a request, or a decision: a count beyond the capacity is a denial in ModeShadow, and if an
// override that ends gives the key less than the count.
func (b *Batch) refused(whole *Rule, q Request, err error, now int64) (Decision, bool, error) {
	if !q.Decides() || !errors.Is(err, ErrExceedsCapacity) || q.Policy.Mode != ModeShadow && !q.fitsLater() {
		return Decision{}, true, err
	}
	if b.shardsOf(q.Policy) > 2 && !b.allShards[wholeKey(&q)] {
		b.useAllShards(&q)
		return Decision{}, false, nil
	}
	// The requests before it for this key take nothing either: see decideAll.
	b.undo(func(r Row) bool { return isOf(r, &q) })
	q.Op = Peek
	d, ok, err := b.step(whole, &q, now)
	d.Allowed, d.RetryAfter = false, Never
	return q.Decided(d, now), ok, err
}

// takenBefore returns how many tokens the requests before one of a call take from its key; 0 for a Check, which does not
// depend on them, and for a count of 0.
func takenBefore(requests []Request, at int) int64 {
	q, sum := &requests[at], int64(0)
	if q.Op != Take || q.Policy == nil || q.Empty() {
		return 0
	}
	for _, e := range takesOf(requests[:at], q) {
		// A request that has passed in ModeShadow may have any count.
		sum = min(sum+min(e.Count, maxSum), maxSum)
	}
	return sum
}

// maxSum is more than any request can take. Twice as much does not overflow.
const maxSum = 4 * MaxTokens

// takesOf yields the requests that take from the key of q, with their indexes.
func takesOf(requests []Request, q *Request) iter.Seq2[int, *Request] {
	return func(yield func(int, *Request) bool) {
		for i := range requests {
			r := &requests[i]
			if r.Op == Take && r.Key == q.Key && r.Policy.Name == q.Policy.Name && !yield(i, r) {
				return
			}
		}
	}
}

// step executes a request on the rows of its key.
func (b *Batch) step(whole *Rule, q *Request, now int64) (d Decision, ok bool, err error) {
	if q.Policy.Precise {
		// The sum of several requests for one key may be more than any of them.
		if err := whole.refuse(q); err != nil {
			return Decision{}, true, err
		}
		i := b.find(q, 0)
		next, d, ok := whole.stepLog(b.states[i], batchSlots{b, q.Policy.Name, q.Key}, now, q)
		if ok {
			b.set(i, next)
		}
		return d, ok, nil
	}
	if b.shardsOf(q.Policy) == 1 {
		i := b.find(q, 0)
		next, d, err := whole.Step(b.states[i], now, *q)
		b.set(i, next)
		return d, true, err
	}
	numbers := b.shards(q)
	s := b.read(whole, q, numbers)
	if d, ok, err = s.step(whole, q.Policy.Shards, now, q); !ok {
		b.useAllShards(q)
		return Decision{}, false, nil
	}
	for i, n := range numbers {
		b.set(b.find(q, n), s.states[i])
	}
	if d.Receipt.Shard > 0 {
		d.Receipt.Shard = numbers[d.Receipt.Shard-1] + 1
	}
	return d, true, err
}

// read returns a copy of the shards of a request's key with the given numbers.
func (b *Batch) read(whole *Rule, q *Request, numbers []int) shards {
	s := shards{make([]Rule, len(numbers)), make([]State, len(numbers))}
	for i, n := range numbers {
		s.rules[i] = whole.Shard(n, q.Policy.Shards)
		s.states[i] = b.states[b.find(q, n)]
	}
	return s
}

// find returns the index of a shard's row in Rows.
func (b *Batch) find(q *Request, shard int) int {
	i, _ := slices.BinarySearchFunc(b.rows, Row{q.Policy.Name, q.Key, shard}, Row.Compare)
	return i
}

// set changes the state of a row, until undo.
func (b *Batch) set(i int, s State) {
	if b.states[i] != s {
		b.undoLog = append(b.undoLog, undoEntry{i, b.states[i]})
		b.states[i] = s
	}
}

// undo returns the matching rows to their states before the call.
func (b *Batch) undo(match func(Row) bool) {
	// Backward, because a row that has changed twice is in the log twice: the first entry must be applied last.
	for _, u := range slices.Backward(b.undoLog) {
		if match(b.row(u.row)) {
			b.states[u.row] = u.state
		}
	}
}

// row returns the row of a state.
func (b *Batch) row(i int) Row {
	if i < len(b.rows) {
		return b.rows[i]
	}
	return b.written[i-len(b.rows)]
}

// batchSlots are the rows beside the head of a key. They have no pointer to a request, which would then be allocated for
// every kind: an interface holds them.
type batchSlots struct {
	*Batch
	name, key string
}

func (b batchSlots) slot(number int) (State, bool) {
	i, ok := b.lookUp(b.rowOf(number))
	if !ok || b.states[i] == unread {
		return State{}, false
	}
	return b.states[i], true
}

func (b batchSlots) request(number int) {
	if b.requested == nil {
		b.requested = map[Row]bool{}
	}
	b.requested[b.rowOf(number)] = true
}

func (b batchSlots) setSlot(number int, s State) {
	row := b.rowOf(number)
	i, ok := b.lookUp(row)
	if !ok {
		if b.writtenAt == nil {
			b.writtenAt = map[Row]int{}
		}
		i = len(b.states)
		b.written, b.states = append(b.written, row), append(b.states, unread)
		b.writtenAt[row] = i
	}
	b.set(i, s)
}

func (b batchSlots) rowOf(number int) Row { return Row{b.name, b.key, number} }

// lookUp returns the index of the state of a row beside a head.
func (b batchSlots) lookUp(row Row) (int, bool) {
	if i, ok := b.writtenAt[row]; ok {
		return i, true
	}
	return slices.BinarySearchFunc(b.rows, row, Row.Compare)
}

// unread is the state of a row that is neither read nor written.
var unread = State{TS: math.MinInt64, Prev: math.MaxFloat64, Exists: true}
