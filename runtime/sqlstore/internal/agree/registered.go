package agree

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/dialect"
)

// program is one of several that use a table: its limits, and its store.
type program struct {
	*sqlstore.Store
	visit, own *runtime.Policy
}

func (p program) policies() []*runtime.Policy { return []*runtime.Policy{p.visit, p.own} }

func (p program) take(ctx context.Context) error {
	return limiter.New(p.Store).Limit(p.visit, runtime.KeyOf(runtime.Int(42))).Require(ctx)
}

// programs opens the table for programs.
type programs struct {
	*testing.T
	Subject
	open func(t *testing.T, o sqlstore.Options) *sqlstore.Store
}

func (s programs) of(owner, key string, o sqlstore.Options) program {
	policy := func(name string) *runtime.Policy {
		return &runtime.Policy{
			Name: name, Kind: runtime.TokenBucket, Rate: 10, Period: 24 * time.Hour, Capacity: 10,
			Overrides: runtime.OverrideBounds{Rate: 10, Capacity: 10},
		}
	}
	p := program{visit: policy("visit"), own: policy("of " + owner)}
	runtime.NewCatalog(owner, runtime.Catalog{Limits: []runtime.CatalogLimit{
		{Name: "visit", Key: []runtime.CatalogKey{{Name: "user", Type: key}}, Policies: []*runtime.Policy{p.visit}},
		{Name: p.own.Name, Policies: []*runtime.Policy{p.own}},
	}})
	o.Table, o.Clock = s.Table, s.Clock.Now
	p.Store = s.open(s.T, o)
	return p
}

func (s programs) exec(statement string) {
	s.Helper()
	_, err := s.DB.Exec(s.sql(statement))
	require.NoError(s, err, statement)
}

