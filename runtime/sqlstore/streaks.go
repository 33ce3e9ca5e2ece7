package sqlstore

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// streaks remembers of rows how often in a row they had too little, to look at them first: a statement that takes
// in vain is a round trip for nothing. It has a fixed size, and of rows that share a place it remembers the one that
// was denied last. It is never more than a guess: either way the answer is the same.
type streaks struct {
	seed maphash.Seed
	// places hold most of a row's hash, and in their last byte the length of its streak.
	places [256]atomic.Uint64
}

// longStreak is how many denials are followed by another more likely than not.
const longStreak = 2

func newStreaks() *streaks { return &streaks{seed: maphash.MakeSeed()} }

// find returns the place of a row, its hash as it stands there, and the length of its streak.
func (s *streaks) find(r runtime.Row) (place *atomic.Uint64, hash, length uint64) {
	h := maphash.Comparable(s.seed, r)
	place = &s.places[h%uint64(len(s.places))]
	if there := place.Load(); there&^0xff == h&^0xff {
		length = there & 0xff
	}
	return place, h &^ 0xff, length
}

// expects reports whether the row is likely to have too little.
func (s *streaks) expects(r runtime.Row) bool {
	_, _, length := s.find(r)
	return length >= longStreak
}

// denied notes that a row had too little.
func (s *streaks) denied(r runtime.Row) {
	place, hash, length := s.find(r)
	place.Store(hash | min(length+1, longStreak))
}

// ended notes that a row had enough, or that to look at it first was of no use.
func (s *streaks) ended(r runtime.Row) {
	if place, _, length := s.find(r); length > 0 {
		place.Store(0)
	}
}
