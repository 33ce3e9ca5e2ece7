package spec

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// algorithm is everything in this package that depends on the kind of a limit.
type algorithm struct {
	// rule describes the rate and the capacity in words.
	rule func(p *runtime.Policy) string
	// grants describes how the kind grants tokens, after "How tokens are granted:".
	grants string
	// lease describes the bound that holds in spite of a lease.
	lease func(p *runtime.Policy) string
	// within is [Within] for an interval in nanoseconds and a policy with bounded reservations.
	within func(p *runtime.Policy, t int64) int64
	// refusals are the fields that the kind does not have.
	refusals []refusal
}

// refusal is a field, or some of its values, that makes no sense for a kind.
type refusal struct {
	field string
	// applies selects the refused values; nil selects all.
	applies func(p *runtime.Policy) bool
	// byPlan refuses only a map with a value for each plan.
	byPlan bool
	// message is the diagnostic, and help its remedy.
	message, help string
	// schema is the schema of the values that the kind has; false for none. Then hint is what editors show.
	schema any
	hint   string
}

// onePeriod is a refusal of kinds with windows: their rows have the start of a window, which must mean the same to all plans.
var onePeriod = refusal{
	field: "period", byPlan: true,
	message: "windows have the same period for all plans", help: "give one period, or use a token bucket",
	schema: object{"type": "string", "errorMessage": "Windows have the same period for all plans."},
}

// refuses reports whether the kind refuses some values of a field.
func (a algorithm) refuses(field string) bool {
	return slices.ContainsFunc(a.refusals, func(r refusal) bool { return r.field == field })
}

// algorithms has an entry for each of [runtime.Kinds].
var algorithms = map[runtime.Kind]algorithm{
	runtime.TokenBucket: {
		grants: "continuously",
		rule: func(p *runtime.Policy) string {
			if p.Capacity == 0 {
				return perPeriod(p) + ", by reservation only"
			}
			return perPeriod(p) + ", at most " + words.Number(p.Capacity) + " at once"
		},
		lease:  bucketLeaseWords,
		within: withinBucket,
		refusals: append([]refusal{{
			field: "start", message: "a token bucket has no windows to start", help: "leave start out, or use a fixed window",
			schema: false, hint: "A token bucket has no windows that start.",
		}, notPrecise("token bucket", "leave precise out: a token bucket is exact, and never grants more than capacity and rate together in any period")},
			calendarRefusals("A token bucket")...),
	},
	runtime.FixedWindow: {
		grants: "all at the start of each period",
		rule: func(p *runtime.Policy) string {
			switch {
			case p.Capacity == 0:
				return perPeriod(p) + ", by reservation only"
			case p.Capacity > p.Rate:
				return perPeriod(p) + ", and unused tokens accumulate up to " + words.Number(p.Capacity)
			case p.Capacity < p.Rate:
				return perPeriod(p) + ", at most " + words.Number(p.Capacity) + " at once"
			}
			return perPeriod(p)
		},
		lease:    windowLeaseWords,
		within:   withinFixed,
		refusals: []refusal{onePeriod, notPrecise("fixed window", "leave precise out, or use a sliding window")},
	},
	runtime.SlidingWindow: {
		grants: "so that about `rate` fit into any period",
		rule: func(p *runtime.Policy) string {
			if p.Precise {
				return fmt.Sprintf("never more than %s in any %s", words.Number(p.Rate), words.Period(p.Period))
			}
			return fmt.Sprintf("about %s in any %s", words.Number(p.Rate), words.Period(p.Period))
		},
		lease:  windowLeaseWords,
		within: withinSliding,
		refusals: append([]refusal{
			{
				field: "capacity", message: "a sliding window has no capacity of its own", help: "leave capacity out: it is the rate",
				schema: false, hint: "A sliding window's capacity is its rate.",
			},
			{
				field: "maxReserved", applies: func(p *runtime.Policy) bool { return p.MaxReserved != 0 },
				message: "a sliding window has no reservations", help: "leave maxReserved out, or use a token bucket",
				schema: object{"const": 0, "errorMessage": "A sliding window has no reservations."},
			},
			{
				field: "start", applies: func(p *runtime.Policy) bool { return p.Start.FirstUse() },
				message: "a sliding window cannot start at first use", help: "give an instant or an offset, or leave start out",
				schema: object{"not": object{"const": firstUse}},
			},
			onePeriod,
		}, calendarRefusals("A sliding window")...),
	},
}

