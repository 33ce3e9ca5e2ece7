package limiter_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
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
	must(limits.Overrides(p, parsed).Block(t.Context(), runtime.Block{Until: runtime.ForGood, Reason: "abuse", Author: "ann"}))
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
