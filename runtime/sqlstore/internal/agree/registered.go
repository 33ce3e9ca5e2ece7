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
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
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
	_, err := s.DB.Exec(statement)
	require.NoError(s, err, statement)
}

// Registered has several programs use a table, one after the other and each as a new process.
func Registered(t *testing.T, subject Subject, open func(t *testing.T, o sqlstore.Options) *sqlstore.Store) {
	programs{t, subject, open}.oneService()
	for _, step := range []struct {
		name string
		run  func(programs)
	}{
		{"two services", programs.twoServices},
		{"in a transaction", programs.inATransaction},
		{"another key", programs.anotherKey},
		{"a key edit without counts", programs.aKeyEditWithoutCounts},
		{"the package moves", programs.thePackageMoves},
		{"another format", programs.anotherFormat},
		{"a table of before", programs.aTableOfBefore},
		{"no registry", programs.noRegistry},
		{"another secret", programs.anotherSecret},
		{"several at once", programs.severalAtOnce},
	} {
		t.Run(step.name, func(t *testing.T) { step.run(programs{t, subject, open}) })
	}
}

func (s programs) shop() program { return s.of("example.com/shop", "int64", sqlstore.Options{}) }

func (s programs) blog() program { return s.of("example.com/blog", "int64", sqlstore.Options{}) }

func (s programs) refused(err error, says ...string) {
	s.Helper()
	require.ErrorIs(s, err, runtime.ErrForeignCounts)
	for _, part := range says {
		require.ErrorContains(s, err, part)
	}
}

// left requires that the shop's limit has so many tokens left.
func (s programs) left(want int64) {
	s.Helper()
	p := s.of("example.com/shop", "int64", sqlstore.Options{Owner: "example.com/shop"})
	b, err := limiter.New(p.Store).Limit(p.visit, runtime.KeyOf(runtime.Int(42))).Peek(s.Context())
	require.NoError(s, err)
	require.Equal(s, want, b.Remaining)
}

func (s programs) oneService() {
	p := s.shop()
	require.NoError(s, p.Migrate(s.Context(), p.policies()...))
	require.NoError(s, p.Migrate(s.Context(), p.policies()...))
	require.NoError(s, p.Ready(s.Context(), p.policies()...))
	require.NoError(s, p.take(s.Context()))
	all, err := p.Registrations(s.Context())
	require.NoError(s, err)
	require.Len(s, all, 2)
	want := runtime.Registration{
		Limit: "visit", Owner: "example.com/shop", Format: runtime.StoredFormat, Key: "(int64)",
		Numbers: "token bucket: rate 10 per 24h0m0s, capacity 10", At: s.Clock.Now(),
	}
	assert.True(s, want.At.Equal(all[1].At))
	all[1].At = want.At
	assert.Equal(s, want, all[1])
}

func (s programs) twoServices() {
	p := s.blog()
	s.refused(p.Migrate(s.Context(), p.policies()...), `limit "visit"`,
		"they belong to example.com/shop, and this is the limit of example.com/blog")
	s.refused(p.Ready(s.Context(), p.policies()...), "example.com/shop")
	s.refused(p.take(s.Context()), "example.com/shop", "Options.Owner", "Adopt")
	_, err := p.Sweep(s.Context(), p.policies()...)
	s.refused(err)
	_, err = p.Forget(s.Context(), "visit", p.own)
	s.refused(err)
	_, err = limiter.New(p.Store).Overrides(p.visit, runtime.KeyOf(runtime.Int(42))).Block(s.Context(), runtime.Block{
		Until: s.Clock.Now().Add(time.Hour), Reason: "spam", Author: "ann",
	})
	s.refused(err)
	require.NoError(s, limiter.New(p.Store).Limit(p.own, runtime.Key{}).Require(s.Context()),
		"its other limit is registered and works")
	s.left(9)

	p = s.of("example.com/blog", "int64", sqlstore.Options{Owner: "example.com/shop"})
	require.NoError(s, p.take(s.Context()), "they share the limit on purpose")
	s.left(8)
}

func (s programs) inATransaction() {
	p := s.blog()
	tx, err := s.DB.Begin()
	require.NoError(s, err)
	s.refused(limiter.New(p.WithTx(tx)).Limit(p.visit, runtime.KeyOf(runtime.Int(42))).Require(s.Context()))
	p = s.shop()
	require.NoError(s, limiter.New(p.WithTx(tx)).Limit(p.visit, runtime.KeyOf(runtime.Int(42))).Require(s.Context()))
	require.NoError(s, tx.Rollback())
	s.left(8)
}

