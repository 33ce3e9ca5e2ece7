// Package group lets the calls that a store is asked while it is busy go together.
//
// # The model
//
// A [Store] stands before another. A call that finds it idle goes on at once. The calls that arrive while that
// one is under way wait, and when it ends they go on as one batch, in the order in which they
// came: one transaction, in which a key that many of them ask of is read and written once. So a store that
// can do a thousand transactions a second can answer a hundred thousand calls, and an idle one answers as
// soon as without the group.
//
// There are lanes, each with one batch under way at a time; the key of a call says in which it goes, so that
// a busy key always meets itself.
//
// # What is guaranteed
//
//   - The answers are those of the store behind it, asked one call after the other in each lane.
//   - Nobody waits longer than their context. A call whose context ends while it waits takes nothing; if it is
//     under way, it may have taken. Its neighbours go on.
//   - No goroutine runs while nobody waits, but for a store that goes on after its context has ended.
package group

import (
	"context"
	"fmt"
	"hash/maphash"
	goruntime "runtime"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Options are what a [Store] can be told. The zero Options are one lane, and [DefaultBatch].
type Options struct {
	// Lanes is how many batches may be under way at once; 0 is 1.
	Lanes int
	// Batch is the most calls that go together; 0 is [DefaultBatch].
	Batch int
}

// DefaultBatch is the most calls that go together if [Options] do not say.
const DefaultBatch = 1000

// Store is a [runtime.Store] before another. It may be used by many goroutines at once.
type Store struct {
	store runtime.Store
	batch int
	lanes []lane
	seed  maphash.Seed
}

// New returns a store that asks another.
func New(store runtime.Store, o Options) *Store {
	s := &Store{store: store, batch: o.Batch, lanes: make([]lane, max(1, o.Lanes)), seed: maphash.MakeSeed()}
	if s.batch < 1 {
		s.batch = DefaultBatch
	}
	return s
}

// Do implements [runtime.Store]. The error is that of the store behind, or of ctx.
func (s *Store) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	if err := ctx.Err(); err != nil || len(calls) == 0 {
		return nil, err
	}
	l := s.lane(calls)
	how, b, i := l.enter(ctx, calls, s.batch)
	switch how {
	case outside:
		return s.store.Do(ctx, calls)
	case alone:
		defer s.next(l)
		return s.store.Do(ctx, calls)
	case first:
		s.next(l)
	}
	if !b.wait(ctx) {
		if where := l.leave(b, i); where != "" {
			return nil, fmt.Errorf("%s: %w", where, ctx.Err())
		}
	}
	return b.answersOf(i)
}

// Close waits until the calls that have come are answered. Those that come later go to the store behind,
// each by itself.
func (s *Store) Close() error {
	var idle []<-chan struct{}
	for i := range s.lanes {
		idle = append(idle, s.lanes[i].close())
	}
	for _, lane := range idle {
		<-lane
	}
	return nil
}

// WithTx implements [runtime.TxStore]: a transaction of the caller goes by itself.
func (s *Store) WithTx(tx runtime.Tx) runtime.Store { return runtime.InTx(s.store, tx) }

// lane returns the lane of the first key of calls.
func (s *Store) lane(calls []runtime.Call) *lane {
	if len(s.lanes) == 1 || len(calls[0].Requests) == 0 {
		return &s.lanes[0]
	}
	q := calls[0].Requests[0]
	row := runtime.Row{Key: q.Key}
	if q.Policy != nil {
		row.Name = q.Policy.Name
	}
	return &s.lanes[maphash.Comparable(s.seed, row)%uint64(len(s.lanes))]
}

// next lets those go on who wait in a lane. They are answered by a goroutine that ends when nobody waits any
// more.
func (s *Store) next(l *lane) {
	if b := l.take(); b != nil {
		go s.run(l, b)
	}
}

// run has a batch answered, and those that come after it in its lane.
func (s *Store) run(l *lane, b *batch) {
	for ; b != nil; b = l.take() {
		b.run(s.store)
		// Those who have their answers ask again, as often as not: so they go along.
		goruntime.Gosched()
	}
}
