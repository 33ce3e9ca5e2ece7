package limiter_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// Handles of every kind, transactions and operators find the count of a key by the same secret.
func TestHashKeys(t *testing.T) {
	secret := []byte("0123456789abcdef")
	store := atNoon()
	p := bucket("limit", 3)
	p.MaxReserved, p.Overrides = 3, runtime.OverrideBounds{Rate: p.Rate, Capacity: p.Capacity, MaxReserved: 3}
	ada := runtime.KeyOf(runtime.Hashed("ada@example.com"))
	limits := limiter.New(store, limiter.HashKeys(secret))
	must(limits.Limit(p, ada).Allow(t.Context()))
	must(limits.Reservable(p, ada).Reserve(t.Context()))
	tx := store.Begin()
	must(limits.WithTx(tx).Limit(p, ada).Allow(t.Context()))
	require.NoError(t, tx.Commit())

	rows, _ := must2(store.Rows(t.Context(), runtime.Row{Name: p.Name, Shard: -1}, 10))
	require.Len(t, rows, 1)
	require.Equal(t, ada.HashedWith(secret).String(), rows[0].Row.Key)
	require.NotEqual(t, ada.String(), rows[0].Row.Key)

	catalog := &runtime.Catalog{Limits: []runtime.CatalogLimit{{Name: p.Name, Key: []runtime.CatalogKey{{Name: "email", Type: "hashed string"}}, Policies: []*runtime.Policy{p}}}}
	l, ok := catalog.HashKeys(secret).Limit(p.Name)
	require.True(t, ok)
	parsed := must(l.ParseKey([]string{"ada@example.com"}))
	must(limits.Overrides(p, parsed).Block(t.Context(), runtime.Block{Until: runtime.ForGood(), Reason: "abuse", Author: "ann"}))
	b := must(limits.Limit(p, ada).Peek(t.Context()))
	require.Equal(t, runtime.Never, b.BlockedFor)
	must(l.ParseStored(rows[0].Row.Key))

	without, _ := catalog.Limit(p.Name)
	plain := must(without.ParseKey([]string{"ada@example.com"}))
	require.Equal(t, ada.String(), plain.String(), "the catalog itself has no secret")

	// A variable that is not set is no secret.
	_, err := limiter.New(store, limiter.HashKeys(nil)).Limit(p, ada).Allow(t.Context())
	require.ErrorIs(t, err, runtime.ErrInvalidKey)
	l, _ = catalog.HashKeys(nil).Limit(p.Name)
	_, err = l.ParseKey([]string{"ada@example.com"})
	require.ErrorIs(t, err, runtime.ErrInvalidKey)
}

// The policy that an override gives, also that of another plan, is still of the program with the secret.
func TestHashKeysUnderOverrides(t *testing.T) {
	secret, store := []byte("0123456789abcdef"), atNoon()
	plan := func(capacity int64) runtime.Policy {
		p := *bucket("limit", capacity)
		p.Overrides = runtime.OverrideBounds{Rate: 9, Capacity: 9}
		return p
	}
	plans := runtime.PlanPolicies{1: plan(1), 2: plan(5)}.Overridable(runtime.PlanNames{1: "free", 2: "pro"})
	catalog := runtime.NewCatalog("example.com/app", runtime.Catalog{Plans: []string{"free", "pro"}, Limits: []runtime.CatalogLimit{
		{Name: "limit", Key: []runtime.CatalogKey{{Name: "email", Type: "hashed string"}}, Policies: []*runtime.Policy{&plans[1], &plans[2]}},
	}})
	limits, key := limiter.New(store, limiter.HashKeys(secret)), runtime.KeyOf(runtime.Hashed("ada@example.com"))
	require.True(t, must(limits.Limit(&plans[1], key).Allow(t.Context())).Allowed)
	with := catalog.HashKeys(secret)
	require.Equal(t, "(hashed string)", runtime.RegistrationOf("", &plans[1]).Key)
	require.Regexp(t, `^\(hashed string by [0-9a-f]{12}\)$`, runtime.RegistrationOf("", with.Policies()[0]).Key)
	for _, v := range []runtime.Override{{Plan: override.PlanName("pro")}, {Capacity: 5}} {
		v.Until, v.Reason, v.Author = runtime.ForGood(), "a test", "ann"
		must(limits.Overrides(&plans[1], key).Set(t.Context(), v))
		require.EqualValues(t, 5, must(limits.Limit(&plans[1], key).Peek(t.Context())).Capacity, "%+v", v)
		require.EqualValues(t, 5, must(limiter.New(store).Limit(with.Policies()[0], key.HashedWith(secret)).Peek(t.Context())).Capacity)
	}
	_, err := limiter.New(store).Limit(&plans[1], key).Peek(t.Context())
	require.ErrorIs(t, err, runtime.ErrForeignCounts)
}
