package faults

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// Two shards are split into four while four processes take. It comes last, because the other tests need two. The log has
// what a decision costs on one server of MySQL by itself, on an unsharded keyspace, on two shards and on four.
func TestVitessReshardsUnderLoad(t *testing.T) {
	shards := vitessShards(t)
	alone := live.Server{Name: "MySQL", Driver: "mysql", Dialect: dialect.MySQL,
		DSN: "vt_dba@unix(" + filepath.Join(vitess.dir, "vt_0000000001", "mysql.sock") + ")/vt_test?interpolateParams=true"}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	measure := func(name string, on ...live.Server) {
		for _, keys := range []int{1, 1000} {
			decisions, cpu := vitessCost(t, keys, on...)
			fmt.Fprintf(w, "%s\t%d keys\t%d decisions\t%.0f a CPU-second\t\n", name, keys, decisions, float64(decisions)/cpu.Seconds())
		}
	}
	measure("MySQL alone", alone)
	measure("not sharded", vitessGates(t)...)
	measure("2 shards", shards...)
	taken := underVitessLoad(t, shards, func() {
		<-time.After(10 * time.Second)
		require.NoError(t, vitess.run("reshard"))
	})
	t.Logf("while shards are split: %v", taken.Errors)
	found := 0
	rows := live.Must(shards[0].Open(t).Query("SHOW VITESS_SHARDS LIKE 'split/%'"))(t)
	defer rows.Close()
	for rows.Next() {
		found++
	}
	require.Equal(t, 4, found)
	measure("4 shards", shards...)
	require.NoError(t, w.Flush())
	t.Log("\n" + table.String())
}

// vitessCost takes by 64 callers for ten seconds, and returns the number of decisions and the processor time of all servers.
func vitessCost(t *testing.T, keys int, on ...live.Server) (decisions int64, cpu time.Duration) {
	t.Helper()
	_, stores := live.Shared(t, on, nil)
	p := live.Once("limit", 1_000_000_000)
	take := func(i int) {
		d, err := limiter.New(stores[i%len(stores)]).Limit(p, live.KeyOf(rand.N(keys))).Allow(t.Context())
		assert.NoError(t, err)
		assert.True(t, err != nil || d.Allowed)
	}
	var callers sync.WaitGroup
	run := func(d time.Duration) (done int64) {
		var mu sync.Mutex
		end := time.Now().Add(d)
		for i := range vitessCallers {
			callers.Go(func() {
				n := int64(0)
				for ; time.Now().Before(end); n++ {
					take(i)
				}
				mu.Lock()
				defer mu.Unlock()
				done += n
			})
		}
		callers.Wait()
		return done
	}
	run(2 * time.Second)
	before := vitessCPU(t)
	decisions = run(10 * time.Second)
	return decisions, vitessCPU(t) - before
}

// vitessCPU returns the processor time that the processes of the cluster have used.
func vitessCPU(t *testing.T) (all time.Duration) {
	t.Helper()
	for _, pattern := range []string{"*.pid", "vt_*/mysql.pid"} {
		for _, file := range live.Must(filepath.Glob(filepath.Join(vitess.dir, pattern)))(t) {
			pid := strings.TrimSpace(string(live.Must(os.ReadFile(file))(t)))
			stat, err := os.ReadFile("/proc/" + pid + "/stat")
			if err != nil {
				continue // a program that has ended
			}
			// After the name in parentheses, which may have spaces, these are the 14th and the 15th field in hundredths of a second.
			fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
			for _, ticks := range fields[11:13] {
				all += time.Duration(live.Must(strconv.Atoi(ticks))(t)) * 10 * time.Millisecond
			}
		}
	}
	require.NotZero(t, all)
	return all
}
