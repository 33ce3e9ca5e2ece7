package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// Nodes of a cluster leave and return while callers take tokens through an HAProxy, which sends them to all nodes, or to
// one at a time. A node that was killed gets a copy of all data when it returns (SST), and one that was stopped only the
// writes that it has missed (IST). No token is granted twice or lost, also by a node that has just returned.
func TestGaleraNodesLeaveBehindHAProxy(t *testing.T) {
	nodes := galeraServers(t)
	for _, row := range []struct {
		kind   string
		leaves []string
	}{
		{"galera-single", []string{"kill"}},
		{"galera", []string{"stop"}},
	} {
		t.Run(row.kind, func(t *testing.T) {
			if *long {
				row.leaves = []string{"kill", "stop", "kill", "stop", "stop", "kill"}
			}
			port := proxied(t, row.kind, galera.port(1), galera.port(2), galera.port(3))
			s := live.Server{Name: "haproxy", Driver: "mysql", DSN: fmt.Sprintf("root@tcp(127.0.0.1:%d)/test", port), Dialect: dialect.MariaDB}
			// The reader waits for the commits of the other nodes.
			table, reader := live.NewTable(), nodes[1].With("wsrep_sync_wait=1")
			truth := reader.StoreIn(t, reader.Open(t), table, nil)
			var stores []runtime.Store
			for range 2 {
				stores = append(stores, s.Join(t, s.Open(t), table, nil))
			}
			// One is used up early, so that every grant after that is one too many, and the other one never.
			few, many := live.StartLoad(live.Once("few", 2000), stores), live.StartLoad(live.Once("many", 1_000_000), stores)
			inTx := newTxLoad(t, interpolated([]live.Server{s}), reader, txStyles[0], 1_000_000)
			inTx.patience = 5 * time.Second
			stop := inTx.start()
			for i, how := range row.leaves {
				// With one node at a time, the first one is used whenever it is there.
				node := strconv.Itoa(1 + i%galeraNodes)
				if row.kind == "galera-single" {
					node = "1"
				}
				awaitService(t, many, "the start", time.Now())
				many.Slowest()
				began := time.Now()
				require.NoError(t, galera.run(how, node))
				awaitService(t, many, fmt.Sprintf("node %s left (%s)", node, how), began)
				t.Logf("the slowest call took %.1f s", many.Slowest().Seconds())
				returning, log := time.Now(), filepath.Join(galera.dir, node+".log")
				past := live.Must(os.ReadFile(log))(t)
				require.NoError(t, galera.run("rejoin", node))
				t.Logf("node %s returned in %.1f s", node, time.Since(returning).Seconds())
				text := live.Must(os.ReadFile(log))(t)
				transfer := map[string]string{"kill": "rsync SST completed on joiner", "stop": "rsync IST completed on joiner"}
				assert.Contains(t, string(text[len(past):]), transfer[how])
				awaitService(t, many, "node "+node+" returned", time.Now())
			}
			few.Await(t, "the last token", func() bool { _, denied, _ := few.Sums(); return denied > live.Callers })
			stop()
			inTx.finish(t)
			few.Compare(t, truth)
			many.Compare(t, truth)
			t.Logf("after the node returned, the slowest call took %.1f s", many.Slowest().Seconds())
		})
	}
}

// A balance read through another connection has all takes, if HAProxy uses one node at a time, or if nodes wait for the
// writes of the others before they read.
func TestGaleraBalancesBehindHAProxy(t *testing.T) {
	nodes := galeraServers(t)
	for _, row := range []struct{ kind, parameter string }{
		{"galera-single", ""}, {"galera", "wsrep_sync_wait=1"}, {"galera", ""},
	} {
		t.Run(strings.TrimSpace(row.kind+" "+row.parameter), func(t *testing.T) {
			port := proxied(t, row.kind, galera.port(1), galera.port(2), galera.port(3))
			s := live.Server{Name: "haproxy", Driver: "mysql", DSN: fmt.Sprintf("root@tcp(127.0.0.1:%d)/test", port), Dialect: dialect.MariaDB}
			if row.parameter != "" {
				s = s.With(row.parameter)
			}
			table := live.NewTable()
			nodes[0].StoreIn(t, nodes[0].Open(t), table, nil)
			// Both have one connection each, which HAProxy sends to different nodes if it may.
			var ends [2]struct {
				*sqlstore.Store
				node string
			}
			for i := range ends {
				db := s.Open(t)
				db.SetMaxOpenConns(1)
				ends[i].Store = s.Join(t, db, table, nil)
				require.NoError(t, db.QueryRow("SELECT @@wsrep_node_name").Scan(&ends[i].node))
			}
			assert.Equal(t, row.kind == "galera-single", ends[0].node == ends[1].node)
			const takes = 300
			p, old := live.Once("limit", takes), 0
			for i := range takes {
				require.NoError(t, limiter.New(ends[0]).Limit(p, runtime.Key{}).Require(t.Context()))
				if live.Left(t, ends[1].Store, p) != int64(takes-1-i) {
					old++
				}
			}
			t.Logf("%d of %d balances are old", old, takes)
			if row.kind == "galera-single" || row.parameter != "" {
				assert.Zero(t, old, "balances that are old")
			}
		})
	}
}
