// Package lease takes the tokens of busy limits from the database in blocks, and spends the blocks from memory.
//
// # The model
//
// The first request for a key whose policy has a Lease takes a block of tokens from the backend, the store that is
// wrapped. Requests that fit into the block are then answered from memory, and when it is spent the next block is taken.
// While there are not enough tokens for a block, each request goes to the backend by itself.
//
// The rest of a block is refunded when the block ends, as if it had not been taken: what a full bucket would have lost since
// is not returned, because otherwise more and more could be out at once. So a block is best as large as what a process uses
// within Lease.For.
//
// Blocks are kept by the address of the policy: make a policy once, not for each request. After a change of plan, a key has
// another policy; its block of the old one is treated as if another process had it.
//
// Only plain takes and checks are answered from a block; Remaining is then the rest of the block. A request that needs all
// tokens of the key, such as a reservation, a call with several requests, or a count above the block's, refunds the block
// first. Calls in a transaction of the caller do not: they do not pass this package.
//
// The take of a block may cross a threshold of the policy's Warn. The next request of this process that takes tokens of the
// key has the Crossed of its decision; if there is none before the block ends, it is lost.
//
// # Guarantees
//
//   - A block is taken before it is spent: all processes together grant no more tokens than the limit has. But a token may
//     be spent up to Lease.For after it was taken, so in any time t at most the larger of
//     capacity + rate*(t+Lease.For)/period and capacity + maxReserved + rate*t/period tokens of a token bucket can be
//     used. A reserved token counts when its delay has passed.
//   - Each answer is that of the key's row or of this process's block, and between two answers blocks may be taken and
//     refunded. So a request may be denied while the tokens are in the block of another process. If the backend fails, a
//     block may be lost: fewer tokens are then granted, never more.
//   - A block of a fixed or sliding window is not spent after the window's end, nor refunded to the next window.
//   - A reset drops this process's block of the key. The blocks of other processes may be spent, or refunded, until they
//     end.
//   - A process that is killed loses at most one block for each key, of tokens that expire after Lease.For anyway.
//   - A key without requests uses no memory once its block has ended, and no goroutine runs for it.
//   - At most 65,536 keys of a process have a block at once, in about 32 MB of memory. Requests for other keys go to the
//     backend one by one. After Shutdown, no key is in memory.
package lease

import (
	"context"
	"fmt"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/receipt"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/bounds"
)

// TakeLocal takes n tokens from the block of a key, if the block has them.
func (s *Store) TakeLocal(p *runtime.Policy, name string, n int64) (runtime.Decision, bool) {
	k := s.find(id{p, name})
	if k == nil || n <= 0 {
		return runtime.Decision{}, false
	}
	b, left := k.spend(n, s.clock)
	if b == nil {
		return runtime.Decision{}, false
	}
	d := b.decision(p, n, left)
	d.ResetAfter = b.resetAfter()
	k.report(&d)
	return d, true
}

// decision returns the decision on n tokens of the block, of which left remain. It can be refunded once.
func (b *block) decision(p *runtime.Policy, n, left int64) runtime.Decision {
	q := &b.refund
	d := runtime.Decision{
		Limit: p.Name, Policy: p, Allowed: true, Taken: n, TakenAt: arith.Time(q.TakenAt), Remaining: left, Value: float64(left),
		Receipt: receipt.Receipt{Total: q.Total, Shard: q.Shard, Leased: true},
	}
	d.Receipt.Enter(&b.ledger, left, &q.Key)
	return d
}

// find returns nil for a key that has neither a block nor a bypass.
func (s *Store) find(at id) *key {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.keys[at]
}

// Do implements [runtime.Store]. The error is that of ctx or of the backend.
func (s *Store) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	if !slices.ContainsFunc(calls, hasLease) {
		return s.backend.Do(ctx, calls)
	}
	if q, ok := blockRequest(calls); ok {
		if q.Takes() && q.Count > 0 {
			return s.take(ctx, q, calls)
		}
		if d, ok := s.check(q); ok {
			return s.answer(d), nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, bounds.Timeout)
	defer cancel()
	resetting, err := s.beginResets(ctx, calls)
	defer s.endResets(resetting)
	if err != nil {
		return nil, err
	}
	return s.doWithoutBlocks(ctx, calls)
}

