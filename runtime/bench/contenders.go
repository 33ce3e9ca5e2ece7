package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// contender is one of the limiters that are compared.
type contender struct {
	name string
	// server is empty for a contender without a server.
	server server
	// open returns an instance in which every key is full.
	open opener
	// most is how many callers it can have, if not 0: it stalls with more.
	most int
	// window means that it counts calls in a fixed window, which costs less than a token bucket, and lets twice as many pass.
	window bool
}

// opener opens a contender that enforces a limit.
type opener func(ctx context.Context, s *site, l limit) (*instance, error)

// The contenders that the tables compare.
const (
	oursSQLite   = "SQLite"
	oursPostgres = "Postgres"
	oursRelaxed  = "Postgres, relaxed"
	oursMariaDB  = "MariaDB"
	oursMySQL    = "MySQL"
	oursLeased   = "Postgres, leased"
	byUpsert     = "Postgres: INSERT ON CONFLICT"
	rueidisSafe  = "rueidis: GCRA, appendfsync always"
)

// floorOf returns the name of the floor of a database.
func floorOf(database string) string { return database + ": floor" }

// largeBlocks makes the calls to the database as rare as with 100 tokens for a limit of some thousand per second. The
// contenders decide much faster than that.
var largeBlocks = runtime.Lease{Tokens: 1_000_000, For: time.Minute}

// contenders are in the order of the table.
var contenders = []contender{
	{name: oursSQLite, open: ours("", runtime.Policy{})},
	{name: floorOf(oursSQLite), open: floorOn("")},

	{name: oursPostgres, server: postgres, open: ours(postgres, runtime.Policy{})},
	{name: oursRelaxed, server: postgres, open: ours(postgres, runtime.Policy{Durability: runtime.DurabilityRelaxed})},
	{name: floorOf(oursPostgres), server: postgres, open: floorOn(postgres)},
	{name: byUpsert, server: postgres, open: insertOnConflict},
	{name: "Postgres: SELECT FOR UPDATE", server: postgres, open: selectForUpdate, most: 64},

	{name: oursMariaDB, server: mariadb, open: ours(mariadb, runtime.Policy{})},
	{name: floorOf(oursMariaDB), server: mariadb, open: floorOn(mariadb)},

	{name: oursMySQL, server: mysqlDB, open: ours(mysqlDB, runtime.Policy{})},
	{name: floorOf(oursMySQL), server: mysqlDB, open: floorOn(mysqlDB)},

	{name: "rueidis: GCRA", server: redisDB, open: onRedis(redisDB, "gcra:", byRueidis(gcra))},
	{name: "rueidis: window", server: redisDB, open: onRedis(redisDB, "window:", byRueidis(window)), window: true},
	{name: "redis_rate", server: redisDB, open: onRedis(redisDB, "rate:", redisRate)},
	{name: "redis_rate, AutoPipeline", server: redisDB, open: onRedis(redisDB, "rate:", redisRatePipelined)},
	{name: "ulule/limiter", server: redisDB, open: onRedis(redisDB, "ulule:", ululeLimiter), window: true},
	{name: "throttled", server: redisDB, open: onRedis(redisDB, "throttled:", throttledLimiter)},
	{name: rueidisSafe, server: redisDurable, open: onRedis(redisDurable, "gcra:", byRueidis(gcra))},

	{name: oursLeased, server: postgres, open: ours(postgres, runtime.Policy{Lease: largeBlocks})},
	{name: "memstore", open: oursInMemory},
	{name: "memstore behind limithttp", open: behindHTTP},
	{name: "x/time/rate", open: openXTimeRate},
	{name: "hand-over", open: openHandOver},
	{name: "an empty call", open: emptyCall},
}

// limit is enforced by every contender: rate tokens per period, capacity at once.
type limit struct {
	name           string
	rate, capacity int
	period         time.Duration
}

// plenty allows every call, because no run uses up its capacity. The rate is small: with a large one, the tokens would
// accrue before the clock has moved, and redis_rate would write nothing.
var plenty = limit{name: "plenty", rate: 1000, capacity: 1e9, period: time.Second}

