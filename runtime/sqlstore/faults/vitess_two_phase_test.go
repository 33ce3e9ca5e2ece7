package faults

import (
	"context"
	"database/sql"
	"flag"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

var vitessKills = flag.Int("vitess.kills", 5, "how many programs of Vitess the test of two-phase commits kills")

// With two-phase commits, a call takes from keys on several shards.
func TestVitessTakesAcrossShardsInTwoPhases(t *testing.T) {
	gate := vitessShards(t)[0]
	db := gate.Open(t)
	store := gate.StoreOf(t, db, sqlstore.Options{Table: live.NewTable(), TwoPhase: true})
	require.NoError(t, store.Ready(t.Context()))
	keys := byShard(t, db)
	p, limits := live.Once("limit", 10), limiter.New(store)
	one, other := limits.Limit(p, keys["-80"][0]), limits.Limit(p, keys["80-"][0])
	for range 6 {
		require.NoError(t, one.Require(t.Context()))
	}
	for i := range 5 {
		d, err := limits.Group(one, other).Allow(t.Context())
		require.NoError(t, err)
		assert.Equal(t, i < 4, d.Allowed)
	}
	b, err := other.Peek(t.Context())
	require.NoError(t, err)
	assert.Equal(t, int64(6), b.Remaining)
}

// Ready tries a commit over two shards.
func TestVitessReadyTriesTwoPhases(t *testing.T) {
	gate := vitessShards(t)[0]
	// A primary does as the policy says since it became one.
	become := func(policy, primary string) {
		require.NoError(t, vitess.run("durability", policy))
		require.NoError(t, vitess.run("primary", primary))
	}
	become("none", "6")
	defer become("semi_sync", "5")
	store := gate.StoreOf(t, gate.Open(t), sqlstore.Options{Table: live.NewTable(), TwoPhase: true})
	assert.ErrorContains(t, store.Ready(t.Context()), "set its durability policy to semi_sync")
}

// shardPair is two keys on different shards, from which calls take together.
type shardPair struct {
	keys              [2]runtime.Key
	admitted, unknown atomic.Int64
}

// Servers, tablets and vtgates are killed while calls take from two shards: each call has taken from both or from none.
func TestVitessTwoPhasesSurviveKills(t *testing.T) {
	gates := vitessShards(t)
	db := gates[0].Open(t)
	o := sqlstore.Options{Table: live.NewTable(), TwoPhase: true}
	store := gates[0].StoreOf(t, db, o)
	limits := []*limiter.Limiter{limiter.New(store), limiter.New(gates[1].StoreWith(t, gates[1].Open(t), o))}
	keys := byShard(t, db)
	p := live.Once("limit", 1_000_000_000)
	var pairs [5]shardPair
	for i := range pairs {
		pairs[i].keys = [2]runtime.Key{keys["-80"][i], keys["80-"][i]}
	}
	var stop atomic.Bool
	var callers sync.WaitGroup
	for i := range 16 {
		callers.Go(func() {
			for l := limits[i%2]; !stop.Load(); {
				of := &pairs[rand.N(len(pairs))]
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				d, err := l.Group(l.Limit(p, of.keys[0]), l.Limit(p, of.keys[1])).Allow(ctx)
				cancel()
				switch {
				case err != nil:
					of.unknown.Add(1)
					time.Sleep(10 * time.Millisecond)
				case d.Allowed:
					of.admitted.Add(1)
				}
			}
		})
	}
	victims := []string{"server3", "tablet5", "gate2", "server5", "tablet3"}
	for i := range *vitessKills {
		<-time.After(time.Second)
		victim := victims[i%len(victims)]
		require.NoError(t, vitess.run("kill", victim))
		require.NoError(t, vitess.run("rejoin", victim))
	}
	stop.Store(true)
	callers.Wait()
	taken := func(k runtime.Key) int64 {
		b, err := limits[0].Limit(p, k).Peek(t.Context())
		require.NoError(t, err)
		return p.Capacity - b.Remaining
	}
	var admitted, unknown, half int64
	for i := range pairs {
		of := &pairs[i]
		// Transactions that were to be committed are so when their servers are back.
		assert.Eventually(t, func() bool { return taken(of.keys[0]) == taken(of.keys[1]) }, time.Minute, 100*time.Millisecond, "pair %d", i)
		one, other := taken(of.keys[0]), taken(of.keys[1])
		half += max(one, other) - min(one, other)
		assert.GreaterOrEqual(t, one, of.admitted.Load(), "lost")
		assert.LessOrEqual(t, one, of.admitted.Load()+of.unknown.Load(), "taken by no call")
		admitted, unknown = admitted+of.admitted.Load(), unknown+of.unknown.Load()
	}
	assert.NotZero(t, admitted)
	if half > 0 {
		unresolved := live.Must(db.Query("SHOW UNRESOLVED TRANSACTIONS FOR split"))(t)
		defer unresolved.Close()
		columns := live.Must(unresolved.Columns())(t)
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(sql.NullString)
		}
		for unresolved.Next() {
			require.NoError(t, unresolved.Scan(values...))
			for i, c := range columns {
				t.Log(c, values[i].(*sql.NullString).String)
			}
		}
	}
	t.Logf("%d kills: %d calls admitted, %d errors, %d half", *vitessKills, admitted, unknown, half)
}
