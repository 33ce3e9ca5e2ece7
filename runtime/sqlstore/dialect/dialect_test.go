package dialect

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
)

func TestDialectsAreThoseOfTheStore(t *testing.T) {
	var names, stores []string
	for _, d := range All() {
		require.NotEmpty(t, d.String(), "the dialect %d has no entry in texts of runtime/sqlstore/dialect/dialect.go", d)
		names = append(names, d.String())
	}
	for _, d := range dialect.All() {
		stores = append(stores, d.Name)
	}
	require.Equal(t, stores, names, "the constants of runtime/sqlstore/dialect/dialect.go are All of runtime/sqlstore/internal/dialect, in its order")
	for _, none := range []Dialect{0, endOfDialects, 99} {
		require.Empty(t, none.String())
	}
}
