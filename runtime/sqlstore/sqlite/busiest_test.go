package sqlite_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/operate"
)

// What the command top reads for a limit with many keys, for each of them.
func BenchmarkBusiest(b *testing.B) {
	const n = 100_000
	r := newRig(b)
	p := &runtime.Policy{Name: "sendMessage", Kind: runtime.TokenBucket, Rate: 100, Period: 24 * time.Hour, Capacity: 100}
	require.NoError(b, r.store.Migrate(b.Context(), p))
	_, err := r.db.Exec(`WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ? - 1)
		INSERT INTO rate_limits (name, key, shard, value, at_ns, prev)
		SELECT ?, 'customer-' || i, 0, -1.0 - i * 7919 % 99, ?, 0 FROM n`, n, p.Name, r.clock.Now().UnixNano())
	require.NoError(b, err)
	l := runtime.CatalogLimit{Name: p.Name, Key: []runtime.CatalogKey{{Name: "customer", Type: "string"}}, Policies: []*runtime.Policy{p}}
	catalog := &runtime.Catalog{Limits: []runtime.CatalogLimit{l}}
	b.ReportAllocs()
	for b.Loop() {
		used, err := operate.Program{Catalog: catalog, Store: r.store}.Busiest(b.Context(), operate.UsedQuery{Limit: &l, Most: 10})
		if err != nil || used.InUse != n || len(used.Busiest) != 10 {
			b.Fatalf("%d keys in use, %d of them the busiest: %v", used.InUse, len(used.Busiest), err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/key")
}
