package sqlstore

import "database/sql"

// MySQL is the dialect of MySQL 8.0 and later, and of databases that speak as it does. MySQL cannot tell what an
// INSERT has written, so that a row is read, and then swapped; see [MariaDB].
var MySQL = Dialect{
	Name:      "mysql",
	Quote:     "`",
	Lanes:     4,
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
	Describe: `
SELECT column_name, CONCAT(CAST(column_type AS BINARY), COALESCE(CONCAT(' collate ', collation_name), ''))
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
`,
	Session: `
SELECT 'autocommit', CAST(@@autocommit AS BINARY)
UNION ALL SELECT 'completion_type', CAST(@@completion_type AS BINARY)
UNION ALL SELECT 'character_set_client', CAST(@@character_set_client AS BINARY)
`,
	Needs: `
autocommit: 1 | ON
completion_type: NO_CHAIN
character_set_client: utf8mb4
`,
	Parts: `
name: varbinary(255)
key: varbinary(255)
shard: int | int(11) | bigint | bigint(20)
value: double
ts: bigint | bigint(20)
prev: double
primary key: name, key, shard
engine: InnoDB
`,
	One: `
SELECT CAST(:name AS BINARY) AS name, CAST(:key AS BINARY) AS {key}, :shard AS shard, :value AS value, :ts AS ts, :prev AS prev
`,
	Many: `
SELECT n AS name, k AS {key}, s AS shard, v AS value, t AS ts, p AS prev
FROM JSON_TABLE(:rows, '$[*]' COLUMNS (
	n VARBINARY(255) PATH '$.n', k VARBINARY(255) PATH '$.k', s INT PATH '$.s',
	v DOUBLE PATH '$.v', t BIGINT PATH '$.t', p DOUBLE PATH '$.p'
)) j
`,
	Read: `
SELECT r.name, r.{key}, r.shard, r.value, r.ts, r.prev
FROM {rows} k STRAIGHT_JOIN {table} r ON r.name = k.name AND r.{key} = k.{key} AND r.shard = k.shard
FOR UPDATE
`,
	Seed: `
INSERT INTO {table} (name, {key}, shard, value, ts, prev)
SELECT name, {key}, shard, 0, -9223372036854775808, 0 FROM {rows} k
ON DUPLICATE KEY UPDATE shard = VALUES(shard)
`,
	Write: `
INSERT INTO {table} (name, {key}, shard, value, ts, prev) SELECT * FROM {rows} k
ON DUPLICATE KEY UPDATE value = VALUES(value), ts = VALUES(ts), prev = VALUES(prev)
`,
	Delete: `
DELETE r FROM {rows} k STRAIGHT_JOIN {table} r ON r.name = k.name AND r.{key} = k.{key} AND r.shard = k.shard
`,
	Forget: `
DELETE r FROM {rows} k STRAIGHT_JOIN {table} r ON r.name = k.name AND r.{key} = k.{key} AND r.shard = k.shard
	AND r.value = k.value AND r.ts = k.ts AND r.prev = k.prev
`,
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
