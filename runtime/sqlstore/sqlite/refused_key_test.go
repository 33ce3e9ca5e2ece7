package sqlite_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
)

// TestRefusedKeyFailsOnlyItsCall has a trigger that refuses one key.
func TestRefusedKeyFailsOnlyItsCall(t *testing.T) {
	r := newRig(t)
	_, err := r.db.Exec(`CREATE TRIGGER guilty BEFORE INSERT ON rate_limits WHEN NEW.key = '` + agree.Guilty + `'
		BEGIN SELECT RAISE(ABORT, 'no'); END`)
	require.NoError(t, err)
	agree.Innocents(t, r.store)
}
