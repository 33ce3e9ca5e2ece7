package livetest

import (
	"testing"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// TestTakeAgrees compares what is decided in SQL with the pure step, bit for bit.
func TestTakeAgrees(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		db, table, clock := s.open(t), newTable(), storetest.NewClock()
		store := s.storeIn(t, db, table, clock.Now)
		subject := agree.Subject{Store: store, DB: db, Dialect: s.dialect, Table: table, Clock: clock}
		agree.Test(t, subject, 100)
		agree.Singly(t, subject, 100)
	})
}
