package runtime

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Decision is the result of a request: whether it is allowed, when to retry, and how many tokens are left. The zero
// Decision denies.
type Decision struct {
	// Limit is the name of the limit.
	Limit string
	// Allowed reports whether the tokens were taken or, from Check, would have been taken.
	Allowed bool
	// TakenAt is when the tokens were taken, by the clock of the store; Refund needs it. It is zero if no tokens were
	// taken: after a denial, after Check, and if FailedOpen is set.
	TakenAt time.Time
	// RetryAfter is how long after a denial the same request passes if no other request takes tokens meanwhile, rounded
	// up to the nanosecond. It is 0 if Allowed.
	RetryAfter time.Duration
	// Delay is how long to wait before using tokens that were reserved ahead; 0 if they can be used now. For a denied
	// reservation, it is the delay that it would have had.
	Delay time.Duration
	// Remaining is the number of whole tokens left, at least 0. For a limit with shards, Remaining, Value and FullAfter
	// are estimated from two shards, unless all of them were needed to decide.
	Remaining int64
	// Value is the number of tokens left, with the fraction; negative if tokens were reserved ahead.
	Value float64
	// FullAfter is how long it takes until the whole capacity is available again if no other request takes tokens.
	FullAfter time.Duration
	// FailedOpen, if not nil, is the error of a store that could not decide, or not in time. The policy's OnError is
	// FailOpen, so the request is Allowed, but was not counted.
	FailedOpen error
}

// String returns the decision in words: "allowed, 19 left" or "denied, retry after 6s".
func (d Decision) String() string {
	switch {
	case d.FailedOpen != nil:
		return "allowed, uncounted"
	case !d.Allowed && d.RetryAfter == 0:
		return "denied"
	case !d.Allowed:
		return fmt.Sprintf("denied, retry after %v", rough(d.RetryAfter))
	case d.Delay > 0:
		return fmt.Sprintf("reserved, use after %v", rough(d.Delay))
	}
	return fmt.Sprintf("allowed, %d left", d.Remaining)
}

// Decisions is the result of a request to several limits at once. The zero Decisions denies.
type Decisions struct {
	// Allowed reports whether the tokens of all limits were taken; otherwise none were.
	Allowed bool
	// RetryAfter is the largest among Each.
	RetryAfter time.Duration
	// Each holds the decision of each limit, in the order of the items. If a limit denies, the others are Allowed if they
	// would have passed, although they were not taken from.
	Each []Decision
}

// String returns the decision in words: "allowed" or `denied by "sendMessage", retry after 6s`.
func (ds Decisions) String() string {
	var by []string
	uncounted := ""
	for _, d := range ds.Each {
		if !d.Allowed {
			by = append(by, strconv.Quote(d.Limit))
		}
		if d.FailedOpen != nil {
			uncounted = ", uncounted"
		}
	}
	switch {
	case ds.Allowed:
		return "allowed" + uncounted
	case len(by) == 0:
		return "denied"
	}
	return fmt.Sprintf("denied by %s, retry after %v", strings.Join(by, " and "), rough(ds.RetryAfter))
}

// Balance is the number of tokens that a limit has left for one key.
type Balance struct {
	// Limit is the name of the limit.
	Limit string
	// Capacity is the most tokens that can accumulate.
	Capacity int64
	// Remaining is the number of whole tokens left, at least 0.
	Remaining int64
	// Value is the number of tokens left, with the fraction; negative if tokens were reserved ahead.
	Value float64
	// FullAfter is how long it takes until the whole capacity is available again if no request takes tokens.
	FullAfter time.Duration
}

// String returns the balance in words: "19 of 20 left, full after 6s".
func (b Balance) String() string {
	left := fmt.Sprintf("%d of %d left", b.Remaining, b.Capacity)
	if b.FullAfter == 0 {
		return left
	}
	return fmt.Sprintf("%s, full after %v", left, rough(b.FullAfter))
}

// rough rounds a duration up to a readable text: to hours from 100 hours on, to minutes from 100 minutes on, to seconds
// from 10 seconds on, and below to three or four digits.
func rough(d time.Duration) string {
	// Rounding up would overflow.
	if d > math.MaxInt64-time.Hour {
		return d.String()
	}
	unit := time.Nanosecond
	for _, u := range []struct{ from, unit time.Duration }{
		{100 * time.Hour, time.Hour},
		{100 * time.Minute, time.Minute},
		{10 * time.Second, time.Second},
		{10 * time.Millisecond, time.Millisecond},
		{10 * time.Microsecond, time.Microsecond},
	} {
		if d >= u.from {
			unit = u.unit
			break
		}
	}
	// Duration.String writes 1h as 1h0m0s.
	text := ((d + unit - 1) / unit * unit).String()
	if before, ok := strings.CutSuffix(text, "m0s"); ok {
		text = before + "m"
	}
	if before, ok := strings.CutSuffix(text, "h0m"); ok {
		text = before + "h"
	}
	return text
}

// Errors mean that a request could not be executed. A denial is not an error but a [Decision]; only Require and Wait
// return it as a [*LimitedError].
var (
	// ErrLimited is the error that every [*LimitedError] wraps.
	ErrLimited = errors.New("rate limited")
	// ErrExceedsCapacity: the count can never pass, however long the caller waits.
	ErrExceedsCapacity = errors.New("count exceeds capacity")
	// ErrInvalidCount: the count is zero or negative.
	ErrInvalidCount = errors.New("invalid count")
	// ErrInvalidPolicy: the policy breaks a rule of [Policy].
	ErrInvalidPolicy = errors.New("invalid policy")
	// ErrInvalidKey: a part of the key could not be converted to text, or the key lacks the time zone or the anniversary
	// that the limit's Calendar needs.
	ErrInvalidKey = errors.New("invalid key")
	// ErrInvalidCall: the requests cannot be in one call, because there are none, or they belong to different limiters, or
	// not all of them take tokens.
	ErrInvalidCall = errors.New("invalid call")
	// ErrNoStore: the limiter was made without a store.
	ErrNoStore = errors.New("the limiter has no store: make it with NewLimiter")
	// ErrNoTx: the store cannot keep the counts inside a transaction of its caller.
	ErrNoTx = errors.New("the store does not support transactions")
	// ErrNilTx: the transaction of the caller is nil.
	ErrNilTx = errors.New("the transaction is nil")
	// ErrNotReserved: the reservation was denied, or has been settled or cancelled already.
	ErrNotReserved = errors.New("the reservation was denied, or is already settled or cancelled")
)

// LimitedError is a denial as an error. Its text has the name of the limit but never the key, which may be personal.
type LimitedError struct {
	Decision
}

// Error returns the limit that denied the request, and when to retry.
func (e *LimitedError) Error() string {
	return fmt.Sprintf("limit %q: %v, retry after %v", e.Limit, ErrLimited, rough(e.RetryAfter))
}

// Unwrap returns [ErrLimited].
func (e *LimitedError) Unwrap() error { return ErrLimited }