// calendarRefusals refuse the calendar units of a fixed window.
func calendarRefusals(kind string) []refusal {
	const help = "use a fixed window, or a period of fixed length such as 30d"
	lower := strings.ToLower(kind[:1]) + kind[1:]
	return []refusal{
		{
			field: "period", applies: func(p *runtime.Policy) bool { return p.Calendar.Unit != 0 },
			message: lower + " has a period of fixed length", help: help,
			schema: object{"not": object{"type": "string", "pattern": calendarPattern}, "errorMessage": kind + " has a period of fixed length."},
		},
		{field: "zone", message: lower + " has no zone", help: help, schema: false, hint: kind + " has no zone."},
	}
}

// algorithmOf returns the entry of a kind. A kind without one must not be described as another one.
func algorithmOf(kind runtime.Kind) algorithm {
	a, ok := algorithms[kind]
	if !ok {
		panic(fmt.Sprintf("spec: %v has no entry in algorithms: add one in gen/spec/kinds.go", kind))
	}
	return a
}

// grantsOfKinds describes how each kind grants tokens.
func grantsOfKinds() string {
	var all []string
	for _, kind := range runtime.Kinds() {
		all = append(all, fmt.Sprintf("%s (`%v`)", algorithmOf(kind).grants, kind))
	}
	return words.List(all, "or")
}

// kindsAsCode lists the values of the field kind.
func kindsAsCode() string {
	names := kindNames()
	for i := range names {
		names[i] = "`" + names[i] + "`"
	}
	return words.List(names, "or")
}

// kind reads the kind of a limit.
func (p *parser) kind(limit *Limit, e entry) bool {
	kind, ok := oneOf(e, runtime.Kinds())
	if !ok {
		p.report(e.at, badKind, "", "kind must be %s, not %s", words.List(kindNames(), "or"), describe(e.value))
		p.meant(meantKind(e.value.Value))
	}
	limit.Policy.Kind = kind
	return ok
}

// meantKind returns the kind that text probably means: a similar one, or the only one with that word.
func meantKind(text string) string {
	if meant := Nearest(text, kindNames()); meant != "" {
		return meant
	}
	var having []string
	for _, kind := range kindNames() {
		if slices.Contains(strings.Fields(kind), strings.ToLower(text)) {
			having = append(having, kind)
		}
	}
	if len(having) == 1 {
		return having[0]
	}
	return ""
}

func perPeriod(p *runtime.Policy) string {
	return fmt.Sprintf("%s per %s", words.Number(p.Rate), PeriodOf(p))
}

// bucketLeaseWords is the formula of [withinBucket] for any time t.
func bucketLeaseWords(p *runtime.Policy) string {
	reserved := ""
	switch {
	case p.MaxReserved == runtime.Unbounded:
		reserved = ", plus reserved tokens"
	case p.Reserves():
		reserved = fmt.Sprintf(", or %s + %s*t/%s if that is more", words.Number(p.Capacity+p.MaxReserved), words.Number(p.Rate), words.Duration(p.Period))
	}
	return fmt.Sprintf("At most %s + %s*(t + %s)/%s can be used in any time t%s.",
		words.Number(p.Capacity), words.Number(p.Rate), words.Duration(p.Lease.For), words.Duration(p.Period), reserved)
}

