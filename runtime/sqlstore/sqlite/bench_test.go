package sqlite_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

// keys is how many keys the benchmarks spread their calls over.
const keys = 1000

// BenchmarkAllow compares a decision with its floor: the bare prepared upsert of a row of the same table,
// through database/sql and with the same pragmas, in the same run. The ratio is floor
// over decision: 1 would be free.
func BenchmarkAllow(b *testing.B) {
	floor := bareUpsert(b)
	for _, kind := range []runtime.Kind{runtime.TokenBucket, runtime.FixedWindow, runtime.SlidingWindow} {
		b.Run(kind.String(), func(b *testing.B) {
			s, err := sqlite.Open(filepath.Join(b.TempDir(), "limits.db"))
			require.NoError(b, err)
			defer s.Close()
			p := &runtime.Policy{Name: "bench", Kind: kind, Rate: 1e9, Period: time.Second, Capacity: 1e9}
			limiter := runtime.NewLimiter(s)
			compare(b, floor, func(i int) {
				d, err := limiter.Limit(p, runtime.KeyOf(runtime.Int(i%keys))).Allow(context.Background())
				if err != nil || !d.Allowed {
					b.Fatal(d, err)
				}
			})
		})
	}
}

// bareUpsert returns a function that writes a row and decides nothing.
func bareUpsert(b *testing.B) func(i int) {
	path := filepath.Join(b.TempDir(), "floor.db")
	s, err := sqlite.Open(path)
	require.NoError(b, err)
	require.NoError(b, s.Close())
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=wal_autocheckpoint(2048)&_pragma=journal_size_limit(16777216)&_txlock=immediate")
	require.NoError(b, err)
	db.SetMaxOpenConns(1)
	b.Cleanup(func() { db.Close() })
	upsert, err := db.Prepare(`INSERT INTO rate_limits (name, key, shard, value, ts, prev) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (name, key, shard) DO UPDATE SET value = excluded.value, ts = excluded.ts, prev = excluded.prev`)
	require.NoError(b, err)
	return func(i int) {
		if _, err := upsert.ExecContext(context.Background(), "bench", strconv.Itoa(i%keys), 0, 1.0, time.Now().UnixNano(), 0.0); err != nil {
			b.Fatal(err)
		}
	}
}

// compare runs two functions by turns, so that whatever else the machine does hits both, and reports what
// each has cost in all: with the checkpoints of its database, which not every turn has.
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
