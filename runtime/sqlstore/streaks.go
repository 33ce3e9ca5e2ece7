package sqlstore

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// streaks remembers of rows how often in a row they had too little, to look at them first: a statement that takes
// in vain is a round trip for nothing. It has a fixed size, so that rows share their places, and is never more
// than a guess: either way the answer is the same.
type streaks struct {
	seed   maphash.Seed
	counts [256]atomic.Uint32
}

// longStreak is how many denials are followed by another more likely than not.
const longStreak = 2

func newStreaks() *streaks { return &streaks{seed: maphash.MakeSeed()} }

func (s *streaks) of(r runtime.Row) *atomic.Uint32 {
	return &s.counts[maphash.Comparable(s.seed, r)%uint64(len(s.counts))]
}

// expects reports whether the row is likely to have too little.
func (s *streaks) expects(r runtime.Row) bool { return s.of(r).Load() >= longStreak }

// note takes note of the answers to calls about the row.
func (s *streaks) note(r runtime.Row, answers []runtime.Answer) {
	streak := s.of(r)
	for _, a := range answers {
		if !a.Allowed() {
			streak.Store(min(streak.Load()+1, longStreak))
			return
		}
	}
	streak.Store(0)
}
