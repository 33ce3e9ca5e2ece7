package model_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest/model"
)

func TestMemStoreAgreesWithModel(t *testing.T) {
	model.Agree(t, "", 5_000, func(_ *testing.T, clock *model.Clock) model.Env {
		store := &memstore.Store{Clock: clock.Now}
		return model.Env{Backend: store, Begin: func() (runtime.Tx, error) { return store.Begin(), nil }}
	})
}

func TestSQLiteAgreesWithModel(t *testing.T) {
	model.Agree(t, "", 0, onSQLite)
}

func onSQLite(t *testing.T, clock *model.Clock) model.Env {
	path := filepath.Join(t.TempDir(), "limits.db")
	// Every override is written by this process, which learns of it at once.
	store, err := sqlite.OpenWith(path, sqlstore.Options{Clock: clock.Now, OverridesEvery: 1 << 62})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return model.Env{Backend: store, DB: db, Begin: func() (runtime.Tx, error) { return db.Begin() }}
}

func TestMemStoreAgreesWithSlots(t *testing.T) {
	model.AgreeSlots(t, "", 20_000, func(_ *testing.T, clock *model.Clock) model.Env {
		store := &memstore.Store{Clock: clock.Now}
		return model.Env{Backend: store, Begin: func() (runtime.Tx, error) { return store.Begin(), nil }}
	})
}

func TestSQLiteAgreesWithSlots(t *testing.T) { model.AgreeSlots(t, "", 2_000, onSQLite) }
