// Package denycache caches denials, so that callers who retry too early do not reach the database.
//
// # The model
//
// For each key of a limit whose policy has a DenyCache, a [Store] remembers the smallest count that was denied. It denies
// that count by itself until the tokens are due, but no longer than DenyCache. Everything else goes to the backend, the
// store that is wrapped.
//
// # Guarantees
//
//   - It never allows a request: whatever is not in the cache is decided by the backend.
//   - Tokens that are refunded or reset through it are available at once. Tokens that another process refunds, or a
//     transaction of the caller, may be available only DenyCache later.
//   - A retry after RetryAfter is decided by the backend.
//   - It remembers a bounded number of keys.
package denycache

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Store is a [runtime.Store] that caches the denials of another, its backend. It may be used by many goroutines at once.
type Store struct {
	backend runtime.Store
	clock   func() time.Time

	mu      sync.Mutex
	denials denials
	// refunds counts the requests that have given tokens back.
	refunds int
}

// New returns a store that caches the denials of a backend. The clock is time.Now if nil.
func New(backend runtime.Store, clock func() time.Time) *Store {
	if clock == nil {
		clock = time.Now
	}
	return &Store{backend: backend, clock: clock}
}

// Do implements [runtime.Store]. The error is that of ctx or of the backend.
func (s *Store) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	if !slices.ContainsFunc(calls, hasCache) {
		return s.backend.Do(ctx, calls)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	start := s.clock()
	answers, misses, refunds := s.lookup(calls, start)
	if len(misses) == 0 {
		return answers, nil
	}
	missed := make([]runtime.Call, len(misses))
	for i, at := range misses {
		missed[i] = calls[at]
	}
	got, err := s.backend.Do(ctx, missed)
	s.update(missed, got, start, refunds)
	for i, a := range got {
		answers[misses[i]] = a
	}
	return answers, err
}

func hasCache(c runtime.Call) bool { return slices.ContainsFunc(c.Requests, cached) }

func cached(q runtime.Request) bool { return q.Policy != nil && q.Policy.DenyCache > 0 }

// lookup answers the calls that are denied by the cache, and returns the indexes of the others. refunds is how many there
// were before.
func (s *Store) lookup(calls []runtime.Call, now time.Time) (answers []runtime.Answer, misses []int, refunds int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answers = make([]runtime.Answer, len(calls))
	// A Refund or a Reset may make a later call pass.
	mayRefund := false
	for i, c := range calls {
		q, ok := cacheable(c)
		if d, hit := s.denials.find(q, now); ok && hit && !mayRefund {
			answers[i] = runtime.Answer{Decisions: []runtime.Decision{d}, Source: runtime.SourceDenyCache}
			continue
		}
		mayRefund = mayRefund || !ok
		misses = append(misses, i)
	}
	return answers, misses, s.refunds
}

// update stores the denials among the answers, and drops those of keys that got tokens back. refunds is the count from
// before the backend was called, at start.
func (s *Store) update(calls []runtime.Call, answers []runtime.Answer, start time.Time, refunds int) {
	now := s.clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	// Even if the backend has failed, because a refund whose answer was lost may be committed.
	for _, c := range calls {
		for _, q := range c.Requests {
			if cached(q) && (q.Op == runtime.Refund || q.Op == runtime.Reset) {
				s.denials.remove(q)
				s.refunds++
			}
		}
	}
	// The denials may be older than a refund, of these calls or of concurrent ones.
	if refunds != s.refunds {
		return
	}
	for i, a := range answers {
		if q, ok := cacheable(calls[i]); ok && len(a.Decisions) == 1 && !a.Decisions[0].Allowed {
			s.denials.add(q, a.Decisions[0], start, now)
		}
	}
}

// cacheable returns the request of a call if its denial can be cached: a single one that takes or checks and does not
// reserve.
func cacheable(c runtime.Call) (runtime.Request, bool) {
	if len(c.Requests) != 1 {
		return runtime.Request{}, false
	}
	q := c.Requests[0]
	switch q.Op {
	case runtime.Take, runtime.Check:
	case runtime.TakeUpTo:
		// It is denied if there is not even one token.
		q.Count, q.Reserve = min(q.Count, 1), false
	default:
		return q, false
	}
	return q, cached(q) && !q.Reserve
}

// denials are the cache, in two generations: when the young one is full, it replaces the old one. That bounds the memory
// without the bookkeeping of an LRU list. The zero denials are empty.
type denials struct {
	young, old map[runtime.Row]denial
}

// generationSize is how many keys a generation holds.
const generationSize = 8192

// denial is the smallest count that was denied, and the decision on it.
type denial struct {
	// request is the one that was denied.
	request  runtime.Request
	decision runtime.Decision
	// The denial was received at received, and is valid until expires.
	received, expires time.Time
}

func row(q runtime.Request) runtime.Row { return runtime.Row{Name: q.Policy.Name, Key: q.Key} }

// find returns the cached decision on a request.
func (d *denials) find(q runtime.Request, now time.Time) (runtime.Decision, bool) {
	if q.Policy == nil || d.young == nil {
		return runtime.Decision{}, false
	}
	found, ok := d.young[row(q)]
	if !ok {
		found, ok = d.old[row(q)]
	}
	// A time before it was received means that the clock has gone back: the remaining time is unknown.
	if !ok || !found.matches(q) || now.Before(found.received) || !now.Before(found.expires) {
		return runtime.Decision{}, false
	}
	return found.after(now.Sub(found.received)), true
}

// matches reports whether the denial is of this count, and of a policy that has not been edited since.
func (d denial) matches(q runtime.Request) bool {
	r := &d.request
	// In another zone, or with another anniversary, the next window may have begun.
	return r.Count == q.Count && r.Zone == q.Zone && r.Anniversary == q.Anniversary && (r.Policy == q.Policy || *r.Policy == *q.Policy)
}

// after returns the decision as it is some time later.
func (d denial) after(elapsed time.Duration) runtime.Decision {
	decision := d.decision
	decision.RetryAfter -= elapsed
	decision.FullAfter = max(0, decision.FullAfter-elapsed)
	decision.ResetAfter = max(0, decision.ResetAfter-elapsed)
	return decision
}

// add stores a denial that was requested at start and received now.
func (d *denials) add(q runtime.Request, decision runtime.Decision, start, now time.Time) {
	// Tokens may have been refunded right after the decision, so DenyCache counts from start. RetryAfter counts from the
	// decision: from now on, it cannot be over too early.
	expires := now.Add(decision.RetryAfter)
	if end := start.Add(q.Policy.DenyCache); end.Before(expires) {
		expires = end
	}
	if !now.Before(expires) {
		return
	}
	found, ok := d.young[row(q)]
	if ok && found.request.Count < q.Count && now.Before(found.expires) {
		return
	}
	if len(d.young) >= generationSize || d.young == nil {
		d.old, d.young = d.young, make(map[runtime.Row]denial)
	}
	// The caller's key may be a substring of a whole HTTP request, which the map would keep in memory.
	kept := runtime.Row{Name: q.Policy.Name, Key: strings.Clone(q.Key)}
	q.Key = kept.Key
	d.young[kept] = denial{q, decision, now, expires}
}

// remove drops the denial of a key that may have got tokens back.
func (d *denials) remove(q runtime.Request) {
	delete(d.young, row(q))
	delete(d.old, row(q))
}
