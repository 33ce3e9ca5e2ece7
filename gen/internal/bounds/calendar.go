package bounds

import (
	"math"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

const day = 24 * time.Hour

// mostWindows returns the most windows that begin after the start of one, within a time from it.
func mostWindows(c runtime.Calendar, t time.Duration) int64 {
	low, high := int64(0), int64(t/c.Period()*2+4)
	for low < high {
		if middle := low + (high-low+1)/2; ShortestSpan(c, middle) <= t {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low
}

// ShortestSpan returns how far apart the starts of two windows of a calendar are at least, if n windows begin after one
// and up to the other, and the zone and the anniversary of the key remain the same. It is exact for the windows from 2000
// to 2262, after which no int64 of nanoseconds reaches, except for a zone per key: then it is a bound for every zone.
// [math.MaxInt64] means that no two windows in that time are so far apart.
func ShortestSpan(c runtime.Calendar, n int64) time.Duration {
	found := spansOf(c, n)
	if found.ok && c.ZonePerKey && n > 0 {
		return found.shortest - putForward(c, n)
	}
	return found.shortest
}

// longestSpan is [ShortestSpan] for the windows that are the furthest apart, and returns the start of the first one. It
// returns false if no two windows are so far apart.
func longestSpan(c runtime.Calendar, n int64) (span time.Duration, start int64, ok bool) {
	found := spansOf(c, n)
	if c.ZonePerKey && n > 0 {
		found.longest += putBack
	}
	return found.longest, found.longestFrom, found.ok
}

// spans are the times from the start of a window to that of the n-th one after it which grants tokens.
type spans struct {
	shortest, longest time.Duration
	longestFrom       int64
	// ok reports whether there are any.
	ok bool
}

// table has the starts of all windows of a calendar, in order, for each anniversary that a key can have.
type table struct {
	starts [][]int64
	// known has the spans calculated so far, by their number of windows.
	known map[int64]spans
}

func (t *table) spans(n, mean int64) spans {
	if known, ok := t.known[n]; ok {
		return known
	}
	found := spans{shortest: math.MaxInt64}
	for _, starts := range t.starts {
		for i := int64(0); i+n < int64(len(starts)); i++ {
			j := i + n
			// The runtime rounds the number of windows from one start to another. So the rest of a day that a zone has skipped is
			// not another window.
			if starts[j]-starts[i]+mean/2 < n*mean {
				if j++; j == int64(len(starts)) {
					break
				}
			}
			length := time.Duration(starts[j] - starts[i])
			if length < found.shortest {
				found.shortest = length
			}
			if length > found.longest || !found.ok {
				found.longest, found.longestFrom, found.ok = length, starts[i], true
			}
		}
	}
	t.known[n] = found
	return found
}

// putForward is how much closer in time two windows can begin in some zone than in UTC: a day, which some zones have
// skipped. Windows of a day are at least half a day apart, because a skipped day has no window.
func putForward(c runtime.Calendar, n int64) time.Duration {
	switch {
	case c.Unit == runtime.Day:
		return day / 2
	case n == 1:
		return day
	}
	return day + time.Hour // and in another window, the clock has been put forward
}

// putBack is the most by which the clock of some zone has been put back since 2000, at once or in several steps.
const putBack = 3 * time.Hour

// Longest returns the longest of the times that wait returns for the starts of windows: each is the time to the start of
// a later window or, without a calendar, any time.
func Longest(p *runtime.Policy, wait func(start int64) time.Duration) time.Duration {
	switch rule := meter.RuleOf(p, ""); {
	case p.Precise:
		return wait(rule.Grain() + 1) // what is taken just after the end of a grain counts as of the end of the next
	case p.Calendar.Unit == 0:
		return wait(rule.Phase)
	}
	starts := startsOf(keyless(p.Calendar))[0]
	longest := wait(starts[0])
	// From all starts the same number of windows has to begin.
	n, _ := slices.BinarySearch(starts, add(starts[0], int64(longest)+1))
	if span, _, ok := longestSpan(p.Calendar, int64(n-1)); ok {
		return span
	}
	return longest
}

// LongestWindow returns the start of a window that is as long as any, for a key in UTC and with windows from 1 January
// 1970 if keys differ.
func LongestWindow(p *runtime.Policy) int64 {
	if p.Calendar.Unit == 0 {
		return meter.RuleOf(p, "").Phase
	}
	_, start, _ := longestSpan(keyless(p.Calendar), 1)
	return start
}

// keyless returns the calendar of a rule without the zone and the anniversary of a key.
func keyless(c runtime.Calendar) runtime.Calendar {
	c.Anniversary = false
	return inUTC(c)
}

// inUTC returns a calendar with UTC in place of a zone per key.
func inUTC(c runtime.Calendar) runtime.Calendar {
	if c.ZonePerKey {
		c.ZonePerKey, c.Zone = false, "UTC"
	}
	return c
}

// Interval returns the period of a policy, or the hold, or for a calendar, the longest interval in which at most one
// window begins after the first instant.
func Interval(p *runtime.Policy) time.Duration {
	if p.Calendar.Unit == 0 {
		return max(p.Period, p.Hold)
	}
	span := ShortestSpan(p.Calendar, 1)
	if span > 2*day {
		span = span.Truncate(day)
	}
	return span
}

// tables has those of a few calendars.
var tables struct {
	sync.Mutex
	of map[runtime.Calendar]*table
}

// mostTables bounds the memory of tables: one has up to 100,000 starts.
const mostTables = 32

func spansOf(c runtime.Calendar, n int64) spans {
	tables.Lock()
	defer tables.Unlock()
	return tableOfLocked(c).spans(n, int64(c.Period()))
}

func startsOf(c runtime.Calendar) [][]int64 {
	tables.Lock()
	defer tables.Unlock()
	return tableOfLocked(c).starts
}

func tableOfLocked(c runtime.Calendar) *table {
	c = inUTC(c)
	if known, ok := tables.of[c]; ok {
		return known
	}
	if len(tables.of) >= mostTables || tables.of == nil {
		tables.of = map[runtime.Calendar]*table{}
	}
	t := &table{known: map[int64]spans{}}
	for _, from := range firstDays(c) {
		one := runtime.Policy{Kind: runtime.FixedWindow, Rate: 1, Period: c.Period(), Capacity: 1, Calendar: c}
		one.Calendar.From, one.Calendar.Anniversary = from, false
		t.starts = append(t.starts, windowStarts(meter.RuleOf(&one, "")))
	}
	tables.of[c] = t
	return t
}

// firstDays returns the first day of a window, or one for each way in which keys with anniversaries can divide time.
func firstDays(c runtime.Calendar) (days []runtime.Date) {
	first := time.Date(1970, time.January, 1, 0, 0, 0, 0, time.UTC)
	count := max(1, c.Count)
	switch {
	case !c.Anniversary:
		return []runtime.Date{c.From}
	case c.Unit == runtime.Week:
		count *= 7
		fallthrough
	case c.Unit == runtime.Day:
		for i := range count {
			days = append(days, runtime.DateOf(first.AddDate(0, 0, i)))
		}
		return days
	case c.Unit == runtime.Year:
		count *= 12
	}
	// 28 years have a 29 February for every month that follows it by less than a window.
	seen := map[[2]int]bool{}
	for at := first; at.Year() < 1970+28*max(1, count/12); at = at.AddDate(0, 0, 1) {
		months := 12*(at.Year()-1970) + int(at.Month()) - 1
		if way := [2]int{months % count, at.Day()}; !seen[way] {
			seen[way] = true
			days = append(days, runtime.DateOf(at))
		}
	}
	return days
}

// windowStarts returns the starts of the windows of a calendar from 2000 to 2262, where int64 ends.
func windowStarts(rule meter.Rule) (list []int64) {
	before := time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC).UnixNano() - 1
	for at := rule.WindowEnd(before); at < math.MaxInt64; at = rule.WindowEnd(at) {
		list = append(list, at)
	}
	return list
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
