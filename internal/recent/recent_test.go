package recent

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// The rows that were set last are found, and their number is bounded.
func TestMapKeepsWhatWasSetLast(t *testing.T) {
	var m Map[int]
	row := func(n int) runtime.Row { return runtime.Row{Name: "limit", Key: strconv.Itoa(n)} }
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
