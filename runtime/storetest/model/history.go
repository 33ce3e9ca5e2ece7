// Package model is a slow, plain model of what limits promise, for tests. It keeps the requests that a key has counted,
// as a list, and reads everything off that list in exact arithmetic whenever it is needed: nothing is updated in place,
// and no formula is shared with package runtime. A world makes random limits and random requests, sends them to a store
// through the methods that applications call, and compares each answer with the model.
//
// # What a limit is
//
// A key lacks a number of tokens of its capacity, which is the most that it can have. A request for n tokens passes if
// the capacity, less those that are missing, is at least n; one that reserves may lack MaxReserved of them. A request
// that passes is an event of the history of its key, and a denied one is not. The tokens missing at an instant follow
// from the events:
//
//   - A token bucket is a queue that is served at the rate: the longest backlog is missing.
//   - At the start of each fixed window, as many tokens as the rate come back. Missing tokens beyond the capacity and
//     MaxReserved are forgotten. Windows are aligned, or those of a calendar, or begin with the first request after the
//     last one has ended.
//   - In a sliding window, the tokens of the current window are missing, and the share of those of the last one that is
//     left of it.
//   - In a precise sliding window, each token is missing for a period.
//
// The terms, which are the numbers and the mode, are those that are in force at the instant: used tokens stay used when
// they change. If the clock goes back, no token comes back a second time, and none is missing again.
//
// A denial starts a penalty, unless one is in force, and while it is, nothing passes. The first token taken after it is
// forgiven makes the next one a first one. A settlement leaves a key as if only the tokens used had been taken or,
// where a store cannot know that, with less given back.
//
// Classes of requests share the history of a key. What a class leaves is missing to it, and to no other.
//
// A limit in flight has no history: its slots have holders, each until an instant.
//
// What the model does not predict, it bounds: a limit with shards grants no more than one without, and conserves its
// tokens; the tokens that processes have leased are used within the bound of [runtime.Lease].
package model

