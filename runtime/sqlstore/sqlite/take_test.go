package sqlite_test

import (
	"database/sql"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
)

// FuzzTake compares the store, which takes by one statement where it can, with the pure step.
func FuzzTake(f *testing.F) {
	s := newRig(f).subject()
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
		now := s.Clock.Now().UnixNano()
		before := runtime.State{Value: value, TS: now - age%1e17, Exists: age != 0}
		if !before.Exists {
			before = runtime.State{}
		}
		s.One(t, p, before, runtime.Request{Count: count, Reserve: reserve})
	})
}

// TestTakeAgrees is FuzzTake in batches, over values that people use, and the edges of what fits.
func TestTakeAgrees(t *testing.T) { agree.Test(t, newRig(t).subject(), 200) }

// TestTakeBesideTrigger has the table have a trigger of its owner: SQLite then collects the rows of a statement
// before it writes the first.
func TestTakeBesideTrigger(t *testing.T) {
	r := newRig(t)
	_, err := r.db.Exec(`CREATE TABLE log (key, value);
		CREATE TRIGGER logged AFTER UPDATE ON rate_limits BEGIN INSERT INTO log VALUES (new.key, new.value); END`)
	require.NoError(t, err)
	agree.Test(t, r.subject(), 50)
	var logged int
	require.NoError(t, r.db.QueryRow("SELECT count(*) FROM log").Scan(&logged))
	assert.NotZero(t, logged)
}

// TestFunctionsAlone calls the functions of SQL without a store that takes.
func TestFunctionsAlone(t *testing.T) {
	db, err := sql.Open("sqlite", ":memory:")
	require.NoError(t, err)
	defer db.Close()
	for _, call := range []string{
		"ratelimitgen_fresh(0, 0)", "ratelimitgen_ts(-1, 0)", "ratelimitgen_take('1', 'k', 1.0, 1)", "ratelimitgen_value(x'00')",
	} {
		_, err := db.Exec("SELECT " + call)
		assert.ErrorContains(t, err, "no statement of a rate limit has the number", call)
	}
}
