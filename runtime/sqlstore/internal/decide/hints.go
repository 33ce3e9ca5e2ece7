package decide

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// denialHints counts consecutive denials per row, so that compareAndSwap comes first for a row that will probably be
// denied again. It has a fixed size: rows that share a place overwrite each other. A wrong hint costs a round
// trip and never changes an answer.
type denialHints struct {
	seed maphash.Seed
	// places hold most of a row's hash, and in the last byte the number of its consecutive denials.
	places [256]atomic.Uint64
}

// manyDenials is the number of consecutive denials after which another is more likely than not.
const manyDenials = 2

func newDenialHints() *denialHints { return &denialHints{seed: maphash.MakeSeed()} }

// find returns the place of a row, its hash without the last byte, and the number of its consecutive denials.
func (h *denialHints) find(r runtime.Row) (place *atomic.Uint64, hash, length uint64) {
	sum := maphash.Comparable(h.seed, r)
	place = &h.places[sum%uint64(len(h.places))]
	// The last byte has the length, so the hash is compared without it.
	if stored := place.Load(); stored&^0xff == sum&^0xff {
		length = stored & 0xff
	}
	return place, sum &^ 0xff, length
}

// expect reports whether the next take from the row will probably be denied.
func (h *denialHints) expect(r runtime.Row) bool {
	_, _, length := h.find(r)
	return length >= manyDenials
}

// denied counts a denial of a row.
func (h *denialHints) denied(r runtime.Row) {
	place, hash, length := h.find(r)
	place.Store(hash | min(length+1, manyDenials))
}

// allowed forgets the denials of a row.
func (h *denialHints) allowed(r runtime.Row) {
	if place, _, length := h.find(r); length > 0 {
		place.Store(0)
	}
}

// head returns the first row of a row's key.
func head(r runtime.Row) runtime.Row {
	r.Shard = 0
	return r
}
