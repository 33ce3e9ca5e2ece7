package recent

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The rows that were set last are found, and their number is bounded.
func TestMapKeepsWhatWasSetLast(t *testing.T) {
	var m Map[string, int]
	row := strconv.Itoa
	require.Nil(t, m.Find(row(0)))
	for n := range 100 {
		m.Set(row(n), n, 3)
		m.Set(row(n), -n, 3)
		for back := range min(n+1, 3) {
			found := m.Find(row(n - back))
			require.NotNil(t, found, "%d back from %d", back, n)
			assert.Equal(t, back-n, *found)
		}
		require.LessOrEqual(t, len(m.young)+len(m.old), 6)
		require.Nil(t, m.Find(row(n-6)))
	}
	// An old row that is set again is young.
	for n := range 4 {
		m.Set(row(97), 97, 3)
		m.Set(row(200+n), 0, 3)
	}
	require.Equal(t, 97, *m.Find(row(97)))
	m.Delete(row(97))
	require.Nil(t, m.Find(row(97)))
}

// Two keys of one place keep their values and addresses, and a third replaces the older one.
func TestTableKeepsTwoOfAPlace(t *testing.T) {
	var table Table[string, int]
	made := 0
	of := func(key string) *int { return table.At(key, 7, func(string) int { made++; return made }) }
	a, b := of("a"), of("b")
	for range 3 {
		require.Same(t, a, of("a"))
		require.Same(t, b, of("b"))
	}
	require.Equal(t, 2, made)
	c := of("c")
	require.Same(t, b, of("b"), "the newer one stays")
	require.Same(t, c, of("c"))
	require.Equal(t, 3, made)
	require.NotSame(t, a, of("a"))
	require.Equal(t, 4, made)
}
