package runtime

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Limiter connects limits with a [Store]. Generated code wraps one; for a limit written in Go, make one directly:
//
//	limiter := runtime.NewLimiter(store)
//	d, err := limiter.Limit(&policy, runtime.KeyOf(runtime.Int64(userID))).Allow(ctx)
//
// The zero Limiter has no store, and all methods of its limits return [ErrNoStore].
type Limiter struct {
	store   Store
	waiters waitQueue
	// local decides while the store fails.
	local localMemory
	// inTx means that store is in a transaction of the caller, and base is the store outside of it.
	inTx bool
	base Store
	// settles means that requests go to base when the transaction has ended.
	settles bool
	// observer may be nil.
	observer Observer
}

// NewLimiter returns a limiter with its counts in store. The options may have it observed: see [Observe].
func NewLimiter(store Store, options ...Option) *Limiter {
	l := &Limiter{store: store}
	for _, option := range options {
		option(l)
	}
	return l
}

// WithTx returns a limiter that keeps its counts inside a transaction of the caller, which must be of the database that
// holds the counts: tokens are taken if and only if tx commits. The methods of its limits return [ErrNoTx] if the store
// does not support transactions, and [ErrNilTx] if tx is nil.
func (l *Limiter) WithTx(tx Tx) *Limiter {
	if l == nil || l.store == nil {
		return l
	}
	return &Limiter{store: InTx(l.store, tx), inTx: true, base: l.store, observer: l.observer}
}

// settler returns the limiter that settles reservations of l: for those of a transaction, one that goes on without it when
// it has ended.
func (l *Limiter) settler() *Limiter {
	if l == nil || !l.inTx || l.settles {
		return l
	}
	return &Limiter{store: l.store, inTx: true, base: l.base, settles: true, observer: l.observer}
}

// afterTx executes calls that settle reservations of a transaction, if the error of the store in it is that it has ended.
func (l *Limiter) afterTx(ctx context.Context, calls []Call, err error) ([]Answer, error) {
	if errors.Is(err, sql.ErrTxDone) && !errors.Is(err, ErrRolledBack) {
		return l.base.Do(ctx, calls)
	}
	return nil, err
}

// Limit returns one key of a limit without reservations.
func (l *Limiter) Limit(p *Policy, key Key) Limit { return Limit{l.handle(p, key)} }

// Reservable returns one key of a limit with reservations.
func (l *Limiter) Reservable(p *Policy, key Key) ReservableLimit {
	return ReservableLimit{taking{l.handle(p, key)}}
}

// ReserveOnly returns one key of a limit with capacity 0, whose tokens can only be reserved.
func (l *Limiter) ReserveOnly(p *Policy, key Key) ReserveOnlyLimit {
	return ReserveOnlyLimit{l.handle(p, key)}
}

func (l *Limiter) handle(p *Policy, key Key) Handle { return Handle{limiter: l, policy: p, key: key} }

// Handle is a handle for one key of a [Policy], with the methods that every limit has.
type Handle struct {
	limiter *Limiter
	policy  *Policy
	key     Key
	// held, if not nil, keeps the observations of requests until they can be reported.
	held *held
}

// Limit is a handle for one key of a [Policy] without reservations. It also has the methods of [Handle]: Charge, Peek,
// Refund, Reset and Wait. It is a small value: make one for each request, or keep it.
type Limit struct {
	handle
}

// ReservableLimit is a handle for one key of a [Policy] whose tokens may also be reserved before they have accrued. It
// also has the methods of [Limit], such as Allow, and those of [Handle]: Charge, Peek, Refund, Reset and Wait.
type ReservableLimit struct {
	taking
}

// ReserveOnlyLimit is a handle for one key of a [Policy] with capacity 0: tokens never accumulate, so that they can only
// be reserved, each for the instant at which it accrues. It also has the methods of [Handle]: Charge, Peek, Refund,
// Reset and Wait.
type ReserveOnlyLimit struct {
	handle
}

// The types above embed aliases, so that editors show the exported types as the receivers of promoted methods, and offer
// no field beside the methods.
type (
	handle      = Handle
	taking      = Limit
	reservable  = ReservableLimit
	reserveOnly = ReserveOnlyLimit
	overriding  = Overriding
)

// Allow takes a token if one is available. A denial is not an error; the errors are those of AllowN.
func (l Limit) Allow(ctx context.Context) (Decision, error) {
	return l.do(ctx, Request{Op: Take, Count: 1})
}

