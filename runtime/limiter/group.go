package limiter

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/batch"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/once"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/receipt"
)

// ReserveItem is an argument of [Limiter.ReserveAll] and [Limiter.Group]: an [Item], a [ReserveOnlyLimit], which takes
// one token, or the result of its method N.
type ReserveItem interface {
	request(of *Limiter) (runtime.Request, error)
}

// Item is an argument of [Limiter.All]: a limit, which takes one token, or the result of its methods N, Checked and
// CheckedN.
type Item interface {
	ReserveItem
	// plain distinguishes the items that can pass without being reserved. All of them have a method CheckedN, which is not
	// named here: editors would offer it after every N and Checked.
	plain()
}

type item struct {
	of Limit
	op runtime.Op
	n  int64
}

func (i item) request(of *Limiter) (runtime.Request, error) {
	q := runtime.Request{Policy: i.of.policy, Op: i.op, Count: i.n}
	_, err := i.of.complete(&q)
	if err == nil && !i.of.limiter.joins(of) {
		err = i.of.wrap(fmt.Errorf("%w: the limit has another store, or another transaction", runtime.ErrInvalidCall))
	}
	return q, err
}

// joins reports whether limits of l and of other can be in one call, which they can if they have one store: limits of
// generated code and limits made in Go, for example.
func (l *Limiter) joins(other *Limiter) bool {
	if l == other || l == nil || other == nil || l.inTx || other.inTx {
		return l == other
	}
	of := reflect.TypeOf(l.store)
	return of == reflect.TypeOf(other.store) && of != nil && of.Comparable() && l.store == other.store
}

var errNilItem = fmt.Errorf("%w: a call needs at least one limit, and none may be nil", runtime.ErrInvalidCall)

// plainItem is an item that can pass without being reserved.
type plainItem struct{ item }

func (plainItem) plain() {}

// CheckedN returns the limit and key of the item as one that must have n tokens.
func (i plainItem) CheckedN(n int64) Item { return i.of.CheckedN(n) }

// N returns l as an [Item] that takes n tokens.
func (l Limit) N(n int64) Item { return plainItem{item{l, runtime.Take, n}} }

// Checked returns l as an [Item] that must have a token, and gives none up. See CheckedN.
func (l Limit) Checked() Item { return l.CheckedN(1) }

// CheckedN returns l as an [Item] that must have n tokens, and gives none up. It is decided by the tokens before the
// call: tokens that other items of the call take from the same key do not count, and several checks of one key do not
// add up. Its decision has the tokens before the call, too.
func (l Limit) CheckedN(n int64) Item { return plainItem{item{l, runtime.Check, n}} }

func (Limit) plain() {}

func (l Limit) request(of *Limiter) (runtime.Request, error) {
	return item{l, runtime.Take, 1}.request(of)
}

// All takes from several limits at once: from all of them or, if one denies, from none. The counts of items for the
// same key of the same limit add up; see [Limit.CheckedN] for items that take nothing. The error is
// [runtime.ErrInvalidCall] if there are no items, or one is nil or has another store, and otherwise one of those of
// [Limit.AllowN].
func (l *Limiter) All(ctx context.Context, items ...Item) (Decisions, error) {
	requests, err := requestsOf(ctx, l, items)
	if err != nil {
		return Decisions{}, err
	}
	return l.takeTogether(ctx, requests)
}

// PeekAll returns the balances of several limits, in the order of the items, as for a page of what a customer has used.
// Each is read by itself, as [Limit.Peek] does, and not at one instant with the others; what the items would take does
// not matter. The error is about the first item that cannot be read. No observer sees any of it.
func (l *Limiter) PeekAll(ctx context.Context, items ...ReserveItem) ([]runtime.Balance, error) {
	balances := make([]runtime.Balance, len(items))
	for i, item := range items {
		if item == nil {
			return nil, errNilItem
		}
		q, err := item.request(l)
		if err != nil {
			return nil, err
		}
		q.Op, q.Count = runtime.Peek, 0
		if balances[i], err = l.peek(ctx, q); err != nil {
			return nil, err
		}
	}
	return balances, nil
}

// ReserveAll takes from several limits at once, if necessary before the tokens have accrued. See [Group.Reserve].
func (l *Limiter) ReserveAll(ctx context.Context, items ...ReserveItem) (*Reservations, error) {
	return l.Group(items...).Reserve(ctx)
}

// Group returns items that are taken together. Its methods take from all of their limits or, if one denies, from none.
func (l *Limiter) Group(items ...ReserveItem) Group { return Group{limiter: l, items: items} }

// Group is several items of a [Limiter] that are taken together, or not at all. Its methods return the same errors as
// [Limiter.All].
type Group struct {
	limiter *Limiter
	items   []ReserveItem
}