func windowLeaseWords(*runtime.Policy) string {
	return "A block ends with its window, so no window allows more because of it."
}

// Within returns the most tokens that one key can use in an interval of length t, its first and last instant
// included, wherever it begins. A reserved token counts when it may be used, which is when its delay has passed; a
// token of a lease counts when it is spent; any other counts when it is taken. The bound holds for calls of any size,
// and for leases that are given back. It does not cover tokens that callers give back after using them, or charge
// beyond a reservation. The policy must be valid. [math.MaxInt64] means that there is no bound, or that it is too
// large to count.
//
// Token bucket: the capacity, and the tokens that accrue from the first take to the end of the interval. The first
// take is at most the longest delay of a reservation, or the time of a lease, before the interval begins.
//
// Fixed window: the capacity, left over from the window before the interval, and the tokens that each window in the
// interval grants. With reservations, all of the capacity and of the debt can be due when the interval begins, granted
// by the windows between the reservation and then. A lease ends with its window and changes nothing. For first use, see
// [withinFirstUse]; for sliding windows, see [withinSliding].
//
// For a precise sliding window, the last instant of an interval is not included unless it is also the first: there, the
// tokens taken at the first instant of a period are available again.
func Within(p *runtime.Policy, t time.Duration) int64 {
	switch {
	case p.MaxReserved == runtime.Unbounded, p.Mode == runtime.ModeUnlimited:
		return math.MaxInt64
	case p.Capacity+p.MaxReserved == 0: // the result of Unreserved for a limit that can only be reserved
		return 0
	}
	return algorithmOf(p.Kind).within(p, int64(t))
}

// Unreserved returns the policy for callers who do not reserve. It is not valid if the capacity is 0, but [Within]
// accepts it.
func Unreserved(p *runtime.Policy) *runtime.Policy {
	plain := *p
	plain.MaxReserved = 0
	return &plain
}

// LongestDelay returns the longest time until reserved tokens may be used: 0 without reservations, and the longest
// duration if reservations have no bound.
func LongestDelay(p *runtime.Policy) time.Duration {
	switch {
	case !p.Reserves():
		return 0
	case p.MaxReserved == runtime.Unbounded:
		return math.MaxInt64
	}
	rule := p.Rule("")
	// The zero State is a full key, which can reserve the most.
	longest := time.Duration(0)
	for _, start := range WindowStarts(p) {
		_, d, err := rule.Step(runtime.State{}, start, runtime.Request{Count: p.Capacity + p.MaxReserved, Reserve: true})
		if err != nil {
			panic("spec: a full key refuses its largest reservation: " + err.Error())
		}
		longest = max(longest, d.Delay)
	}
	return longest
}

func withinBucket(p *runtime.Policy, t int64) int64 {
	ahead := add(p.MaxReserved, accrued(p, t))
	early := add(t, max(int64(LongestDelay(p)), int64(p.Lease.For)))
	return add(p.Capacity, max(ahead, accrued(p, early)))
}

func withinFixed(p *runtime.Policy, t int64) int64 {
	switch {
	case p.Calendar.Unit != 0:
		return withinCalendar(p, t)
	case p.Start.FirstUse():
		return withinFirstUse(p, t)
	}
	period := int64(p.Period)
	begun := ceil(t, period)
	if p.Reserves() {
		begun = t/period + ceil(p.MaxReserved, p.Rate)
	}
	return add(p.Capacity, times(min(p.Rate, p.Capacity+p.MaxReserved), begun))
}

