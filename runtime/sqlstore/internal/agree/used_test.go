package agree_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

func TestMemStoreKeepsWhatWasUsed(t *testing.T) {
	clock := storetest.NewClock()
	allowed := agree.Used(t, &memstore.Store{Clock: clock.Now}, clock, 1, 300_000)
	require.Greater(t, allowed, 50_000)
	require.Less(t, allowed, 250_000)
}
