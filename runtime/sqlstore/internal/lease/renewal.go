package lease

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// renewal is a block that is being taken.
type renewal struct {
	// done is closed when the block is there, or is not to be had, or the store has failed.
	done chan struct{}
	err  error
}

// patience is how long at most a block is waited for, or a call that is not answered from one, and how long it is tried to
// give one back.
const patience = 10 * time.Second

// renew returns the renewal of a key's block that is under way, and begins one if there is none. It returns
// nil if the key does without for now. The renewal is everybody's, and does not end with ctx.
func (s *Store) renew(ctx context.Context, at id) *renewal {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.keys[at] == nil && len(s.keys) >= maxKeys {
		return nil
	}
	k := s.know(at)
	if k.held > 0 {
		return nil
	}
	if k.under == nil && !time.Now().Before(k.alone) {
		k.under = &renewal{done: make(chan struct{})}
		s.working.Add(1)
		go s.takeBlock(context.WithoutCancel(ctx), k, k.under)
	}
	return k.under
}

// maxKeys is how many keys can have a block at once in this process. Each takes about 450 bytes and the length of the key,
// so together they take up to 32 MB, or 48 MB if keys are as long as they can be.
const maxKeys = 1 << 16

// smallMap is how large a map of keys may be and stay when it is empty again: Go's maps do not shrink.
const smallMap = 1024

// know returns a key, a new one if it is not known. The store is locked.
func (s *Store) know(at id) *key {
	k := s.keys[at]
	if k == nil {
		// The caller's key may be a few bytes of a whole request, which it would keep in memory.
		at.key = strings.Clone(at.key)
		k = &key{id: at}
		s.keys[at] = k
		s.most = max(s.most, len(s.keys))
	}
	return k
}

// takeBlock takes a block, and gives back what is left of the one before.
func (s *Store) takeBlock(ctx context.Context, k *key, r *renewal) {
	defer s.working.Done()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	calls := append(k.giveBack(), k.call(runtime.Request{Count: k.policy.Lease.Tokens}))
	asked, byStore := time.Now(), s.now()
	answers, err := s.store.Do(ctx, calls)

	s.mu.Lock()
	defer s.mu.Unlock()
	if len(answers) < len(calls) || !answers[len(calls)-1].Given() {
		r.err = err
		s.forget(k)
	} else {
		s.settle(k, asked, byStore, answers[len(calls)-1])
	}
	k.under = nil
	close(r.done)
}

// settle has a key use the block that it was asked for at an instant, which is one of either clock, or do without.
// The store is locked.
func (s *Store) settle(k *key, asked, byStore time.Time, a runtime.Answer) {
	lasts := k.policy.Lease.For
	if a.Allowed() {
		rule := k.policy.Rule(k.key)
		b := &block{takenAt: a.At}
		if end := rule.WindowEnd(a.At); end < math.MaxInt64 {
			lasts = min(lasts, time.Duration(end-a.At))
		}
		b.left.Store(k.policy.Lease.Tokens)
		b.ends, b.over = asked.Add(lasts), byStore.Add(lasts)
		k.block.Store(b)
	} else {
		if a.Err == nil {
			lasts = min(lasts, a.Decisions[0].RetryAfter)
		}
		k.alone = asked.Add(lasts)
	}
	if k.timer != nil {
		k.timer.Stop()
	}
	k.timer = time.AfterFunc(time.Until(asked.Add(lasts)), func() { s.expire(k) })
}

// expire gives back what is left of a block that has ended, and forgets the key.
func (s *Store) expire(k *key) {
	s.mu.Lock()
	if s.closed || k.under != nil || time.Now().Before(k.alone) {
		s.mu.Unlock()
		return
	}
	if b := k.block.Load(); b != nil && time.Now().Before(b.ends) {
		s.mu.Unlock()
		return
	}
	all := k.returning()
	if len(all) == 0 {
		s.forget(k)
		s.mu.Unlock()
		return
	}
	s.working.Add(1)
	s.mu.Unlock()
	defer s.working.Done()
	// If it fails, the tokens are lost: fewer are granted, and not more.
	s.refund(context.Background(), []runtime.Call{all[0].call})
	s.returned(all)
}

// forget forgets a key, unless it is held. The store is locked.
func (s *Store) forget(k *key) {
	if s.keys[k.id] == k && k.held == 0 {
		delete(s.keys, k.id)
	}
	if len(s.keys) == 0 && s.most > smallMap {
		s.keys, s.most = map[id]*key{}, 0
	}
}
