package runtime

import (
	"fmt"
	"math"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/receipt"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/words"
)

// Never is the result of limiter.Reservation.Delay for a denied reservation, and the RetryAfter of a request that
// waiting does not help: the longest duration.
const Never time.Duration = math.MaxInt64

// Decision is the result of a request: whether it is allowed, when to retry, and how many tokens are left. The zero
// Decision denies.
type Decision struct {
	// Limit is the name of the limit.
	Limit string
	// Policy is the policy by which the store decided; do not change it. It is nil in the zero Decision.
	Policy *Policy
	// Allowed reports whether the tokens were taken or, from Check, would have been taken.
	Allowed bool
	// Shadowed reports that the policy's Mode is [ModeShadow], and that [ModeEnforce] would have denied the request or,
	// for a reservation, delayed it. The request is Allowed at once. If it would have been denied, no tokens were taken.
	Shadowed bool
	// Crossed is the highest of the policy's [Thresholds] that the request has crossed, in percent; 0 if it has crossed none.
	// Exactly one request, over all processes, crosses a threshold: the first after which that part of the capacity is used. A
	// request that takes nothing crosses none, nor does one that is FailedLocal.
	//
	// For a limit with shards it is an estimate: the last shard crosses its part, possibly again after the shards have shared
	// what is left. Leased tokens count as used when their block is taken, and the next request that gets tokens has the
	// Crossed of the block. If a call takes from one key several times, the last take has the Crossed of all.
	Crossed uint8
	// Taken is how many tokens the request has taken: its count, or for AllowUpTo the tokens that were available. It is
	// 0 after a denial and after Check. If the request passes uncounted, because FailedOpen is set or because of the
	// policy's Mode, it is how many tokens may be used although none were taken.
	Taken int64
	// TakenAt is when the tokens were taken, by the clock of the store; Refund needs it. It is zero if no tokens were
	// taken: after a denial, after Check, for a count of 0, if FailedOpen or FailedLocal is set, and if the policy's Mode
	// lets a request pass uncounted.
	TakenAt time.Time
	// Fence is the number of the holder that a request has made or renewed, for a limit of the kind [InFlight];
	// otherwise 0. It is larger than all earlier ones of the key, so that what the holder writes to can refuse one that
	// is late: see limiter.Slot. The hold ends at TakenAt + Policy.Hold.
	Fence int64
	// RetryAfter is how long after a denial the same request passes if no other request takes tokens meanwhile, rounded
	// up to the nanosecond. For a limit of the kind [InFlight], it is when enough holds end unless they are renewed: slots
	// may be free before, when they are released, and may not be then. It is 0 if Allowed, and [Never] if waiting does not
	// help. An override that ends before is taken into account. For a blocked key, whose tokens are not read, it is BlockedFor:
	// from then on the tokens decide.
	RetryAfter time.Duration
	// BlockedFor is how long all requests for the key are denied whatever the tokens are, because the policy's Mode is
	// [ModeBlock] or an operator's [Block] is in force: [Never] for a block without an end, and 0 without a block.
	// Requests for 0 tokens are allowed nonetheless.
	BlockedFor time.Duration
	// PenaltyFor is how long all requests for the key are denied because of a [Penalty], which this request has started
	// or an earlier one; 0 without one. It is also set in the decisions of other methods, such as Charge. RetryAfter is
	// at least as long, and longer if the tokens are due later.
	PenaltyFor time.Duration
	// UsableAfter is how long to wait before using tokens that were reserved ahead; 0 if they can be used now. For a
	// denied reservation, it is how long that would have been. limiter.Reservation.Delay adds the Jitter.
	UsableAfter time.Duration
	// Jitter is how much later than after RetryAfter, UsableAfter or BlockedFor the client should come, at most the policy's
	// Jitter. For the same key and the same instant at which its tokens are due, it is the same.
	Jitter time.Duration
	// Remaining is the number of whole tokens left, at least 0, and 0 during a penalty. For a limit with shards,
	// Remaining, Value and FullAfter are estimated from one or two shards, unless all of them were needed to decide. For a
	// limit that is off or unlimited, Remaining and Value are [MaxTokens]. In a denial from the memory of a DenyCache
	// they are up to date for a token bucket without shards and for a fixed window. For other limits, they are as when
	// the store denied the request, and never too many.
	Remaining int64
	// Value is the number of tokens left, with the fraction; negative if tokens were reserved ahead.
	Value float64
	// FullAfter is how long it takes until the whole capacity is available again if no other request takes tokens.
	FullAfter time.Duration
	// ResetAfter is how long it takes until the current window ends. It is 0 for kinds without windows, and if windows
	// start at first use and none has begun.
	ResetAfter time.Duration
	// FailedOpen, if not nil, is the error of a store that could not decide, or not in time. The policy's OnError is
	// FailOpen, so the request is Allowed, but was not counted.
	FailedOpen error
	// FailedLocal, if not nil, is the error of a store that could not decide, or not in time. The policy's OnError is
	// FailLocal, so this process has decided from its memory: the store has not counted the tokens, and they cannot be
	// refunded.
	FailedLocal error

	// Receipt is for Refund: it says where the tokens were taken, so that they can be given back, once.
	Receipt receipt.Receipt
}