// whole is the time in which an empty bucket fills: the period of a window that grants as much.
func (l limit) whole() time.Duration {
	return l.period / time.Duration(l.rate) * time.Duration(l.capacity)
}

// takeFunc makes a call for a key. right means that it was decided as it must be: contenders of the race allow every call.
type takeFunc func(ctx context.Context, key string) (right bool, err error)

// keyPrefix is the prefix of every key.
const keyPrefix = "bench-user-"

// keyOf returns the nth key, from 0. Keys are in the order of their numbers.
func keyOf(n int) string { return fmt.Sprintf("%s%08d", keyPrefix, n) }

// keysOf returns n keys, spread evenly over the keys from 0 to of.
func keysOf(n, of int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = keyOf(i * of / n)
	}
	return keys
}

// site has the servers and the files that contenders use.
type site struct {
	servers servers
	// dir is the directory of SQLite's files.
	dir string
	// rows is how many keys a new table has.
	rows int
	// age is how long ago the keys of a new table were used.
	age time.Duration
}

// instance is an open contender.
type instance struct {
	take takeFunc
	// stride means that one call in stride is timed, because reading the clock costs as much as a call; 0 means all.
	stride int
	// sweep deletes rows that are full. Only the stores of this module have it.
	sweep func(ctx context.Context) (deleted int, err error)
	// close deletes the counts, and closes the connections.
	close func()
	// meter measures the processor time of the contender in a race. It is nil if that cannot be measured.
	meter splitMeter
}

// inMemory returns an instance that costs little more than reading the clock.
func inMemory(take takeFunc) *instance { return &instance{take: take, stride: 64, close: func() {}} }

var names atomic.Int64

// newTable returns the name of a table that does not exist.
func newTable() string { return fmt.Sprintf("rl_bench_%d_%d", os.Getpid(), names.Add(1)) }

// newFile returns the path of an SQLite database that does not exist.
func (s *site) newFile() string { return filepath.Join(s.dir, fmt.Sprintf("%d.db", names.Add(1))) }

// setupTimeout bounds server calls that are not measured, such as the creation of a table.
const setupTimeout = 30 * time.Second

func withSetupTimeout(fn func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	return fn(ctx)
}

// split is processor time: of this process, and of the processes of a server.
type split struct{ own, server time.Duration }

func (s split) minus(o split) split { return split{s.own - o.own, s.server - o.server} }

// splitMeter returns the processor time so far.
type splitMeter func() split

// field is the open contenders, by name.
type field map[string]*instance

// openAll opens the named contenders, and records why some cannot be opened.
func (r *report) openAll(ctx context.Context, s *site, names []string) field {
	open := field{}
	for _, c := range contenders {
		// A contender that has failed once is not tried again, because each attempt may take until setupTimeout.
		if !slices.Contains(names, c.name) || r.NotRun[c.name] != "" || ctx.Err() != nil {
			continue
		}
		o, err := c.open(ctx, s, plenty)
		if err != nil {
			r.skip(c.name, err)
			continue
		}
		o.meter = s.meterOf(c.server)
		open[c.name] = o
	}
	return open
}

// warmUp is how long a contender may take to use every key of a heat once.
const warmUp = 2 * time.Second

// warm uses every key once, because the first call for a key costs more. A slow contender uses as many as it can.
func (f field) warm(ctx context.Context, names, keys []string) {
	for _, name := range names {
		if o := f[name]; o != nil {
			ctx, cancel := context.WithTimeout(ctx, warmUp)
			// An error is not fatal here: if it comes again, the heat reports it.
			if err := takeEach(ctx, o.take, keys); err != nil {
				logf("%s: not every key was used before the heat: %v", name, err)
			}
			cancel()
		}
	}
}

func (f field) close() {
	for _, o := range f {
		o.close()
	}
}

// find returns the contender with a name.
func find(name string) (c contender, ok bool) {
	i := slices.IndexFunc(contenders, func(c contender) bool { return c.name == name })
	if i < 0 {
		return c, false
	}
	return contenders[i], true
}