func (s programs) anotherKey() {
	p := s.of("example.com/shop", "string", sqlstore.Options{})
	s.refused(p.Migrate(s.Context(), p.policies()...), "their key is (int64), and that of this limit is (string)",
		"ratelimitgen diff")
	s.refused(p.take(s.Context()))
	s.left(8)
	s.exec("UPDATE " + dialect.RegistryTable(s.Table) + " SET key_types = '(string)' WHERE name = 'visit'")
	p = s.of("example.com/shop", "string", sqlstore.Options{})
	require.NoError(s, p.Ready(s.Context(), p.policies()...))
	require.NoError(s, p.take(s.Context()), "int64 and string have the same text")
	s.exec("UPDATE " + dialect.RegistryTable(s.Table) + " SET key_types = '(int64)' WHERE name = 'visit'")
	s.left(7)
}

func (s programs) aKeyEditWithoutCounts() {
	s.exec("INSERT INTO " + dialect.RegistryTable(s.Table) +
		" (name, owner, format, key_types, numbers, at_ns) VALUES ('unused', 'example.com/shop', 1, '(int64)', '', 0)")
	p := &runtime.Policy{Name: "unused", Kind: runtime.FixedWindow, Rate: 1, Period: time.Hour, Capacity: 1}
	runtime.NewCatalog("example.com/shop",
		runtime.Catalog{Limits: []runtime.CatalogLimit{{Name: "unused", Policies: []*runtime.Policy{p}}}})
	require.NoError(s, s.shop().Migrate(s.Context(), p))
	all, err := s.shop().Registrations(s.Context())
	require.NoError(s, err)
	assert.Equal(s, "()", all[2].Key)
	_, err = s.shop().Forget(s.Context(), "unused", s.shop().visit)
	require.NoError(s, err)
	all, err = s.shop().Registrations(s.Context())
	require.NoError(s, err)
	assert.NotContains(s, names(all), "unused")
}

func (s programs) thePackageMoves() {
	old, moved := s.shop(), s.of("example.com/store", "int64", sqlstore.Options{})
	require.NoError(s, old.take(s.Context()))
	s.refused(moved.take(s.Context()))
	require.NoError(s, moved.Adopt(s.Context(), moved.policies()...))
	require.NoError(s, moved.take(s.Context()), "in the same process")
	require.NoError(s, old.take(s.Context()), "processes of the old version that run go on, as in every rolling deploy")
	s.refused(s.shop().take(s.Context()), "they belong to example.com/store")
	p := s.shop()
	require.NoError(s, p.Adopt(s.Context(), p.policies()...))
	s.left(4)
}

func (s programs) anotherFormat() {
	s.exec("UPDATE " + dialect.RegistryTable(s.Table) + " SET format = 2 WHERE name = 'visit'")
	p := s.shop()
	s.refused(p.take(s.Context()), "a newer version has written them, in format 2", "update the program")
	s.refused(p.Migrate(s.Context(), p.policies()...), "format 2")
	s.refused(p.Adopt(s.Context(), p.policies()...), "format 2")
	s.exec("UPDATE " + dialect.RegistryTable(s.Table) + " SET format = 0 WHERE name = 'visit'")
	s.refused(s.shop().take(s.Context()), "an older version has written them")
	s.exec("UPDATE " + dialect.RegistryTable(s.Table) + " SET format = 1 WHERE name = 'visit'")
	s.left(4)
}

func (s programs) aTableOfBefore() {
	s.exec("ALTER TABLE " + s.Table + " RENAME COLUMN at_ns TO ts")
	s.exec("ALTER TABLE " + s.Table + " DROP COLUMN log")
	p := s.shop()
	for _, err := range []error{p.take(s.Context()), p.Ready(s.Context()), p.Migrate(s.Context(), p.policies()...)} {
		require.ErrorContains(s, err, "is that of a version before v0.1.0")
		require.ErrorContains(s, err, "ALTER TABLE "+s.Table+" RENAME COLUMN ts TO at_ns")
	}
	s.exec("ALTER TABLE " + s.Table + " RENAME COLUMN ts TO at_ns")
	s.exec("ALTER TABLE " + s.Table + " ADD COLUMN log " + map[bool]string{true: "BYTEA",
		false: "BLOB"}[s.Dialect.Name == "postgres"])
	s.left(4)
}

