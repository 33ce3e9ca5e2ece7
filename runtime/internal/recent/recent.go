// Package recent has a map of bounded size.
package recent

import (
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Map has values of the rows that were set last, in two generations: when the young one is full, it replaces the old one. That
// bounds the memory without the bookkeeping of an LRU list. The zero Map is empty.
type Map[V any] struct{ young, old map[runtime.Row]*V }

// Find returns the value of a row, or nil.
func (m *Map[V]) Find(row runtime.Row) *V {
	if v := m.young[row]; v != nil {
		return v
	}
	return m.old[row]
}

// Place returns where to set the value of a row, which is then one of the young ones. A generation holds so many rows.
func (m *Map[V]) Place(row runtime.Row, most int) *V {
	v := m.young[row]
	if v != nil {
		return v
	}
	if v = m.old[row]; v == nil {
		v = new(V)
	}
	if m.young == nil || len(m.young) >= most {
		m.old, m.young = m.young, map[runtime.Row]*V{}
	}
	// The caller's key may be a substring of a whole HTTP request, which the map would keep in memory.
	row.Key = strings.Clone(row.Key)
	m.young[row] = v
	return v
}

// Remove drops the value of a row.
func (m *Map[V]) Remove(row runtime.Row) {
	delete(m.young, row)
	delete(m.old, row)
}
