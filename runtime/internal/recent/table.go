package recent

import (
	"hash/maphash"
	"sync/atomic"
)

// Table has the values of keys that were used lately, each at one of two places given by its hash, so that nothing is
// allocated for keys that return. A new key takes the place of the older one: so it needs no lock, and its
// memory is bounded. The zero Table is empty. It may be used by many goroutines at once.
type Table[K comparable, V any] [4096]atomic.Pointer[entry[K, V]]

type entry[K comparable, V any] struct {
	key   K
	value V
}

var seed = maphash.MakeSeed()

// Of returns the value of a key, which make returns if it is not there. The address of the value stays the same while it is
// there.
func (t *Table[K, V]) Of(key K, make func(K) V) *V {
	return t.At(key, maphash.Comparable(seed, key), make)
}

// At is Of for a key whose hash the caller has.
func (t *Table[K, V]) At(key K, hash uint64, make func(K) V) *V {
	place := &t[hash%uint64(len(t))]
	first := place.Load()
	if first != nil && first.key == key {
		return &first.value
	}
	// Two that are used in turn must not replace each other.
	next := &t[(hash^1)%uint64(len(t))]
	if second := next.Load(); second != nil && second.key == key {
		return &second.value
	}
	made := &entry[K, V]{key, make(key)}
	if first != nil {
		next.Store(first)
	}
	place.Store(made)
	return &made.value
}
