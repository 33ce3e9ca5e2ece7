package sqlstore

import (
	"database/sql"
	"fmt"
)

// MySQL is the dialect of MySQL 8.0 and later, and of databases that speak as it does. MySQL cannot select what an
// INSERT has written, but it can tell a number of 64 bits, which is enough for the value of one row; see [MariaDB].
var MySQL = Dialect{
	Name:  "mysql",
	Quote: "`",
	// As on Postgres, more would send smaller statements.
	Lanes:     2,
	Prepare:   true,
	Isolation: sql.LevelReadCommitted,
	Create: `
CREATE TABLE IF NOT EXISTS {table} (
	name  VARBINARY(255) NOT NULL,
	{key} VARBINARY(255) NOT NULL,
	shard INT            NOT NULL,
	value DOUBLE         NOT NULL,
	ts    BIGINT         NOT NULL,
	prev  DOUBLE         NOT NULL,
	PRIMARY KEY (name, {key}, shard)
) ENGINE = InnoDB
`,
	Describe: describeOnMySQL + untoldOnMySQL,
	Session: `
SELECT 'autocommit', CAST(@@autocommit AS BINARY)
UNION ALL SELECT 'completion_type', CAST(@@completion_type AS BINARY)
UNION ALL SELECT 'character_set_client', CAST(@@character_set_client AS BINARY)
UNION ALL SELECT 'character_set_connection', CAST(@@character_set_connection AS BINARY)
UNION ALL SELECT 'an empty text', CASE WHEN '' IS NULL THEN _binary'NULL' ELSE _binary'a text' END
`,
	Needs: `
autocommit: 1 | ON
completion_type: NO_CHAIN
character_set_client: utf8mb4
character_set_connection: utf8mb4
an empty text: a text
`,
	Parts: partsOnMySQL + `auto_increment: none
triggers: none
`,
	One: `
SELECT CAST(:name AS BINARY) AS name, CAST(:key AS BINARY) AS {key}, :shard AS shard, :value AS value, :ts AS ts, :prev AS prev
`,
	Many: `
SELECT n AS name, k AS {key}, s AS shard, v AS value, t AS ts, p AS prev
FROM JSON_TABLE(:rows, '$[*]' COLUMNS (
	n VARBINARY(255) PATH '$[0]', k VARBINARY(255) PATH '$[1]', s INT PATH '$[2]',
	v DOUBLE PATH '$[3]', t BIGINT PATH '$[4]', p DOUBLE PATH '$[5]'
)) j
`,
	ManyKeys: `
SELECT n AS name, k AS {key}, s AS shard
FROM JSON_TABLE(:ids, '$[*]' COLUMNS (n VARBINARY(255) PATH '$[0]', k VARBINARY(255) PATH '$[1]', s INT PATH '$[2]')) j
`,
	Read: `
SELECT r.name, r.{key}, r.shard, r.value, r.ts, r.prev
FROM {keys} k STRAIGHT_JOIN {table} r ON r.name = k.name AND r.{key} = k.{key} AND r.shard = k.shard
FOR UPDATE
`,
	Look: `
SELECT name, {key}, shard, value, ts, prev FROM {table} WHERE name = :name AND {key} = :key AND shard = :shard
`,
	Seed: `
INSERT INTO {table} (name, {key}, shard, value, ts, prev)
SELECT name, {key}, shard, 0, -9223372036854775808, 0 FROM {keys} k
ON DUPLICATE KEY UPDATE shard = VALUES(shard)
`,
	Write: `
INSERT INTO {table} (name, {key}, shard, value, ts, prev) SELECT * FROM {rows} k
ON DUPLICATE KEY UPDATE value = VALUES(value), ts = VALUES(ts), prev = VALUES(prev)
`,
	Delete: `
DELETE r FROM {keys} k STRAIGHT_JOIN {table} r ON r.name = k.name AND r.{key} = k.{key} AND r.shard = k.shard
`,
	Forget: `
DELETE r FROM {rows} k STRAIGHT_JOIN {table} r ON r.name = k.name AND r.{key} = k.{key} AND r.shard = k.shard
	AND r.value = k.value AND r.ts = k.ts AND r.prev = k.prev
`,
	TakeTold: mysqlTake,
	Swap: `
UPDATE {table} SET value = :value, ts = :ts, prev = :prev
WHERE name = :name AND {key} = :key AND shard = :shard AND value = :oldvalue AND ts = :oldts AND prev = :oldprev
`,
	Page: `
SELECT {key}, shard, value, ts, prev FROM {table}
WHERE name = :name AND {key} >= :key AND ({key} > :key OR shard > :shard) ORDER BY {key}, shard LIMIT :count
`,
	Now: `
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
`,
}

