package runtime

import (
	"fmt"
	"math"
	"time"
)

// Op is what a question does. The zero Op takes tokens.
type Op uint8

const (
	// Take takes Count tokens if they are there, or if Reserve may take them ahead of their time.
	Take Op = iota
	// Check answers as Take would, and takes nothing.
	Check
	// Peek tells what is left; it ignores Count.
	Peek
	// Refund gives Count tokens back, up to the capacity.
	Refund
	// Charge takes Count tokens whether they are there or not.
	Charge
	// Reset forgets the key: it is full again. It ignores Count.
	Reset
)

var opNames = [...]string{"Take", "Check", "Peek", "Refund", "Charge", "Reset"}

// String returns the name of the constant.
func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// counts reports whether the ask has a count.
func (q Request) counts() bool { return q.Op != Peek && q.Op != Reset }

// takes reports whether the ask is a Take or a Check.
func (q Request) takes() bool { return q.Op == Take || q.Op == Check }

// Step is the whole limiter: it answers a question of a row in state s at the instant now, in nanoseconds
// since 1970 UTC, and returns the state after it. With the tokens available as of T
//
//	avail = min(capacity, value + max(0, T-ts) * rate / period)
//
// a request for count tokens is allowed if avail - count >= -debt - allowance, where debt is 0 for a plain
// request and the rule's Debt for a reserving one, and allowance is a millionth of a token but no more than
// rate * 1µs / period; then value = avail - count and ts = max(ts, T). (The formula is that of https://stack.convex.dev/rate-limiting; for a sliding window, avail is rate less the
// two-window estimate of the use.) A denied request, a Check and a Peek return s unchanged.
//
// The error is [ErrInvalidCount] or [ErrExceedsCapacity], or, if the rule's Kind or the Op is none of those
// defined here, [ErrInvalidPolicy] or [ErrInvalidCall]; s is unchanged then too.
func (r *Rule) Step(s State, now int64, q Request) (State, Decision, error) {
	if err := r.refuse(q); err != nil {
		return s, Decision{}, err
	}
	switch q.Op {
	case Peek:
		return s, r.decide(s, now), nil
	case Reset:
		return State{}, r.decide(State{}, now), nil
	case Refund:
		s = r.give(s, now, r.kept(s, now, q))
		return s, r.decide(s, now), nil
	case Charge:
		s = r.take(s, now, float64(q.Count))
		return s, r.decide(s, now), nil
	}
	s, d := r.ask(s, now, q)
	return s, d, nil
}

// refuse returns an error for a count that can never pass.
func (r *Rule) refuse(q Request) error {
	switch {
	case q.Op > Reset:
		return fmt.Errorf("%w: unknown operation %v", ErrInvalidCall, q.Op)
	case r.Kind < TokenBucket || r.Kind > SlidingWindow:
		return fmt.Errorf("%w: unknown kind %v", ErrInvalidPolicy, r.Kind)
	case !q.counts():
		return nil
	}
	if q.Count <= 0 {
		return fmt.Errorf("%w: %d is less than 1", ErrInvalidCount, q.Count)
	}
	switch most := r.most(q); {
	case float64(q.Count) <= most:
		return nil
	case q.Reserve:
		return fmt.Errorf("%w: %d is more than %.0f, which can be reserved", ErrExceedsCapacity, q.Count, most)
	default:
		return fmt.Errorf("%w: %d is more than %.0f", ErrExceedsCapacity, q.Count, most)
	}
}

// most returns the largest count that an ask can have.
func (r *Rule) most(q Request) float64 {
	switch {
	case !q.takes():
		return 2 * MaxTokens // the largest reservation can be cancelled
	case q.Reserve:
		return r.Capacity + min(r.Debt, Unbounded)
	}
	return r.Capacity
}

