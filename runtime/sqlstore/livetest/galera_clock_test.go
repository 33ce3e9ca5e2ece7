package livetest

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// TestGaleraClocks has a node whose clock is 10 minutes ahead of the others'. What it has written shows that to a store
// that starts on another node.
func TestGaleraClocks(t *testing.T) {
	if !*long {
		t.Skip("a node takes 20 s to rejoin: run it with -long")
	}
	if found, _ := filepath.Glob("/usr/lib/*/faketime/libfaketimeMT.so.1"); found == nil {
		needOwn(t, fmt.Errorf("libfaketime: %w", errNotInstalled))
	}
	nodes := galeraServers(t)
	table := newTable()
	store := nodes[0].storeIn(t, nodes[0].open(t), table, nil)
	require.NoError(t, store.Ready(t.Context()))

	require.NoError(t, galera.run("kill", "3"))
	t.Setenv("CLOCK", "+10m")
	require.NoError(t, galera.run("rejoin", "3"))
	defer func() {
		t.Setenv("CLOCK", "")
		require.NoError(t, galera.run("kill", "3"))
		require.NoError(t, galera.run("rejoin", "3"))
	}()
	ahead, err := sqlstore.New(nodes[2].open(t), nodes[2].dialect, sqlstore.Options{Table: table})
	require.NoError(t, err)
	defer ahead.Close()
	require.NoError(t, ahead.Ready(t.Context()))
	require.NoError(t, runtime.NewLimiter(ahead).Limit(once("limit", 10), runtime.Key{}).Require(t.Context()))

	err = nodes[0].visit(t, table).Ready(t.Context())
	assert.ErrorContains(t, err, "ahead of this node's clock")
	assert.ErrorContains(t, err, "synchronize them by NTP")
	t.Log(err)
}
