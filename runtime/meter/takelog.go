package meter

import (
	"math"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
)

// Slots are the rows of a key beside its head, by their numbers from 1.
type Slots interface {
	// Slot returns a row, or false if it has not been read.
	Slot(number int) (runtime.State, bool)
	// Request is for a row that Slot has not returned.
	Request(number int)
	// SetSlot changes a row, read or not. Rows are deleted only all together, from the first one on.
	SetSlot(number int, s runtime.State)
}

// memorySlots are rows in memory, of which the first is the head.
type memorySlots struct{ rows []runtime.State }

func (m *memorySlots) Slot(number int) (runtime.State, bool) {
	if number >= len(m.rows) {
		return runtime.State{}, true
	}
	return m.rows[number], true
}

func (m *memorySlots) Request(int) {}

func (m *memorySlots) SetSlot(number int, s runtime.State) {
	if !s.Exists {
		m.rows = m.rows[:min(number, len(m.rows))]
		return
	}
	for number >= len(m.rows) {
		m.rows = append(m.rows, runtime.State{})
	}
	m.rows[number] = s
}

// run is a number of tokens taken at one instant.
type run struct {
	at     int64
	tokens int64
}

// maxRun is the largest number of tokens in a run. A larger charge counts as that many.
const maxRun = 1<<22 - 1

// takeLog is the log of one key. The runs before the newest one are read only as far as they are needed.
type takeLog struct {
	period, rate int64
	// used is the number of tokens in all runs.
	used   int64
	newest run
	// The older runs are in the slots of a ring with size slots: length of them, from the index start on. If whole is set,
	// they are in older instead, of which start were dropped, and save writes all of them.
	slots               Slots
	size, start, length int
	older               []run
	whole               bool
	// torn means that the ring lacks a row.
	torn bool
	// puts are the changes of the ring.
	puts []slotPut
}

// slotPut is a run to be written at an index of the ring.
type slotPut struct {
	index int
	run   run
}

// open reads the head, and all runs if whole is set or the ring was that of another rate.
func (l *takeLog) open(r *Rule, head runtime.State, whole bool) bool {
	size := int(l.rate) - 1
	switch l.decode(head); {
	case !head.Exists:
	case head.Prev > -1:
		l.adopt(r, head)
	case l.slots == nil:
		l.length, l.newest.tokens = 0, min(maxRun, l.used)
		l.used = l.newest.tokens
	case l.size == size && !whole:
		return true
	case !l.load():
		return false
	}
	if l.size = size; l.slots == nil {
		l.size = 0
	}
	// The oldest runs are merged until the ring has room for the others.
	for l.length > l.size {
		if !l.merge() {
			return false
		}
	}
	return true
}

// decode reads the numbers of a head, whatever its ring.
func (l *takeLog) decode(head runtime.State) {
	l.newest.at = math.MinInt64
	if !head.Exists {
		return
	}
	l.newest.at, l.used = head.TS, atLeast(-head.Value)
	place := uint64(max(1, atLeast(-head.Prev)) - 1)
	l.start, l.length, l.size = int(place&ringMask), int(place>>ringBits&ringMask), int(place>>(2*ringBits)&ringMask)
	l.newest.tokens = int64(place >> (3 * ringBits))
	// Such a place was not written by encode.
	if l.length > l.size || l.newest.tokens > l.used || l.length == 0 && l.newest.tokens < l.used {
		l.length, l.newest.tokens = 0, min(maxRun, l.used)
	}
}

// A head's Prev is -1 less the place of its runs: from the lowest bit on, start, length and size in ringBits each, and the
// tokens of the newest run. That is at most 52 bits, so that it is exact in a float64. The Prev of other limits is
// more than -1.
const (
	ringBits = 10
	ringMask = 1<<ringBits - 1
)

// head returns the row of the head.
func (l *takeLog) head() runtime.State {
	if l.whole {
		kept := slices.DeleteFunc(slices.Clone(l.older[l.start:l.start+l.length]), func(r run) bool { return r.tokens == 0 })
		l.older, l.start, l.length = kept, 0, len(kept)
	}
	start := 0
	if l.length > 0 {
		start = l.start % l.size
	}
	place := (uint64(l.newest.tokens)<<ringBits|uint64(l.size))<<ringBits | uint64(l.length)
	return runtime.State{Value: 0 - float64(l.used), TS: l.newest.at, Prev: -1 - float64(place<<ringBits|uint64(start)), Exists: true}
}