// AllowN takes n tokens if all of them are available, and otherwise none. If n is 0, it is allowed and takes nothing,
// even if the key is in debt.
//
// The error is [ErrExceedsCapacity] if n is more than the capacity, [ErrInvalidCount] if it is less than 0,
// [ErrInvalidKey], [ErrInvalidPolicy], or the store's.
func (l Limit) AllowN(ctx context.Context, n int64) (Decision, error) {
	return l.do(ctx, Request{Op: Take, Count: n})
}

// AllowUpTo takes as many tokens as are available, at most n: [Decision.Taken] is how many. It is denied if there is none,
// and RetryAfter is then the time until there is one. n may be more than the capacity. If n is 0, it is allowed and takes
// nothing.
//
// The error is [ErrInvalidCount] if n is less than 0, [ErrInvalidKey], [ErrInvalidPolicy], or the store's.
func (l Limit) AllowUpTo(ctx context.Context, n int64) (Decision, error) {
	return l.do(ctx, Request{Op: TakeUpTo, Count: n})
}

// Check reports whether Allow would take a token now, and takes none. Another request may take the token before a later
// Allow: to protect an action, take first, and Refund tokens that were not used.
func (l Limit) Check(ctx context.Context) (Decision, error) { return l.CheckN(ctx, 1) }

// CheckN reports whether AllowN would take n tokens now, and takes none. Its errors are those of AllowN.
func (l Limit) CheckN(ctx context.Context, n int64) (Decision, error) {
	return l.do(ctx, Request{Op: Check, Count: n})
}

// Require takes a token, and returns a denial as a [*LimitedError].
func (l Limit) Require(ctx context.Context) error { return l.RequireN(ctx, 1) }

// RequireN takes n tokens, and returns a denial as a [*LimitedError]. Its other errors are those of AllowN.
func (l Limit) RequireN(ctx context.Context, n int64) error {
	d, err := l.AllowN(ctx, n)
	if err == nil {
		err = d.Err()
	}
	return err
}

// Refund returns a token that was taken by the request with the decision d, and not used. A decision can be refunded once.
// See RefundN.
func (h Handle) Refund(ctx context.Context, d Decision) (Decision, error) {
	return h.RefundN(ctx, d, 1)
}

// RefundN returns n tokens of those that the request with the decision d could use, and did not; at most all that it took. The
// key is then as if they had not been taken at that moment: what it would have lost since because it would have been full
// is not returned. A window that begins at first use stays open even if all of its tokens are returned.
//
// A row stores too little to calculate that in all cases. It is exact if no other request has changed the key since. If
// others have, the refund may be less, and is never more:
//   - For token buckets and fixed windows, the tokens that are returned are at most those missing now less those taken since,
//     as if all that has accrued or was refunded since had come before. While nothing accrues, as within a fixed window, that
//     loses nothing. (With a lease, at least n less what accrues in that time at its policy's rate is returned. If a
//     faster policy applied meanwhile, that can be more than the key has lost.)
//   - Tokens of all shards of a key are not returned after a sweep has deleted some of them, which were full.
//   - If a fixed window has ended with more tokens missing than its capacity and MaxReserved, nothing is returned.
//   - After a Reset, or tokens granted by an operator, nothing is returned of what was taken before. (Sliding windows do not
//     remember a grant, nor a Reset by a plan without numbers, nor precise ones a Reset at the very instant of the take: tokens
//     of others may be returned then.)
//   - On MySQL, an Allow of a key that exists cannot be refunded once tokens have accrued, an hour later, or if the key was
//     ever reset; the tokens of reservations, of several limits together and of leases can.
//
// A decision can be refunded or settled once, also through its copies: later refunds return nothing, and neither does one of a
// decision that took no tokens, because it was denied or FailedOpen. After an error, it can be tried again. The decision has
// the tokens left.
//
// The error is [ErrInvalidCount] if n is less than 0, [ErrInvalidKey], [ErrInvalidPolicy], or the store's.
func (h Handle) RefundN(ctx context.Context, d Decision, n int64) (Decision, error) {
	// An invalid n goes on to the check of the count, although there is nothing to refund.
	if n >= 0 && (n == 0 || d.TakenAt.IsZero() || !d.settle()) {
		return h.do(ctx, Request{Op: Peek})
	}
	after, err := h.do(ctx, d.RefundRequest(n))
	if n > 0 && err != nil {
		d.reopen()
	}
	return after, err
}

