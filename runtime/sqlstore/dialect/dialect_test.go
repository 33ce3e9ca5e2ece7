package dialect

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
)

func TestDialectsAreThoseOfTheStore(t *testing.T) {
	var names []string
	for _, d := range All() {
		names = append(names, d.String())
	}
	assert.Equal(t, []string{"sqlite", "postgres", "mariadb", "mysql"}, names)
	for i, d := range dialect.All() {
		assert.Equal(t, d.Name, names[i])
	}
	assert.Len(t, names, len(dialect.All()))
	for _, none := range []Dialect{0, endOfDialects, 99} {
		assert.Empty(t, none.String())
	}
}
