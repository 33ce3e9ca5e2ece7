package limiter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/ability"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/receipt"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/trait"
)

// Limit is one key of a limit without reservations. It is a small value: make one for each request, or keep it.
type Limit struct {
	limiter *Limiter
	policy  *runtime.Policy
	key     runtime.Key
}

// Limit returns one key of a limit without reservations.
func (l *Limiter) Limit(p *runtime.Policy, key runtime.Key) Limit {
	if l != nil && l.hash != nil {
		p, key = l.hash.policy(p), key.HashedWith(l.hash.secret)
	}
	if l != nil && l.mode != nil {
		p = l.mode.policy(p)
	}
	return Limit{limiter: l, policy: p, key: key}
}

// Allow takes a token if one is available. A denial is not an error; it has the errors of AllowN.
func (l Limit) Allow(ctx context.Context) (runtime.Decision, error) {
	return l.do(ctx, runtime.Request{Op: runtime.Take, Count: 1}, nil)
}

// AllowN takes n tokens if all of them are available, and otherwise none. If n is 0, it is allowed and takes nothing,
// even if the key is in debt.
//
// The error is [runtime.ErrExceedsCapacity] if n is more than the capacity, [runtime.ErrInvalidCount] if it is less
// than 0, [runtime.ErrInvalidKey], [runtime.ErrInvalidPolicy], or the store's.
func (l Limit) AllowN(ctx context.Context, n int64) (runtime.Decision, error) {
	return l.do(ctx, runtime.Request{Op: runtime.Take, Count: n}, nil)
}

// AllowUpTo takes as many tokens as are available, at most n: [runtime.Decision.Taken] is how many. It is denied if
// there is none, and RetryAfter is then the time until there is one. n may be more than the capacity. If n is 0, it is
// allowed and takes nothing.
//
// The error is [runtime.ErrInvalidCount] if n is less than 0, [runtime.ErrInvalidKey], [runtime.ErrInvalidPolicy], or
// the store's.
func (l Limit) AllowUpTo(ctx context.Context, n int64) (runtime.Decision, error) {
	return l.do(ctx, runtime.Request{Op: runtime.TakeUpTo, Count: n}, nil)
}

// Check reports whether Allow would take a token now, and takes none. Another request may take the token before a later
// Allow: to protect an action, take first, and Refund tokens that were not used.
func (l Limit) Check(ctx context.Context) (runtime.Decision, error) { return l.CheckN(ctx, 1) }

// CheckN reports whether AllowN would take n tokens now, and takes none. It has the errors of AllowN.
func (l Limit) CheckN(ctx context.Context, n int64) (runtime.Decision, error) {
	return l.do(ctx, runtime.Request{Op: runtime.Check, Count: n}, nil)
}

// Require takes a token, and returns a denial as a [*runtime.LimitedError].
func (l Limit) Require(ctx context.Context) error { return l.RequireN(ctx, 1) }

// RequireN takes n tokens, and returns a denial as a [*runtime.LimitedError]. It has the other errors of AllowN.
func (l Limit) RequireN(ctx context.Context, n int64) error {
	d, err := l.AllowN(ctx, n)
	if err == nil {
		err = d.Err()
	}
	return err
}

// Refund returns a token that was taken by the request with the decision d, and not used. A decision can be refunded
// once. See RefundN.
func (l Limit) Refund(ctx context.Context, d runtime.Decision) (runtime.Decision, error) {
	return l.RefundN(ctx, d, 1)
}