func hasLease(c runtime.Call) bool { return slices.ContainsFunc(c.Requests, leases) }

// blockRequest returns the request of calls if it is the only one, and a block can answer it.
func blockRequest(calls []runtime.Call) (runtime.Request, bool) {
	if len(calls) != 1 || len(calls[0].Requests) != 1 {
		return runtime.Request{}, false
	}
	q := calls[0].Requests[0]
	plain := q.Decides() && !q.Reserve && q.Count >= 0
	return q, plain && q.Validate() == nil && q.Count <= q.Policy.Lease.Tokens
}

// take answers a Take, or a TakeUpTo of its whole count, from the key's block, and waits for a new block if need be.
func (s *Store) take(ctx context.Context, q runtime.Request, calls []runtime.Call) ([]runtime.Answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, bounds.Timeout)
	defer cancel()
	for range bounds.LeaseAttempts {
		// A handle has tried this already, but since then another goroutine may have taken a block. Without a second look,
		// this one would refund that block and take its own.
		if d, ok := s.TakeLocal(q.Policy, q.Key, q.Count); ok {
			return s.answer(d), nil
		}
		t := s.renew(ctx, q)
		if t == nil {
			break
		}
		select {
		case <-t.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if t.err != nil {
			return nil, t.err
		}
	}
	return s.doWithoutBlocks(ctx, calls)
}

// check answers a Check, or a request for 0 tokens, if the block has as many tokens. A smaller block does not
// mean a denial: the row may have more.
func (s *Store) check(q runtime.Request) (runtime.Decision, bool) {
	k := s.find(id{q.Policy, q.Key})
	if k == nil {
		return runtime.Decision{}, false
	}
	b := k.block.Load()
	if b == nil || !b.lasts(s.clock) {
		return runtime.Decision{}, false
	}
	left := b.left.Load()
	d := runtime.Decision{Limit: q.Policy.Name, Policy: q.Policy, Allowed: true, Remaining: left, Value: float64(left),
		ResetAfter: b.resetAfter()}
	return d, left >= max(1, q.Count)
}

// answer returns the only answer of a Do.
func (s *Store) answer(d runtime.Decision) []runtime.Answer {
	return []runtime.Answer{{Decisions: []runtime.Decision{d}, At: s.now().UnixNano(), Source: runtime.SourceLease}}
}

// doWithoutBlocks refunds the blocks of the keys of calls, and has the backend answer the calls.
func (s *Store) doWithoutBlocks(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	refunds := s.beginRefunds(calls)
	if len(refunds) == 0 {
		return s.backend.Do(ctx, calls)
	}
	defer s.endRefunds(refunds)
	// One Do for both: the calls need the refunded tokens, and a round trip of its own would double the wait.
	var all []runtime.Call
	for _, r := range refunds {
		all = append(all, r.call)
	}
	answers, err := s.backend.Do(ctx, append(all, calls...))
	answers = answers[min(len(refunds), len(answers)):]
	for _, r := range refunds {
		r.key.reportIn(calls, answers)
	}
	return answers, err
}

// Shutdown refunds the rest of all blocks, until ctx ends. From then on no blocks are taken, and requests go to the
// backend one by one. Calls are not refused, which is up to the backend. If the error is not nil, blocks that were not
// refunded are lost: fewer tokens are granted, not more.
func (s *Store) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	// Blocks that are being taken must have arrived before all blocks are ended.
	idle := make(chan struct{})
	go func() { s.transfers.Wait(); close(idle) }()
	select {
	case <-idle:
	case <-ctx.Done():
	}
	if err := s.sendRefunds(ctx, s.endAll()); err != nil {
		return fmt.Errorf("refund leased tokens: %w", err)
	}
	return nil
}

// endAll ends all blocks, and returns the calls that refund them.
func (s *Store) endAll() (calls []runtime.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.keys {
		if k.timer != nil {
			k.timer.Stop()
		}
		calls = append(calls, k.endWithRefund()...)
	}
	s.keys, s.peak = map[id]*key{}, 0
	return calls
}
