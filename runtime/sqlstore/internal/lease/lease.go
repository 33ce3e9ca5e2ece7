// Package lease takes tokens of a busy limit in blocks, and spends them from this process's memory.
//
// # The model
//
// A [Store] stands before another. Of a limit whose policy has a Lease, it takes a block of tokens from the
// store behind at a key's first request, answers the requests that fit into it by itself, and takes the
// next block when it is spent. When there are not enough tokens for a block, requests go to the store behind
// one by one, until there may be.
//
// What is left of a block at its end is given back. Of a token bucket, that is without what has accrued since the
// block was taken: a full bucket would have lost it, and otherwise more and more could be out at once. So a block
// is best of the size that a process uses within Lease.For.
//
// A block belongs to a policy by its address: make a policy once, not for each request.
//
// Only plain takes, and checks whether they would pass, are answered from a block; Remaining is then what is left
// of it. Whatever else asks for tokens of the key, such as a reservation, several limits at once, or more than a
// block has, gives the block back first. A transaction of the caller does not: it is not told of the block.
//
// # What is guaranteed
//
//   - A block has been taken before it is spent: all processes together grant no more tokens than the limit
//     does. But they may be spent up to Lease.For after they were taken, so in any time t a token bucket
//     grants at most capacity + maxReserved + rate*(t+Lease.For)/period.
//   - Many processes seem to be one that answers from the key's row, or from the block of the process that is asked, and
//     between two questions takes blocks and gives back what is left of them. So a denial may come of what others
//     hold. If the store behind fails, a block may be lost: fewer tokens are granted then, and never more.
//   - A block of a fixed or sliding window is not spent after the window's end, nor given back to the next.
//   - What is left of the blocks of this process is forgotten when their key is reset. Those of other processes
//     may be spent, or given back, until they end.
//   - A process that is killed loses at most one block for each key, and Lease.For later nobody could have
//     spent it.
//   - A key that nobody asks of takes no memory once its block has ended, and no goroutine runs for it.
//   - At most 65,536 keys of a process have a block at once, in about 32 MB of memory. Requests for others go to
//     the store behind, one by one. After Close, no key is in memory.
package lease

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Store is a [runtime.Store] before another. It may be used by many goroutines at once.
type Store struct {
	store runtime.Store
	clock func() time.Time

	mu   sync.RWMutex
	keys map[id]*key
	// most is how many keys the map has held.
	most   int
	closed bool
	// working counts those who take blocks or give them back.
	working sync.WaitGroup
}

// id names a key of a limit.
type id struct {
	policy *runtime.Policy
	key    string
}

// New returns a store that asks another, which tells the time by clock. Blocks end by the clock of this process,
// and by that one too if it is not nil.
func New(store runtime.Store, clock func() time.Time) *Store {
	return &Store{store: store, clock: clock, keys: map[id]*key{}}
}

// WithTx implements [runtime.TxStore]. A transaction of the caller has no lease.
func (s *Store) WithTx(tx runtime.Tx) runtime.Store { return runtime.InTx(s.store, tx) }

var _ runtime.LocalTaker = (*Store)(nil)

// TakeLocal implements [runtime.LocalTaker]: it takes n tokens from the block of a key, if they are there.
func (s *Store) TakeLocal(p *runtime.Policy, name string, n int64) (runtime.Decision, bool) {
	k := s.find(id{p, name})
	if k == nil || n <= 0 {
		return runtime.Decision{}, false
	}
	b, left := k.spend(n, s.clock)
	if b == nil {
		return runtime.Decision{}, false
	}
	d := allowed(p, left)
	d.TakenAt = time.Unix(0, b.takenAt).UTC()
	return d, true
}

// allowed returns the decision of a block that has so many tokens left.
func allowed(p *runtime.Policy, left int64) runtime.Decision {
	return runtime.Decision{Limit: p.Name, Allowed: true, Remaining: left, Value: float64(left)}
}

// now returns the time by the store's clock.
func (s *Store) now() time.Time {
	if s.clock == nil {
		return time.Now()
	}
	return s.clock()
}

// find returns a key, nil if it is not known.
func (s *Store) find(at id) *key {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.keys[at]
}

