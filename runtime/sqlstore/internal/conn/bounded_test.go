package conn

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
)

// A take from one row is in a batch with calls for other rows too, which must not wait for its lock.
func TestTakesOfABatchAreBoundedByTheirTime(t *testing.T) {
	for _, d := range dialect.All() {
		if d.BoundTime == "" {
			continue
		}
		place, err := newPlace(nil, d, dialect.DefaultTable, nil)
		require.NoError(t, err)
		for _, s := range []Statement{TakeRows, TakeShards, TakeOne} {
			for _, q := range place.Bounds.queries[s] {
				assert.True(t, q.Text == "" || strings.HasPrefix(q.Text, d.BoundTime), "%s: %s", d.Name, q.Text)
			}
			for _, q := range place.Queries[s] {
				assert.False(t, strings.HasPrefix(q.Text, d.BoundTime), "%s: %s", d.Name, q.Text)
			}
		}
	}
}
