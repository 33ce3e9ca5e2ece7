package sqlite_test

import (
	"context"
	"database/sql"
	"math"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/runtimetest"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

// FuzzTake compares the store with the pure step.
func FuzzTake(f *testing.F) {
	s := newRig(f).subject()
	f.Add(uint8(0), int64(10), int64(60e9), int64(20), int64(0), 3.7, int64(-1e9), int64(1), false)
	f.Add(uint8(1), int64(7), int64(3600e9), int64(7), int64(3), -1.5, int64(5e9), int64(2), true)
	f.Add(uint8(2), int64(7), int64(3600e9), int64(7), int64(0), 1.0, int64(5e12), int64(2), false)
	f.Fuzz(func(t *testing.T, kind uint8, rate, period, capacity, maxReserved int64, value float64, age, count int64, reserve bool) {
		p := &runtime.Policy{
			Name: "fuzz", Kind: runtimetest.TokenKinds()[int(kind)%len(runtimetest.TokenKinds())], Rate: rate,
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

// TestTakeAgrees is FuzzTake in batches, with common values and those at the edges of the range.
func TestTakeAgrees(t *testing.T) { agree.Test(t, newRig(t).subject(), 200) }

// With a trigger of its owner on the table, SQLite collects the rows of a statement before it writes the first.
func TestTakeFromATableWithATrigger(t *testing.T) {
	r := newRig(t)
	must(r.db.Exec(`CREATE TABLE log (key, value);
		CREATE TRIGGER logged AFTER UPDATE ON rate_limits BEGIN INSERT INTO log VALUES (new.key, new.value); END`))(t)
	agree.Test(t, r.subject(), 50)
	var logged int
	require.NoError(t, r.db.QueryRow("SELECT count(*) FROM log").Scan(&logged))
	assert.NotZero(t, logged)
}

// A lone caller takes by a statement that finds no row if the shard whose turn it is was deleted, as by a sweep once it is
// full.
func TestMissingShards(t *testing.T) {
	r := newRig(t)
	limit := limiter.New(r.store).Limit(once("sharded", runtime.TokenBucket, 40, 4), runtime.Key{})
	admitted := 0
	for range 60 {
		_, err := r.db.Exec("DELETE FROM rate_limits WHERE value = 0")
		require.NoError(t, err)
		d, err := limit.Allow(t.Context())
		require.NoError(t, err)
		if d.Allowed {
			admitted++
		}
	}
	assert.Equal(t, 40, admitted)
}

// Shards next to each other are read by one statement, and others by one each.
func TestBatchOfSomeShards(t *testing.T) {
	r := newRig(t)
	p := once("sharded", runtime.TokenBucket, 50, 5)
	request := func(key string, q runtime.Request) runtime.Request {
		q.Policy, q.Key = p, key
		return q
	}
	for _, key := range []string{"a", "b"} {
		runtimetest.Do(t, r.store, runtimetest.Call(request(key, runtimetest.Take(25))))
	}
	for i := range 20 {
		back := request("a", runtimetest.Refund(1))
		back.Shard = 1 + i%5
		answers := runtimetest.Do(t, r.store, runtimetest.Call(back), runtimetest.Call(request("a", runtimetest.Take(1))),
			runtimetest.Call(request("b", runtimetest.Take(1))), runtimetest.Call(request("c", runtimetest.Peek())))
		for _, a := range answers {
			require.True(t, a.Allowed())
		}
		peeks := runtimetest.Do(t, r.store, runtimetest.Call(request("a", runtimetest.Peek())), runtimetest.Call(request("b", runtimetest.Peek())))
		require.Equal(t, 25.0, peeks[0].Decisions[0].Value)
		require.Equal(t, 24.0-float64(i), peeks[1].Decisions[0].Value)
	}
}

func TestFunctionsOfSQLFailWithoutAStatement(t *testing.T) {
	db := database(t, ":memory:")
	for _, call := range []string{
		"ratelimitgen_read(0, 0, 1, 1.0, 1, 0.0, NULL)", "ratelimitgen_read('1', 0, 1, 1.0, 1, 0.0, NULL)",
		"ratelimitgen_read(x'00', 0, 1, 1.0, 1, 0.0, NULL)", "ratelimitgen_sweep(0, '', 0, 1, 1.0, 1, 0.0, NULL)", "ratelimitgen_read(-1, 0, 1, 1.0, 1, 0.0, NULL)",
		"ratelimitgen_value(0, 0)", "ratelimitgen_at(0, 0)", "ratelimitgen_prev(0, 0)", "ratelimitgen_log(0, 0)",
	} {
		_, err := db.Exec("SELECT " + call)
		assert.ErrorContains(t, err, "no statement of a rate limit has the number", call)
	}
}

// keys is how many keys the benchmarks use.
const keys = 1000

// BenchmarkAllow compares a decision with its floor: the bare prepared upsert of a row of the same table,
// through database/sql and with the same pragmas, in the same run. The ratio is floor
// over decision: 1 would be free.
func BenchmarkAllow(b *testing.B) {
	floor := bareUpsert(b)
	for _, kind := range runtimetest.TokenKinds() {
		b.Run(kind.String(), func(b *testing.B) {
			s, err := sqlite.Open(filepath.Join(b.TempDir(), "limits.db"))
			require.NoError(b, err)
			defer s.Close()
			p := &runtime.Policy{Name: "bench", Kind: kind, Rate: 1e9, Period: time.Second, Capacity: 1e9}
			limits := limiter.New(s)
			compare(b, floor, func(i int) {
				d, err := limits.Limit(p, runtime.KeyOf(runtime.Int(i%keys))).Allow(context.Background())
				if err != nil || !d.Allowed {
					b.Fatal(d, err)
				}
			})
		})
	}
}

// bareUpsert returns a function that writes a row without a decision.
func bareUpsert(b *testing.B) func(i int) {
	path := filepath.Join(b.TempDir(), "floor.db")
	s, err := sqlite.Open(path)
	require.NoError(b, err)
	require.NoError(b, s.Close())
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=wal_autocheckpoint(2048)&_pragma=journal_size_limit(16777216)&_txlock=immediate")
	require.NoError(b, err)
	db.SetMaxOpenConns(1)
	b.Cleanup(func() { db.Close() })
	upsert, err := db.Prepare(`INSERT INTO rate_limits (name, key, shard, value, at_ns, prev) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (name, key, shard) DO UPDATE SET value = excluded.value, at_ns = excluded.at_ns, prev = excluded.prev`)
	require.NoError(b, err)
	return func(i int) {
		if _, err := upsert.ExecContext(context.Background(), "bench", strconv.Itoa(i%keys), 0, 1.0, time.Now().UnixNano(), 0.0); err != nil {
			b.Fatal(err)
		}
	}
}

// compare runs two functions in turns, so that other work of the machine affects both, and reports the total cost of
// each, which includes the checkpoints of its database.
func compare(b *testing.B, floor, ours func(i int)) {
	const turn = 100
	var floorTime, ourTime time.Duration
	timed := func(f func(i int), from int) time.Duration {
		start := time.Now()
		for i := range turn {
			f(from + i)
		}
		return time.Since(start)
	}
	turns := 0
	for ; b.Loop(); turns++ {
		floorTime += timed(floor, turns*turn)
		ourTime += timed(ours, turns*turn)
	}
	calls := float64(turns * turn)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(floorTime)/calls, "ns/floor")
	b.ReportMetric(float64(ourTime)/calls, "ns/decision")
	b.ReportMetric(float64(floorTime)/float64(ourTime), "of-floor-speed")
}