// withinFirstUse is [Within] for windows that begin at first use. Between the starts of two windows tokens accrue as
// in a token bucket, and no window grants more than capacity and debt. The interval can begin with a full window; or
// just before the end of one that was opened with a single token; or, with reservations, when everything that a full
// window had and could reserve is due.
func withinFirstUse(p *runtime.Policy, t int64) int64 {
	period, most := int64(p.Period), p.Capacity+p.MaxReserved
	if p.Reserves() {
		early := add(t, int64(LongestDelay(p)))
		ahead := add(max(p.Rate, p.MaxReserved), accrued(p, t))
		return add(p.Capacity, min(times(most, early/period), max(ahead, accrued(p, early))))
	}
	fresh := add(p.Capacity, min(times(most, t/period), accrued(p, t)))
	if t == 0 {
		return fresh
	}
	return max(fresh, add(p.Capacity-1, min(times(most, ceil(t, period)), accrued(p, t+period-1))))
}

// withinSliding is [Within] for a sliding window. The interval begins at the last instant of a window that takes
// all of the rate; each window after it takes at its last instant what the previous one leaves, and the last
// window at the end of the interval.
func withinSliding(p *runtime.Policy, t int64) int64 {
	if p.Precise {
		return withinPrecise(p, t)
	}
	period := int64(p.Period)
	windows, last := (t+period-1)/period, (t+period-1)%period
	sum, before, used := p.Rate, int64(-1), p.Rate
	for i := int64(1); i < windows; i++ {
		next := left(p, used, period-1)
		// The amounts soon repeat with a cycle of one or two. Multiplying the rest keeps long intervals O(1).
		if next == before || next == used {
			rest := windows - i
			sum = add(sum, add(times(next, (rest+1)/2), times(used, rest/2)))
			used = pick(rest%2 == 1, next, used)
			break
		}
		sum, before, used = add(sum, next), used, next
	}
	if windows == 0 {
		return sum
	}
	return add(sum, left(p, used, last))
}

// left returns how many tokens a window allows once elapsed nanoseconds of it have passed, if the previous window used
// a number of them.
func left(p *runtime.Policy, used, elapsed int64) int64 {
	rule := p.Rule("")
	return remaining(rule, runtime.State{TS: rule.Phase, Prev: float64(used), Exists: true}, rule.Phase+elapsed)
}

func remaining(rule runtime.Rule, s runtime.State, at int64) int64 {
	// The runtime rounds. A second implementation of that would differ in some cases.
	_, d, err := rule.Step(s, at, runtime.Request{Op: runtime.Peek})
	if err != nil {
		panic("spec: a valid rule cannot be peeked: " + err.Error())
	}
	return d.Remaining
}

func pick(first bool, a, b int64) int64 {
	if first {
		return a
	}
	return b
}

// accrued returns rate * t / period in whole tokens, including one that falls short by no more than the rounding that
// the runtime allows.
func accrued(p *runtime.Policy, t int64) int64 {
	tokens, rest := accruedExactly(p, t)
	almost := p.Rule("")
	// A bucket with the rest of the division in it has a token if the runtime rounds the rest up.
	almost.Kind, almost.FirstUse, almost.Capacity = runtime.TokenBucket, false, 1
	part := float64(rest) / float64(p.Period)
	return add(tokens, remaining(almost, runtime.State{Value: part - 1, Exists: true}, 0))
}

// accruedExactly returns rate * t / period in whole tokens, and the remainder of the division.
func accruedExactly(p *runtime.Policy, t int64) (tokens int64, rest uint64) {
	// The product of a rate and a time has up to 113 bits.
	high, low := bits.Mul64(uint64(p.Rate), uint64(t))
	if high >= uint64(p.Period) {
		return math.MaxInt64, 0
	}
	whole, rest := bits.Div64(high, low, uint64(p.Period))
	return int64(min(whole, math.MaxInt64)), rest
}

// ceil returns a/b, rounded up.
func ceil(a, b int64) int64 {
	// The usual (a+b-1)/b could overflow.
	if a%b == 0 {
		return a / b
	}
	return a/b + 1
}

// add returns a+b for numbers that are not negative, or [math.MaxInt64] instead of an overflow.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// times returns a*b for numbers that are not negative, or [math.MaxInt64] instead of an overflow.
func times(a, b int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	if high > 0 || low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(low)
}
