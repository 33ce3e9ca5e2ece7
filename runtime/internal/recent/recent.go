// Package recent has the two memories of bounded size: a [Map] keeps what was set last, and a [Table] what was used lately.
package recent

// Map is a map in two generations: when the young one is full, it replaces the old one. That bounds the memory
// without the bookkeeping of an LRU list. The zero Map is empty.
type Map[K comparable, V any] struct{ young, old map[K]*V }

// Find returns the value of a key, or nil.
func (m *Map[K, V]) Find(key K) *V {
	if v := m.young[key]; v != nil {
		return v
	}
	return m.old[key]
}

// Set sets the value of a key, which is then one of the young ones, of which there are at most size. The map keeps the key:
// a part of a longer text would keep all of it.
func (m *Map[K, V]) Set(key K, value V, size int) {
	if v := m.young[key]; v != nil {
		*v = value
		return
	}
	if m.young == nil || len(m.young) >= size {
		m.old, m.young = m.young, map[K]*V{}
	}
	m.young[key] = &value
}

// Delete removes a key.
func (m *Map[K, V]) Delete(key K) {
	delete(m.young, key)
	delete(m.old, key)
}