// RefundRequest returns the [Refund] of n tokens that the request with the decision d was allowed to use, at most those
// that it has taken. The caller sets Policy and Key.
func (d *Decision) RefundRequest(n int64) Request {
	n = min(n, d.Taken)
	r := &d.Receipt
	takenAt := d.TakenAt.UnixNano()
	if takenAt == 0 && d.Limit != "" {
		takenAt = 1 // a fake clock has shown the instant 0, which would mean that the tokens belong to no request
	}
	return Request{Op: Refund, Count: n - min(r.Free, max(0, n)), TakenAt: takenAt, Total: r.Total, Shard: r.Shard,
		Leased: r.Leased, Fence: d.Fence}
}

// Err returns a denial as a [*LimitedError], and nil if the request was allowed.
func (d Decision) Err() error {
	if d.Allowed {
		return nil
	}
	return &LimitedError{d}
}

// Override returns the number of the entry in the log of overrides that was in force for the request, or false if none
// was. Policy then has the numbers of the override.
func (d Decision) Override() (entry int64, ok bool) { return d.Policy.Override() }

// RetryIn returns when a client should retry after a denial: RetryAfter, and with the policy's Jitter up to that much
// later. It is 0 if the request was allowed.
func (d Decision) RetryIn() time.Duration {
	if d.Allowed {
		return 0
	}
	return time.Duration(arith.Add(int64(d.RetryAfter), int64(d.Jitter)))
}

// Reason returns why a request was denied, as one word for programs, and "" if it was allowed:
//
//	block        the policy's Mode is [ModeBlock], or an operator has blocked the key
//	penalty      a [Penalty] is in force, which this request may have started
//	zero         the limit is 0 for the key: its plan, an operator or the caller gives it nothing
//	concurrency  too many slots are taken, for the kind [InFlight]
//	quota        the tokens of a calendar window are used up, or waiting does not help
//	rate         there are not enough tokens yet
func (d Decision) Reason() string {
	switch {
	case d.Allowed:
		return ""
	case d.BlockedFor > 0:
		return "block"
	case d.PenaltyFor > 0:
		return "penalty"
	case d.Policy.zero():
		return "zero"
	case d.Policy != nil && d.Policy.Kind == InFlight:
		return "concurrency"
	case d.RetryAfter == Never, d.Policy != nil && d.Policy.Calendar.Unit > 0:
		return "quota"
	}
	return "rate"
}

// String returns the decision in words: "allowed, 19 left" or "denied, retry after 6s".
func (d Decision) String() string {
	if d.FailedLocal != nil {
		d.FailedLocal = nil
		return d.String() + ", decided locally"
	}
	switch {
	case d.FailedOpen != nil:
		return "allowed, uncounted"
	case d.Shadowed && d.TakenAt.IsZero():
		return "allowed in shadow mode, would be denied"
	case d.Shadowed:
		return "allowed in shadow mode, would be delayed"
	case !d.Allowed && d.RetryAfter == 0:
		return "denied"
	case d.Reason() == "zero":
		return "denied, the limit is 0" + d.Policy.zeroOfCaller()
	case !d.Allowed && d.RetryAfter == Never:
		return "denied, no retry passes"
	case !d.Allowed && d.PenaltyFor > 0:
		return fmt.Sprintf("denied, penalty for %v, retry after %v", words.Rough(d.PenaltyFor), words.Rough(d.RetryAfter))
	case !d.Allowed:
		return fmt.Sprintf("denied, retry after %v", words.Rough(d.RetryAfter))
	case d.UsableAfter > 0:
		return fmt.Sprintf("reserved, use after %v", words.Rough(d.UsableAfter))
	case d.Remaining >= MaxTokens, d.Policy.countsOnly():
		return "allowed"
	}
	return "allowed, " + words.Number(d.Remaining) + " left"
}

