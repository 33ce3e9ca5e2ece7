package sqlstore

import (
	"database/sql"
	"math"
	"strconv"
)

// Postgres is the dialect of PostgreSQL 9.5 and later, and of databases that speak as it does.
//
// A session that rounds the doubles that it sends as text is refused. Before version 12 that was the default: there
// the data source name sets extra_float_digits=3 (2 is enough for doubles).
//
// The database's encoding must be UTF8, or SQL_ASCII, which keeps the bytes that it is given, and that of the client
// too: others convert names and keys, so that two drivers may store one key in two rows, or refuse some of them.
//
// The store prepares no statements. Behind a pooler that sends each transaction to another session, as PgBouncer does
// with pool_mode = transaction, pgx must not prepare them under names either, unless the pooler keeps track of them
// (PgBouncer 1.21 or later, with max_prepared_statements): set default_query_exec_mode to exec, simple_protocol or
// cache_describe. [Store.Ready] finds this out. With lib/pq, everything that has arguments runs in transactions, where
// a pooler cannot mistake another client's statement for the store's. If a data source name, or a driver, sets
// extra_float_digits, PgBouncer needs ignore_startup_parameters = extra_float_digits. Without transactions (pool_mode = statement) there is no store.
var Postgres = Dialect{
	Name:     "postgres",
	Numbered: true,
	Quote:    `"`,
	// More would send smaller statements, and each costs the server as much as a dozen rows.
	Lanes:     2,
	Isolation: sql.LevelReadCommitted,
	Create: `
CREATE TABLE IF NOT EXISTS {table} (
	name  TEXT COLLATE "C" NOT NULL,
	{key} TEXT COLLATE "C" NOT NULL,
	shard INTEGER          NOT NULL,
	value DOUBLE PRECISION NOT NULL,
	ts    BIGINT           NOT NULL,
	prev  DOUBLE PRECISION NOT NULL,
	PRIMARY KEY (name, {key}, shard)
) WITH (fillfactor = 50)
`,
	Describe: `
SELECT CAST(a.attname AS TEXT), format_type(a.atttypid, a.atttypmod)
	|| CASE WHEN c.collname NOT IN ('C', 'POSIX', 'default') THEN ' collate ' || c.collname ELSE '' END
FROM pg_attribute a LEFT JOIN pg_collation c ON c.oid = a.attcollation
WHERE a.attrelid = to_regclass('{table}') AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL
SELECT 'primary key', string_agg(a.attname, ', '
	ORDER BY array_position(string_to_array(CAST(i.indkey AS TEXT), ' '), CAST(a.attnum AS TEXT)))
FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
WHERE i.indrelid = to_regclass('{table}') AND i.indisprimary
GROUP BY i.indexrelid
`,
	Parts: `
name: text | character varying | character varying(255)
key: text | character varying | character varying(255)
shard: integer | bigint
value: double precision
ts: bigint
prev: double precision
primary key: name, key, shard
`,
	Session: `
SELECT 'extra_float_digits', current_setting('extra_float_digits')
	|| CASE WHEN CAST(current_setting('server_version_num') AS integer) < 120000 THEN ' before Postgres 12' ELSE '' END
UNION ALL SELECT 'server_encoding', current_setting('server_encoding')
UNION ALL SELECT 'client_encoding', current_setting('client_encoding')
`,
	Needs: `
server_encoding: UTF8 | SQL_ASCII
extra_float_digits: 3 | 2 | 1 | 3 before Postgres 12 | 2 before Postgres 12
client_encoding: UTF8 | SQL_ASCII
`,
	Named: `
SELECT EXISTS (SELECT FROM pg_prepared_statements WHERE statement LIKE CAST(:name AS text)) AS ratelimitgen_named
`,
	One: `
SELECT CAST(:name AS text) AS name, CAST(:key AS text) AS {key}, CAST(:shard AS integer) AS shard,
	CAST(:value AS double precision) AS value, CAST(:ts AS bigint) AS ts, CAST(:prev AS double precision) AS prev
`,
	// Of lists that differ in length, unnest fills the shorter ones with NULL.
	Many: `
SELECT COALESCE(n, CAST(:name AS text)) AS name, COALESCE(k, CAST(:key AS text)) AS {key},
	COALESCE(s, CAST(:shard AS integer)) AS shard, COALESCE(v, CAST(:value AS double precision)) AS value,
	COALESCE(t, CAST(:ts AS bigint)) AS ts, COALESCE(p, CAST(:prev AS double precision)) AS prev
FROM unnest(CAST(:names AS text[]), CAST(:keys AS text[]), CAST(:shards AS integer[]), CAST(:values AS double precision[]),
	CAST(:instants AS bigint[]), CAST(:prevs AS double precision[])) AS u(n, k, s, v, t, p)
`,
	Read: `
SELECT r.name, r.{key}, r.shard, r.value, r.ts, r.prev
FROM {rows} k JOIN {table} r ON r.name = k.name AND r.{key} = k.{key} AND r.shard = k.shard
ORDER BY r.name, r.{key}, r.shard FOR NO KEY UPDATE OF r
`,
	Look: `
SELECT r.name, r.{key}, r.shard, r.value, r.ts, r.prev
FROM {rows} k JOIN {table} r ON r.name = k.name AND r.{key} = k.{key} AND r.shard = k.shard
`,
	Seed: `
INSERT INTO {table} (name, {key}, shard, value, ts, prev)
SELECT name, {key}, shard, 0, -9223372036854775808, 0 FROM {rows} k
ON CONFLICT (name, {key}, shard) DO UPDATE SET shard = excluded.shard WHERE false
`,
	Write: `
INSERT INTO {table} (name, {key}, shard, value, ts, prev) SELECT * FROM {rows} k
WHERE ` + syncOnPostgres + `
ON CONFLICT (name, {key}, shard) DO UPDATE SET value = excluded.value, ts = excluded.ts, prev = excluded.prev
`,
	Delete: `
DELETE FROM {table} r USING {rows} k WHERE r.name = k.name AND r.{key} = k.{key} AND r.shard = k.shard
	AND ` + syncOnPostgres,
	Forget: `
DELETE FROM {table} r USING {rows} k WHERE r.name = k.name AND r.{key} = k.{key} AND r.shard = k.shard
	AND r.value = k.value AND r.ts = k.ts AND r.prev = k.prev
`,
	// A subquery is evaluated once and not for each row; for one row, it is only more to set up.
	Take: `
INSERT INTO {table} AS r (name, {key}, shard, value, ts, prev) SELECT * FROM {rows} k
WHERE (SELECT ` + syncOnPostgres + `)` + takeOnPostgres,
	TakeOne: `
INSERT INTO {table} AS r (name, {key}, shard, value, ts, prev) SELECT * FROM {rows} k
WHERE ` + syncOnPostgres + takeOnPostgres,
	Swap: `
UPDATE {table} SET value = :value, ts = :ts, prev = :prev
WHERE name = :name AND {key} = :key AND shard = :shard AND value = :oldvalue AND ts = :oldts AND prev = :oldprev
	AND ` + syncOnPostgres,
	Page: `
SELECT {key}, shard, value, ts, prev FROM {table}
WHERE name = :name AND {key} >= :key AND ({key} > :key OR shard > :shard) ORDER BY {key}, shard LIMIT :count
`,
	Now: `
SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)
`,
}

