package agree_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

func TestMemStoreKeepsWhatWasUsed(t *testing.T) {
	clock := storetest.NewClock()
	allowed := agree.Used(t, &runtime.MemStore{Clock: clock.Now}, clock, 1, 300_000)
	require.Greater(t, allowed, 50_000)
	require.Less(t, allowed, 250_000)
}

func TestFlipsOfPlansGrantWhatTheLargestGrants(t *testing.T) {
	close := 0
	for seed := range uint64(300) {
		clock := storetest.NewClock()
		granted, bound := agree.Flips(t, &runtime.MemStore{Clock: clock.Now}, clock, seed, 1000)
		if 10*granted > 9*bound {
			close++
		}
	}
	require.Greater(t, close, 10, "takes that come near the bound")
}
