package main

import (
	"context"
	"errors"
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
}

// opener opens a contender that enforces a limit.
type opener func(ctx context.Context, s *site, l limit) (*instance, error)

// The contenders that ratios compare.
const (
	oursSQLite    = "SQLite"
	oursPostgres  = "Postgres"
	oursMariaDB   = "MariaDB"
	oursMySQL     = "MySQL"
	oursLeased    = "Postgres, leased"
	floorSQLite   = "SQLite: bare upsert"
	floorPostgres = "Postgres: bare upsert"
	floorMariaDB  = "MariaDB: bare upsert"
	floorMySQL    = "MySQL: bare upsert"
	naivePostgres = "Postgres: SELECT FOR UPDATE"
	redisRate     = "redis_rate"
	redisRateSafe = "redis_rate, appendfsync always"
	xTimeRate     = "x/time/rate"
)

// roundTrip is that of a network in one data centre, which a proxy adds for contenders whose names have the suffix.
const (
	roundTrip = 500 * time.Microsecond
	farAway   = ", 0.5 ms away"
)

// far opens a contender behind a proxy that adds a round trip.
func far(of server, open opener) opener {
	return func(ctx context.Context, s *site, l limit) (*instance, error) {
		behind, p, err := s.behindProxy(of, roundTrip/2)
		if err != nil {
			return nil, err
		}
		o, err := open(ctx, behind, l)
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		closed := o.close
		o.close = func() {
			closed()
			closeAndLog(p)
		}
		return o, nil
	}
}

// largeBlocks makes the calls to the database as rare as with 100 tokens for a limit of some thousand per second. The
// contenders decide much faster than that.
var largeBlocks = runtime.Lease{Tokens: 1_000_000, For: time.Minute}

// contenders are in the order of the tables.
var contenders = []contender{
	{oursSQLite, "", oursOnSQLite},
	{floorSQLite, "", bareUpsert("")},

	{oursPostgres, postgres, oursOn(postgres, runtime.Policy{})},
	{"Postgres, relaxed", postgres, oursOn(postgres, runtime.Policy{Durability: runtime.DurabilityRelaxed})},
	{"Postgres, deny cache", postgres, oursOn(postgres, runtime.Policy{DenyCache: time.Second})},
	{oursLeased, postgres, oursOn(postgres, runtime.Policy{Lease: largeBlocks})},
	{floorPostgres, postgres, bareUpsert(postgres)},
	{oursPostgres + farAway, postgres, far(postgres, oursOn(postgres, runtime.Policy{}))},
	{floorPostgres + farAway, postgres, far(postgres, bareUpsert(postgres))},
	{naivePostgres, postgres, selectForUpdate},

	{oursMariaDB, mariadb, oursOn(mariadb, runtime.Policy{})},
	{floorMariaDB, mariadb, bareUpsert(mariadb)},
	{oursMariaDB + farAway, mariadb, far(mariadb, oursOn(mariadb, runtime.Policy{}))},
	{floorMariaDB + farAway, mariadb, far(mariadb, bareUpsert(mariadb))},

	{oursMySQL, mysqlDB, oursOn(mysqlDB, runtime.Policy{})},
	{floorMySQL, mysqlDB, bareUpsert(mysqlDB)},
	{oursMySQL + farAway, mysqlDB, far(mysqlDB, oursOn(mysqlDB, runtime.Policy{}))},
	{floorMySQL + farAway, mysqlDB, far(mysqlDB, bareUpsert(mysqlDB))},

	{redisRate, redisDB, redisRateOn(redisDB)},
	{redisRateSafe, redisDurable, redisRateOn(redisDurable)},
	{"throttled", redisDB, openThrottled},
	{xTimeRate, "", openXTimeRate},
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

// takeFunc takes a token of a key.
type takeFunc func(ctx context.Context, key string) (allowed bool, err error)

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
	// oneConn means that a contender has one connection to its server.
	oneConn bool
}

// instance is an open contender.
type instance struct {
	take takeFunc
	// sweep deletes rows that are full. Only the stores of this module have it.
	sweep func(ctx context.Context) (deleted int, err error)
	// close deletes the counts, and closes the connections.
	close func()
	// meter measures the processor time of the contender in a race. It is nil if that cannot be measured.
	meter splitMeter
}

var names atomic.Int64

// newTable returns the name of a table that does not exist.
func newTable() string { return fmt.Sprintf("rl_bench_%d_%d", os.Getpid(), names.Add(1)) }

// newFile returns the path of an SQLite database that does not exist.
func (s *site) newFile() string { return filepath.Join(s.dir, fmt.Sprintf("%d.db", names.Add(1))) }

// connections returns how many connections a contender has.
func (s *site) connections(usual int) int {
	if s.oneConn {
		return 1
	}
	return usual
}

// setupTimeout bounds server calls that are not measured, such as the creation of a table.
const setupTimeout = 30 * time.Second

func withSetupTimeout(fn func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	return fn(ctx)
}

// field is the open contenders, by name.
type field map[string]*instance

// openAll opens the named contenders, and records why some cannot be opened.
func (r *report) openAll(ctx context.Context, s *site, names []string) field {
	open := field{}
	for _, c := range contenders {
		// A contender that has failed once is not tried again, because each attempt may take until setupTimeout.
		if !slices.Contains(names, c.name) || r.NotRun[c.name] != "" {
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
				logf("%s: %v", name, err)
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

func allNames() (names []string) {
	for _, c := range contenders {
		names = append(names, c.name)
	}
	return names
}

func find(name string) (c contender, ok bool) {
	i := slices.IndexFunc(contenders, func(c contender) bool { return c.name == name })
	if i < 0 {
		return c, false
	}
	return contenders[i], true
}
