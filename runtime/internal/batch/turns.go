package batch

import (
	"math/rand/v2"
	"sync/atomic"

	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
)

// Turns lets the shards of a key decide in turn, so that a batch reads one of them. The fuller of two random ones is for
// databases in which many callers write at once: with one writer, the shards of a key stay as equal, and the second row is
// read for nothing. It has a fixed size: keys that share a place begin again at a random shard.
type Turns struct{ places [1 << 12]atomic.Uint64 }

// turnBits are the low bits of a place, with the last turn. The others have a hash of the key.
const turnBits = 16

// next returns the shard of n whose turn it is.
func (t *Turns) next(name, key string, n int) int {
	const turns = 1<<turnBits - 1
	hash := arith.Hash(name, key)
	place := &t.places[hash%uint64(len(t.places))]
	last := place.Load()
	if (last^hash)&^turns != 0 {
		last = rand.Uint64()
	}
	shard := ((last&turns)%uint64(n) + 1) % uint64(n)
	place.Store(hash&^turns | shard)
	return int(shard)
}
