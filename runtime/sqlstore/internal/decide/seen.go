package decide

import (
	"hash/maphash"
	"slices"
	"sync/atomic"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/batch"
)

// seenRows are the states in which this process last saw rows, so that compareAndSwap and swapMany need not read one that
// only this process writes, and a take from a sharded limit knows a shard to take from. They have a fixed size: rows that
// share a place replace each other. A state that its row no longer has costs a round trip, and never changes an answer.
type seenRows struct {
	seed   maphash.Seed
	places [1 << 15]atomic.Pointer[seenRow]
}

type seenRow struct {
	row   runtime.Row
	state runtime.State
	// own means that the row had not changed when it was last read or written, or that this process has inserted it.
	own bool
}

// nearPlaces is how many places a row may have. With one, a batch of many rows would often have one that another has
// overwritten.
const nearPlaces = 4

// longestSeen is the longest log that is kept.
const longestSeen = 512

func newSeenRows() *seenRows { return &seenRows{seed: maphash.MakeSeed()} }

// place returns the place that has a row, or the one for it.
func (s *seenRows) place(r runtime.Row) (at *atomic.Pointer[seenRow]) {
	first := maphash.Comparable(s.seed, r)
	for i := range uint64(nearPlaces) {
		place := &s.places[(first+i)%uint64(len(s.places))]
		seen := place.Load()
		if seen != nil && seen.row == r {
			return place
		}
		if at == nil || i > 0 && seen == nil && at.Load() != nil {
			at = place
		}
	}
	return at
}

// find returns the state last seen of a row, or nil.
func (s *seenRows) find(r runtime.Row) *seenRow {
	if seen := s.place(r).Load(); seen != nil && seen.row == r {
		return seen
	}
	return nil
}

// all returns the states of rows of one key, or nil if they have probably changed.
func (s *seenRows) all(rows []runtime.Row) []runtime.State {
	states := make([]runtime.State, len(rows))
	for i, r := range rows {
		seen := s.find(r)
		if seen == nil || !seen.own {
			return nil
		}
		states[i] = seen.state
	}
	return states
}

// read keeps states as they were read.
func (s *seenRows) read(rows []runtime.Row, states []runtime.State) {
	for i, r := range rows {
		seen := s.find(r)
		s.keep(r, states[i], seen != nil && seen.state == states[i])
	}
}

// wrote keeps the states of the rows of a batch as it has left them, of one without shards only if all is set. A row that it
// has inserted is probably written by this process only.
func (s *seenRows) wrote(b *batch.Batch, before []runtime.State, all bool) {
	rows := b.Rows()
	if !all && !slices.ContainsFunc(rows, func(r runtime.Row) bool { return r.Shard > 0 }) {
		return
	}
	s.read(rows, before)
	for _, c := range b.Changes() {
		seen, i := s.find(c.Row), 0
		for rows[i] != c.Row {
			i++
		}
		rows, before = rows[i:], before[i:]
		s.keep(c.Row, c.State, !before[0].Exists || seen != nil && seen.own)
	}
}

// swapped keeps the state that was written, or forgets the row if it was another one than had been seen.
func (s *seenRows) swapped(r runtime.Row, state runtime.State, written bool) {
	seen := s.find(r)
	s.keep(r, state, written && seen != nil && seen.own)
}

// forget makes a row one that was not seen.
func (s *seenRows) forget(r runtime.Row) {
	if s.find(r) != nil {
		s.place(r).Store(nil)
	}
}

func (s *seenRows) keep(r runtime.Row, state runtime.State, own bool) {
	if !state.Exists || len(state.Log) > longestSeen {
		s.place(r).Store(nil)
		return
	}
	s.place(r).Store(&seenRow{r, state, own})
}
