// Package denycache remembers denials for a moment, so that those who ask again and again do not reach the
// database.
//
// # The model
//
// A [Store] stands before another. Of a limit whose policy has a DenyCache, it remembers for each key the
// smallest count that was denied, and denies that count by itself until its tokens are due, but no longer
// than DenyCache. Everything else goes to the store behind.
//
// # What is guaranteed
//
//   - It never allows: what it does not know to be denied, the store behind decides.
//   - What is given back or reset through it is there at once. What was given back elsewhere, or in a
//     transaction of the caller, may be there only DenyCache later.
//   - RetryAfter is as honest as that of the store behind.
//   - It remembers a bounded number of keys.
package denycache

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Store is a [runtime.Store] before another. It may be used by many goroutines at once.
type Store struct {
	store runtime.Store
	clock func() time.Time

	mu      sync.Mutex
	denials denials
	// given counts what was given back: a denial that was decided before is not worth remembering.
	given int
}

// New returns a store that asks another, and tells the time by clock, time.Now if nil.
func New(store runtime.Store, clock func() time.Time) *Store {
	if clock == nil {
		clock = time.Now
	}
	return &Store{store: store, clock: clock}
}

// WithTx implements [runtime.TxStore]. In a transaction of the caller nothing is remembered: what is denied
// there may be so because of what the transaction has taken.
func (s *Store) WithTx(tx runtime.Tx) runtime.Store { return runtime.InTx(s.store, tx) }

// Do implements [runtime.Store]. The error is that of ctx or of the store behind.
func (s *Store) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	if !concerned(calls) {
		return s.store.Do(ctx, calls)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	asked := s.clock()
	answers, open, given := s.recall(calls, asked)
	if len(open) == 0 {
		return answers, nil
	}
	behind := make([]runtime.Call, len(open))
	for i, at := range open {
		behind[i] = calls[at]
	}
	got, err := s.store.Do(ctx, behind)
	s.learn(behind, got, asked, given)
	for i, a := range got {
		answers[open[i]] = a
	}
	return answers, err
}

// concerned reports whether any of the calls is of a limit that has a cache.
func concerned(calls []runtime.Call) bool {
	return slices.ContainsFunc(calls, func(c runtime.Call) bool { return slices.ContainsFunc(c.Requests, cached) })
}

func cached(q runtime.Request) bool { return q.Policy != nil && q.Policy.DenyCache > 0 }

// recall answers the calls that are known to be denied. The others are open: it returns where they stand.
func (s *Store) recall(calls []runtime.Call, now time.Time) (answers []runtime.Answer, open []int, given int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answers = make([]runtime.Answer, len(calls))
	// A call before may give back what a later one asks for.
	mayGive := false
	for i, c := range calls {
		q, ok := plain(c)
		if d, known := s.denials.find(q, now); ok && known && !mayGive {
			answers[i] = runtime.Answer{Decisions: []runtime.Decision{d}}
			continue
		}
		mayGive = mayGive || !ok
		open = append(open, i)
	}
	return answers, open, s.given
}

// learn remembers which of the calls that were asked were denied, unless something was given back since, and
// forgets what they may have given back. Without answers, nobody knows what they have done.
func (s *Store) learn(calls []runtime.Call, answers []runtime.Answer, asked time.Time, given int) {
	now := s.clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range calls {
		for _, q := range c.Requests {
			if cached(q) && (q.Op == runtime.Refund || q.Op == runtime.Reset) {
				s.denials.forget(q)
				s.given++
			}
		}
	}
	if given != s.given {
		return
	}
	for i, a := range answers {
		if q, ok := plain(calls[i]); ok && len(a.Decisions) == 1 && !a.Decisions[0].Allowed {
			s.denials.remember(q, a.Decisions[0], asked, now)
		}
	}
}

// plain returns the request of a call if it is the one of a Take or a Check of a limit that has a cache, and
// does not reserve.
func plain(c runtime.Call) (runtime.Request, bool) {
	if len(c.Requests) != 1 {
		return runtime.Request{}, false
	}
	q := c.Requests[0]
	return q, cached(q) && (q.Op == runtime.Take || q.Op == runtime.Check) && !q.Reserve
}