// Allow takes the tokens of all items if all are available, and otherwise none. Like [Limiter.All] it does not reserve,
// so that items of limits with capacity 0 are [runtime.ErrExceedsCapacity].
func (g Group) Allow(ctx context.Context) (Decisions, error) {
	requests, err := g.requests(ctx)
	if err != nil {
		return Decisions{}, err
	}
	return g.limiter.takeTogether(ctx, requests)
}

// Check reports whether Allow would take the tokens now, and takes none.
func (g Group) Check(ctx context.Context) (Decisions, error) {
	requests, err := g.requests(ctx)
	if err != nil {
		return Decisions{}, err
	}
	// As long as they are takes, because checks can be together that takes cannot.
	for i := range requests {
		if err := batch.RefuseTogether(requests, i); err != nil {
			g.limiter.observing().observeInvalid(ctx, &requests[i], i, len(requests), err)
			return Decisions{}, err
		}
	}
	// The counts of takes of one key add up, but the counts of checks do not. Backward, while the requests before are
	// still takes.
	for i := range slices.Backward(requests) {
		q := &requests[i]
		if before := batch.TakenBefore(requests, i); q.Count > 0 && before > 0 {
			q.Count = arith.Add(q.Count, before)
		}
		q.Op = runtime.Check
	}
	return g.limiter.doTogether(ctx, requests, nil)
}

// Require takes the tokens of all items, and returns a denial as a [*runtime.LimitedError] with the decision of the
// limit that denies for the longest time. The error is [runtime.ErrInvalidCall] if an item acquires slots, which could
// not be released then.
func (g Group) Require(ctx context.Context) error {
	requests, err := g.withoutSlots(ctx)
	if err != nil {
		return err
	}
	ds, err := g.limiter.takeTogether(ctx, requests)
	if err == nil {
		err = ds.Err()
	}
	return err
}

// Reserve takes the tokens of all items, if necessary before they have accrued: use them after the Delay of the
// reservations, the largest of all. Items of limits without reservations are taken only if they are available now, and
// can be settled and cancelled too. If one limit denies, nothing is taken: that is no error of Reserve, but the Err of
// the reservations. All tokens count as taken at the moment of the call, although the tokens of some limits may be used
// only later, after the Delay of others.
func (g Group) Reserve(ctx context.Context) (*Reservations, error) {
	requests, err := g.requests(ctx)
	if err != nil {
		return nil, err
	}
	return g.limiter.reserve(ctx, requests, 0, nil)
}

// mayReserve reports whether requests may reserve by a policy, or by a plan that an override gives to a key of one without
// numbers.
func mayReserve(p *runtime.Policy) bool {
	return p.Reserves() || p != nil && p.Inside().Numberless() && p.Overrides.MaxReserved > 0
}

// reserve reserves tokens that are due within maxDelay, or at any time if that is 0.
func (l *Limiter) reserve(ctx context.Context, requests []runtime.Request, maxDelay time.Duration, h *held) (*Reservations, error) {
	for i := range requests {
		q := &requests[i]
		q.Reserve = q.Op == runtime.Take && mayReserve(q.Policy)
		q.MaxDelay = maxDelay
	}
	ds, err := l.doTogether(ctx, requests, h)
	if err != nil {
		return nil, err
	}
	ds.limiter, ds.reserved = l.settler(), true
	rs := &Reservations{Decisions: ds, each: make([]*Reservation, len(requests))}
	for i := range requests {
		rs.each[i] = l.reservation(&requests[i], ds.Each[i], ds.Allowed)
	}
	return rs, nil
}

// withoutSlots returns the requests of the items, or an error if one acquires slots.
func (g Group) withoutSlots(ctx context.Context) ([]runtime.Request, error) {
	requests, err := g.requests(ctx)
	for i := range requests {
		if q := &requests[i]; q.Op == runtime.Take && q.Policy.Kind == runtime.InFlight {
			err = fmt.Errorf("%v: %w: the slots could not be released: use Allow or Reserve, and the method Slot of the result",
				runtime.Call{Requests: requests[i : i+1]}, runtime.ErrInvalidCall)
			g.limiter.observing().observeInvalid(ctx, q, i, len(requests), err)
			return nil, err
		}
	}
	return requests, err
}

func (g Group) requests(ctx context.Context) ([]runtime.Request, error) {
	return requestsOf(ctx, g.limiter, g.items)
}

