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

// numbersOf returns what a policy comes to. If reservations have no bound, the numbers of intervals are for callers who
// do not reserve.
func numbersOf(p *runtime.Policy) []number {
	list := []number{{"at once", tokens(review.Within(p, 0)), ""}}
	plain, mark := p, ""
	switch unreserved := spec.Unreserved(p); {
	case p.MaxReserved == runtime.Unbounded:
		list[0].remark = "with reservations"
		plain, mark = unreserved, ", unreserved"
		list = append(list, number{"at once, unreserved", tokens(review.Within(plain, 0)), ""})
	case p.Reserves():
		list = append(list, number{"at once, unreserved", tokens(review.Within(unreserved, 0)), ""})
	case p.Kind == runtime.FixedWindow:
		list = append(list, number{"at a window's edge", tokens(review.Within(p, 1)), "just before it and just after it"})
	}
	for _, t := range intervals(p.Period) {
		list = append(list, number{"in any " + spec.PeriodInWords(t) + mark, tokens(review.Within(plain, t)), ""})
	}
	if p.Capacity > 0 {
		list = append(list, number{"next token after", review.Length(review.NextAfter(p)), "when it is empty"})
		if d := review.NextAfterReserving(p); d > 0 {
			list = append(list, number{"next token after reserving all", lasting(d), ""})
		}
		list = append(list, number{"full after", review.Length(review.FullAfter(p)), "when it is empty"})
	}
	if p.Reserves() {
		list = append(list, number{"largest reservation", largest(p), ""}, number{"longest delay", lasting(review.LongestDelay(p)), ""})
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

func lasting(d time.Duration) string {
	if d < math.MaxInt64 {
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
