package faults

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"math/rand/v2"
	"slices"
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

// pairCall is a call that takes a token from each of two keys, which are on different shards.
type pairCall struct {
	keys [2]runtime.Key
	err  error
}

// Servers, tablets and vtgates are killed while calls take from two shards: each call has taken from both or from none. A
// failed one has taken from none unless its error is ErrOutcomeUnknown, or its context has ended, after which the store goes
// on. Half of the calls have keys of their own; the others wait for the locks of those that a kill stops.
func TestVitessTwoPhasesSurviveKills(t *testing.T) {
	gates := vitessShards(t)
	db := gates[0].Open(t)
	o := sqlstore.Options{Table: live.NewTable(), TwoPhase: true}
	store := gates[0].StoreOf(t, db, o)
	limits := []*limiter.Limiter{limiter.New(store), limiter.New(gates[1].StoreWith(t, gates[1].Open(t), o))}
	keys := byShard(t, db)
	p := live.Once("limit", 1_000_000_000)
	var stop atomic.Bool
	var callers sync.WaitGroup
	var calls [16][]pairCall
	for i := range calls {
		callers.Go(func() {
			for l := limits[i%2]; !stop.Load(); {
				pair := rand.N(5)
				c := pairCall{keys: [2]runtime.Key{keys["-80"][pair], keys["80-"][pair]}}
				if i%4 < 2 {
					for of, k := range c.keys {
						c.keys[of] = runtime.KeyOf(runtime.String(k.String()), runtime.Int(i), runtime.Int(len(calls[i])))
					}
				}
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				var d limiter.Decisions
				d, c.err = l.Group(l.Limit(p, c.keys[0]), l.Limit(p, c.keys[1])).Allow(ctx)
				cancel()
				assert.True(t, c.err != nil || d.Allowed)
				if calls[i] = append(calls[i], c); c.err != nil {
					time.Sleep(10 * time.Millisecond)
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
	type outcomes struct {
		admitted, unknown int64
		undone            []error
	}
	of := map[[2]runtime.Key]*outcomes{}
	var admitted, unknown, undone, sum, half int64
	for _, c := range slices.Concat(calls[:]...) {
		on := of[c.keys]
		if on == nil {
			on = new(outcomes)
			of[c.keys] = on
		}
		switch {
		case c.err == nil:
			on.admitted++
		case errors.Is(c.err, sqlstore.ErrOutcomeUnknown), errors.Is(c.err, context.DeadlineExceeded):
			on.unknown++
		default:
			on.undone = append(on.undone, c.err)
			undone++
		}
	}
	for keys, on := range of {
		one, other := taken(keys[0]), taken(keys[1])
		if one != other {
			// Transactions that were to be committed are so when their servers are back.
			assert.Eventually(t, func() bool { one, other = taken(keys[0]), taken(keys[1]); return one == other }, time.Minute, 100*time.Millisecond, "%v", keys)
			half += max(one, other) - min(one, other)
		}
		for _, n := range []int64{one, other} {
			assert.True(t, on.admitted <= n && n <= on.admitted+on.unknown, "%d tokens of %v taken by %+v", n, keys, *on)
		}
		admitted, unknown, sum = admitted+on.admitted, unknown+on.unknown, sum+one
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
	t.Logf("%d kills, %d pairs of keys: %d calls admitted, %d of unknown outcome, %d undone; %d tokens taken of each, %d half",
		*vitessKills, len(of), admitted, unknown, undone, sum, half)
}
