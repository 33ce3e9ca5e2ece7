package main

import (
	"context"
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
