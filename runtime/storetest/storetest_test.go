package storetest_test

import (
	"testing"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

func TestMemStore(t *testing.T) {
	storetest.Run(t, func(_ *testing.T, clock func() time.Time) runtime.Store {
		return &memstore.Store{Clock: clock}
	})
}
