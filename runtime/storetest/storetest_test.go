package storetest_test

import (
	"testing"
	"time"

	"github.com/ratelimitgen/ratelimitgen/internal/runtimetest"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

func TestMemStore(t *testing.T) {
	storetest.Run(t, func(_ *testing.T, clock func() time.Time) runtime.Store {
		return &memstore.Store{Clock: clock}
	})
}

// A decorated store passes the suite as a whole, and not only the clauses about Do: those about an ability run only for a
// store that has it.
func TestDecoratedMemStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T, clock func() time.Time) runtime.Store {
		mem := &memstore.Store{Clock: clock}
		return runtimetest.TraceAll(t, mem)
	})
}