// Registered has several programs use a table, one after the other and each as a new process.
func Registered(t *testing.T, subject Subject, open func(t *testing.T, o sqlstore.Options) *sqlstore.Store) {
	s, ctx := programs{t, subject, open}, t.Context()
	registry := dialect.RegistryTable(s.Table)
	shop := func() program { return s.of("example.com/shop", "int64", sqlstore.Options{}) }
	blog := func() program { return s.of("example.com/blog", "int64", sqlstore.Options{}) }
	refused := func(err error, says ...string) {
		t.Helper()
		require.ErrorIs(t, err, runtime.ErrForeignCounts)
		for _, part := range says {
			require.ErrorContains(t, err, part)
		}
	}
	left := func(want int64) {
		t.Helper()
		p := shop()
		p.Store = s.open(t, sqlstore.Options{Table: s.Table, Clock: s.Clock.Now, Owner: "example.com/shop"})
		b, err := limiter.New(p.Store).Limit(p.visit, runtime.KeyOf(runtime.Int(42))).Peek(ctx)
		require.NoError(t, err)
		require.Equal(t, want, b.Remaining)
	}

	p := shop()
	require.NoError(t, p.Migrate(ctx, p.policies()...))
	require.NoError(t, p.Migrate(ctx, p.policies()...))
	require.NoError(t, p.Ready(ctx, p.policies()...))
	require.NoError(t, p.take(ctx))
	all, err := p.Registrations(ctx)
	require.NoError(t, err)
	require.Len(t, all, 2)
	want := runtime.Registration{
		Limit: "visit", Owner: "example.com/shop", Format: runtime.StoredFormat, Key: "(int64)",
		Numbers: "token bucket: rate 10 per 24h0m0s, capacity 10", At: s.Clock.Now(),
	}
	assert.True(t, want.At.Equal(all[1].At))
	all[1].At = want.At
	assert.Equal(t, want, all[1])

	t.Run("two services", func(t *testing.T) {
		p := blog()
		refused(p.Migrate(ctx, p.policies()...), `limit "visit"`, "they belong to example.com/shop, and this is the limit of example.com/blog")
		refused(p.Ready(ctx, p.policies()...), "example.com/shop")
		refused(p.take(ctx), "example.com/shop", "Options.Owner", "Adopt")
		_, err := p.Sweep(ctx, p.policies()...)
		refused(err)
		_, err = p.Forget(ctx, "visit", p.own)
		refused(err)
		_, err = limiter.New(p.Store).Overrides(p.visit, runtime.KeyOf(runtime.Int(42))).Block(ctx, runtime.Block{
			Until: s.Clock.Now().Add(time.Hour), Reason: "spam", Author: "ann",
		})
		refused(err)
		require.NoError(t, limiter.New(p.Store).Limit(p.own, runtime.Key{}).Require(ctx), "its other limit is registered and works")
		left(9)

		p = s.of("example.com/blog", "int64", sqlstore.Options{Owner: "example.com/shop"})
		require.NoError(t, p.take(ctx), "they share the limit on purpose")
		left(8)
	})
	t.Run("in a transaction", func(t *testing.T) {
		p := blog()
		tx, err := s.DB.Begin()
		require.NoError(t, err)
		refused(limiter.New(p.WithTx(tx)).Limit(p.visit, runtime.KeyOf(runtime.Int(42))).Require(ctx))
		p = shop()
		require.NoError(t, limiter.New(p.WithTx(tx)).Limit(p.visit, runtime.KeyOf(runtime.Int(42))).Require(ctx))
		require.NoError(t, tx.Rollback())
		left(8)
	})
	t.Run("another key", func(t *testing.T) {
		p := s.of("example.com/shop", "string", sqlstore.Options{})
		refused(p.Migrate(ctx, p.policies()...), "their key is (int64), and that of this limit is (string)", "ratelimitgen diff")
		refused(p.take(ctx))
		left(8)
		s.exec("UPDATE " + registry + " SET key_types = '(string)' WHERE name = 'visit'")
		p = s.of("example.com/shop", "string", sqlstore.Options{})
		require.NoError(t, p.Ready(ctx, p.policies()...))
		require.NoError(t, p.take(ctx), "int64 and string have the same text")
		s.exec("UPDATE " + registry + " SET key_types = '(int64)' WHERE name = 'visit'")
		left(7)
	})
	t.Run("a key edit without counts", func(t *testing.T) {
		s.exec("INSERT INTO " + registry + " (name, owner, format, key_types, numbers, at_ns) VALUES ('unused', 'example.com/shop', 1, '(int64)', '', 0)")
		p := &runtime.Policy{Name: "unused", Kind: runtime.FixedWindow, Rate: 1, Period: time.Hour, Capacity: 1}
		runtime.NewCatalog("example.com/shop", runtime.Catalog{Limits: []runtime.CatalogLimit{{Name: "unused", Policies: []*runtime.Policy{p}}}})
		require.NoError(t, shop().Migrate(ctx, p))
		all, err := shop().Registrations(ctx)
		require.NoError(t, err)
		assert.Equal(t, "()", all[2].Key)
		_, err = shop().Forget(ctx, "unused", shop().visit)
		require.NoError(t, err)
		all, err = shop().Registrations(ctx)
		require.NoError(t, err)
		assert.NotContains(t, names(all), "unused")
	})
	t.Run("the package moves", func(t *testing.T) {
		old, moved := shop(), s.of("example.com/store", "int64", sqlstore.Options{})
		require.NoError(t, old.take(ctx))
		refused(moved.take(ctx))
		require.NoError(t, moved.Adopt(ctx, moved.policies()...))
		require.NoError(t, moved.take(ctx), "in the same process")
		require.NoError(t, old.take(ctx), "processes of the old version that run go on, as in every rolling deploy")
		refused(shop().take(ctx), "they belong to example.com/store")
		p := shop()
		require.NoError(t, p.Adopt(ctx, p.policies()...))
		left(4)
	})
	t.Run("another format", func(t *testing.T) {
		s.exec("UPDATE " + registry + " SET format = 2 WHERE name = 'visit'")
		p := shop()
		refused(p.take(ctx), "a newer version has written them, in format 2", "update the program")
		refused(p.Migrate(ctx, p.policies()...), "format 2")
		refused(p.Adopt(ctx, p.policies()...), "format 2")
		s.exec("UPDATE " + registry + " SET format = 0 WHERE name = 'visit'")
		refused(shop().take(ctx), "an older version has written them")
		s.exec("UPDATE " + registry + " SET format = 1 WHERE name = 'visit'")
		left(4)
	})
	t.Run("a table of before", func(t *testing.T) {
		s.exec("ALTER TABLE " + s.Table + " RENAME COLUMN at_ns TO ts")
		p := shop()
		for _, err := range []error{p.take(ctx), p.Ready(ctx), p.Migrate(ctx, p.policies()...)} {
			require.ErrorContains(t, err, "is that of a version before v0.1.0")
			require.ErrorContains(t, err, "ALTER TABLE "+s.Table+" RENAME COLUMN ts TO at_ns")
		}
		s.exec("ALTER TABLE " + s.Table + " RENAME COLUMN ts TO at_ns")
		left(4)
	})
	t.Run("no registry", func(t *testing.T) {
		s.exec("DROP TABLE " + registry)
		p := blog()
		require.NoError(t, p.take(ctx), "an upgrade without Migrate changes nothing")
		require.ErrorContains(t, p.Ready(ctx, p.policies()...), registry)
		tx, err := s.DB.Begin()
		require.NoError(t, err)
		p = blog()
		require.NoError(t, limiter.New(p.WithTx(tx)).Limit(p.visit, runtime.KeyOf(runtime.Int(42))).Require(ctx))
		require.NoError(t, tx.Commit(), "the transaction goes on")
		p = shop()
		require.NoError(t, p.Migrate(ctx, p.policies()...))
		require.NoError(t, p.Ready(ctx, p.policies()...))
		refused(blog().take(ctx))
	})
	t.Run("several at once", func(t *testing.T) {
		s.exec("DELETE FROM " + registry)
		results := make(chan error)
		for i := range 8 {
			p := shop()
			if i%2 == 1 {
				p = blog()
			}
			go func() { results <- p.Migrate(context.WithoutCancel(ctx), p.policies()...) }()
		}
		lost := 0
		for range 8 {
			if err := <-results; errors.Is(err, runtime.ErrForeignCounts) {
				lost++
			} else if err != nil {
				t.Error(err)
			}
		}
		assert.Equal(t, 4, lost, "one of the two owners")
	})
}

func names(all []runtime.Registration) string {
	var names []string
	for _, of := range all {
		names = append(names, of.Limit)
	}
	return strings.Join(names, ", ")
}
