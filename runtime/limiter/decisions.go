package limiter

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/words"
)

// Decisions is the result of a request to several limits at once. The zero Decisions denies.
type Decisions struct {
	// Allowed reports whether all limits allow the request, so that the tokens of all were taken; otherwise none were.
	Allowed bool
	// RetryAfter is the largest among Each.
	RetryAfter time.Duration
	// Each holds the decision of each limit, in the order of the items. If a limit denies, the others are Allowed if they
	// would have passed, although they were not taken from.
	Each []runtime.Decision
	// DecidedAt is when the store decided, by its clock; the zero time if it did not need to.
	DecidedAt time.Time

	// limiter and requests belong to the call, for the methods by item. If the items have been reserved, they are
	// settled by [Reservations.At].
	limiter  *Limiter
	requests []runtime.Request
	reserved bool
	// around marks the items that were taken by middleware around the call, and not by the call.
	around []bool
	// sent is when the call was made, by the clock of this process.
	sent time.Time
}

// has reports whether there is an item with an index. For the methods by item, one that is out of range is like an item
// that has taken nothing.
func (ds Decisions) has(i int) bool { return 0 <= i && i < len(ds.requests) }

// Key returns the key of an item, counted from 0. It is the zero Key if the limit has no key, and if there is no item i,
// as in the zero Decisions.
func (ds Decisions) Key(i int) runtime.Key {
	if !ds.has(i) {
		return runtime.Key{}
	}
	return ds.requests[i].AsKey()
}

// ResetAt returns when the current window of an item ends, as [runtime.Balance] has it: by the clock of the store, in the
// zone of the windows. It is the zero time for an item without windows, if DecidedAt is zero, and if there is no item i.
func (ds Decisions) ResetAt(i int) time.Time {
	if !ds.has(i) || ds.Each[i].ResetAfter == 0 || ds.DecidedAt.IsZero() {
		return time.Time{}
	}
	return ds.DecidedAt.Add(ds.Each[i].ResetAfter).In(zoneOf(&ds.requests[i]))
}

// Settlement returns the tokens that an item has taken, counted from 0, for a cost that is known only afterwards: its
// Settle corrects the count to the tokens really used, as a reservation's does. It is false if the item took none,
// because the request was denied or the item was only checked, if it has acquired slots (see Slot), or if there is no item
// i. The results of several calls are the same tokens, and can be settled once.
func (ds Decisions) Settlement(i int) (*Reservation, bool) {
	if ds.limiter == nil || ds.reserved || !ds.Allowed || !ds.has(i) || ds.requests[i].Op != runtime.Take ||
		ds.requests[i].Policy.Kind == runtime.InFlight {
		return nil, false
	}
	return ds.limiter.reservation(&ds.requests[i], ds.Each[i], true), true
}

// Cancel gives back the tokens that the call has taken, of all items that are neither settled nor cancelled yet, in one
// request to the store, even if ctx has ended: see [Reservation.Cancel]. Slots are released by themselves, and what
// middleware around the call has taken stays taken. The error is [runtime.ErrNotReserved] if nothing is open.
func (ds Decisions) Cancel(ctx context.Context) error {
	var all []*Reservation
	for i := range ds.Each {
		if r, ok := ds.Settlement(i); ok && (ds.around == nil || !ds.around[i]) {
			all = append(all, r)
		}
	}
	return settleObserved(ctx, ds.limiter, all, 0)
}

// RetryIn returns the largest RetryIn of the denials among Each.
func (ds Decisions) RetryIn() time.Duration {
	longest := time.Duration(0)
	for _, d := range ds.Each {
		longest = max(longest, d.RetryIn())
	}
	return longest
}

// DeniedBy returns the names of the limits that deny the request, in the order of the items; nil if it is Allowed.
func (ds Decisions) DeniedBy() (names []string) {
	for _, d := range ds.Each {
		if !d.Allowed {
			names = append(names, d.Limit)
		}
	}
	return names
}

// String returns the decision in words: "allowed" or `denied by "sendMessage", retry after 6s`.
func (ds Decisions) String() string {
	var shadows []string
	uncounted, locally := "", ""
	for _, d := range ds.Each {
		if d.Shadowed {
			shadows = append(shadows, d.Limit)
		}
		if d.FailedOpen != nil {
			uncounted = ", uncounted"
		}
		if d.FailedLocal != nil {
			locally = ", decided locally"
		}
	}
	switch {
	case ds.Allowed && len(shadows) > 0:
		return fmt.Sprintf("allowed%s, in shadow mode %s", uncounted, words.Quoted(shadows, " and "))
	case ds.Allowed:
		return "allowed" + uncounted + locally
	}
	switch by := words.Quoted(ds.DeniedBy(), " and "); {
	case by == "":
		return "denied"
	case ds.RetryAfter == runtime.Never:
		return fmt.Sprintf("denied by %s, no retry passes", by)
	default:
		return fmt.Sprintf("denied by %s, retry after %v%s", by, words.Rough(ds.RetryAfter), locally)
	}
}

// Err returns a denial as a [*runtime.LimitedError] with the decision of the limit that denies for the longest time,
// and nil if all limits have allowed the request.
func (ds Decisions) Err() error {
	if ds.Allowed {
		return nil
	}
	longest := runtime.Decision{RetryAfter: -1}
	for _, d := range ds.Each {
		if !d.Allowed && d.RetryAfter > longest.RetryAfter {
			longest = d
		}
	}
	return &runtime.LimitedError{Decision: longest}
}

