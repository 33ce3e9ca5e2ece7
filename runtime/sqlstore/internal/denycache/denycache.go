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
//   - A denial is forgotten when a request of this process changes the row of its key: a take, a charge, a refund or a
//     reset, by itself or among others. So its RetryAfter counts all that this process has done. Tokens that another
//     process refunds may be available only DenyCache later, and those that it takes or charges make RetryAfter too short.
//   - The requests of a transaction of the caller take effect when it commits, which is not known here: no denial of their
//     keys is remembered for [bounds.TxLasts].
//   - A retry after RetryAfter is decided by the backend, and one in another fixed window too.
//   - The tokens left that a denial has are up to date as far as [meter.LeftAfter] can know them, and never too many.
//   - It remembers a bounded number of keys.
package denycache

import (
	"context"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/recent"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/bounds"
)

// Store is a [runtime.Store] that caches the denials of another, its backend. It may be used by many goroutines at once.
type Store struct {
	backend runtime.Store
	clock   func() time.Time

	mu      sync.Mutex
	denials denials
	// changes counts the requests that have changed rows, by the hash of the key: a denial that was decided before one of
	// them must not be remembered after it.
	changes [256]uint32
	seed    maphash.Seed
}

// New returns a store that caches the denials of a backend. The clock is time.Now if nil.
func New(backend runtime.Store, clock func() time.Time) *Store {
	if clock == nil {
		clock = time.Now
	}
	return &Store{backend: backend, clock: clock, seed: maphash.MakeSeed()}
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
	answers, misses := s.lookup(calls, start)
	if len(misses) == 0 {
		return answers, nil
	}
	missed := make([]runtime.Call, len(misses))
	for i, m := range misses {
		missed[i] = calls[m.at]
	}
	got, err := s.backend.Do(ctx, missed)
	for i, a := range got {
		answers[misses[i].at] = a
	}
	s.update(calls, misses, answers, start)
	return answers, err
}

// InTx forgets the denials of calls that a transaction of the caller has executed, and remembers none until it has
// probably committed.
func (s *Store) InTx(calls []runtime.Call, answers []runtime.Answer) {
	if !slices.ContainsFunc(calls, hasCache) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	until := s.clock().Add(bounds.TxLasts)
	for i, c := range calls {
		answer := runtime.Answer{}
		if i < len(answers) {
			answer = answers[i]
		}
		for _, q := range s.changedLocked(c, answer) {
			s.denials.set(q, denial{request: q, expires: until, inTx: true})
		}
	}
}

func hasCache(c runtime.Call) bool {
	return slices.ContainsFunc(c.Requests, func(q runtime.Request) bool { return Concerns(&q) })
}

// Concerns reports whether a request is about a limit whose denials are cached. A plan without a limit has no DenyCache, but
// what it does to a row ends the denials of the other plans.
func Concerns(q *runtime.Request) bool {
	p := q.Policy
	return p != nil && (p.DenyCache > 0 || p.Inside().Numberless() && q.UsesRows())
}

// miss is a call that the cache does not answer.
type miss struct {
	// at is its index.
	at int
	// changes is the number of changes of its key, if its denial can be cached, and changed whether another call has changed
	// the key since, or may have.
	changes uint32
	changed bool
}

// lookup answers the calls that are denied by the cache, and returns the others.
func (s *Store) lookup(calls []runtime.Call, now time.Time) (answers []runtime.Answer, misses []miss) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answers = make([]runtime.Answer, len(calls))
	for i, c := range calls {
		q, ok := cacheable(c)
		// A call that is not answered here may change the rows of those after it.
		if d, hit := s.denials.find(q, now); ok && hit && len(misses) == 0 {
			answers[i] = d.answer(now)
			continue
		}
		m := miss{at: i}
		if ok {
			m.changes = *s.changesOf(q)
		}
		misses = append(misses, m)
	}
	return answers, misses
}

// update stores the denials among the answers to the calls that the cache did not answer, and drops those of keys whose rows
// the calls have changed. The backend was called at start.
func (s *Store) update(calls []runtime.Call, misses []miss, answers []runtime.Answer, start time.Time) {
	now := s.clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range misses {
		m := &misses[i]
		q, ok := cacheable(calls[m.at])
		m.changed = !ok || *s.changesOf(q) != m.changes
	}
	// The calls were executed in this order.
	for _, m := range misses {
		c, a := calls[m.at], answers[m.at]
		s.changedLocked(c, a)
		// A denial that has started no penalty, as of a Check, must not keep the next one from starting it.
		denied := len(a.Decisions) == 1 && !a.Decisions[0].Allowed &&
			(!c.Requests[0].Policy.Penalizes() || a.Decisions[0].PenaltyFor > 0)
		if q, _ := cacheable(c); !m.changed && denied {
			s.denials.add(q, a, start, now)
		}
	}
}

// changesOf returns where the changes of a request's key are counted. Keys with the same hash are counted together.
func (s *Store) changesOf(q runtime.Request) *uint32 {
	return &s.changes[maphash.Comparable(s.seed, row(q))%uint64(len(s.changes))]
}