// RefundN returns n tokens of those that the request with the decision d could use, and did not; at most all that it
// took. The key is then as if they had not been taken at that moment: what it would have lost since because it would
// have been full is not returned. A window that begins at first use stays open even if all of its tokens are returned.
//
// A row stores too little to calculate that in all cases. It is exact if no other request has changed the key since. If
// others have, the refund may be less, and is never more:
//   - For token buckets and fixed windows, the tokens that are returned are at most those missing now less those taken
//     since and not returned, as if all that has accrued since had come before. So at least n less what has accrued
//     since then is returned, in whatever order requests are refunded: for a fixed window all, until it ends. (A
//     row keeps 24 of the refunds that were not for its last request, and may lose more if there are more. With a lease,
//     at least n less what accrues in that time at its policy's rate is returned. If a faster policy applied meanwhile,
//     that can be more than the key has lost.)
//   - Shards do not keep the refunds before they have last given each other tokens.
//   - Tokens of all shards of a key are not returned after a sweep has deleted some of them, which were full.
//   - Nothing is returned while the limit is off, or the plan of the key is unlimited or its rate 0: nothing is counted then.
//   - If a fixed window has ended with more tokens missing than its capacity and MaxReserved, nothing is returned.
//   - After a Reset, an Erase, or tokens granted by an operator, nothing is returned of earlier takes. (Sliding
//     windows do not remember a grant, nor an Erase or a Reset by a plan without numbers, nor precise ones a Reset at the
//     very instant of the take: tokens of others may be returned then.)
//   - On MySQL, an Allow of a key that exists cannot be refunded once tokens have accrued, an hour later, or if the key
//     was ever reset; the tokens of reservations, of several limits together and of leases can.
//
// A decision can be refunded or settled once, also through its copies: later refunds return nothing, and neither does
// one of a decision that took no tokens, because it was denied or FailedOpen. After an error, it can be tried again.
// The decision has the tokens left.
//
// The error is [runtime.ErrInvalidCall] if d is the decision on a request of another key or limit, and nothing is returned
// then, [runtime.ErrInvalidCount] if n is less than 0, [runtime.ErrInvalidKey], [runtime.ErrInvalidPolicy], or the store's.
func (l Limit) RefundN(ctx context.Context, d runtime.Decision, n int64) (runtime.Decision, error) {
	switch {
	case l.policy == nil || l.key.Err() != nil || d.Limit == "": // an error of its own, or nothing to refund
	case d.Limit != l.policy.Name:
		return runtime.Decision{}, l.wrap(fmt.Errorf("%w: the decision is one of limit %q: refund it there", runtime.ErrInvalidCall, d.Limit))
	case !d.Receipt.IsOf(l.key.String()):
		return runtime.Decision{}, l.wrap(fmt.Errorf("%w: the decision is one of another key: refund it there", runtime.ErrInvalidCall))
	}
	// An invalid n goes on to the check of the count, although there is nothing to refund.
	if n >= 0 && (n == 0 || d.TakenAt.IsZero() || !d.Receipt.Settle()) {
		return l.do(ctx, runtime.Request{Op: runtime.Peek}, nil)
	}
	after, err := l.do(ctx, d.RefundRequest(n), nil)
	if n > 0 && err != nil {
		d.Receipt.Reopen()
	}
	return after, err
}

// Charge takes n tokens whether they are available or not: for a cost that is known only afterwards, or a penalty. The
// key may go into debt, beyond the policy's MaxReserved, and then denies other requests until the debt has accrued: see
// [runtime.Decision.FullAfter]. A limit without reservations can be in debt too. A token bucket pays the debt back at
// its rate. A window that ends forgets the part of the debt beyond MaxReserved, and so does a sliding window with the
// window after it. The decision is always Allowed, and can be refunded. Tokens that processes have leased can still be
// used.
//
// If the store fails, the error is returned whatever the limit's OnError: nothing was charged, unless the connection
// was lost while the request was executed. If n is 0, nothing is charged. The error is [runtime.ErrInvalidCount] if n
// is less than 0, [runtime.ErrExceedsCapacity] if it is more than 2*[runtime.MaxTokens], [runtime.ErrInvalidKey],
// [runtime.ErrInvalidPolicy], or the store's.
func (l Limit) Charge(ctx context.Context, n int64) (runtime.Decision, error) {
	return l.do(ctx, runtime.Request{Op: runtime.Charge, Count: n}, nil)
}

// Peek returns the number of tokens left, and takes none. A limit that is off or unlimited has [runtime.MaxTokens], and
// one that is blocked or 0 has none left: see [runtime.Balance.BlockedFor].
func (l Limit) Peek(ctx context.Context) (runtime.Balance, error) {
	q := runtime.Request{Op: runtime.Peek}
	if _, err := l.complete(&q); err != nil {
		return runtime.Balance{}, err
	}
	return l.limiter.peek(ctx, q)
}

// peek executes a Peek.
func (l *Limiter) peek(ctx context.Context, q runtime.Request) (runtime.Balance, error) {
	answer, err := l.doRequests(ctx, []runtime.Request{q})
	if err != nil {
		return runtime.Balance{}, err
	}
	d := answer.Decisions[0]
	p := d.Policy
	b := runtime.Balance{
		Limit: d.Limit, Capacity: p.Full(), Remaining: d.Remaining, Value: d.Value, FullAfter: d.FullAfter, ResetAfter: d.ResetAfter,
		Used: p.Inside().Used(d.Value),
	}
	if d.ResetAfter > 0 {
		b.ResetAt = time.Unix(0, answer.At+int64(d.ResetAfter)).In(zoneOf(&q))
	}
	if p.Inside().Uncounted() {
		b.Capacity, b.Used = runtime.MaxTokens, 0
	}
	if p.Inside().Zero() && !p.Mode.Passes() {
		b.Capacity = 0
	}
	if p.Mode == runtime.ModeBlock {
		b.Remaining, b.BlockedFor = 0, d.BlockedFor
	}
	b.PenaltyFor = d.PenaltyFor
	return b, nil
}

// Reset makes the key full again, as if no tokens had been taken or reserved. Those cannot be refunded any more. It ends a
// penalty, and forgets the penalties before it: the next one has the first step again. A sweep deletes the row later.
func (l Limit) Reset(ctx context.Context) error {
	_, err := l.do(ctx, runtime.Request{Op: runtime.Reset}, nil)
	return err
}

