package conformance

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest/model"
)

// Every server decides as the model does, which is compared with SQLite and the store in memory in package model.
func TestServersAgreeWithModel(t *testing.T) {
	onEachServer(t, agreeWithModel)
}

func agreeWithModel(t *testing.T, s live.Server) {
	db := s.Open(t)
	table := live.NewTable()
	s.StoreIn(t, db, table, nil)
	least, slots := 0, 150
	if *long {
		least, slots = 100_000, 50_000
	}
	// The worlds share the table, because a server takes longer to make one than to decide a world. They have connections of
	// their own, because a bubble must end without any.
	open := func(t *testing.T, clock *model.Clock) model.Env {
		db := live.Must(sql.Open(s.Driver, s.DSN))(t)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		// Every override is written by this process, which learns of it at once.
		store := live.Must(agree.NewCreatingStore(db, s.Dialect, sqlstore.Options{Table: table, Clock: clock.Now, OverridesEvery: 1 << 62}))(t)
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		return model.Env{Backend: store, DB: db, Remote: true, Apart: s.Beside != "", Begin: func() (runtime.Tx, error) {
			return db.BeginTx(context.Background(), nil)
		}}
	}
	model.Agree(t, "world ", least, open)
	model.AgreeSlots(t, "world ", slots, open)
}