// save writes the runs that have changed, after head. Without a head, it deletes all of them.
func (l *takeLog) save(head runtime.State) {
	switch {
	case l.slots == nil:
	case !head.Exists:
		for i := range l.size {
			l.slots.SetSlot(i+1, runtime.State{})
		}
	case l.whole:
		for i, r := range l.older {
			l.slots.SetSlot(i+1, r.state())
		}
	}
	for _, p := range l.puts {
		l.slots.SetSlot(p.index%l.size+1, p.run.state())
	}
}

func (r run) state() runtime.State {
	return runtime.State{Value: -float64(r.tokens), TS: r.at, Exists: true}
}

// run returns a run by its index, from the oldest one on. It returns false if the row must be read first.
func (l *takeLog) run(i int) (run, bool) {
	if l.whole {
		return l.older[l.start+i], true
	}
	s, ok := l.slots.Slot((l.start+i)%l.size + 1)
	if !ok {
		// More each time, so that a log of any length is read in few steps.
		l.requestUpTo(4*i + firstPage)
		return run{}, false
	}
	l.torn = l.torn || !s.Exists
	return run{s.TS, atLeast(-s.Value)}, true
}

// last returns the newest run but one.
func (l *takeLog) last() (run, bool) {
	number := (l.start+l.length-1)%max(1, l.size) + 1
	if !l.whole {
		if _, ok := l.slots.Slot(number); !ok {
			l.slots.Request(number)
			return run{}, false
		}
	}
	return l.run(l.length - 1)
}

// firstPage is how many runs are read at first: a take in a full log needs the one that has expired and the one after it.
const firstPage = 4

func (l *takeLog) requestUpTo(n int) {
	for i := range min(n, l.length) {
		l.slots.Request((l.start+i)%l.size + 1)
	}
}

// put changes a run, or adds one after the last.
func (l *takeLog) put(i int, r run) {
	switch i += l.start; {
	case !l.whole:
		l.puts = append(l.puts, slotPut{i, r})
	case i == len(l.older):
		l.older = append(l.older, r)
	default:
		l.older[i] = r
	}
}

// load reads all runs, and counts their tokens again. It returns false if rows must be read first.
func (l *takeLog) load() bool {
	if l.whole {
		return true
	}
	all, used := make([]run, 0, l.length), l.newest.tokens
	for i := range l.length {
		s, ok := l.slots.Slot((l.start+i)%l.size + 1)
		if !ok {
			l.requestUpTo(l.length)
			return false
		}
		// A row that is missing was deleted by a sweep, long after its tokens counted.
		if s.Exists {
			all = append(all, run{s.TS, atLeast(-s.Value)})
			used += atLeast(-s.Value)
		}
	}
	l.whole, l.older, l.start, l.length, l.used = true, all, 0, len(all), used
	return true
}

// adopt makes a log from a row that was written before the limit was precise. Its tokens may have been taken until the end of
// their window, so that they count from then: whatever has been used, no period gets more than the rate.
func (l *takeLog) adopt(r *Rule, s runtime.State) {
	current, previous := atLeast(-s.Value), atLeast(s.Prev)
	l.whole, l.older, l.start, l.length, l.used = true, nil, 0, 0, 0
	if l.newest = (run{at: s.TS}); previous > 0 {
		l.join(s.TS, previous)
	}
	if end := arith.Add(s.TS, r.Period-1); current > 0 {
		// There is no row for the older run yet: save writes all of them.
		l.older, l.length = []run{l.newest}, 1
		l.newest = run{at: end}
		l.join(end, current)
	}
}

// atLeast returns a number of tokens as an integer, rounded up. A damaged row denies.
func atLeast(tokens float64) int64 {
	if !(tokens < runtime.MaxTokens) {
		return runtime.MaxTokens
	}
	return max(0, int64(math.Ceil(tokens)))
}

// join adds tokens to the newest run, as of a later instant.
func (l *takeLog) join(at, count int64) {
	sum := min(maxRun, l.newest.tokens+count)
	l.used += sum - l.newest.tokens
	l.newest = run{at, sum}
}

// merge makes the two oldest runs one, at the instant of the later one.
func (l *takeLog) merge() bool {
	oldest, ok := l.run(0)
	if !ok {
		return false
	}
	if l.drop(oldest); l.length == 0 {
		l.join(l.newest.at, oldest.tokens)
		return true
	}
	next, ok := l.run(0)
	l.put(0, run{next.at, next.tokens + oldest.tokens})
	l.used += oldest.tokens
	return ok
}

// drop removes the oldest run.
func (l *takeLog) drop(oldest run) {
	l.start++
	l.length--
	l.used -= oldest.tokens
}