// Reservations is tokens of several limits that were taken together, possibly before they have accrued. If it was not
// Allowed, no tokens were taken. It may be used by several goroutines.
type Reservations struct {
	Decisions
	each []*Reservation
}

// Delay returns how long after the call all of the tokens can be used: the largest Delay of the limits, or
// [runtime.Never] if one of them has denied. It does not change afterwards.
func (rs *Reservations) Delay() time.Duration {
	if !rs.Allowed {
		return runtime.Never
	}
	longest := time.Duration(0)
	for _, r := range rs.each {
		longest = max(longest, r.Delay())
	}
	return longest
}

// Wait returns when all of the tokens can be used, after Delay; see [Reservation.Wait]. If it returns an error, the tokens
// of all limits are refunded.
func (rs *Reservations) Wait(ctx context.Context) error {
	if !rs.Allowed {
		return rs.Err()
	}
	return waitFor(ctx, rs.limiter, rs.each)
}

// At returns the reservation of an item, counted from 0, to settle or cancel it by itself. An item that was only
// checked holds no tokens: settling or cancelling it is [runtime.ErrNotReserved]. So it is if another limit has denied, and
// if there is no item i.
func (rs *Reservations) At(i int) *Reservation {
	if i < 0 || i >= len(rs.each) {
		return &Reservation{}
	}
	return rs.each[i]
}

// Cancel refunds the tokens of all limits that are neither settled nor cancelled yet, in one request to the store, even
// if ctx has ended. The error is [runtime.ErrNotReserved] if no reservation is open; after any other error, those that
// were not refunded are still open, and Cancel can be called again.
func (rs *Reservations) Cancel(ctx context.Context) error {
	return settleObserved(ctx, rs.limiter, rs.each, 0)
}

// ErrNotTaken is an ErrInvalidCall: the context has no tokens taken from the limit that is to be settled.
var ErrNotTaken = fmt.Errorf("%w: the request has not taken tokens from the limit", runtime.ErrInvalidCall)

// WithTaken returns a context with the decisions on a request, for [Settle] in what handles the request. It is for
// middleware: packages limithttp and limitgrpc call it.
func WithTaken(ctx context.Context, ds Decisions) context.Context {
	if ctx == nil {
		ctx = context.Background()
	}
	return &taken{ctx, ds}
}

// Taken returns the decisions of the innermost [WithTaken], and false for another context.
func Taken(ctx context.Context) (Decisions, bool) {
	t := takenIn(ctx)
	if t == nil {
		return Decisions{}, false
	}
	return t.decisions, true
}

// takenIn returns the innermost of those in ctx, or nil.
func takenIn(ctx context.Context) *taken {
	if ctx == nil {
		return nil
	}
	t, _ := ctx.Value(takenKey{}).(*taken)
	return t
}

// Settle corrects the count of a request's tokens to the number really used, for costs that are known only afterwards.
// The context is one of [WithTaken]. Tokens that were not used are refunded, and those used beyond the tokens taken are
// charged: see [Reservation.Settle], also for how large the refund of a token bucket is.
//
// Settle works even if ctx has ended, and once for each limit: later the error is [runtime.ErrNotReserved]. If the
// request has taken from several limits, or from none, it is [ErrNotTaken]: use SettleLimit. Of contexts inside of each
// other, the innermost counts.
func Settle(ctx context.Context, used int64) error {
	t := takenIn(ctx)
	switch all := t.settlements(""); len(all) {
	case 0:
		return ErrNotTaken
	case 1:
		return all[0].Settle(ctx, used)
	default:
		var names []string
		for _, r := range all {
			names = append(names, r.Limit)
		}
		return fmt.Errorf("%w: it has taken from %s: name one with SettleLimit", ErrNotTaken, strings.Join(names, ", "))
	}
}

// SettleLimit is Settle for the limit with a name as in limits.yaml, such as "llmTokens". Of contexts inside of each
// other, the innermost with that limit counts. If the request has taken from several keys of the limit, the error is
// [ErrNotTaken].
func SettleLimit(ctx context.Context, name string, used int64) error {
	for t := takenIn(ctx); t != nil; t = takenIn(t.Context) {
		switch all := t.settlements(name); len(all) {
		case 0:
		case 1:
			return all[0].Settle(ctx, used)
		default:
			return fmt.Errorf("%w %q only: it has taken from several of its keys", ErrNotTaken, name)
		}
	}
	return fmt.Errorf("%w %q", ErrNotTaken, name)
}

type takenKey struct{}

// taken is a context with what a request has taken.
type taken struct {
	context.Context
	decisions Decisions
}

// Value returns t for takenKey, and otherwise the value of the context around it.
func (t *taken) Value(key any) any {
	if key == (takenKey{}) {
		return t
	}
	return t.Context.Value(key)
}

// settlements returns the reservations of the items that have taken tokens from a limit, or with the name "" from any.
func (t *taken) settlements(name string) (all []*Reservation) {
	if t == nil {
		return nil
	}
	for i, d := range t.decisions.Each {
		if r, ok := t.decisions.Settlement(i); ok && (name == "" || name == d.Limit) {
			all = append(all, r)
		}
	}
	return all
}