func (s programs) noRegistry() {
	s.exec("DROP TABLE " + dialect.RegistryTable(s.Table))
	p := s.blog()
	// The columns are those of today, and the rows have the tokens that are left.
	s.exec("UPDATE " + s.Table + " SET value = -value")
	err := p.Migrate(s.Context(), p.policies()...)
	require.ErrorIs(s, err, runtime.ErrForeignCounts)
	require.ErrorContains(s, err, "that a version before 23 November 2026 has written")
	s.exec("UPDATE " + s.Table + " SET value = -value")
	s.exec("DROP TABLE IF EXISTS " + dialect.RegistryTable(s.Table))
	require.NoError(s, p.take(s.Context()), "an upgrade without Migrate changes nothing")
	require.ErrorContains(s, p.Ready(s.Context(), p.policies()...), dialect.RegistryTable(s.Table))
	tx, err := s.DB.Begin()
	require.NoError(s, err)
	p = s.blog()
	require.NoError(s, limiter.New(p.WithTx(tx)).Limit(p.visit, runtime.KeyOf(runtime.Int(42))).Require(s.Context()))
	require.NoError(s, tx.Commit(), "the transaction goes on")
	p = s.shop()
	require.NoError(s, p.Migrate(s.Context(), p.policies()...))
	require.NoError(s, p.Ready(s.Context(), p.policies()...))
	s.refused(s.blog().take(s.Context()))
}

// anotherSecret has programs of one limit with hashed keys whose secrets differ.
func (s programs) anotherSecret() {
	ctx, key := s.Context(), runtime.KeyOf(runtime.Hashed("ann@example.com"))
	policy := &runtime.Policy{Name: "mail", Kind: runtime.TokenBucket, Rate: 10, Period: 24 * time.Hour, Capacity: 10}
	plain := runtime.NewCatalog("example.com/shop", runtime.Catalog{Limits: []runtime.CatalogLimit{
		{Name: "mail", Key: []runtime.CatalogKey{{Name: "address", Type: "hashed string"}}, Policies: []*runtime.Policy{policy}},
	}})
	first, second := []byte("0123456789abcdef"), []byte("fedcba9876543210")
	take := func(options ...limiter.Option) error {
		return limiter.New(s.shop().Store, options...).Limit(policy, key).Require(ctx)
	}
	p := plain.HashKeys(first).Policies()
	require.NoError(s, s.shop().Migrate(ctx, p...))
	require.NoError(s, s.shop().Ready(ctx, p...))
	require.NoError(s, take(limiter.HashKeys(first)))
	_, err := s.shop().Sweep(ctx, p...)
	require.NoError(s, err)

	const without, another = "with the secret ",
		"and those of this program without a secret: give limiter.HashKeys and Catalog().HashKeys the secret"
	s.refused(take(), without, another)
	s.refused(take(limiter.HashKeys(second)), without, "and those of this program with the secret ")
	s.refused(s.shop().Ready(ctx, plain.Policies()...), another)
	s.refused(s.shop().Migrate(ctx, plain.Policies()...), another)
	_, err = s.shop().Sweep(ctx, plain.Policies()...)
	s.refused(err, another)
	tx, err := s.DB.Begin()
	require.NoError(s, err)
	s.refused(limiter.New(s.shop().Store).WithTx(tx).Limit(policy, key).Require(ctx), another)
	require.NoError(s, tx.Rollback())

	require.NoError(s, s.shop().Adopt(ctx, plain.HashKeys(second).Policies()...))
	require.NoError(s, take(limiter.HashKeys(second)))
	s.refused(take(limiter.HashKeys(first)), "and those of this program with the secret ")
}

func (s programs) severalAtOnce() {
	s.exec("DELETE FROM " + dialect.RegistryTable(s.Table))
	results := make(chan error)
	for i := range 8 {
		p := s.shop()
		if i%2 == 1 {
			p = s.blog()
		}
		go func() { results <- p.Migrate(context.WithoutCancel(s.Context()), p.policies()...) }()
	}
	lost := 0
	for range 8 {
		if err := <-results; errors.Is(err, runtime.ErrForeignCounts) {
			lost++
		} else if err != nil {
			s.Error(err)
		}
	}
	assert.Equal(s, 4, lost, "one of the two owners")
}

func names(all []runtime.Registration) string {
	var names []string
	for _, of := range all {
		names = append(names, of.Limit)
	}
	return strings.Join(names, ", ")
}