// Do implements [runtime.Store]. The error is that of ctx or of the store behind.
func (s *Store) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	if !concerned(calls) {
		return s.store.Do(ctx, calls)
	}
	if q, ok := leased(calls, runtime.Take); ok {
		return s.take(ctx, q, calls)
	}
	if d, ok := s.check(calls); ok {
		return []runtime.Answer{{Decisions: []runtime.Decision{d}, At: s.now().UnixNano()}}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	held, err := s.hold(ctx, calls)
	defer s.release(held)
	if err != nil {
		return nil, err
	}
	return s.ask(ctx, calls)
}

// concerned reports whether any of the calls is of a limit that has a lease.
func concerned(calls []runtime.Call) bool {
	return slices.ContainsFunc(calls, func(c runtime.Call) bool { return slices.ContainsFunc(c.Requests, leases) })
}

func leases(q runtime.Request) bool { return q.Policy != nil && q.Policy.Lease.Tokens > 0 }

// ask asks the store behind, as if this one had no blocks of the keys.
func (s *Store) ask(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	returning := s.returnAll(calls)
	if len(returning) == 0 {
		return s.store.Do(ctx, calls)
	}
	defer s.returned(returning)
	var back []runtime.Call
	for _, r := range returning {
		back = append(back, r.call)
	}
	answers, err := s.store.Do(ctx, append(back, calls...))
	return answers[min(len(back), len(answers)):], err
}

// check answers calls if they are one Check, and the block has as many tokens.
func (s *Store) check(calls []runtime.Call) (runtime.Decision, bool) {
	q, ok := leased(calls, runtime.Check)
	if !ok {
		return runtime.Decision{}, false
	}
	k := s.find(id{q.Policy, q.Key})
	if k == nil {
		return runtime.Decision{}, false
	}
	left := k.left(s.clock)
	return allowed(q.Policy, left), left >= q.Count
}

// leased returns the request of calls if it is the only one, of a verb, and a block can answer it.
func leased(calls []runtime.Call, verb runtime.Op) (runtime.Request, bool) {
	if len(calls) != 1 || len(calls[0].Requests) != 1 {
		return runtime.Request{}, false
	}
	q := calls[0].Requests[0]
	plain := q.Op == verb && !q.Reserve && q.Count > 0
	return q, plain && q.Policy != nil && q.Count <= q.Policy.Lease.Tokens && q.Policy.Validate() == nil
}

// tries is how often a request waits for a block, before it goes to the store behind by itself.
const tries = 3

// take answers a request from a block, after another has been taken if need be.
func (s *Store) take(ctx context.Context, q runtime.Request, calls []runtime.Call) ([]runtime.Answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for range tries {
		if d, ok := s.TakeLocal(q.Policy, q.Key, q.Count); ok {
			return []runtime.Answer{{Decisions: []runtime.Decision{d}, At: s.now().UnixNano()}}, nil
		}
		r := s.renew(ctx, id{q.Policy, q.Key})
		if r == nil {
			break
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if r.err != nil {
			return nil, r.err
		}
	}
	return s.ask(ctx, calls)
}

// Close gives back what is left of all blocks. From then on, requests go to the store behind one by one. It returns within
// 10 s; see Shutdown.
func (s *Store) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return s.Shutdown(ctx)
}

// Shutdown is Close until ctx ends. If the error is not nil, blocks that were not given back are lost: fewer tokens are
// granted, and not more.
func (s *Store) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	idle := make(chan struct{})
	go func() { s.working.Wait(); close(idle) }()
	select {
	case <-idle:
	case <-ctx.Done():
	}
	if err := s.refund(ctx, s.endAll()); err != nil {
		return fmt.Errorf("give back leased tokens: %w", err)
	}
	return nil
}

// endAll ends all blocks, and returns the calls that give back what was left in them.
func (s *Store) endAll() (calls []runtime.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.keys {
		if k.timer != nil {
			k.timer.Stop()
		}
		calls = append(calls, k.giveBack()...)
	}
	s.keys, s.most = map[id]*key{}, 0
	return calls
}

// refund asks the store behind to take tokens back.
func (s *Store) refund(ctx context.Context, calls []runtime.Call) error {
	if len(calls) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := s.store.Do(ctx, calls)
	return err
}