import (
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// terms are the numbers of a limit that decide a request: those of its file, of a plan, or of an override in force.
type terms struct {
	runtime.Numbers
	mode runtime.Mode
	// period is in nanoseconds.
	period int64
	// unlimited is a plan without numbers, also if it is blocked.
	unlimited bool
	windows   windows
	// penalties are how long each penalty lasts, and forgive how long after its end it counts.
	penalties []int64
	forgive   int64
	// leaves is the percentage of the capacity that the class of the request leaves to others.
	leaves int
}

// left returns how many tokens the class of the request leaves: whole ones, and never less than its percentage.
func (t terms) left() int64 {
	share := big.NewRat(t.Capacity, 100)
	left := new(big.Int)
	share.Mul(share, whole(int64(t.leaves)))
	if left.Div(share.Num(), share.Denom()); !share.IsInt() {
		left.Add(left, big.NewInt(1))
	}
	return left.Int64()
}

// full returns the tokens that the class of the request has if none is missing.
func (t terms) full() int64 { return t.Capacity - t.left() }

// debt returns how many tokens may be missing after a reservation: a class that leaves some to others has none.
func (t terms) debt() int64 {
	if t.left() > 0 {
		return 0
	}
	return t.MaxReserved
}

// counts reports whether requests are decided by the count of their key.
func (t terms) counts() bool { return t.mode == runtime.ModeEnforce || t.mode == runtime.ModeShadow }

func (t terms) lifted() bool { return t.mode == runtime.ModeOff || t.mode == runtime.ModeUnlimited }

// open reports whether every request passes.
func (t terms) open() bool { return t.lifted() || t.mode == runtime.ModeShadow }

// same reports whether the terms are the same. It leaves out the windows, which never change for a key, and what the class
// of a request leaves: all classes have one count.
func (t terms) same(o terms) bool {
	return t.mode == o.mode && t.unlimited == o.unlimited && t.sameNumbers(o)
}

// sameNumbers reports whether the terms have the same numbers, whatever the mode is.
func (t terms) sameNumbers(o terms) bool {
	return t.Numbers == o.Numbers && t.period == o.period
}

// event is a request that a key has counted, or an instant at which tokens were given back.
type event struct {
	// now is the store's clock at the request, and settled at a later settlement.
	now, settled int64
	// tokens were taken from the key; they are negative if they were given back, for kinds that do not keep apart whose
	// tokens were given back. used replaces them in a history in which requests had taken only the tokens that they
	// used.
	tokens, used *big.Rat
	by           terms
	// withheld is how many of the tokens that it has not used settlements have not given back, or more.
	withheld float64
	// other is what the event was instead, if the answers so far do not show which: a settlement may give back nothing.
	other *event
	// hidden means that tokens were given back to a key that was full by then, which no answer shows: fewer may be
	// missing.
	hidden bool
}

// taking returns the event of a request for n tokens.
func taking(n, now int64, by terms) *event {
	return &event{now: now, tokens: whole(n), used: whole(n), by: by}
}

// history is the events of a key, in their order.
type history []*event

// inDoubt reports whether it shows only when the clock goes back what a settlement has given back.
func (h history) inDoubt() bool {
	return slices.ContainsFunc(h, func(e *event) bool { return e.hidden || e.other != nil })
}

// fit swaps doubted events for their alternatives until something fits. It returns false if nothing does.
func fit(doubted []*event, fits func() bool) bool {
	if len(doubted) == 0 {
		return fits()
	}
	for range 2 {
		if fit(doubted[1:], fits) {
			return true
		}
		was := *doubted[0]
		*doubted[0] = *was.other
		doubted[0].other = &was
	}
	return false
}

// missing returns the tokens that a key lacks of a full one at an instant, by the terms then in force. If settled, it
// returns what would be missing if each request had taken only the tokens that it has used.
func (h history) missing(now int64, by terms, settled bool) *big.Rat {
	if settled {
		h = h.settled()
	}
	switch by.windows.kind {
	case bucket:
		return h.inBucket(now, by)
	case aligned, calendar, firstUse:
		missing, window := h.inWindows()
		if len(h) > 0 {
			missing, _ = by.enter(missing, window, now)
		}
		return missing
	case sliding:
		return h.inSlidingWindow(now, by)
	}
	return h.inLog(now, by)
}

// settled returns the history in which each request has taken only the tokens that it has used.
func (h history) settled() history {
	all := make(history, len(h))
	for i, e := range h {
		all[i] = &event{now: e.now, settled: e.settled, tokens: e.used, by: e.by}
	}
	return all
}

// inBucket: the requests are a queue that is served at the rate. The longest backlog is missing: the tokens of the
// last requests, however many of them, less those that have come since the first of these. Time that the clock shows a
// second time does not count.
func (h history) inBucket(now int64, by terms) *big.Rat {
	at := h.latest()
	until, backlog, longest := now, new(big.Rat), new(big.Rat)
	if len(h) > 0 {
		until = max(now, at[len(h)-1])
	}
	for i, e := range slices.Backward(h) {
		backlog.Add(backlog, e.tokens)
		backlog.Sub(backlog, share(until-at[i], by.Rate, by.period))
		if backlog.Cmp(longest) > 0 {
			longest.Set(backlog)
		}
		until, by = at[i], e.by
	}
	return longest
}

// latest returns the latest time that the clock had shown by each event.
func (h history) latest() []int64 {
	at := make([]int64, len(h))
	for i, e := range h {
		at[i] = e.now
		if i > 0 {
			at[i] = max(at[i], at[i-1])
		}
	}
	return at
}

// inWindows returns the tokens that are missing after the last event, and the window that was current then.
func (h history) inWindows() (missing *big.Rat, window int64) {
	missing = new(big.Rat)
	for i, e := range h {
		if i == 0 {
			window = e.by.window(e.now)
		}
		missing, window = e.by.enter(missing, window, e.now)
		missing = positive(missing.Add(missing, e.tokens))
	}
	return missing, window
}

// window returns the window that an instant begins or belongs to: its number, or its start if it begins at the first
// use.
func (t terms) window(now int64) int64 {
	if t.windows.kind == firstUse {
		return now
	}
	return t.windows.number(now, t.period)
}

// enter returns the tokens that are missing, and the window, after another one has begun, if it has. Each begins with
// as many tokens more as the rate, or after a gap until its first use with those of the time, up to the capacity. The
// tokens taken beyond the capacity and the reservations are forgotten.
func (t terms) enter(missing *big.Rat, last, now int64) (*big.Rat, int64) {
	window, back := t.window(now), new(big.Rat)
	switch first := t.windows.kind == firstUse; {
	case first && now < last+t.period, !first && window <= last:
		return missing, last
	case first:
		back = share(now-last, t.Rate, t.period)
	default:
		back = whole((window - last) * t.Rate)
	}
	return positive(back.Sub(atMost(missing, t), back)), window
}

// inSlidingWindow: the tokens of this window, and a share of those of the one before that fades with time.
func (h history) inSlidingWindow(now int64, by terms) *big.Rat {
	current := h.currentWindow(now, by)
	this, before := new(big.Rat), new(big.Rat)
	for i, at := range h.latest() {
		switch by.windows.number(at, by.period) {
		case current:
			this.Add(this, h[i].tokens)
		case current - 1:
			before.Add(before, h[i].tokens)
		}
	}
	elapsed := max(0, now-(by.windows.end(current, by.period)-by.period))
	before.Sub(before, new(big.Rat).Mul(before, big.NewRat(elapsed, by.period)))
	return this.Add(this, before)
}

// currentWindow returns the number of the window at an instant. A clock that goes back does not open a window again.
func (h history) currentWindow(now int64, by terms) int64 {
	n := by.windows.number(now, by.period)
	for _, e := range h {
		n = max(n, by.windows.number(e.now, by.period))
	}
	return n
}

// inLog: tokens come back a period after they were taken. Those that had come back at a later request do not go again
// when the clock goes back.
func (h history) inLog(now int64, by terms) *big.Rat {
	sum := new(big.Rat)
	shown := now
	for i, at := range slices.Backward(h.latest()) {
		if shown < at+by.period {
			sum.Add(sum, h[i].tokens)
		}
		shown = max(shown, h[i].now, h[i].settled)
	}
	return sum
}

// windowEnd returns the end of the window that is open at an instant, 0 without one.
func (h history) windowEnd(now int64, by terms) int64 {
	switch by.windows.kind {
	case bucket, precise:
		return 0
	case firstUse:
		if _, start := h.inWindows(); len(h) > 0 && now < start+by.period {
			return start + by.period
		}
		return 0
	}
	return by.windows.end(h.currentWindow(now, by), by.period)
}

// share returns rate * elapsed / period.
func share(elapsed, rate, period int64) *big.Rat {
	tokens := new(big.Rat).SetFrac64(elapsed, period)
	return tokens.Mul(tokens, whole(rate))
}

func whole(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

func float(r *big.Rat) float64 {
	f, _ := r.Float64()
	return f
}

func positive(r *big.Rat) *big.Rat {
	if r.Sign() < 0 {
		r.SetInt64(0)
	}
	return r
}

// atMost returns how many tokens are missing at the end of a window: no more than can be taken and reserved.
func atMost(missing *big.Rat, by terms) *big.Rat {
	if most := whole(by.Capacity + by.MaxReserved); by.MaxReserved < runtime.Unbounded && missing.Cmp(most) > 0 {
		return most
	}
	return missing
}

func (h history) String() string {
	s := ""
	for _, e := range h {
		s += fmt.Sprintf("\n  %v: %s, used %s, by rate %d, capacity %d, reserved %d, period %v", time.Unix(0, e.now).UTC(),
			e.tokens.FloatString(9), e.used.FloatString(9), e.by.Rate, e.by.Capacity, e.by.MaxReserved, time.Duration(e.by.period))
	}
	return s
}