// describeOnMySQL is of use where an empty text is NULL, too, and where CONCAT takes NULL for an empty text.
const describeOnMySQL = `
SELECT column_name, CASE WHEN collation_name IS NULL THEN CAST(column_type AS BINARY)
	ELSE CONCAT(CAST(column_type AS BINARY), ' collate ', collation_name) END
FROM information_schema.columns
WHERE table_schema = COALESCE(NULLIF('{schema}', ''), DATABASE()) AND table_name = '{name}'
UNION ALL
SELECT 'primary key', GROUP_CONCAT(column_name ORDER BY seq_in_index SEPARATOR ', ')
FROM information_schema.statistics
WHERE table_schema = COALESCE(NULLIF('{schema}', ''), DATABASE()) AND table_name = '{name}' AND index_name = 'PRIMARY'
GROUP BY index_name
UNION ALL
SELECT 'engine', engine
FROM information_schema.tables
WHERE table_schema = COALESCE(NULLIF('{schema}', ''), DATABASE()) AND table_name = '{name}' AND engine IS NOT NULL
`

const partsOnMySQL = `
name: varbinary(255)
key: varbinary(255)
shard: int | int(11) | bigint | bigint(20)
value: double
ts: bigint | bigint(20)
prev: double
primary key: name, key, shard
engine: InnoDB
`

// untoldOnMySQL describes what keeps TakeTold from telling. Who lacks the privilege TRIGGER sees no triggers.
const untoldOnMySQL = `
UNION ALL
SELECT 'auto_increment', COALESCE(GROUP_CONCAT(CASE WHEN extra = 'auto_increment' THEN column_name END), 'none')
FROM information_schema.columns
WHERE table_schema = COALESCE(NULLIF('{schema}', ''), DATABASE()) AND table_name = '{name}'
GROUP BY table_name
UNION ALL
SELECT 'triggers', COALESCE(GROUP_CONCAT(g.trigger_name), 'none')
FROM information_schema.tables t LEFT JOIN information_schema.triggers g
	ON g.event_object_schema = t.table_schema AND g.event_object_table = t.table_name AND g.event_manipulation <> 'DELETE'
WHERE t.table_schema = COALESCE(NULLIF('{schema}', ''), DATABASE()) AND t.table_name = '{name}'
GROUP BY t.table_name
`

// mysqlTake assigns the columns from left to right, and each assignment sees those before it:
//
//  1. prev marks the row, by a number that no state has, if it has enough, while value and ts are still what they were,
//  2. value is what is left, if it is marked,
//  3. ts is the time of that, and
//  4. prev is unmarked, and the id of the last insert tells what was done; of an inserted row, shard has told it.
//
// A row whose prev is not 0 is left to others, and so is one of the time before 1970, whose distance from now may be
// more than a BIGINT holds. The binary form of a point has the bits of a DOUBLE, which nothing else in MySQL tells.
var mysqlTake = fmt.Sprintf(`
INSERT INTO {table} (name, {key}, shard, value, ts, prev)
VALUES (:name, :key, 0 * LAST_INSERT_ID(%[1]d), :value, :ts, 0)
ON DUPLICATE KEY UPDATE
	prev  = IF({table}.prev = 0 AND {table}.ts BETWEEN 0 AND VALUES(ts)
		AND %[2]s - (:capacity - VALUES(value) - :debt) + :allowance >= 0,
		-1e300, {table}.prev),
	value = IF({table}.prev = -1e300, %[2]s - (:capacity - VALUES(value)), {table}.value),
	ts    = IF({table}.prev = -1e300, VALUES(ts), {table}.ts),
	prev  = IF({table}.prev = -1e300,
		0 * LAST_INSERT_ID(~CAST(CONV(HEX(SUBSTR(ST_AsBinary(POINT({table}.value, 0)), 6, 8)), 16, 10) AS UNSIGNED)),
		IF(LAST_INSERT_ID(%[3]d), {table}.prev, 0))
`, ToldInserted, availOnMySQL, ToldRefused)

// availOnMySQL is the avail of [runtime.Upsert]. The zeros make doubles of integers: a driver may write the rate as one
// into the text, and a product of two can be more than a BIGINT holds.
const availOnMySQL = `LEAST(:capacity, {table}.value + (
			((VALUES(ts) - {table}.ts) DIV :period + 0e0) * :rate
			+ ((VALUES(ts) - {table}.ts) MOD :period + 0e0) * :rate / :period))`