// Erase deletes the count of the key, and replaces the key in the log of overrides: see [runtime.Eraser] for what
// stays. The key is then full, as a new one. In a transaction, both happen if it is committed; make Erase its last
// call.
//
// The error is [runtime.ErrOverrideInForce] if a block or an override of the key is in force, and nothing is erased
// then: a request to be forgotten does not lift a block, which could not stay in force without its key. End it first by
// [Overrides.End], or erase the key when it has ended. The error can also be [runtime.ErrInvalidKey], also if the limit
// has no key, [runtime.ErrNoErase], or the store's. Observers see a Reset.
func (l Limit) Erase(ctx context.Context) error {
	q := runtime.Request{Op: runtime.Reset}
	if _, err := l.complete(&q); err != nil {
		return err
	}
	if err := l.limiter.ready(ctx); err != nil {
		return l.wrap(err)
	}
	s, ok := ability.Of[runtime.Eraser](l.limiter.store)
	if !ok {
		return l.wrap(ability.Missing(runtime.ErrNoErase, l.limiter.store))
	}
	// Not only to compare the owners: on Postgres, a statement that fails ends the transaction of the caller.
	answers, err := l.limiter.store.Do(ctx, []runtime.Call{{Requests: []runtime.Request{{Op: runtime.Peek, Policy: q.Policy, Key: q.Key}}}})
	switch {
	case err != nil:
		return l.wrap(err)
	case errors.Is(answers[0].Err, runtime.ErrForeignCounts):
		return l.wrap(answers[0].Err)
	}
	if _, err := s.Erase(ctx, q.Policy.Name, q.Key, runtime.OverrideEnd{}); err != nil {
		return l.wrap(err)
	}
	// It finds no row, and ends what this process holds in memory: leased tokens, cached denials.
	_, err = l.do(ctx, q, nil)
	return err
}

// do executes a request on the key, and reports it to the observer, or keeps that in h. Every method ends here, but for
// Peek, which is not observed, and Wait, which ends in doTogether as the methods of [Group] do.
func (l Limit) do(ctx context.Context, q runtime.Request, h *held) (runtime.Decision, error) {
	watch := l.limiter.observing()
	traits, err := l.complete(&q)
	if err != nil {
		q.Policy = l.policy
		watch.observeInvalid(ctx, &q, 0, 1, err)
		return runtime.Decision{}, err
	}
	if traits.Have(trait.Lease) {
		if d, ok := l.takeLocal(ctx, &q); ok {
			watch.observeLeased(ctx, &q, &d, h)
			return d, nil
		}
	}
	// One struct, because the store keeps both the call and its request: one allocation in place of two.
	one := &struct {
		calls    [1]runtime.Call
		requests [1]runtime.Request
		ledger   receipt.Ledger
	}{requests: [1]runtime.Request{q}}
	one.calls[0].Requests = one.requests[:]
	begun := watch.begin()
	answer, err := l.limiter.do(ctx, one.calls[:], traits)
	watch.observe(ctx, one.calls[0], answer, err, begun, h)
	if err != nil {
		return runtime.Decision{}, err
	}
	d := answer.Decisions[0]
	if !d.TakenAt.IsZero() {
		d.Receipt.Enter(&one.ledger, 0, &one.requests[0].Key)
	}
	return d, nil
}

// complete sets the policy and the key of a request, both of which must be valid, and returns the traits of the policy.
func (l Limit) complete(q *runtime.Request) (trait.Set, error) {
	if err := l.key.Err(); err != nil {
		return 0, l.wrap(err)
	}
	traits, err := l.policy.Inside().Traits()
	if err != nil {
		return 0, l.wrap(err)
	}
	q.Policy, q.Key = l.policy, l.key.String()
	if traits.Have(trait.Calendar) {
		if err := l.key.Complete(q); err != nil {
			return 0, l.wrap(err)
		}
	}
	if traits.Have(trait.Slots) && q.Op == runtime.Take {
		q.Fence = rand.Int64N(runtime.MaxFenceStep + 1)
	}
	return traits, nil
}

// takeLocal takes tokens of a valid request that the store has leased.
func (l Limit) takeLocal(ctx context.Context, q *runtime.Request) (runtime.Decision, bool) {
	if !q.Takes() || q.Reserve || l.limiter == nil || l.limiter.leases == nil || ctx == nil || ctx.Err() != nil {
		return runtime.Decision{}, false
	}
	p, ok := l.limiter.inForceNow(q.Policy, q.Key)
	if !ok {
		return runtime.Decision{}, false
	}
	return l.limiter.leases.TakeLocal(p, q.Key, q.Count)
}

// mode returns the mode in force for the key, or if that is not known, the policy's own.
func (l Limit) mode() (m runtime.Mode) {
	if l.policy == nil {
		return m
	}
	if p, ok := l.limiter.inForceNow(l.policy, l.key.String()); ok {
		return p.Mode
	}
	return l.policy.Mode
}

// wrap adds the name of the limit to an error, but never the key, which may be personal.
func (l Limit) wrap(err error) error {
	if l.policy == nil || l.policy.Name == "" {
		return err
	}
	return fmt.Errorf("limit %q: %w", l.policy.Name, err)
}
