package runtime

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Decision answers a question. The zero Decision denies.
type Decision struct {
	// Limit is the name of the limit that was asked.
	Limit string
	// Allowed says whether the tokens were taken; from Check, whether they would have been.
	Allowed bool
	// TakenAt is when the tokens were taken, by the clock of the store, for Refund to give them back. It is zero if
	// none were: after a denial, a Check, or if FailedOpen.
	TakenAt time.Time
	// RetryAfter says how long after a denial the same request passes, if nobody else takes tokens
	// meanwhile. It is rounded up to the nanosecond, and 0 if Allowed.
	RetryAfter time.Duration
	// Delay says how long to wait before using tokens that were reserved ahead; 0 if they can be used
	// now. For a reservation that was refused, it is the delay that it would have had.
	Delay time.Duration
	// Remaining is how many whole tokens are left now, at least 0. Of a limit with shards it is estimated
	// from two of them, as Value and FullAfter are, unless it took all of them to decide.
	Remaining int64
	// Value is how many tokens are left now, to the fraction; negative if tokens were reserved ahead.
	Value float64
	// FullAfter says how long it takes until all of the capacity is there again, if nobody takes tokens
	// meanwhile.
	FullAfter time.Duration
	// FailedOpen, if not nil, is why the store could not decide, or not in time. The limit is one that lets
	// requests pass then: this one is Allowed, and was not counted.
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

// rough writes a duration as people read it, never shorter than it is: in hours from 100 hours on, in minutes from 100
// minutes on, in seconds from 10 seconds on, and below with three or four digits.
func rough(d time.Duration) string {
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
	text := ((d + unit - 1) / unit * unit).String()
	if before, ok := strings.CutSuffix(text, "m0s"); ok {
		text = before + "m"
	}
	if before, ok := strings.CutSuffix(text, "h0m"); ok {
		text = before + "h"
	}
	return text
}

// Decisions answers a question about several limits at once. The zero Decisions denies.
type Decisions struct {
	// Allowed says whether the tokens of all limits were taken; otherwise none were.
	Allowed bool
	// RetryAfter is the largest among Each.
	RetryAfter time.Duration
	// Each holds the decision of each limit, in the order in which they were given. One that is Allowed
	// among others that are not says that this limit would not have stood in the way.
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
