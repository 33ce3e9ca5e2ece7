package limiter

import (
	"fmt"
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

	// limiter and requests are those of the call, for the methods by item. The limiter is nil if the items have been
	// reserved, and are settled by [Reservations.At].
	limiter  *Limiter
	requests []runtime.Request
}

// Key returns the key of an item, counted from 0. It is the zero Key if the limit has no key, and if ds is not the result of
// a request.
func (ds Decisions) Key(i int) runtime.Key {
	if i >= len(ds.requests) {
		return runtime.Key{}
	}
	return ds.requests[i].AsKey()
}

// Settlement returns the tokens that an item has taken, counted from 0, for a cost that is known only afterwards: its
// Settle corrects the count to the tokens really used, as that of a reservation. It is false if the item took none, because
// the request was denied or the item was only checked. The results of several calls are the same tokens, and can be settled
// once.
func (ds Decisions) Settlement(i int) (*Reservation, bool) {
	if ds.limiter == nil || !ds.Allowed || ds.requests[i].Op != runtime.Take {
		return nil, false
	}
	return ds.limiter.reservation(&ds.requests[i], ds.Each[i], true), true
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

// Err returns a denial as a [*runtime.LimitedError] with the decision of the limit that denies for the longest time, and nil if all
// limits have allowed the request.
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