// Charge takes n tokens whether they are available or not: for a cost that is known only afterwards, or a penalty. The key
// may go into debt, beyond the policy's MaxReserved, and then denies other requests until the debt has accrued: see
// [Decision.FullAfter]. A limit without reservations can be in debt too. A token bucket pays the debt back at its rate. A
// window that ends forgets the part of the debt beyond MaxReserved, and so does a sliding window with the window after it.
// The decision is always Allowed, and can be refunded. Tokens that processes have leased can still be used.
//
// If the store fails, the error is returned whatever the limit's OnError: nothing was charged, unless the connection was
// lost while the request was executed. If n is 0, nothing is charged. The error is [ErrInvalidCount] if n is less than 0,
// [ErrExceedsCapacity] if it is more than 2*[MaxTokens], [ErrInvalidKey], [ErrInvalidPolicy], or the store's.
func (h Handle) Charge(ctx context.Context, n int64) (Decision, error) {
	return h.do(ctx, Request{Op: Charge, Count: n})
}

// Peek returns the number of tokens left, and takes none. A limit that is off or unlimited has [MaxTokens], and one that is
// blocked has none left: see [Balance.BlockedFor].
func (h Handle) Peek(ctx context.Context) (Balance, error) {
	d, err := h.do(ctx, Request{Op: Peek})
	if err != nil {
		return Balance{}, err
	}
	b := Balance{
		Limit: d.Limit, Capacity: d.Policy.Capacity, Remaining: d.Remaining, Value: d.Value, FullAfter: d.FullAfter, ResetAfter: d.ResetAfter,
	}
	switch {
	case modes[d.Policy.Mode].allows:
		b.Capacity = MaxTokens
	case d.Policy.Mode == ModeBlock:
		b.Remaining, b.BlockedFor = 0, d.BlockedFor
	}
	return b, nil
}

// Reset makes the key full again, as if no tokens had been taken or reserved. Those cannot be refunded any more. A sweep
// deletes the row later.
func (h Handle) Reset(ctx context.Context) error {
	_, err := h.do(ctx, Request{Op: Reset})
	return err
}

// do executes a request on the key. Every method ends here, and those of [Group] in doTogether.
func (h Handle) do(ctx context.Context, q Request) (Decision, error) {
	if d, ok := h.takeLocal(ctx, &q); ok {
		if h.limiter.observer != nil {
			h.observeLeased(ctx, &q, &d)
		}
		return d, nil
	}
	if err := h.complete(&q); err != nil {
		q.Policy = h.policy
		h.limiter.observeInvalid(ctx, &q, 0, 1, err)
		return Decision{}, err
	}
	// One struct, because the store keeps both the call and its request: one allocation in place of two.
	one := &struct {
		calls    [1]Call
		requests [1]Request
		ledger   Ledger
	}{requests: [1]Request{q}}
	one.calls[0].Requests = one.requests[:]
	begun := h.limiter.begin()
	answer, err := h.limiter.do(ctx, one.calls[:])
	h.limiter.observe(ctx, one.calls[0], answer, err, begun, h.held)
	if err != nil {
		return Decision{}, err
	}
	d := answer.Decisions[0]
	if !d.TakenAt.IsZero() {
		d.enter(&one.ledger, 0)
	}
	return d, nil
}

// takeLocal takes tokens that the store has leased. It comes before validation, which would take longer than a leased
// token: there are no leased tokens for an invalid request.
func (h Handle) takeLocal(ctx context.Context, q *Request) (Decision, bool) {
	if h.policy == nil || h.policy.Lease.Tokens == 0 || !q.takes() || q.Reserve || h.key.err != nil || h.limiter == nil {
		return Decision{}, false
	}
	s, ok := h.limiter.store.(LocalTaker)
	if !ok || ctx.Err() != nil {
		return Decision{}, false
	}
	p, ok := h.limiter.inForceNow(h.policy, h.key.text)
	if !ok {
		return Decision{}, false
	}
	return s.TakeLocal(p, h.key.text, q.Count)
}