// requestsOf returns the requests of items, all of which must be valid.
func requestsOf[I ReserveItem](ctx context.Context, l *Limiter, items []I) ([]runtime.Request, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	if len(items) == 0 || slices.ContainsFunc(items, func(item I) bool { return any(item) == nil }) {
		return nil, errNilItem
	}
	requests := make([]runtime.Request, len(items))
	for i, item := range items {
		q, err := item.request(l)
		if err != nil {
			l.observing().observeInvalid(ctx, &q, i, len(items), err)
			return nil, err
		}
		requests[i] = q
	}
	return requests, nil
}

// takeTogether is doTogether for requests that were given as they are. If all of them are checks, they read the keys,
// as for a page, which must not count as a denial of each.
func (l *Limiter) takeTogether(ctx context.Context, requests []runtime.Request) (Decisions, error) {
	if around := l.around(ctx, requests); around != nil {
		return l.takeInside(ctx, requests, around)
	}
	if slices.ContainsFunc(requests, func(q runtime.Request) bool { return q.Op != runtime.Check }) {
		return l.doTogether(ctx, requests, nil)
	}
	answer, err := l.doRequests(ctx, requests)
	return decisionsOf(l, requests, answer, err)
}

// around returns, for middleware, the requests that other middleware around it has already made, nil for those that were
// not: at least as many tokens of the same key were taken. Each stands for one request. It is nil if there are none.
func (l *Limiter) around(ctx context.Context, requests []runtime.Request) (around []*standing) {
	if !once.Is(ctx) {
		return nil
	}
	around = make([]*standing, len(requests))
	found := false
	for t, _ := ctx.Value(takenKey{}).(*taken); t != nil; t, _ = t.Context.Value(takenKey{}).(*taken) {
		ds := &t.decisions
		if ds.limiter == nil || !ds.limiter.joins(l) {
			continue
		}
		for at := range ds.requests {
			had := &ds.requests[at]
			if had.Op != runtime.Take || at < len(ds.around) && ds.around[at] {
				continue
			}
			for i := range requests {
				q := &requests[i]
				if around[i] == nil && q.Op == runtime.Take && q.Count <= had.Count && q.Key == had.Key &&
					q.Policy.Name == had.Policy.Name {
					around[i], found = &standing{had, &ds.Each[at]}, true
					break
				}
			}
		}
	}
	if !found {
		return nil
	}
	return around
}

// standing is a request that middleware around has made, and the decision on it.
type standing struct {
	request  *runtime.Request
	decision *runtime.Decision
}

// takeInside is takeTogether for requests of which some are not made again.
func (l *Limiter) takeInside(ctx context.Context, requests []runtime.Request, around []*standing) (Decisions, error) {
	var rest []runtime.Request
	for i, q := range requests {
		if around[i] == nil {
			rest = append(rest, q)
		}
	}
	taken := Decisions{Allowed: true, limiter: l}
	if len(rest) > 0 {
		var err error
		if taken, err = l.doTogether(ctx, rest, nil); err != nil {
			return Decisions{}, err
		}
	}
	all := taken
	all.Each, all.requests, all.around = make([]runtime.Decision, len(requests)), slices.Clone(requests),
		make([]bool, len(requests))
	for i, of := range around {
		if of == nil {
			all.Each[i], taken.Each = taken.Each[0], taken.Each[1:]
			continue
		}
		// With its receipt, so that its tokens are settled once.
		all.Each[i], all.requests[i], all.around[i] = *of.decision, *of.request, true
		all.Each[i].Crossed = 0 // the call around has reported it
	}
	return all, nil
}

// doTogether executes requests as one call, and reports it to the observer. All, and every method of a group, ends
// here.
func (l *Limiter) doTogether(ctx context.Context, requests []runtime.Request, h *held) (Decisions, error) {
	watch := l.observing()
	begun, sent, calls := watch.begin(), time.Now(), []runtime.Call{{Requests: requests}}
	answer, err := l.do(ctx, calls, traitsOf(requests))
	watch.observe(ctx, calls[0], answer, err, begun, h)
	ds, err := decisionsOf(l, requests, answer, err)
	ds.sent = sent
	return ds, err
}

// decisionsOf returns the decisions on the requests of a call.
func decisionsOf(l *Limiter, requests []runtime.Request, answer runtime.Answer, err error) (Decisions, error) {
	if err != nil {
		return Decisions{}, err
	}
	all, ledger := Decisions{Allowed: true, Each: answer.Decisions, limiter: l, requests: requests}, new(receipt.Ledger)
	if answer.At != 0 {
		all.DecidedAt = arith.Time(answer.At)
	}
	for i := range all.Each {
		d := &all.Each[i]
		d.Receipt.Enter(ledger, int64(i), &requests[i].Key)
		all.Allowed = all.Allowed && d.Allowed
		all.RetryAfter = max(all.RetryAfter, d.RetryAfter)
	}
	return all, nil
}
