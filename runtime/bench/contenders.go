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

// contender is one of those who are compared.
type contender struct {
	name string
	// server is what it needs, if it is not in the process.
	server server
	kind   kind
	// open returns it ready to be asked, with every key full.
	open opener
}

// opener opens a contender, which enforces a limit.
type opener func(ctx context.Context, s *site, l limit) (*opened, error)

// kind is what a contender is compared as.
type kind int

const (
	// ours is a store of this module.
	ours kind = iota
	// naive is what is written in an afternoon.
	naive
	// floor decides nothing: it is the least that a decision can cost.
	floor
	// peer is a limiter of others, with its counts in a server.
	peer
	// memory is a limiter that shares its counts with nobody.
	memory
	// mostlyMemory is a store of this module that asks its database only now and then.
	mostlyMemory
)

// The contenders that have an aim.
const (
	oursSQLite    = "SQLite"
	oursPostgres  = "Postgres"
	oursMariaDB   = "MariaDB"
	oursMySQL     = "MySQL"
	oursRelaxed   = "Postgres, relaxed"
	oursLeased    = "Postgres, leased"
	floorSQLite   = "SQLite: bare upsert"
	floorPostgres = "Postgres: bare upsert"
	floorMariaDB  = "MariaDB: bare upsert"
	floorMySQL    = "MySQL: bare upsert"
	naivePostgres = "Postgres: SELECT FOR UPDATE"
	redisRate     = "redis_rate"
	xTimeRate     = "x/time/rate"
)

// largeBlocks are so large that the database is asked as rarely as by a lease of 100 tokens for a limit of
// some thousand a second.
var largeBlocks = runtime.Lease{Tokens: 1_000_000, For: time.Minute}

// contenders are those who are compared.
var contenders = []contender{
	{oursSQLite, "", ours, oursOnSQLite(variant{})},
	{"SQLite, no group commit", "", ours, oursOnSQLite(variant{batch: 1})},
	{floorSQLite, "", floor, bareUpsertOnSQLite},

	{oursPostgres, postgres, ours, oursOn(postgres, variant{})},
	{"Postgres, no group commit", postgres, ours, oursOn(postgres, variant{batch: 1})},
	{oursRelaxed, postgres, ours, oursOn(postgres, variant{durability: runtime.DurabilityRelaxed})},
	{"Postgres, deny cache", postgres, ours, oursOn(postgres, variant{denyCache: time.Second})},
	{oursLeased, postgres, mostlyMemory, oursOn(postgres, variant{lease: largeBlocks})},
	{floorPostgres, postgres, floor, bareUpsert(postgres)},
	{naivePostgres, postgres, naive, selectForUpdate(postgres)},

	{oursMariaDB, mariadb, ours, oursOn(mariadb, variant{})},
	{"MariaDB, no group commit", mariadb, ours, oursOn(mariadb, variant{batch: 1})},
	{floorMariaDB, mariadb, floor, bareUpsert(mariadb)},
	{"MariaDB: SELECT FOR UPDATE", mariadb, naive, selectForUpdate(mariadb)},

	{oursMySQL, mysqlDB, ours, oursOn(mysqlDB, variant{})},
	{"MySQL, no group commit", mysqlDB, ours, oursOn(mysqlDB, variant{batch: 1})},
	{floorMySQL, mysqlDB, floor, bareUpsert(mysqlDB)},

	{redisRate, redisDB, peer, openRedisRate},
	{"throttled", redisDB, peer, openThrottled},
	{xTimeRate, "", memory, openXTimeRate},
	{"go-limiter", "", memory, openGoLimiter},
}

// limit is what every contender is told to enforce: rate tokens a period, capacity at once.
type limit struct {
	name           string
	rate, capacity int
	period         time.Duration
}

