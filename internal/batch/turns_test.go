package batch_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/internal/batch"
	"github.com/ratelimitgen/ratelimitgen/internal/runtimetest"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// inTurn is a store of which the shards decide in turn. Its clock stands still.
type inTurn struct {
	turns batch.Turns
	rows  map[runtime.Row]runtime.State
}

func (s *inTurn) Do(_ context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	b := batch.NewInTurn(calls, &s.turns)
	read := func() (states []runtime.State) {
		for _, row := range b.Rows() {
			states = append(states, s.rows[row])
		}
		return states
	}
	for !b.Run(epoch.UnixNano(), read()) {
	}
	for _, c := range b.Changes() {
		s.rows[c.Row] = c.State
	}
	return b.Answers(), nil
}

// fullShards returns the states of n shards that are full.
func fullShards(n int) []runtime.State {
	return slices.Repeat([]runtime.State{{TS: epoch.UnixNano(), Exists: true}}, n)
}

// At one instant it makes no difference whether a key has shards.
func TestCallsInTurnDecideAsUnshardedOnes(t *testing.T) {
	decideAsUnsharded(t, runtimetest.Roll(41), 3, 8, func() runtime.Store { return &inTurn{rows: map[runtime.Row]runtime.State{}} })
}

func TestShardsOfEachKeyTakeTurns(t *testing.T) {
	p := sharded(*bucket("limit", 100), 10)
	p.Rate = 10
	var turns batch.Turns
	used := map[runtime.Row]int{}
	for i := range 60 {
		q := of(p, take(1))
		q.Key = strconv.Itoa(i % 2)
		b := batch.NewInTurn([]runtime.Call{call(q)}, &turns)
		require.Len(t, b.Rows(), 1)
		used[b.Rows()[0]]++
	}
	require.Len(t, used, 20)
	for row, n := range used {
		require.Equal(t, 3, n, "%+v", row)
	}
}

// More keys than there are places.
func TestManyKeysTakeTurns(t *testing.T) {
	p := sharded(*bucket("limit", 100), 10)
	p.Rate = 10
	var turns batch.Turns
	used := make([]int, 10)
	for i := range 100_000 {
		q := of(p, take(1))
		q.Key = strconv.Itoa(i % 20_000)
		used[batch.NewInTurn([]runtime.Call{call(q)}, &turns).Rows()[0].Shard]++
	}
	for shard, n := range used {
		require.InDelta(t, 10_000, n, 800, "shard %d", shard)
	}
}

// A call reads one shard as long as that has enough tokens. If it is missing, or was in debt, all are needed.
func TestRowsOfACallInTurn(t *testing.T) {
	p := &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 100, Period: time.Second, Capacity: 100, MaxReserved: 50, Shards: 10}
	full, inDebt := fullShards(10), fullShards(10)
	for i := range inDebt {
		inDebt[i].Value, inDebt[i].TS = -11, epoch.Add(-time.Second).UnixNano()
	}
	for name, row := range map[string]struct {
		n       int64
		states  []runtime.State
		oneDoes bool
		changes int
	}{
		"full":        {1, full, true, 1},
		"its last":    {10, full, true, 1},
		"one too few": {11, full, false, 10},
		"missing":     {1, make([]runtime.State, 10), false, 10},
		"in debt":     {1, inDebt, false, 10},
	} {
		t.Run(name, func(t *testing.T) {
			b := batch.NewInTurn([]runtime.Call{call(of(p, take(row.n)))}, new(batch.Turns))
			require.Len(t, b.Rows(), 1)
			require.True(t, b.Partial())
			require.Equal(t, row.oneDoes, b.Run(epoch.UnixNano(), row.states[:1]))
			if !row.oneDoes {
				require.Len(t, b.Rows(), 10)
				require.False(t, b.Partial())
				require.True(t, b.Run(epoch.UnixNano(), row.states))
			}
			require.True(t, b.Answers()[0].Allowed())
			require.Len(t, b.Changes(), row.changes)
		})
	}
}

// The requests of a batch for one key use one shard, in addition to those that others of them name.
func TestRowsOfABatchInTurn(t *testing.T) {
	p := sharded(*bucket("limit", 100), 10)
	p.Rate = 10
	back := refund(1)
	back.Shard = 4
	for name, row := range map[string]struct {
		also        runtime.Request
		least, most int
	}{
		"a take":              {take(2), 1, 1},
		"a refund of a shard": {back, 1, 2},
		"a peek":              {peek(), 10, 10},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				b := batch.NewInTurn([]runtime.Call{call(of(p, take(1))), call(of(p, row.also)), call(of(p, take(1)))}, new(batch.Turns))
				require.GreaterOrEqual(t, len(b.Rows()), row.least)
				require.LessOrEqual(t, len(b.Rows()), row.most)
				require.True(t, slices.IsSortedFunc(b.Rows(), runtime.Row.Compare))
				require.True(t, b.Run(epoch.UnixNano(), fullShards(len(b.Rows()))))
				taken := slices.DeleteFunc(b.Changes(), func(c runtime.StoredRow) bool { return c.State.Value == 0 })
				require.Len(t, taken, 1, "both takes use one shard")
			}
		})
	}
}

func TestRemainingInTurnIsNearTheTruth(t *testing.T) {
	p := &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 1000, Period: time.Hour, Capacity: 1000, Shards: 10}
	store := &inTurn{rows: map[runtime.Row]runtime.State{}}
	for taken := 1; taken <= 1000; taken++ {
		d := decide(t, store, p, take(1))
		require.True(t, d.Allowed)
		require.InDelta(t, 1000-taken, d.Remaining, 20, "ten times what one of the shards has, within two tokens")
	}
	require.False(t, decide(t, store, p, take(1)).Allowed)
}
