package conformance

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// twoProcesses returns two stores that share a new table.
func twoProcesses(t *testing.T, s live.Server, clock *storetest.Clock) (stores [2]runtime.Store) {
	table := live.NewTable()
	stores[0] = s.StoreIn(t, s.Open(t), table, clock.Now)
	other := live.Must(agree.NewStore(s.Open(t), s.Dialect, sqlstore.Options{Table: table, Clock: clock.Now}))(t)
	t.Cleanup(func() { require.NoError(t, other.Close()) })
	stores[1] = other
	return stores
}

// uneven is a limit of which the first shard has twice the rate of the others.
var uneven = &runtime.Policy{Name: "uneven", Kind: runtime.TokenBucket, Rate: 9, Capacity: 27, Period: time.Second, MaxReserved: 24, Shards: 8}

// doUneven makes a request for a key of the limit.
func doUneven(t *testing.T, store runtime.Store, q runtime.Request) runtime.Decision {
	t.Helper()
	q.Policy, q.Key = uneven, "k"
	answers := live.Must(store.Do(t.Context(), []runtime.Call{{Requests: []runtime.Request{q}}}))(t)
	return answers[0].Decisions[0]
}

// Two processes take from the shards of one key, which each chooses by what it last saw of them, while the other one
// reserves, refunds and resets. A take is allowed if the shards together have the tokens, and only then.
func TestShardsOfTwoProcesses(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		clock, random := storetest.NewClock(), rand.New(rand.NewPCG(1, 2))
		stores := twoProcesses(t, s, clock)
		do := func(q runtime.Request) runtime.Decision { return doUneven(t, stores[random.IntN(2)], q) }
		allowed, denied, inDebt := 0, 0, 0
		steps := 600
		if *long {
			steps = 20_000
		}
		for range steps {
			clock.Add(time.Duration(random.IntN(110)) * time.Millisecond)
			q := randomRequest(uneven, random)
			if q.Op == runtime.Reset && random.IntN(10) > 0 {
				q = runtime.Request{Count: 1}
			}
			has := do(runtime.Request{Op: runtime.Peek}).Value
			d := do(q)
			if q.Op != runtime.Take || q.Reserve {
				continue
			}
			require.Equal(t, has >= float64(q.Count)-1e-6, d.Allowed, "the shards have %v tokens: %+v: %+v", has, q, d)
			switch {
			case d.Allowed:
				allowed++
			case has < 0:
				inDebt++
			default:
				denied++
			}
		}
		t.Logf("%d allowed, %d denied, and %d of a key in debt", allowed, denied, inDebt)
		assert.Greater(t, min(allowed, denied, inDebt), steps/20)
	})
}

// A process does not take from a shard that another process has put into debt since, although this shard has come out of it
// before the others, and has a token.
func TestShardOfAKeyInDebt(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		clock := storetest.NewClock()
		stores := twoProcesses(t, s, clock)
		for range 40 {
			doUneven(t, stores[1], runtime.Request{Op: runtime.Reset})
			for range 12 {
				require.True(t, doUneven(t, stores[0], runtime.Request{Count: 1}).Allowed)
			}
			require.True(t, doUneven(t, stores[1], runtime.Request{Count: 15}).Allowed)
			require.True(t, doUneven(t, stores[1], runtime.Request{Count: 20, Reserve: true}).Allowed)
			clock.Add(2200 * time.Millisecond) // -20 + 2.2 * 9 tokens, of which the first shard has -3 + 2.2 * 2
			require.False(t, doUneven(t, stores[0], runtime.Request{Count: 1}).Allowed)
			clock.Add(time.Hour)
		}
	})
}

// Once a process has seen its shards, a lone take is one round trip on Postgres and MariaDB, as that from a key with one
// row.
func TestTakeFromAShardIsOneRoundTrip(t *testing.T) {
	for _, s := range named(t, "postgres-pgx", "postgres-pq", "mariadb") {
		live.AtOnce(t, s.Name, func(t *testing.T) {
			store, p := counted(t, s)
			roundTrips := func(of *runtime.Policy) int64 {
				take := func() {
					answers := live.Must(store.Do(t.Context(), []runtime.Call{{Requests: []runtime.Request{{Policy: of, Key: "k", Count: 1}}}}))(t)
					require.True(t, answers[0].Allowed())
				}
				for range 3 {
					take()
				}
				before := p.requests.Load()
				for range 50 {
					take()
				}
				return p.requests.Load() - before
			}
			row := *uneven
			row.Name, row.Rate, row.Capacity, row.Shards = "row", 900, 2700, 0
			sharded := row
			sharded.Name, sharded.Shards = "sharded", 8
			require.Equal(t, roundTrips(&row), roundTrips(&sharded))
		})
	}
}

// A take from a sharded limit in a batch with one of another limit takes from the shard that was chosen, and not from the
// first one.
func TestTakesFromShardsInABatchOfTwoLimits(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		db, table := s.Open(t), live.NewTable()
		store := s.StoreIn(t, db, table, nil)
		row := &runtime.Policy{Name: "row", Kind: runtime.TokenBucket, Rate: 8, Period: runtime.MaxPeriod, Capacity: 8000}
		sharded := *row
		sharded.Name, sharded.Shards = "sharded", 8
		for range 80 {
			answers, err := store.Do(t.Context(), []runtime.Call{
				{Requests: []runtime.Request{{Policy: row, Key: "k", Count: 1}}}, {Requests: []runtime.Request{{Policy: &sharded, Key: "k", Count: 1}}},
			})
			require.NoError(t, err)
			require.True(t, answers[0].Allowed() && answers[1].Allowed())
		}
		var least, sum float64
		require.NoError(t, db.QueryRow("SELECT MIN(value), SUM(value) FROM "+table+" WHERE name = 'sharded'").Scan(&least, &sum))
		require.InDelta(t, -80, sum, 0.01)
		require.Greater(t, least, -40.0)
	})
}