// ask decides a Take or Check, and returns the state after a Take.
func (r *Rule) ask(s State, now int64, q Request) (State, Decision) {
	next := r.take(s, now, float64(q.Count))
	delay := time.Duration(0)
	if q.Reserve {
		delay = r.until(next, now, 0)
	}
	retryAfter := time.Duration(0)
	switch need := r.need(q); {
	case q.late(delay) && float64(q.Count) > r.Capacity:
		retryAfter = delay
	case q.late(delay):
		retryAfter = r.until(s, now, float64(q.Count))
	case !r.enough(s, now, need):
		retryAfter = r.until(s, now, need)
	}
	if retryAfter > 0 || q.Op == Check {
		next = s
	}
	d := r.decide(next, now)
	d.Allowed, d.RetryAfter, d.Delay = retryAfter == 0, retryAfter, delay
	if d.Allowed && q.Op == Take {
		d.TakenAt = instant(now)
	}
	return next, d
}

// late reports whether a delay is longer than the ask may have.
func (q Request) late(delay time.Duration) bool { return q.MaxDelay > 0 && delay > q.MaxDelay }

// take returns s after count tokens were taken at the instant now.
func (r *Rule) take(s State, now int64, count float64) State {
	if r.Kind == SlidingWindow {
		w := r.slide(s, now)
		w.current += count
		return w.state(r.Rate)
	}
	avail, t := r.available(s, now)
	return State{Value: avail - count, TS: t, Exists: true}
}

// kept returns how many tokens of a Refund are given back: all of them but what a key that had not lost them would
// have been too full for.
func (r *Rule) kept(s State, now int64, q Request) float64 {
	count := float64(q.Count)
	if q.TakenAt == 0 || now <= q.TakenAt {
		return count
	}
	from, to := q.TakenAt, r.accruedTo(s, now)
	switch {
	case r.Kind == TokenBucket:
	case r.FirstUse && to <= q.TakenAt:
		return count
	case r.FirstUse:
		from -= r.Period // its window began after that
	case r.windowStart(from) == to:
		return count
	default:
		from = r.windowStart(from)
	}
	if r.Kind == SlidingWindow || r.Kind == FixedWindow && q.Missing == 0 {
		return 0
	}
	return min(count, max(0, max(count, q.Missing)-r.accrued(from, to)))
}

// give returns s after count tokens were given back at the instant now. A key never seen has nothing to
// be given back.
func (r *Rule) give(s State, now int64, count float64) State {
	if !s.Exists || count == 0 {
		return s
	}
	if r.Kind == SlidingWindow {
		return r.slide(s, now).give(count).state(r.Rate)
	}
	avail, t := r.available(s, now)
	return State{Value: min(r.Capacity, avail+count), TS: t, Exists: true}
}

// decide returns an allowing decision that tells what is left in s.
func (r *Rule) decide(s State, now int64) Decision {
	avail, _ := r.available(s, now)
	return Decision{
		Allowed:   true,
		Remaining: wholeTokens(avail, r.allowance(s, now)),
		Value:     avail,
		FullAfter: r.until(s, now, r.Capacity),
	}
}

// until returns how long after now s has need tokens.
func (r *Rule) until(s State, now int64, need float64) time.Duration {
	at := r.when(s, now, need)
	if wait := at - now; wait >= 0 {
		return time.Duration(wait)
	}
	return math.MaxInt64
}

// need returns what must be available for a Take or Check to pass.
func (r *Rule) need(q Request) float64 {
	return float64(q.Count) - r.debt(q)
}

// debt returns how many tokens need not be there.
func (r *Rule) debt(q Request) float64 {
	if q.Reserve {
		return r.Debt
	}
	return 0
}

// wholeTokens returns the whole tokens in value, as far as they can be taken: a value that a rounding keeps
// below a whole number counts as that number.
func wholeTokens(value, allowance float64) int64 {
	return max(0, int64(math.Floor(value+allowance)))
}

// instant returns an instant in nanoseconds since 1970 UTC as a time.
func instant(now int64) time.Time { return time.Unix(0, now).UTC() }