// changedLocked drops the denials of the keys whose rows a call has changed, and returns the requests that have. A call
// without an answer may have been committed.
func (s *Store) changedLocked(c runtime.Call, a runtime.Answer) (requests []runtime.Request) {
	if a.Answered() && !a.Allowed() {
		return nil
	}
	for _, q := range c.Requests {
		if !Concerns(&q) || q.Op.Reads() {
			continue
		}
		*s.changesOf(q)++
		s.denials.remove(q)
		requests = append(requests, q)
	}
	return requests
}

// cacheable returns the request of a call if its denial can be cached: a single one that takes or checks and does not
// reserve.
func cacheable(c runtime.Call) (runtime.Request, bool) {
	if len(c.Requests) != 1 {
		return runtime.Request{}, false
	}
	q := c.Requests[0]
	if !q.Decides() {
		return q, false
	}
	check := q.AsCheck()
	q.Count, q.Reserve = check.Count, check.Reserve
	return q, Concerns(&q) && !q.Reserve
}

// denials are the cache, by row.
type denials struct {
	recent.Map[runtime.Row, denial]
}

// size is how many keys are kept at least, and twice as many at most.
const size = 8192

// denial is the smallest count that was denied, and the decision on it.
type denial struct {
	// request is the one that was denied.
	request  runtime.Request
	decision runtime.Decision
	// decided is the instant of the decision by the backend's clock, in nanoseconds since 1970 UTC.
	decided int64
	// The denial was received at received, and is valid until expires.
	received, expires time.Time
	// inTx: there is no denial, and none is stored until expires, because a transaction may change the row.
	inTx bool
}

func row(q runtime.Request) runtime.Row { return runtime.Row{Name: q.Policy.Name, Key: q.Key} }

// find returns the cached denial of a request.
func (d *denials) find(q runtime.Request, now time.Time) (denial, bool) {
	if q.Policy == nil {
		return denial{}, false
	}
	found, ok := d.of(q)
	// A time before it was received means that the clock has gone back: the remaining time is unknown.
	if !ok || found.inTx || !found.matches(q) || now.Before(found.received) || !now.Before(found.expires) {
		return denial{}, false
	}
	return found, true
}

// of returns what is stored for the key of a request.
func (d *denials) of(q runtime.Request) (denial, bool) {
	if found := d.Find(row(q)); found != nil {
		return *found, true
	}
	return denial{}, false
}

// matches reports whether the denial is of this count, and of a policy that has not been edited since.
func (d denial) matches(q runtime.Request) bool {
	r := &d.request
	// In another zone, or with another anniversary, the next window may have begun.
	return r.Count == q.Count && r.Zone == q.Zone && r.Anniversary == q.Anniversary && r.Policy.Inside().Equal(q.Policy)
}

// answer returns the denial as it is at a later time.
func (d denial) answer(now time.Time) runtime.Answer {
	decision, elapsed := d.decision, now.Sub(d.received)
	decision.Value, decision.Remaining = meter.LeftAfter(decision.Policy, &decision, elapsed)
	if decision.RetryAfter != runtime.Never {
		decision.RetryAfter -= elapsed
	}
	decision.PenaltyFor = max(0, decision.PenaltyFor-elapsed)
	decision.FullAfter = max(0, decision.FullAfter-elapsed)
	decision.ResetAfter = max(0, decision.ResetAfter-elapsed)
	return runtime.Answer{
		Decisions: []runtime.Decision{decision}, At: d.decided + int64(elapsed), Source: runtime.SourceDenyCache,
	}
}

// add stores the denial of a request that was made at start, and answered now.
func (d *denials) add(q runtime.Request, a runtime.Answer, start, now time.Time) {
	decision := a.Decisions[0]
	// Tokens may have been refunded right after the decision, so DenyCache counts from start. RetryAfter counts from the
	// decision: from now on, it cannot be over too early.
	lasts := decision.RetryAfter
	if q.Policy.Penalizes() {
		lasts = decision.PenaltyFor // a denial after it starts the next one
	}
	if q.Policy.Kind == runtime.FixedWindow && decision.ResetAfter > 0 {
		lasts = min(lasts, decision.ResetAfter) // the tokens of the next window are not known
	}
	expires := now.Add(lasts)
	if end := start.Add(q.Policy.DenyCache); end.Before(expires) {
		expires = end
	}
	if !now.Before(expires) {
		return
	}
	if found, ok := d.of(q); ok && (found.inTx || found.request.Count < q.Count) && now.Before(found.expires) {
		return
	}
	d.set(q, denial{request: q, decision: decision, decided: a.At, received: now, expires: expires})
}

// set stores a denial.
func (d *denials) set(q runtime.Request, made denial) {
	// The caller's key may be a substring of a whole HTTP request, which the map would keep in memory.
	made.request.Key = strings.Clone(q.Key)
	d.Set(row(made.request), made, size)
}

// remove drops the denial of a key whose row has changed.
func (d *denials) remove(q runtime.Request) {
	if found, _ := d.of(q); found.inTx {
		return
	}
	d.Delete(row(q))
}
