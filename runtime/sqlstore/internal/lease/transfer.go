package lease

import (
	"context"
	"math"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/bounds"
)

// renew returns the transfer of the key, after starting one if need be. It returns nil if the key can
// have no block for now. The transfer is shared by all callers, so it does not end with ctx.
func (s *Store) renew(ctx context.Context, q runtime.Request) *transfer {
	at := id{q.Policy, q.Key}
	s.mu.Lock()
	defer s.mu.Unlock()
	// A bound, because callers may invent keys, each of which would use memory until its block ends.
	if s.closed || s.keys[at] == nil && len(s.keys) >= maxKeys {
		return nil
	}
	k := s.getOrCreateLocked(at)
	if k.resets > 0 {
		return nil
	}
	if k.transfer == nil && !time.Now().Before(k.bypass) {
		k.transfer = &transfer{done: make(chan struct{})}
		s.transfers.Add(1)
		// Not the key of q, which may be a substring of a whole HTTP request.
		q = runtime.Request{Count: q.Policy.Lease.Tokens, Leased: true, Zone: q.Zone, Anniversary: q.Anniversary}
		go s.takeBlock(context.WithoutCancel(ctx), k, k.transfer, q)
	}
	return k.transfer
}

// takeBlock refunds the rest of the key's block and takes a new one by the request q.
func (s *Store) takeBlock(ctx context.Context, k *key, t *transfer, q runtime.Request) {
	defer s.transfers.Done()
	ctx, cancel := context.WithTimeout(ctx, bounds.Timeout)
	defer cancel()
	calls := append(k.endWithRefund(), k.call(q))
	// Both clocks are read before the call: a block that ends too early is safe, one that ends too late is not.
	now, nowByStore := time.Now(), s.now()
	answers, err := s.backend.Do(ctx, calls)

	s.mu.Lock()
	defer s.mu.Unlock()
	if len(answers) < len(calls) || !answers[len(calls)-1].Answered() {
		t.err = err
		s.removeLocked(k)
	} else {
		s.useBlockLocked(k, q, answers[len(calls)-1], now, nowByStore)
	}
	k.transfer = nil
	close(t.done)
}

// useBlockLocked sets the block that the backend has granted for q, or the bypass if it has denied it. now and nowByStore
// are the instant of the request, by either clock.
func (s *Store) useBlockLocked(k *key, q runtime.Request, a runtime.Answer, now, nowByStore time.Time) {
	lasts := k.policy.Lease.For
	// A block that was let through in shadow mode has taken no tokens.
	if a.Allowed() && !a.Decisions[0].Shadowed {
		rule := meter.RuleOf(k.policy, k.key).For(q)
		b := &block{refund: a.Decisions[0].RefundRequest(q.Count)}
		b.refund.Key, b.refund.Leased, b.refund.Zone, b.refund.Anniversary = k.key, true, q.Zone, q.Anniversary
		if end := rule.WindowEnd(a.At); end < math.MaxInt64 {
			lasts = min(lasts, time.Duration(end-a.At))
			b.windowEnd = now.Add(time.Duration(end - a.At))
		}
		b.left.Store(k.policy.Lease.Tokens)
		b.end, b.endByStore = now.Add(lasts), nowByStore.Add(lasts)
		if crossed := uint32(a.Decisions[0].Crossed); crossed > k.crossed.Load() {
			k.crossed.Store(crossed)
		}
		k.block.Store(b)
	} else {
		if a.Err == nil && !a.Allowed() {
			lasts = min(lasts, a.Decisions[0].RetryAfter)
		}
		k.bypass = now.Add(lasts)
	}
	if k.timer != nil {
		k.timer.Stop()
	}
	k.timer = time.AfterFunc(time.Until(now.Add(lasts)), func() { s.expire(k) })
}

// expire runs at the end of a block or a bypass. It refunds the rest of the block, and removes the key.
func (s *Store) expire(k *key) {
	s.mu.Lock()
	if s.closed || k.transfer != nil || time.Now().Before(k.bypass) {
		s.mu.Unlock()
		return
	}
	// The timer may have fired just before it was stopped for a new block.
	if b := k.block.Load(); b != nil && time.Now().Before(b.end) {
		s.mu.Unlock()
		return
	}
	refunds := k.beginRefundLocked()
	if len(refunds) == 0 {
		s.removeLocked(k)
		s.mu.Unlock()
		return
	}
	s.transfers.Add(1)
	s.mu.Unlock()
	defer s.transfers.Done()
	// If it fails, the tokens are lost: fewer are granted, not more.
	s.sendRefunds(context.Background(), []runtime.Call{refunds[0].call})
	s.endRefunds(refunds)
}

// refund is a block that is being refunded by a call.
type refund struct {
	key  *key
	call runtime.Call
}

// beginRefunds ends the blocks of the keys whose tokens calls need, and returns the refunds, until endRefunds.
func (s *Store) beginRefunds(calls []runtime.Call) (refunds []refund) {
	for _, c := range calls {
		for _, q := range c.Requests {
			if !q.Takes() && !q.Op.Reads() || !leases(q) {
				continue
			}
			s.mu.Lock()
			if k := s.keys[id{q.Policy, q.Key}]; k != nil && k.transfer == nil {
				refunds = append(refunds, k.beginRefundLocked()...)
			}
			s.mu.Unlock()
		}
	}
	return refunds
}

// beginRefundLocked ends the block, and begins a transfer if there is a rest to refund.
func (k *key) beginRefundLocked() (refunds []refund) {
	for _, call := range k.endWithRefund() {
		k.transfer = &transfer{done: make(chan struct{})}
		refunds = append(refunds, refund{k, call})
	}
	return refunds
}

func (s *Store) endRefunds(refunds []refund) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range refunds {
		close(r.key.transfer.done)
		r.key.transfer = nil
		s.removeLocked(r.key)
	}
}

// beginResets drops the blocks of the keys that calls reset, which are full again without a refund. The keys can have no
// block until endResets. It waits for transfers: they may reach the database before the reset.
func (s *Store) beginResets(ctx context.Context, calls []runtime.Call) (keys []*key, err error) {
	for _, c := range calls {
		for _, q := range c.Requests {
			if q.Op != runtime.Reset || !leases(q) {
				continue
			}
			k, t := s.beginReset(id{q.Policy, q.Key})
			keys = append(keys, k)
			if t != nil {
				select {
				case <-t.done:
				case <-ctx.Done():
					return keys, ctx.Err()
				}
			}
			k.endBlock()
		}
	}
	return keys, nil
}

func (s *Store) beginReset(at id) (*key, *transfer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.getOrCreateLocked(at)
	k.resets++
	return k, k.transfer
}

func (s *Store) endResets(keys []*key) {
	if len(keys) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range keys {
		k.resets--
		if k.block.Load() == nil && k.transfer == nil {
			s.removeLocked(k)
		}
	}
}

func (s *Store) now() time.Time {
	if s.clock == nil {
		return time.Now()
	}
	return s.clock()
}

func (s *Store) sendRefunds(ctx context.Context, calls []runtime.Call) error {
	if len(calls) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, bounds.Timeout)
	defer cancel()
	_, err := s.backend.Do(ctx, calls)
	return err
}

func leases(q runtime.Request) bool { return q.Policy != nil && q.Policy.Lease.Tokens > 0 }
