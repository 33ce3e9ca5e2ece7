package meter

import (
	"fmt"
	"math"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
)

// algorithm returns the arithmetic of the rule's kind. Functions with an error refuse an unknown kind with
// [runtime.ErrInvalidPolicy] before they get here. In the others it panics, because a kind must never behave like
// another one.
func (r *Rule) algorithm() algorithm {
	switch r.Kind {
	case runtime.TokenBucket:
		return tokenBucket{linear{r}}
	case runtime.FixedWindow:
		return fixedWindow{linear{r}}
	case runtime.SlidingWindow:
		if r.Precise {
			return precise{r}
		}
		return slidingWindow{r}
	case runtime.InFlight:
		return inFlight{r}
	}
	panic(fmt.Sprintf("runtime: %v has no algorithm: add it to algorithm in meter/kinds.go", r.Kind))
}

// tokenBucket is the algorithm of [runtime.TokenBucket]: tokens accrue continuously, up to the present.
type tokenBucket struct{ linear }

func (r tokenBucket) available(s runtime.State, now int64) (float64, float64) {
	return r.tokens(r.accrueTo(s, now)), allowance(r.Rate, r.Period)
}

func (r tokenBucket) accrue(s runtime.State, now int64) runtime.State {
	return r.accrueTo(s, now)
}

func (r tokenBucket) take(s runtime.State, now int64, count float64) runtime.State {
	return r.takeFrom(r.accrueTo(s, now), now, count)
}

func (r tokenBucket) grant(s runtime.State, now int64, count float64) runtime.State {
	return r.grantTo(r.accrueTo(s, now), now, count)
}

func (r tokenBucket) reset(s runtime.State, now int64) runtime.State {
	return runtime.State{TS: now, Prev: r.totals.void(s.Prev, now), Exists: true}
}

func (r tokenBucket) due(s runtime.State, now int64, need float64) (at, interval int64) {
	accrued := r.accrueTo(s, now)
	at = arith.Add(accrued.TS, r.timeFor(need-r.tokens(accrued)))
	// timeFor rounds a fraction of a token up, which may be a nanosecond too much. Whole tokens are exact.
	if fraction := accrued.Value != math.Trunc(accrued.Value); fraction && at-1 > now && r.tokens(r.accrueTo(s, at-1)) >= need {
		at--
	}
	return at, 1
}

func (r tokenBucket) full(s runtime.State, now int64) bool {
	return r.accrueTo(s, now).Value == 0
}

func (tokenBucket) windowEnd(int64) int64 { return math.MaxInt64 }

func (tokenBucket) accruesTo(now int64) (int64, float64, bool) { return now, -endless, true }

// fixedWindow is the algorithm of [runtime.FixedWindow]: tokens accrue up to the start of the current window, so that
// each new window grants rate of them. Windows are aligned to the rule's phase or to a calendar, or start at a key's
// first use.
type fixedWindow struct{ linear }

func (r fixedWindow) available(s runtime.State, now int64) (float64, float64) {
	return r.tokens(r.accrue(s, now)), allowance(r.Rate, r.Period)
}

func (r fixedWindow) accrue(s runtime.State, now int64) runtime.State {
	start := r.currentStart(s, now)
	if lowest := r.lowest(); s.Value < lowest && r.windowEnded(s.TS, start) {
		// Tokens that a refund would return may be among those dropped.
		s.Value, s.Prev, s.Log = lowest, r.totals.void(s.Prev, start), ""
	}
	return r.accrueTo(s, start)
}

// windowEnded reports whether a window that began at one instant has ended when one begins at another. In a calendar, a
// start that has only moved begins no window.
func (r fixedWindow) windowEnded(was, start int64) bool {
	return start > was && (!r.calendar.exist() || r.windows(was, start) > 0)
}

// lowest returns the smallest value with which a window can end: all tokens used, and all that can be reserved. A
// smaller one is due to tokens that were charged, or to an edit that has made the limit lower. It must not reach into
// the next window, of which the new limit grants all tokens. All classes of requests have the same one.
func (r linear) lowest() float64 { return -(r.Capacity + r.left + r.Debt) }

// currentStart returns the start of the window of a key at the instant now. If windows start at first use and the last
// one has ended, that is now: a request at this instant would start a window.
func (r fixedWindow) currentStart(s runtime.State, now int64) int64 {
	switch {
	case r.calendar.exist():
		return r.calendarStart(s, now)
	case !r.FirstUse:
		return r.windowStart(now)
	case s.Exists && now < arith.Add(s.TS, r.Period):
		return s.TS
	}
	return now
}

func (r fixedWindow) take(s runtime.State, now int64, count float64) runtime.State {
	return r.takeFrom(r.accrue(s, now), now, count)
}

func (r fixedWindow) grant(s runtime.State, now int64, count float64) runtime.State {
	return r.grantTo(r.accrue(s, now), now, count)
}

func (r fixedWindow) reset(s runtime.State, now int64) runtime.State {
	at := r.currentStart(runtime.State{}, now)
	if r.FirstUse {
		at -= r.Period // a window that has ended: the next request begins one
	}
	return runtime.State{TS: at, Prev: r.totals.void(s.Prev, now), Exists: true}
}

