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
//   - Nobody waits longer than [Timeout], whatever their context.
//   - No goroutine runs while nobody waits, but for a store that goes on after its context has ended.
//
// # When the store behind does not answer
//
// The context of a batch ends after half of [Timeout], or shortly after its last caller has left. If the store behind
// does not return then, the batch fails without it, and the next batch of the lane begins. The store may still carry the
// given-up batch out: its calls have returned an error, and may have taken.
//
// With a single lane the next batch does not begin before the store has returned, so batches are never out of order;
// only their callers stop waiting. That is for a database with one writer, in the same process.
package group

import (
	"context"
	"fmt"
	"hash/maphash"
	goruntime "runtime"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Timeout is the longest that a call waits, whatever its context allows: up to half of it for earlier calls, and up to
// half of it for the store behind. The error then wraps [context.DeadlineExceeded].
const Timeout = 10 * time.Second

// NoLanes as [Options.Lanes] lets each call go on at once and by itself.
const NoLanes = -1

// Options are what a [Store] can be told. The zero Options are one lane, and [DefaultBatch].
type Options struct {
	// Lanes is how many batches may be under way at once; 0 is 1. With [NoLanes] there are no batches.
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
	s := &Store{store: store, batch: o.Batch, seed: maphash.MakeSeed()}
	if s.batch < 1 {
		s.batch = DefaultBatch
	}
	if o.Lanes >= 0 {
		s.lanes = make([]lane, max(1, o.Lanes))
	}
	for i := range s.lanes {
		l := &s.lanes[i]
		l.ordered = len(s.lanes) == 1
		l.watchdog = time.AfterFunc(time.Hour, func() { s.check(l) })
		l.watchdog.Stop()
	}
	return s
}

// Do implements [runtime.Store]. The error is that of the store behind, or of ctx.
func (s *Store) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	if err := ctx.Err(); err != nil || len(calls) == 0 {
		return nil, err
	}
	if len(s.lanes) == 0 {
		return s.doSingle(ctx, calls)
	}
	l := s.lane(calls)
	how, b, i := l.enter(ctx, calls, s.batch)
	switch how {
	case outside:
		return s.doSingle(ctx, calls)
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

// doSingle answers calls that go by themselves. They run in a goroutine, because some drivers do not return when their
// context ends.
func (s *Store) doSingle(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	b := newBatch(1)
	i := b.join(ctx, calls)
	b.begin(b.created)
	go b.run(s.store)
	var timeout <-chan time.Time
	if deadline, ok := ctx.Deadline(); !ok || deadline.After(b.created.Add(Timeout)) {
		// To set a timer costs more than the rest.
		timer := time.NewTimer(Timeout)
		defer timer.Stop()
		timeout = timer.C
	}
	var err error
	select {
	case <-b.done:
		return b.answersOf(i)
	case <-ctx.Done():
		err = fmt.Errorf("%s: %w", whileUnderWay, ctx.Err())
	case <-timeout:
		err = errTimeout
	}
	time.AfterFunc(linger, b.cancel)
	return nil, err
}

// Close waits until the calls that have come are answered, but not longer than [Timeout]; see Shutdown.
func (s *Store) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	return s.Shutdown(ctx)
}

// Shutdown waits until the calls in lanes are answered. Calls that come later go to the store behind, each by itself.
// The error is that of ctx, if it ends first.
func (s *Store) Shutdown(ctx context.Context) error {
	var idle []<-chan struct{}
	for i := range s.lanes {
		idle = append(idle, s.lanes[i].close())
	}
	for _, lane := range idle {
		select {
		case <-lane:
		case <-ctx.Done():
			return fmt.Errorf("calls are still under way: %w", ctx.Err())
		}
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

// run has a batch answered, and those that come after it in its lane, unless the lane has gone on without it.
func (s *Store) run(l *lane, b *batch) {
	for ; b != nil; b = l.take() {
		if !b.run(s.store) && !l.ordered {
			return
		}
		// Those who have their answers ask again, as often as not: so they go along.
		goruntime.Gosched()
	}
}

// check ends what has been under way in a lane for too long.
func (s *Store) check(l *lane) {
	if l.check(time.Now()) {
		s.next(l)
	}
}

// errTimeout is the error of calls that a store has not answered within their part of [Timeout].
var errTimeout = fmt.Errorf("the store behind has not answered in time: %w", context.DeadlineExceeded)
