package sqlstore

import "database/sql"

// Postgres is the dialect of PostgreSQL 9.5 and later, and of databases that speak as it does.
var Postgres = Dialect{
	Name:      "postgres",
	Quote:     `"`,
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
	Read: `
SELECT value, ts, prev FROM {table} WHERE name = $1 AND {key} = $2 AND shard = $3 FOR NO KEY UPDATE
`,
	Seed: `
INSERT INTO {table} (name, {key}, shard, value, ts, prev) VALUES ($1, $2, $3, 0, -9223372036854775808, 0)
ON CONFLICT (name, {key}, shard) DO NOTHING
`,
	Write: `
INSERT INTO {table} (name, {key}, shard, value, ts, prev) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (name, {key}, shard) DO UPDATE SET value = excluded.value, ts = excluded.ts, prev = excluded.prev
`,
	Delete: `
DELETE FROM {table} WHERE name = $1 AND {key} = $2 AND shard = $3
`,
	Page: `
SELECT {key}, shard, value, ts, prev FROM {table}
WHERE name = $1 AND {key} >= $2 AND ({key} > $3 OR shard > $4) ORDER BY {key}, shard LIMIT $5
`,
	Forget: `
DELETE FROM {table} WHERE name = $1 AND {key} = $2 AND shard = $3 AND value = $4 AND ts = $5 AND prev = $6
`,
	Now: `
SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)
`,
}