var (
	// plenty lets every call pass. A capacity that no run can use up does that; with a rate as large, the
	// tokens are back before the clock has moved, and redis_rate has nothing to write.
	plenty = limit{name: "plenty", rate: 1000, capacity: 1e9, period: time.Second}
	// exhausted lets no call pass, after the first.
	exhausted = limit{name: "exhausted", rate: 1, capacity: 1, period: 24 * time.Hour}
)

// askFunc takes a token of a key.
type askFunc func(ctx context.Context, key string) (allowed bool, err error)

// keyPrefix begins every key.
const keyPrefix = "bench-user-"

// keyOf returns the key with a number, from 0. Numbers and keys have the same order.
func keyOf(n int) string { return fmt.Sprintf("%s%08d", keyPrefix, n) }

// keysOf returns n keys, spread evenly over the first of keys.
func keysOf(n, of int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = keyOf(i * of / n)
	}
	return keys
}

// site is where contenders keep their counts.
type site struct {
	servers servers
	// dir is the folder of SQLite's files.
	dir string
	// rows is how many keys a table has from the beginning.
	rows int
	// conns, if not 0, is the number of connections that every contender has to a server, instead of the usual
	// one.
	conns int
}

// opened is a contender that can be asked.
type opened struct {
	ask askFunc
	// askAll takes a token of each of several keys at once, and pid returns the process that does a
	// database's work for it. Only our stores have them.
	askAll func(ctx context.Context, keys []string) error
	pid    func(ctx context.Context) (int, error)
	// close drops what the contender has kept, and ends its connections.
	close func()
}

var names atomic.Int64

// newTable returns the name of a table that nobody else has.
func newTable() string { return fmt.Sprintf("rl_bench_%d_%d", os.Getpid(), names.Add(1)) }

// newFile returns the path of an SQLite database that is not there yet.
func (s *site) newFile() string { return filepath.Join(s.dir, fmt.Sprintf("%d.db", names.Add(1))) }

// connections returns how many connections a contender has, where so many are usual.
func (s *site) connections(usual int) int {
	if s.conns > 0 {
		return s.conns
	}
	return usual
}

// patience is how long a server may take for what is not measured: to answer at all, or to drop a table.
const patience = 30 * time.Second

// patiently runs what is not measured.
func patiently(fn func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return fn(ctx)
}

// field is the contenders that are open, by name.
type field map[string]*opened

// enter opens those contenders of names that can be opened, and notes why the others cannot.
func (r *report) enter(ctx context.Context, s *site, l limit, names []string) field {
	open := field{}
	for _, c := range contenders {
		if !slices.Contains(names, c.name) || r.NotRun[c.name] != "" {
			continue
		}
		o, err := c.open(ctx, s, l)
		if err != nil {
			r.skip(c.name, err)
			continue
		}
		open[c.name] = o
	}
	return open
}

// warmUp is how long a contender may take to be asked for every key of a heat.
const warmUp = 2 * time.Second

// warm asks contenders once for every key, if they are quick enough: what comes first is not measured.
func (f field) warm(ctx context.Context, names, keys []string) {
	for _, name := range names {
		if o := f[name]; o != nil {
			ctx, cancel := context.WithTimeout(ctx, warmUp)
			if err := askEach(ctx, o.ask, len(keys), func(i int) string { return keys[i] }); err != nil {
				say("%s: %v", name, err)
			}
			cancel()
		}
	}
}

// close closes all of them.
func (f field) close() {
	for _, o := range f {
		o.close()
	}
}

// namesOf returns the contenders for which a condition holds, in their order.
func namesOf(is func(contender) bool) (names []string) {
	for _, c := range contenders {
		if is(c) {
			names = append(names, c.name)
		}
	}
	return names
}

// find returns the contender with a name, false if there is none.
func find(name string) (contender, bool) {
	i := slices.IndexFunc(contenders, func(c contender) bool { return c.name == name })
	if i < 0 {
		return contender{}, false
	}
	return contenders[i], true
}

// anyone is true of every contender.
func anyone(contender) bool { return true }