// Balance is the number of tokens that a limit has left for one key.
type Balance struct {
	// Limit is the name of the limit.
	Limit string
	// Capacity is the most tokens that can accumulate, or the slots. It is [MaxTokens] for a limit that is off or unlimited,
	// and so are Remaining and Value.
	Capacity int64
	// Remaining is the number of whole tokens left, at least 0. It is 0 while the key is blocked.
	Remaining int64
	// Value is the number of tokens left, with the fraction; negative if tokens were reserved ahead. The tokens of a
	// blocked key can be used when the block ends.
	Value float64
	// Used is how many tokens are missing from the capacity, rounded up: for a window whose capacity is its rate, those
	// used in it. It is more than the Capacity if tokens were reserved ahead or charged beyond it, does not depend on a
	// block, and is 0 for a limit that is off or unlimited.
	Used int64
	// FullAfter is how long it takes until the whole capacity is available again if no request takes tokens.
	FullAfter time.Duration
	// ResetAfter is how long it takes until the current window ends; see [Decision.ResetAfter].
	ResetAfter time.Duration
	// ResetAt is when the current window ends, by the clock of the store, in the zone of the limit or the key; the zero time
	// without a window.
	ResetAt time.Time
	// BlockedFor is how long all requests are denied whatever the Value is, because the policy's Mode is [ModeBlock] or
	// an operator's [Block] is in force: the [Decision.RetryAfter] of a request. It is [Never] for a block without an
	// end, and 0 if there is no block.
	BlockedFor time.Duration
	// PenaltyFor is how long all requests are denied because of a [Penalty]; 0 without one. Remaining is 0 until then.
	PenaltyFor time.Duration
}

// String returns the balance in words: "19 of 20 left, full after 6s", or "blocked for 1h with 19 of 20 left, full
// after 6s".
func (b Balance) String() string {
	switch {
	case b.Remaining >= MaxTokens:
		return "unlimited"
	case b.Capacity >= MaxTokens && b.BlockedFor == 0:
		return "unlimited, " + words.Number(b.Used) + " used"
	}
	left := words.Number(b.Remaining) + " of " + words.Number(b.Capacity) + " left"
	if b.BlockedFor > 0 {
		block := "blocked"
		if b.BlockedFor != Never {
			block += " for " + words.Rough(b.BlockedFor)
		}
		if b.Capacity >= MaxTokens {
			return block
		}
		left = fmt.Sprintf("%s with %s of %s left", block, words.Number(arith.Whole(b.Value, 1e-6)), words.Number(b.Capacity))
	} else if b.PenaltyFor > 0 {
		left = fmt.Sprintf("penalty for %s with %s of %s left", words.Rough(b.PenaltyFor),
			words.Number(arith.Whole(b.Value, 1e-6)), words.Number(b.Capacity))
	}
	if b.FullAfter == 0 {
		return left
	}
	return fmt.Sprintf("%s, full after %v", left, words.Rough(b.FullAfter))
}

// LimitedError is a denial as an error. Its text has the name of the limit but never the key, which may be personal. It
// says when to retry including the jitter: see [Decision.RetryIn].
type LimitedError struct {
	Decision
}

// Error returns the limit that denied the request, and when to retry.
func (e *LimitedError) Error() string {
	if e.Reason() == "zero" {
		return fmt.Sprintf("limit %q: %v, the limit is 0%s", e.Limit, ErrLimited, e.Policy.zeroOfCaller())
	}
	if e.RetryAfter == Never {
		return fmt.Sprintf("limit %q: %v, no retry passes", e.Limit, ErrLimited)
	}
	return fmt.Sprintf("limit %q: %v, retry after %v", e.Limit, ErrLimited, words.Rough(e.RetryIn()))
}

// Unwrap returns [ErrLimited].
func (e *LimitedError) Unwrap() error { return ErrLimited }
