package runtime

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Batch answers calls from stored rows. It is what every [Store] has in common; a store only locks, reads
// and writes:
//
//	b := NewBatch(calls)
//	for {
//		// begin, lock and read b.Rows() in their order
//		if b.Run(now, states) {
//			break
//		}
//		// roll back: there are more rows to look at
//	}
//	// write b.Changes(), commit, return b.Answers()
type Batch struct {
	calls   []Call
	rows    []Row
	stored  []State
	states  []State
	answers []Answer
	undo    []undone
	seed    uint64
	// wide holds the keys of which all shards are looked at, as rows without a shard.
	wide map[Row]bool
}

// undone is a row as it was before the call that is being answered.
type undone struct {
	row   int
	state State
}

// Change is a row to be written, or to be deleted if its State does not Exist.
type Change struct {
	Row   Row
	State State
}

// NewBatch returns a batch of calls, to be answered in their order.
func NewBatch(calls []Call) *Batch { return NewSeededBatch(calls, rand.Uint64()) }

// NewSeededBatch returns a batch that picks shards by the seed, and so answers the same each time it is
// run with the same states. The seed must be as good as random.
func NewSeededBatch(calls []Call, seed uint64) *Batch {
	b := &Batch{calls: calls, seed: seed}
	b.gather()
	return b
}

// Rows returns the rows that the calls are about, without duplicates, in the order of [Row.Compare].
func (b *Batch) Rows() []Row { return b.rows }

// Answers returns one answer a call, once Run has returned true.
func (b *Batch) Answers() []Answer { return b.answers }

// Run answers the calls at the instant now, in nanoseconds since 1970 UTC, from the states of Rows. It
// returns false if it takes more rows to answer them: then Rows has grown, and all must be read anew, in
// a transaction that has locked them all.
func (b *Batch) Run(now int64, states []State) bool {
	b.stored = states
	b.states = slices.Clone(states)
	b.answers = make([]Answer, len(b.calls))
	for i, c := range b.calls {
		answer, ok := b.answer(c, now)
		if !ok {
			b.gather()
			return false
		}
		answer.At = now
		b.answers[i] = answer
	}
	return true
}

// Changes returns the rows that the calls have changed, in the order of Rows.
func (b *Batch) Changes() []Change {
	var changes []Change
	for i, s := range b.states {
		if s != b.stored[i] {
			changes = append(changes, Change{b.rows[i], s})
		}
	}
	return changes
}

// gather collects the rows of the calls.
func (b *Batch) gather() {
	b.rows = b.rows[:0]
	for _, c := range b.calls {
		for _, q := range c.Requests {
			if q.Validate() == nil {
				for _, shard := range b.shards(q) {
					b.rows = append(b.rows, Row{q.Policy.Name, q.Key, shard})
				}
			}
		}
	}
	slices.SortFunc(b.rows, Row.Compare)
	b.rows = slices.Compact(b.rows)
}

// answer answers a call, and undoes what it has taken if not all of it passes. It returns false if it
// takes more rows to answer.
func (b *Batch) answer(c Call, now int64) (answer Answer, ok bool) {
	b.undo = b.undo[:0]
	answer, ok = b.decideAll(c.Requests, now)
	if !ok || answer.Allowed() {
		return answer, ok
	}
	b.restore(func(Row) bool { return true })
	return b.recheck(answer, c.Requests, now)
}

// decideAll answers the requests of a call one after the other, whether they pass or not.
func (b *Batch) decideAll(requests []Request, now int64) (answer Answer, ok bool) {
	decisions := make([]Decision, len(requests))
	for i, q := range requests {
		err := refuseTogether(q, requests)
		if err == nil {
			decisions[i], ok, err = b.decide(q, requests[:i], now)
		}
		switch {
		case err != nil:
			return Answer{Err: fmt.Errorf("%s: %w", names(requests[i:i+1]), err)}, true
		case !ok:
			return Answer{}, false
		}
	}
	return Answer{Decisions: decisions}, true
}

// refuseTogether returns an error for a request that cannot be in a call with the others: if they are
// several, each must take, and those of one name must be of one policy.
func refuseTogether(q Request, all []Request) error {
	if len(all) > 1 && q.Op != Take {
		return fmt.Errorf("%w: only tokens can be taken together", ErrInvalidCall)
	}
	for _, other := range all {
		if q.Policy != other.Policy && q.Policy != nil && other.Policy != nil &&
			q.Policy.Name == other.Policy.Name && *q.Policy != *other.Policy {
			return fmt.Errorf("%w: two policies have this name", ErrInvalidCall)
		}
	}
	return nil
}

// recheck answers again, as a Check does, what was taken and then undone: it tells what is left now.
func (b *Batch) recheck(answer Answer, requests []Request, now int64) (Answer, bool) {
	for i, d := range answer.Decisions {
		if !d.Allowed {
			continue
		}
		q := requests[i]
		q.Op = Check
		d, ok, _ := b.decide(q, requests[:i], now)
		if !ok {
			return Answer{}, false
		}
		answer.Decisions[i] = d
	}
	return answer, true
}

// decide answers a request after the earlier ones of its call.
func (b *Batch) decide(q Request, earlier []Request, now int64) (d Decision, ok bool, err error) {
	if err := q.Validate(); err != nil {
		return Decision{}, true, err
	}
	whole := q.Policy.Rule(q.Key)
	if err := whole.refuse(q); err != nil {
		return Decision{}, true, err
	}
	if taken := takenBefore(earlier, q); taken > 0 {
		q.Count += taken
		b.restore(func(r Row) bool { return r.Key == q.Key && r.Name == q.Policy.Name })
	}
	d, ok, err = b.step(whole, q, now)
	d.Limit = q.Policy.Name
	return d, ok, err
}

// takenBefore returns what earlier requests of a call take from the key of q. Requests of one call for one
// key are answered like one for the sum: only so can they tell whether the sum ever passes, and when.
func takenBefore(earlier []Request, q Request) int64 {
	sum := int64(0)
	for _, e := range earlier {
		if e.Key == q.Key && e.Policy.Name == q.Policy.Name {
			sum += e.Count
		}
	}
	return sum
}
