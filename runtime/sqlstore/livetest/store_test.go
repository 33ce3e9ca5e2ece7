package livetest

import (
	"testing"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// TestStore runs the contract of all stores.
func TestStore(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		db := s.open(t)
		storetest.Run(t, func(t *testing.T, clock func() time.Time) runtime.Store { return s.store(t, db, clock) })
	})
}
