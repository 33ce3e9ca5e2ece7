package faults

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/operate"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// Operators see and change the keys of all shards.
func TestVitessShardsAreOperated(t *testing.T) {
	gate := vitessShards(t)[0]
	store := gate.StoreIn(t, gate.Open(t), live.NewTable(), nil)
	p := &runtime.Policy{Name: "calls", Kind: runtime.TokenBucket, Rate: 1, Period: 365 * 24 * time.Hour, Capacity: 10,
		Overrides: runtime.OverrideBounds{Rate: 10, Capacity: 100}}
	require.NoError(t, store.Migrate(t.Context(), p))
	program := operate.Program{Store: store, Catalog: &runtime.Catalog{Limits: []runtime.CatalogLimit{
		{Name: "calls", Key: []runtime.CatalogKey{{Name: "user", Type: "int"}}, Policies: []*runtime.Policy{p}}}}}
	run := func(command string) string {
		t.Helper()
		var out bytes.Buffer
		status := program.Main(t.Context(), strings.Fields(command), &out, &out)
		require.Equal(t, operate.OK, status, "%s: %s", command, out.String())
		return out.String()
	}
	limits := limiter.New(store)
	for i := range 20 {
		for range 1 + i%3 {
			require.NoError(t, limits.Limit(p, live.KeyOf(i)).Require(t.Context()))
		}
	}
	// A key for each shard, and more.
	for i := range 5 {
		run(fmt.Sprintf("take calls %d -n 5 -reason abuse -author alice", i))
		run(fmt.Sprintf("block calls %d -for 1h -reason abuse -author alice", i))
		d, err := limits.Limit(p, live.KeyOf(i)).Allow(t.Context())
		require.NoError(t, err)
		assert.False(t, d.Allowed, i)
	}
	assert.Equal(t, 20, strings.Count(run("top calls -n 50"), "\n")-1)
	assert.Contains(t, run("show calls 1"), "blocked for")
	run("unblock calls 1 -reason request -author bob")
	run("erase calls 1 -reason request -author bob")
	assert.NotContains(t, run("show calls 1"), "blocked for")
	b, err := limits.Limit(p, live.KeyOf(1)).Peek(t.Context())
	require.NoError(t, err)
	assert.Equal(t, int64(10), b.Remaining)
	assert.Equal(t, 19, strings.Count(run("top calls -n 50"), "\n")-1)
}
