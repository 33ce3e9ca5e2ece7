package runtime

import "sync/atomic"

// remembered has the values of keys that were used lately, each at a place given by its hash, so that nothing is
// allocated for keys that return. Whatever has the same place replaces the one there: so it needs no lock, and its
// memory is bounded.
type remembered[K comparable, V any] [4096]atomic.Pointer[entry[K, V]]

type entry[K comparable, V any] struct {
	key   K
	value V
}

// of returns the value of a key with a hash, which make returns if it is not there.
func (r *remembered[K, V]) of(key K, hash uint64, make func(K) V) *V {
	place := &r[hash%uint64(len(r))]
	known := place.Load()
	if known != nil && known.key != key {
		// Two that are used in turn must not replace each other.
		place = &r[(hash^1)%uint64(len(r))]
		known = place.Load()
	}
	if known == nil || known.key != key {
		known = &entry[K, V]{key, make(key)}
		place.Store(known)
	}
	return &known.value
}
