package meter

import (
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// holder is who holds some slots of a key.
type holder struct {
	fence int64
	// end is the instant at which the hold ends.
	end int64
	// slots is how many it holds, at least 1.
	slots int64
}

// holders is the slots of a key.
type holders struct {
	// last is the largest fence of the key so far.
	last int64
	// all are in the order of their ends.
	all []holder
}

// used returns how many slots are held.
func (h *holders) used() (sum int64) {
	for _, of := range h.all {
		sum += of.slots
	}
	return sum
}

// add adds a holder in the order of ends.
func (h *holders) add(of holder) {
	at := len(h.all)
	for at > 0 && h.all[at-1].end > of.end {
		at--
	}
	h.all = slices.Insert(h.all, at, of)
}

// find returns the index of a holder, or -1.
func (h *holders) find(fence int64) int {
	return slices.IndexFunc(h.all, func(of holder) bool { return of.fence == fence && fence > 0 })
}

// readHolders is a row and its holders: a request asks for them several times, and there may be many. Who changes the slice
// makes another row of it, which is kept then.
type readHolders struct {
	of      runtime.State
	holders holders
}
