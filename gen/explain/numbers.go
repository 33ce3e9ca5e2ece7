package explain

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// number is one thing that a limit comes to, for one key.
type number struct{ name, value, remark string }

// numbers prints what the limit comes to.
func (p *page) numbers(l *spec.Limit) {
	list := numbersOf(&l.Policy)
	name, value := 0, 0
	for _, n := range list {
		name, value = max(name, cells.Of(n.name)), max(value, cells.Of(n.value))
	}
	fmt.Fprintf(p, "  %sat most, for %s:%s\n", p.bold, party(l), p.off)
	for _, n := range list {
		p.WriteString(strings.TrimRight(fmt.Sprintf("    %-*s  %*s  %s", name, n.name, value, n.value, n.remark), " ") + "\n")
	}
}

// party says whose the numbers are.
func party(l *spec.Limit) string {
	if len(l.Key) == 0 {
		return "all callers together"
	}
	return "one " + spec.List(names(l), "and")
}

func numbersOf(p *runtime.Policy) []number {
	list := []number{{"at once", spec.Grouped(p.Capacity), ""}}
	if p.Kind == runtime.FixedWindow {
		list = append(list, number{"at a window's edge", tokens(review.Within(p, 1)), "just before it and just after it"})
	}
	for _, t := range intervals(p.Period) {
		list = append(list, number{"in any " + spec.PeriodInWords(t), tokens(review.Within(p, t)), ""})
	}
	if p.Reserves() {
		list = append(list, number{"largest reservation", largest(p), ""}, number{"longest delay", longest(p), "until it can be used"})
	}
	if p.Capacity > 0 {
		list = append(list, number{"one after", review.Length(oneAfter(p)), "when it is empty"})
		list = append(list, number{"full after", review.Length(review.FullAfter(p)), "when it is empty"})
	}
	return list
}

// unbounded is said of what has no bound, or none that can be counted.
const unbounded = "unbounded"

func tokens(n int64) string {
	if n == math.MaxInt64 {
		return unbounded
	}
	return spec.Grouped(n)
}

func largest(p *runtime.Policy) string {
	if n := review.LargestReservation(p); n < runtime.Unbounded {
		return spec.Grouped(n)
	}
	return unbounded
}

func longest(p *runtime.Policy) string {
	if d := review.LongestDelay(p); d < math.MaxInt64 {
		return review.Length(d)
	}
	return unbounded
}

// intervals are a second, a minute, an hour, a day, and the limit's own period.
func intervals(period time.Duration) []time.Duration {
	list := []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour, period}
	slices.Sort(list)
	return slices.Compact(list)
}

// oneAfter returns how long it takes at most until a key with less than one token, of which nothing is reserved,
// has one again. It takes longest if all was taken at once, when a window began.
func oneAfter(p *runtime.Policy) time.Duration {
	r := fullRow(p)
	r.ask(runtime.Ask{Count: p.Capacity})
	return r.ask(runtime.Ask{Op: runtime.Check, Count: 1}).RetryAfter
}