func (r fixedWindow) due(s runtime.State, now int64, need float64) (at, interval int64) {
	accrued := r.accrue(s, now)
	// Before the next tokens are granted, a window ends.
	accrued.Value = max(accrued.Value, r.lowest())
	lacking := need - r.tokens(accrued)
	switch {
	case r.calendar.exist():
		return r.calendarDue(s, accrued, now, need), 1
	case !r.FirstUse:
		return r.nextStart(accrued.TS, lacking), r.Period
	}
	// Nothing is granted before the current window has ended, however soon the tokens would accrue.
	return max(arith.Add(accrued.TS, r.timeFor(lacking)), arith.Add(s.TS, r.Period)), 1
}

// nextStart returns the first start of a window by which a number of tokens has accrued since t, up to rounding.
func (r fixedWindow) nextStart(t int64, tokens float64) int64 {
	start := r.windowStart(t)
	windows := math.Ceil(tokens/r.Rate + float64(t-start)/float64(r.Period))
	// The product below must not overflow. Written so that NaN takes this branch too.
	if !(windows <= float64((math.MaxInt64-max(0, start))/r.Period)) {
		return math.MaxInt64
	}
	return start + max(1, int64(windows))*r.Period
}

func (r fixedWindow) full(s runtime.State, now int64) bool {
	// Until such a window ends, its row fixes when the next one can begin: a new key would start a window at once.
	if r.FirstUse && now < arith.Add(s.TS, r.Period) {
		return false
	}
	return r.accrue(s, now).Value == 0
}

func (r fixedWindow) windowEnd(at int64) int64 {
	switch {
	case r.FirstUse:
		return math.MaxInt64
	case r.calendar.exist():
		return r.calendar.next(at)
	}
	return arith.Add(r.windowStart(at), r.Period)
}

func (r fixedWindow) accruesTo(now int64) (int64, float64, bool) {
	// The windows of a calendar are counted by rounding, which the statement does not do.
	if r.FirstUse || r.calendar.exist() {
		return 0, 0, false
	}
	return r.windowStart(now), r.lowest(), true
}

// calendarStart returns the start of the window of a key at the instant now. A start that is less than half a mean
// length after that of the key's row is another start of the same window: the row keeps its own, so that many small
// moves do not add up.
func (r fixedWindow) calendarStart(s runtime.State, now int64) int64 {
	start := r.calendar.start(now)
	if s.Exists && r.windows(s.TS, start) == 0 {
		return s.TS
	}
	return start
}

// calendarDue returns the first start of a window at which s has need tokens, and lacked them before.
func (r fixedWindow) calendarDue(s runtime.State, accrued runtime.State, now int64, need float64) int64 {
	windows := math.Ceil((need - r.tokens(accrued)) / r.Rate)
	// The product below must not overflow. Written so that NaN takes this branch too.
	if !(windows <= float64((math.MaxInt64-max(0, accrued.TS))/r.Period-1)) {
		return math.MaxInt64
	}
	earliest := accrued.TS + max(1, int64(windows))*r.Period - r.Period/2
	at := r.calendar.next(max(now, earliest-1))
	// The tokens accrue from the start in the row, which may be off the calendar by less than half a window.
	for range nearbyStarts {
		if at == math.MaxInt64 || r.enough(s, at, need) {
			break
		}
		at = r.calendar.next(at)
	}
	for range nearbyStarts {
		before := r.calendar.start(at - 1)
		if before <= now || !r.enough(s, before, need) {
			break
		}
		at = before
	}
	return at
}

// nearbyStarts is more than the windows that can begin within a mean length of an instant: between two starts is nearly
// that length, or in a zone whose clock jumps by more than half a day, at least some windows later.
const nearbyStarts = 8

// slidingWindow is the algorithm of [runtime.SlidingWindow]: an estimate of the use in the period that ends now, from
// the use of the current aligned window and of the one before. A row's Value is minus the use of the window that starts
// at TS, and Prev the use of the window before, so that an edit of the rate changes neither.
type slidingWindow struct{ *Rule }

// windows is the use of two neighbouring windows, of which the current one begins at start.
type windows struct {
	start             int64
	current, previous float64
	// void, unless it is 0, is the Prev of a row that was reset in the current window: only takes after it, whose Total is
	// that of this Prev, can be refunded. The previous window is then not used. voidPrevious means that no take of the
	// previous window can be refunded.
	void         float64
	voidPrevious bool
}

// voidMark is what Prev has more than the use of the previous window if that is voidPrevious. Uses are whole numbers.
const voidMark = 0x1p-22

// previousOf returns the windows that begin at start, with the use of the previous one by a Prev.
func previousOf(prev float64, start int64) windows {
	w := windows{start: start, previous: max(0, prev)}
	if whole := math.Floor(w.previous); w.previous-whole == voidMark {
		w.previous, w.voidPrevious = whole, true
	}
	return w
}

