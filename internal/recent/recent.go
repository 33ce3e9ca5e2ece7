// Package recent has a map of bounded size, which keeps what was set last.
package recent

import (
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Map is a map of rows in two generations: when the young one is full, it replaces the old one. That bounds the memory
// without the bookkeeping of an LRU list. The zero Map is empty.
type Map[V any] struct{ young, old map[runtime.Row]*V }

// Find returns the value of a row, or nil.
func (m *Map[V]) Find(row runtime.Row) *V {
	if v := m.young[row]; v != nil {
		return v
	}
	return m.old[row]
}

// Set sets the value of a row, which is then one of the young ones, of which there are at most size.
func (m *Map[V]) Set(row runtime.Row, value V, size int) {
	if v := m.young[row]; v != nil {
		*v = value
		return
	}
	if m.young == nil || len(m.young) >= size {
		m.old, m.young = m.young, map[runtime.Row]*V{}
	}
	// The caller's key may be a substring of a whole HTTP request, which the map would keep in memory.
	row.Key = strings.Clone(row.Key)
	m.young[row] = &value
}

// Delete removes a row.
func (m *Map[V]) Delete(row runtime.Row) {
	delete(m.young, row)
	delete(m.old, row)
}
