package compare

import (
	"math"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// Origin is the start of a window of the old rule. Other times are counted from it. It is far from 0, so that times
// before it are valid too.
const Origin int64 = 1 << 60

// Grid is the set of times at which windows of the new rule can start: offset plus any multiple of step, counted from
// the start of any window of the old rule.
type Grid struct{ Offset, Step int64 }

// upTo returns the last start of a window at or before a time.
func (g Grid) upTo(at int64) int64 { return at - FloorMod(at-g.Offset, g.Step) }

// after returns the first start of a window after a time.
func (g Grid) after(at int64) int64 { return g.upTo(at) + g.Step }

// row is the stored state of an exhausted key: the tokens left under the old rule, negative if some are reserved, and
// the Prev of [runtime.State], and for precise windows and slots its Log, as of [Origin].
type row struct {
	tokens, prev float64
	log          string
}

// view is an instant at which a row is read, and the start of a window of the new rule, both counted from [Origin].
type view struct{ now, start int64 }

// moment is a state stored in the window that starts at [Origin], and the first and last time, counted from origin, at
// which its key is exhausted.
type moment struct {
	state       runtime.State
	first, last int64
}

// momentOf returns false if the key has a token as soon as nothing is reserved ahead, or stays exhausted for ages.
func momentOf(rule *meter.Rule, r row) (moment, bool) {
	at := *rule
	// Where windows start depends on the key. The phase makes one start at origin.
	if at.Kind.Windowed() {
		at.Phase = Origin % at.Period
	}
	m := moment{state: runtime.State{Value: r.tokens - rule.Capacity, TS: Origin, Prev: r.prev, Log: r.log, Exists: true}}
	paid := m.state
	if paid.Value++; r.tokens < 0 {
		m.first = TimeUntil(&at, paid, 1)
	} else if r.prev > 0 {
		// The tokens used in this window could only be taken when the previous window had faded enough.
		m.first = TimeUntil(&at, runtime.State{TS: Origin, Prev: r.prev, Exists: true}, int64(rule.Rate-r.tokens))
	}
	m.last = lastEmpty(&at, m.state, m.first)
	// Later times could overflow when periods are added to them.
	return m, m.first <= m.last && m.last < math.MaxInt64/8
}

// lastEmpty returns the last time at which a state has less than one token; it is before first if it has one then.
func lastEmpty(rule *meter.Rule, s runtime.State, first int64) int64 {
	empty := func(at int64) bool {
		_, d, err := rule.Step(s, Origin+at, runtime.Request{Op: runtime.Peek})
		return err == nil && d.Remaining == 0
	}
	last := TimeUntil(rule, s, 1) - 1
	if last >= math.MaxInt64/8 || last < first || empty(last) {
		return last
	}
	// The runtime rounds a token that is almost whole up, a little before it is due.
	low := first - 1
	for low+1 < last {
		if middle := low + (last-low)/2; empty(middle) {
			low = middle
		} else {
			last = middle
		}
	}
	return low
}

// TimeUntil returns how long after origin a state has a count of tokens.
func TimeUntil(rule *meter.Rule, s runtime.State, count int64) int64 {
	_, d := bounds.MustStep(rule, s, Origin, runtime.Request{Op: runtime.Check, Count: count})
	return int64(d.RetryAfter)
}

// FloorMod returns a modulo m, which is never negative.
func FloorMod(a, m int64) int64 { return (a%m + m) % m }

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