// addPrev returns the Prev of two shards together.
func addPrev(k runtime.Kind, a, b float64) float64 {
	switch {
	case k.Linear():
		return min(0, a) + min(0, b)
	case a <= 0 && b <= 0:
		return min(a, b)
	}
	sum, of := previousOf(a, 0), previousOf(b, 0)
	sum.previous += of.previous
	sum.voidPrevious = sum.voidPrevious || of.voidPrevious
	return sum.state().Prev
}

// windowsAt returns the windows of s as of the instant now.
func (r slidingWindow) windowsAt(s runtime.State, now int64) windows {
	w := r.windowStart(now)
	used := max(0, -s.Value)
	switch {
	case !s.Exists:
		return windows{start: w}
	// If the clock has gone back, the later window stays the current one: its use must not be counted less.
	case s.TS >= w:
		w := previousOf(s.Prev, s.TS)
		w.current, w.void = used, keptTotal(s.Prev)
		return w
	case s.TS >= w-r.Period:
		return windows{start: w, previous: used, voidPrevious: hasTotal(s.Prev) && used > 0}
	}
	return windows{start: w}
}

// used returns the estimated use of the period that ends at now:
//
//	previous * (1 - elapsed/period) + current
func (w windows) used(now, period int64) float64 {
	elapsed := float64(max(0, now-w.start))
	weight := max(0, 1-float64(elapsed/float64(period)))
	// The conversion keeps the compiler from fusing multiply and add, which would round differently per processor.
	return float64(w.previous*weight) + w.current
}

// state returns w as it is stored.
func (w windows) state() runtime.State {
	switch {
	case w.void != 0:
		w.previous = w.void
	case w.voidPrevious:
		w.previous += voidMark
	}
	// Not -w.current, which could be a negative zero: not all databases keep one.
	return runtime.State{Value: 0 - w.current, TS: w.start, Prev: w.previous, Exists: true}
}

func (r slidingWindow) available(s runtime.State, now int64) (float64, float64) {
	w := r.windowsAt(s, now)
	// Tokens come back only as the use of the previous window fades, so that its use is the rate of the allowance.
	return r.Capacity - w.used(now, r.Period), allowance(w.previous, r.Period)
}

func (r slidingWindow) accrue(s runtime.State, now int64) runtime.State {
	return r.windowsAt(s, now).state()
}

func (r slidingWindow) take(s runtime.State, now int64, count float64) runtime.State {
	w := r.windowsAt(s, now)
	w.current += count
	return w.state()
}

// grant reduces the use of the current window, and by the rest of count the use of the window before.
func (r slidingWindow) grant(s runtime.State, now int64, count float64) runtime.State {
	w := r.windowsAt(s, now)
	current := min(count, w.current)
	w.current -= current
	w.previous = max(0, w.previous-(count-current))
	return w.state()
}

// refund reduces the use of the window of the request, which is exact: no use is lost but by a reset.
func (r slidingWindow) refund(s runtime.State, _ int64, q runtime.Request) runtime.State {
	w, count := r.windowsAt(s, s.TS), float64(q.Count)
	switch taken := r.windowStart(q.TakenAt); {
	case taken == w.start && q.Total == totalOf(s):
		w.current -= min(count, w.current)
	case taken == w.start-r.Period && !w.voidPrevious:
		w.previous -= min(count, w.previous)
	default:
		return s
	}
	return w.state()
}

// reset keeps a window that is later than now, because the clock has gone back: its takes must not be refunded when it
// comes again.
func (r slidingWindow) reset(s runtime.State, now int64) runtime.State {
	return windows{start: r.windowsAt(s, now).start, void: r.totals.void(s.Prev, now)}.state()
}

// due solves the linear equation used = capacity - need.
func (r slidingWindow) due(s runtime.State, now int64, need float64) (at, interval int64) {
	w, room := r.windowsAt(s, now), r.Capacity-need
	end := r.windowStart(w.start) + r.Period
	switch {
	case w.current > room:
		// This window alone is too full: it must become the previous one and fade.
		return end + arith.Nanoseconds((1-room/w.current)*float64(r.Period)), 1
	case w.previous == 0:
		return w.start, 1
	}
	return min(end, w.start+arith.Nanoseconds((1-(room-w.current)/w.previous)*float64(r.Period))), 1
}

func (r slidingWindow) full(s runtime.State, now int64) bool {
	w := r.windowsAt(s, now)
	// The void total keeps takes of a window before its reset from being refunded.
	return w.current == 0 && w.previous == 0 && w.void == 0
}

func (r slidingWindow) windowEnd(at int64) int64 {
	return arith.Add(r.windowStart(at), r.Period)
}

// accruesTo is false because the estimate is not the linear formula of [Upsert].
func (slidingWindow) accruesTo(int64) (int64, float64, bool) { return 0, 0, false }

// enough reports whether s has need tokens at the instant at.
func (r *Rule) enough(s runtime.State, at int64, need float64) bool {
	tokens, allowance := r.algorithm().available(s, at)
	return tokens-need >= -allowance
}
