package sqlite_test

import (
	"database/sql"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// rig is a store with a second connection to its file, by which a test reads and writes rows.
type rig struct {
	store *sqlite.Store
	clock *storetest.Clock
	db    *sql.DB
}

func newRig(t testing.TB) *rig {
	r := &rig{clock: storetest.NewClock()}
	path := filepath.Join(t.TempDir(), "limits.db")
	var err error
	r.store, err = sqlite.OpenWith(path, sqlstore.Options{Clock: r.clock.Now})
	require.NoError(t, err)
	r.db, err = sql.Open("sqlite", path)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, r.db.Close())
		require.NoError(t, r.store.Close())
	})
	return r
}

func (r *rig) put(t testing.TB, row runtime.Row, s runtime.State) {
	_, err := r.db.Exec("INSERT OR REPLACE INTO rate_limits (name, key, shard, value, ts, prev) VALUES (?, ?, ?, ?, ?, ?)",
		row.Name, row.Key, row.Shard, s.Value, s.TS, s.Prev)
	require.NoError(t, err)
}

func (r *rig) stored(t testing.TB, row runtime.Row) runtime.State {
	s := runtime.State{Seen: true}
	err := r.db.QueryRow("SELECT value, ts, prev FROM rate_limits WHERE name = ? AND key = ? AND shard = ?",
		row.Name, row.Key, row.Shard).Scan(&s.Value, &s.TS, &s.Prev)
	if err == sql.ErrNoRows {
		return runtime.State{}
	}
	require.NoError(t, err)
	return s
}

// agree asks the store and the pure step the same, and wants the same decision and the same bits stored.
func (r *rig) agree(t testing.TB, p *runtime.Policy, before runtime.State, now int64, q runtime.Ask) {
	row := runtime.Row{Name: p.Name}
	if before.Seen {
		r.put(t, row, before)
	} else {
		_, err := r.db.Exec("DELETE FROM rate_limits")
		require.NoError(t, err)
	}
	r.clock.Set(time.Unix(0, now))
	rule := p.Rule("")
	after, want, wantErr := rule.Step(before, now, q)
	want.Limit = p.Name
	answers, err := r.store.Do(t.Context(), []runtime.Call{{Requests: []runtime.Request{{Policy: p, Ask: q}}}})
	require.NoError(t, err)
	if wantErr != nil {
		require.ErrorContains(t, answers[0].Err, wantErr.Error())
	} else {
		require.NoError(t, answers[0].Err)
		require.Equal(t, want, answers[0].Decisions[0], "%+v of %+v in %+v at %d", q, p, before, now)
	}
	require.Equal(t, after, r.stored(t, row), "stored after %+v of %+v in %+v at %d", q, p, before, now)
}

// FuzzTake compares the store, which takes by one statement where it can, with the pure step.
func FuzzTake(f *testing.F) {
	r := newRig(f)
	f.Add(uint8(0), int64(10), int64(60e9), int64(20), int64(0), 3.7, int64(-1e9), int64(1), false)
	f.Add(uint8(1), int64(7), int64(3600e9), int64(7), int64(3), -1.5, int64(5e9), int64(2), true)
	f.Add(uint8(2), int64(7), int64(3600e9), int64(7), int64(0), 1.0, int64(5e12), int64(2), false)
	f.Fuzz(func(t *testing.T, kind uint8, rate, period, capacity, maxReserved int64, value float64, age, count int64, reserve bool) {
		p := &runtime.Policy{
			Name: "fuzz", Kind: runtime.TokenBucket + runtime.Kind(kind%3), Rate: rate,
			Period: time.Duration(period), Capacity: capacity, MaxReserved: maxReserved,
		}
		if p.Validate() != nil || math.IsNaN(value) || math.Abs(value) > 4*runtime.MaxTokens {
			t.Skip()
		}
		now := storetest.NewClock().Now().UnixNano()
		before := runtime.State{Value: value, TS: now - age%1e17, Seen: age != 0}
		if !before.Seen {
			before = runtime.State{}
		}
		r.agree(t, p, before, now, runtime.Ask{Count: count, Reserve: reserve})
	})
}

// TestTakeAgrees is FuzzTake over values that people use, and the edges of what fits.
func TestTakeAgrees(t *testing.T) {
	r := newRig(t)
	rates := []int64{1, 3, 7, 10, 97, 1000, 40_000, 1_000_000_007}
	periods := []time.Duration{time.Millisecond, time.Second, time.Minute, time.Hour, 24 * time.Hour, 7 * time.Second}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		rate := rates[rng.IntN(len(rates))]
		p := &runtime.Policy{
			Name: "agree", Kind: runtime.TokenBucket + runtime.Kind(rng.IntN(2)), Rate: rate,
			Period: periods[rng.IntN(len(periods))], Capacity: 1 + rng.Int64N(3*rate), MaxReserved: rng.Int64N(rate + 1),
		}
		now := storetest.NewClock().Now().UnixNano() + rng.Int64N(1e15)
		count := 1 + rng.Int64N(p.Capacity)
		before := runtime.State{
			Value: float64(p.Capacity) * (rng.Float64()*3 - 1),
			TS:    now - rng.Int64N(2*int64(p.Period)) + int64(p.Period)/4,
			Seen:  rng.IntN(5) > 0,
		}
		switch {
		case !before.Seen:
			before = runtime.State{}
		case rng.IntN(3) == 0:
			// Exactly, or all but exactly, what is asked for.
			before.Value, before.TS = float64(count)+float64(rng.IntN(5)-2)*5e-7, now
		}
		r.agree(t, p, before, now, runtime.Ask{Count: count, Reserve: rng.IntN(2) == 0})
	}
}