// syncOnPostgres is true, and says of this transaction whether it waits for the disk when it commits. What waits for a
// standby to apply a commit waits for more than full asks for, and goes on to. The casts are for drivers that write
// parameters into the text, where a number may come in quotes.
const syncOnPostgres = `(CAST(:durability AS integer) = 0
	OR set_config('synchronous_commit', CASE
		WHEN CAST(:durability AS integer) = 1 THEN 'off'
		WHEN current_setting('synchronous_commit') = 'remote_apply' THEN 'remote_apply'
		ELSE 'on' END, true) <> '')`

// takeOnPostgres is what Take does with a row that is there.
const takeOnPostgres = `
ON CONFLICT (name, {key}, shard) DO UPDATE SET
	value = ` + availOnPostgres + ` - (:capacity - excluded.value),
	ts    = GREATEST(r.ts, excluded.ts),
	prev  = 0
WHERE ` + availOnPostgres + ` - (:capacity - excluded.value - :debt) + :allowance >= 0
RETURNING {key}, value, ts, true
`

// availOnPostgres is the avail of [runtime.Upsert].
const availOnPostgres = `LEAST(:capacity, r.value + (
		CAST(` + elapsedOnPostgres + ` / CAST(:period AS bigint) AS double precision) * :rate
		+ CAST(` + elapsedOnPostgres + ` % CAST(:period AS bigint) AS double precision) * :rate
			/ CAST(CAST(:period AS bigint) AS double precision)))`

const elapsedOnPostgres = `GREATEST(0, excluded.ts - NULLIF(r.ts, -9223372036854775808))`

// listOf returns a function that writes something of each row as a list of Postgres, which is empty if it is the same
// for all. In quotes, such a list escapes the same characters as JSON.
func listOf[T comparable](of func(*stored) T, appendTo func([]byte, T) []byte) func([]stored) string {
	return func(rows []stored) string {
		if alike(rows, of) {
			return "{}"
		}
		b := make([]byte, 0, 32*len(rows))
		for i := range rows {
			b = append(b, ',')
			b = appendTo(b, of(&rows[i]))
		}
		b[0] = '{'
		return string(append(b, '}'))
	}
}

// alike reports whether something is the same for all rows.
func alike[T comparable](rows []stored, of func(*stored) T) bool {
	for i := range rows {
		if of(&rows[i]) != of(&rows[0]) {
			return false
		}
	}
	return true
}

func appendInt(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }

// appendFloat writes the number of these bits: two zeros can be equal, and differ in them.
func appendFloat(b []byte, bits uint64) []byte {
	return strconv.AppendFloat(b, math.Float64frombits(bits), 'g', -1, 64)
}
