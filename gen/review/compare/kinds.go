package compare

import (
	"fmt"
	"math"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// Traits is what the review has to know about a kind beyond what the runtime's step computes.
type Traits struct {
	// LongRun returns how many tokens a rule grants in a period, on average over a long time.
	LongRun func(p *runtime.Policy) int64
	// Exhausted returns the stored rows of exhausted keys that can be worth the most under a rule with another period,
	// whose windows start on a grid.
	Exhausted func(rule *meter.Rule, period int64, g Grid) []row
	// Views returns the instants at which a row can be worth the most under a rule of this kind.
	Views func(g Grid, p *runtime.Policy, m moment) []view
	// NewRate and NewWindows say how a stored row is read after an edit of the rate, or of when windows start.
	NewRate, NewWindows string
}

// TraitsByKind has the traits of every kind.
var TraitsByKind = map[runtime.Kind]Traits{
	runtime.TokenBucket: {
		LongRun:   rateUnlessUnusable,
		Exhausted: exhaustedBuckets,
		Views:     lastViews,
		NewRate:   "Counts are kept. Tokens accrue at the new rate, starting from a key's last take.",
	},
	runtime.FixedWindow: {
		LongRun:    func(p *runtime.Policy) int64 { return min(p.Rate, p.Capacity+p.MaxReserved) },
		Exhausted:  exhaustedWindows,
		Views:      windowViews,
		NewRate:    "Counts are kept. The next window grants the new rate.",
		NewWindows: "A key's current window ends at another time, and the next one grants the tokens accrued since the current one started.",
	},
	runtime.SlidingWindow: {
		LongRun:    rateUnlessUnusable,
		Exhausted:  exhaustedSliding,
		Views:      slidingViews,
		NewRate:    "Counts are kept: what a key has used in its window and the one before stays used.",
		NewWindows: "Used tokens count in the new windows, and may be forgotten sooner.",
	},
	runtime.InFlight: {
		LongRun:   func(*runtime.Policy) int64 { return math.MaxInt64 },
		Exhausted: exhaustedAtOnce,
		Views:     lastViews,
		NewRate:   "Slots that are held stay held, each until its end.",
	},
}

// TraitsOf panics for an unknown kind instead of treating it like another one.
func TraitsOf(p *runtime.Policy) Traits {
	if p.Precise {
		return traitsOfPrecise
	}
	t, ok := TraitsByKind[p.Kind]
	if !ok {
		panic(fmt.Sprintf("review: the kind %v is not described: add it to TraitsByKind in gen/review/compare/kinds.go", p.Kind))
	}
	return t
}

// Windowed reports whether a policy divides time into windows. A precise sliding window has a log instead.
func Windowed(p *runtime.Policy) bool { return p.Kind.Windowed() && !p.Precise }

// Sliding reports whether the windows of a policy slide. Then its capacity is always its rate.
func Sliding(p *runtime.Policy) bool { return p.Kind == runtime.SlidingWindow }

func rateUnlessUnusable(p *runtime.Policy) int64 {
	if p.Capacity+p.MaxReserved == 0 {
		return 0
	}
	return p.Rate
}

func exhaustedBuckets(rule *meter.Rule, _ int64, _ Grid) (rows []row) {
	for _, debt := range debts(int64(rule.Debt), int64(rule.Rate)) {
		rows = append(rows, row{tokens: -float64(debt)})
	}
	// A window at first use can start with part of a token.
	if rule.FirstUse && rule.Capacity+rule.Debt > rule.Rate {
		rows = append(rows, row{tokens: almostOne(rule)})
	}
	return rows
}

func exhaustedWindows(rule *meter.Rule, period int64, g Grid) (rows []row) {
	if rule.FirstUse { // tokens accrue between windows, as in a token bucket
		return exhaustedBuckets(rule, period, g)
	}
	for _, windows := range debts(int64(rule.Debt/rule.Rate), period/rule.Period) {
		rows = append(rows, row{tokens: -float64(windows) * rule.Rate})
	}
	return rows
}

func exhaustedSliding(rule *meter.Rule, period int64, g Grid) (rows []row) {
	rows = []row{{}}
	for _, used := range usedInWindow(rule, period, g) {
		rows = append(rows, row{tokens: rule.Rate - used, prev: rule.Rate})
	}
	return rows
}

// debts returns 0, the powers of two below most, most, and the numbers around another one: the debts at which the
// carried tokens can peak.
func debts(most, around int64) []int64 {
	list := []int64{0, most}
	for n := int64(1); n < most; n *= 2 {
		list = append(list, n)
	}
	for n := around - 2; n <= around+2; n++ {
		if 0 < n && n < most {
			list = append(list, n)
		}
	}
	return list
}

// usedInWindow returns amounts of tokens used in a window after one that used all: the fewest, the most, and those that
// exhaust a key until a window of the other rule starts or ends.
func usedInWindow(rule *meter.Rule, period int64, g Grid) (list []float64) {
	last := rule.Period + rule.Period/int64(rule.Rate)
	times := []int64{0, period - 1, period, g.after(0) + period - 1}
	// 32 windows at either end bound the search, however many windows of the other rule fit in between.
	for i := range int64(32) {
		times = append(times, g.after(0)+i*g.Step, g.upTo(last)-i*g.Step)
	}
	times = append(times, last)
	for _, at := range times {
		least := math.Floor(float64(at)*rule.Rate/float64(rule.Period)) - 1
		for used := least - 1; used <= least+1; used++ {
			if 1 <= used && used < rule.Rate {
				list = append(list, used)
			}
		}
	}
	return append(list, 1)
}

// almostOne returns the largest part of a token that can be left when a window at first use starts.
func almostOne(rule *meter.Rule) float64 {
	bucket := *rule
	bucket.Kind, bucket.FirstUse = runtime.TokenBucket, false
	empty := runtime.State{Value: -bucket.Capacity, TS: Origin, Exists: true}
	last := lastEmpty(&bucket, empty, 0)
	_, d, _ := bucket.Step(empty, Origin+last, runtime.Request{Op: runtime.Peek})
	return d.Value
}

// lastViews is for rules under which a row is worth more the later it is read.
func lastViews(_ Grid, _ *runtime.Policy, m moment) []view { return []view{{m.last, 0}} }

func windowViews(g Grid, p *runtime.Policy, m moment) []view {
	if p.Start.FirstUse() {
		return lastViews(g, p, m)
	}
	return []view{{m.last, g.upTo(m.last)}} // a window grants the tokens accrued until it starts
}

// slidingViews has one view for each way in which used tokens can count: in the window in which they were taken, in the
// window after it, or not at all.
func slidingViews(g Grid, p *runtime.Policy, m moment) (list []view) {
	period := int64(p.Period)
	for _, start := range []int64{g.upTo(0), g.after(0), g.after(period)} {
		if now := min(m.last, start+period-1); m.first <= now && start <= now {
			list = append(list, view{now, start})
		}
	}
	return list
}

// traitsOfPrecise are the traits of precise sliding windows, whose rows are a log and not windows.
var traitsOfPrecise = Traits{
	LongRun:   rateUnlessUnusable,
	Exhausted: exhaustedAtOnce,
	Views:     lastViews,
	NewRate:   "The tokens taken in the last old period stay counted, each for the new period from when it was taken.",
}

// exhaustedAtOnce has the row of a key that has taken all tokens or slots at one instant. A log of several instants is worth
// no more: the token that comes back first ends the time in which the key is exhausted. Slots are worth the most when their
// holds end, because a renewal makes a new row.
func exhaustedAtOnce(rule *meter.Rule, _ int64, _ Grid) []row {
	s, _ := bounds.MustStep(rule, runtime.State{}, Origin, runtime.Request{Count: int64(rule.Capacity)})
	return []row{{rule.Capacity + s.Value, s.Prev, s.Log}}
}

// heldCount says how a row with the holders of slots is read by a kind that grants tokens.
const heldCount = "The slots that a key had in use at its last acquisition, renewal or release count as tokens used at that instant. Work that holds a slot goes on, and its Renew and Release fail."

// usedForgotten says how a row of a kind that grants tokens is read by a limit in flight.
const usedForgotten = "Used tokens are no slots: every key starts with all slots free, also while work of the old version still runs."

// newKind says how a stored row is read after an edit of the kind, for each old and new one that grant tokens.
var newKind = map[[2]runtime.Kind]string{
	{runtime.TokenBucket, runtime.FixedWindow}:   "The tokens that a key lacked at its last take count as used in the window of that take.",
	{runtime.TokenBucket, runtime.SlidingWindow}: "The tokens that a key lacked at its last take count as used in the window of that take.",
	{runtime.FixedWindow, runtime.TokenBucket}:   "The tokens that a key lacks in its window count as used, and accrue again from the start of that window.",
	{runtime.FixedWindow, runtime.SlidingWindow}: "The tokens that a key lacks in its window count as used at the start of that window.",
	{runtime.SlidingWindow, runtime.TokenBucket}: "The tokens that a key has used in its window count as used, and accrue again from the start of that window. Use of the previous window is forgotten.",
	{runtime.SlidingWindow, runtime.FixedWindow}: "The tokens that a key has used in its window count as used. Use of the previous window is forgotten.",
}

// RowsReadAs says how stored rows are read under the new rule; it is empty if they mean the same.
func RowsReadAs(p Pair) string {
	old, new := &p.Old.Policy, &p.New.Policy
	of := TraitsOf(new)
	switch {
	case InFlight(old) && !InFlight(new):
		return heldCount
	case InFlightChanged(p):
		return usedForgotten
	case old.Precise != new.Precise:
		return newPrecision(new)
	case old.Kind != new.Kind:
		sentence, ok := newKind[[2]runtime.Kind{old.Kind, new.Kind}]
		if !ok {
			panic(fmt.Sprintf("review: an edit from %v to %v is not described: add it to newKind in gen/review/compare/kinds.go",
				old.Kind, new.Kind))
		}
		return sentence
	case WindowsMove(p) && p.HasCalendar():
		return calendarReadAs(p)
	case WindowsMove(p): // before the rate, because the next window grants the new rate in any case
		return of.NewWindows
	case old.Rate != new.Rate || old.Period != new.Period || old.Slots != new.Slots || old.Hold != new.Hold:
		return of.NewRate
	}
	return ""
}

// calendarReadAs says how a row is read by the windows of a calendar that has changed.
func calendarReadAs(p Pair) string {
	if !HasCalendar(&p.New.Policy) {
		return "A key's current window ends at another time, and the next one grants the tokens accrued since the current one started."
	}
	return fmt.Sprintf("A key keeps its count until a new window begins that is at least %s after the start of its current one, "+
		"and then gets the tokens of as many windows as fit between the two starts, rounded.", words.Length(p.New.Policy.Period/2))
}

// newPrecision says how a row is read by a limit that was not precise before, or is no longer.
func newPrecision(new *runtime.Policy) string {
	if new.Precise {
		return "The tokens that a key has used count as taken at the end of its window, or for a token bucket a period after its last take, because the row does not say when they were. They are available again " +
			words.Duration(new.Period) + " later."
	}
	return "All tokens in a key's log count as taken at its last take."
}

// SameWindows reports whether two different starts give the same windows, such as offsets that are a period apart.
func SameWindows(p Pair) bool {
	was, wasAligned := p.Old.Policy.Start.Offset()
	is, aligned := p.New.Policy.Start.Offset()
	period := p.New.Policy.Period
	return wasAligned && aligned && (was%period-is%period)%period == 0
}

// WindowsMove reports whether the windows of a limit start at other times. It is false if either rule has no windows.
func WindowsMove(p Pair) bool {
	old, new := &p.Old.Policy, &p.New.Policy
	if !Windowed(old) || !Windowed(new) {
		return false
	}
	return old.Period != new.Period || old.Calendar != new.Calendar || old.Start != new.Start && !SameWindows(p)
}