// complete sets the policy and the key of a request.
func (h Handle) complete(q *Request) error {
	if h.key.err != nil {
		return h.wrap(h.key.err)
	}
	if err := h.policy.Validate(); err != nil {
		return h.wrap(err)
	}
	q.Policy, q.Key = h.policy, h.key.text
	if problem := h.key.completeCalendar(q); problem != "" {
		return h.wrap(fmt.Errorf("%w: %s", ErrInvalidKey, problem))
	}
	return nil
}

// wrap adds the name of the limit to an error, but never the key, which may be personal.
func (h Handle) wrap(err error) error {
	if h.policy == nil || h.policy.Name == "" {
		return err
	}
	return fmt.Errorf("limit %q: %w", h.policy.Name, err)
}

// do executes one call, given as a slice because that is the form of [Store.Do], within the timeouts of its limits. The
// call then has the policies in force. If the store fails, the call is decided without it, provided that each of its
// limits allows that by its OnError.
func (l *Limiter) do(ctx context.Context, calls []Call) (answer Answer, err error) {
	c := calls[0]
	if l == nil || l.store == nil {
		return Answer{Source: SourceNone}, fmt.Errorf("%s: %w", limitNames(c.Requests), ErrNoStore)
	}
	if err := ctx.Err(); err != nil {
		return Answer{Source: SourceNone}, fmt.Errorf("%s: %w", limitNames(c.Requests), err)
	}
	bounded := ctx
	// In a transaction of the caller neither timeouts nor OnError apply: a cancelled or failed statement ends it, so
	// that the caller has to roll back anyway.
	if !l.inTx {
		var cancel context.CancelFunc
		bounded, cancel = c.withTimeout(ctx)
		defer cancel()
	}
	changed, now, err := l.override(bounded, &calls[0])
	if c = calls[0]; changed && !l.inTx {
		// The plan that an override gives may have a timeout that the key's own has not.
		var cancel context.CancelFunc
		bounded, cancel = c.withTimeout(bounded)
		defer cancel()
	}
	decided, unread := false, err != nil
	if !unread {
		answer, decided = c.withoutStore(now)
	}
	if !unread && !decided {
		var answers []Answer
		if answers, err = l.store.Do(bounded, calls); err != nil && l.settles {
			answers, err = l.afterTx(bounded, calls, err)
		}
		if err == nil {
			answer = answers[0]
			l.learn(c, &answer)
		}
	}
	if err == nil {
		err = answer.Err
	} else {
		answer, err = l.withoutStore(ctx, bounded, c, err, unread)
	}
	// Here, because the modes have been applied.
	for i := range answer.Decisions {
		answer.Decisions[i].spread(&c.Requests[i], answer.At)
	}
	return answer, err
}

// withoutStore answers a call for which the store has failed with err in the context bounded, or the overrides could not be
// read, as the OnError of its limits says.
func (l *Limiter) withoutStore(ctx, bounded context.Context, c Call, err error, unread bool) (Answer, error) {
	if cause := context.Cause(bounded); !l.inTx && errors.Is(cause, errTimeout) && !errors.Is(err, errTimeout) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	gone := ended(ctx)
	if gone != nil && !errors.Is(err, gone) {
		err = fmt.Errorf("%w: %w", gone, err)
	}
	// A caller that has gone does not wait for a decision, and the store has not failed: with short deadlines, clients could
	// otherwise open the limit.
	if l.inTx || c.failsClosed() || unread && c.needsOverrides() || gone != nil {
		return Answer{}, fmt.Errorf("%s: %w", limitNames(c.Requests), err)
	}
	answer := l.decideWithout(c, err)
	return answer, answer.Err
}

// ended returns the error of a caller's context that has ended.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// A driver's own clock may be a moment ahead of the context's.
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// limitNames returns the names of the limits of an error, but never their keys, which may be personal.
func limitNames(requests []Request) string {
	var names []string
	for i := range requests {
		if p := requests[i].Policy; p != nil {
			names = append(names, p.Name)
		}
	}
	return "limit " + quoted(names, ", ")
}

// maxNames is how many limits a message names: a call of thousands of them must not make a message of a megabyte.
const maxNames = 5

// quoted returns names in quotes, each once, with a separator. Of many, it returns the first and how many others there are.
func quoted(names []string, separator string) string {
	seen := map[string]bool{}
	var first []string
	for _, name := range names {
		if !seen[name] && len(first) < maxNames {
			first = append(first, strconv.Quote(name))
		}
		seen[name] = true
	}
	text := strings.Join(first, separator)
	if more := len(seen) - len(first); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
