package sqlite_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/registry"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// As on a server, without what Open does by itself.
func TestRegistered(t *testing.T) {
	dsn := "file:" + filepath.Join(t.TempDir(), "limits.db") + "?_txlock=immediate&_pragma=busy_timeout(10)&_pragma=journal_mode(WAL)"
	open := func() *sql.DB {
		db := must(sql.Open("sqlite", dsn))(t)
		db.SetMaxOpenConns(1)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		return db
	}
	subject := agree.Subject{DB: open(), Dialect: dialect.SQLite, Table: dialect.DefaultTable, Clock: storetest.NewClock()}
	agree.Registered(t, subject, func(t *testing.T, o sqlstore.Options) *sqlstore.Store {
		store := must(agree.NewStore(open(), dialect.SQLite, o))(t)
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		return store
	})
}

// catalogued returns a policy of an owner.
func catalogued(owner string) *runtime.Policy {
	p := once("visit", runtime.TokenBucket, 10, 0)
	runtime.NewCatalog(owner, runtime.Catalog{Limits: []runtime.CatalogLimit{{Name: p.Name, Policies: []*runtime.Policy{p}}}})
	return p
}

// A file needs no Migrate: the first use of a limit registers it.
func TestFirstUseRegisters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	for _, step := range []struct {
		owner string
		want  error
	}{{"example.com/shop", nil}, {"example.com/blog", runtime.ErrForeignCounts}, {"example.com/shop", nil}, {"", nil}} {
		p := once("visit", runtime.TokenBucket, 10, 0)
		if step.owner != "" {
			p = catalogued(step.owner)
		}
		store := must(sqlite.Open(path))(t)
		require.ErrorIs(t, limiter.New(store).Limit(p, runtime.Key{}).Require(t.Context()), step.want, step.owner)
		all := must(store.Registrations(t.Context()))(t)
		require.Len(t, all, 1)
		assert.Equal(t, "example.com/shop", all[0].Owner)
		require.NoError(t, store.Close())
	}
}

// An operator adopts a limit in another process: the one that was refused goes on by itself.
func TestRefusalEndsAfterAdopt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "limits.db")
		open := func() *sqlstore.Store {
			store := must(sqlite.OpenWith(path, sqlstore.Options{}))(t)
			t.Cleanup(func() { require.NoError(t, store.Close()) })
			return store.Store
		}
		require.NoError(t, limiter.New(open()).Limit(catalogued("example.com/shop"), runtime.Key{}).Require(t.Context()))
		p := catalogued("example.com/blog")
		blog := limiter.New(open()).Limit(p, runtime.Key{})
		require.ErrorIs(t, blog.Require(t.Context()), runtime.ErrForeignCounts)
		require.NoError(t, open().Adopt(t.Context(), p))
		require.ErrorIs(t, blog.Require(t.Context()), runtime.ErrForeignCounts, "it is not read at each call")
		time.Sleep(registry.Again)
		require.NoError(t, blog.Require(t.Context()))
	})
}

// Calls that share a batch may have policies of one name of which one has no owner: a package of limits, and one written by
// hand.
func TestOneBatchHasPoliciesOfAnOwnerAndOfNone(t *testing.T) {
	store := must(sqlite.Open(filepath.Join(t.TempDir(), "limits.db")))(t)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	var calls []runtime.Call
	for _, p := range []*runtime.Policy{catalogued("example.com/shop"), once("visit", runtime.TokenBucket, 10, 0)} {
		calls = append(calls, runtime.Call{Requests: []runtime.Request{{Policy: p, Count: 1}}})
	}
	for left := int64(10); left > 0; left -= 2 {
		answers := must(store.Do(t.Context(), calls))(t)
		for i, a := range answers {
			require.NoError(t, a.Err)
			assert.Equal(t, left-1-int64(i), a.Decisions[0].Remaining)
		}
	}
}

// A limit that cannot be registered is decided all the same, also with others in one call.
func TestUnwritableRegistryStopsNoCall(t *testing.T) {
	r := newRig(t)
	first := once("first", runtime.TokenBucket, 10, 0)
	require.NoError(t, r.store.Migrate(t.Context(), first))
	must(r.db.Exec("ALTER TABLE rate_limit_registry RENAME TO registered; CREATE VIEW rate_limit_registry AS SELECT * FROM registered"))(t)
	one, other := once("one", runtime.TokenBucket, 10, 0), once("other", runtime.TokenBucket, 10, 0)
	answers := must(r.store.Do(t.Context(), []runtime.Call{{Requests: []runtime.Request{{Policy: one, Count: 1}, {Policy: other, Count: 1}}}}))(t)
	require.True(t, answers[0].Allowed())
	all := must(r.store.Registrations(t.Context()))(t)
	require.Len(t, all, 1)
}

// A constraint of the owner is not mistaken for another process that registers the limit at the same time, over and over.
func TestRegistryThatRefusesRowsDelaysNoCall(t *testing.T) {
	r, p := newRig(t), once("visit", runtime.TokenBucket, 10, 0)
	require.NoError(t, r.store.Migrate(t.Context(), once("first", runtime.TokenBucket, 10, 0)))
	must(r.db.Exec("CREATE TRIGGER refused BEFORE INSERT ON rate_limit_registry BEGIN SELECT RAISE(ABORT, 'not here'); END"))(t)
	assert.ErrorContains(t, r.store.Migrate(t.Context(), p), "not here")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.NoError(t, limiter.New(r.store).Limit(p, runtime.Key{}).Require(ctx))
}
