package sqlstore

import "database/sql"

// MySQL is the dialect of MySQL 5.7 and later, of MariaDB 10.2 and later, and of clusters of them.
var MySQL = Dialect{
	Name:      "mysql",
	Quote:     "`",
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
	Read: `
SELECT value, ts, prev FROM {table} WHERE name = ? AND {key} = ? AND shard = ? FOR UPDATE
`,
	Seed: `
INSERT INTO {table} (name, {key}, shard, value, ts, prev) VALUES (?, ?, ?, 0, -9223372036854775808, 0)
ON DUPLICATE KEY UPDATE shard = VALUES(shard)
`,
	Write: `
INSERT INTO {table} (name, {key}, shard, value, ts, prev) VALUES (?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE value = VALUES(value), ts = VALUES(ts), prev = VALUES(prev)
`,
	Delete: `
DELETE FROM {table} WHERE name = ? AND {key} = ? AND shard = ?
`,
	Page: `
SELECT {key}, shard, value, ts, prev FROM {table}
WHERE name = ? AND {key} >= ? AND ({key} > ? OR shard > ?) ORDER BY {key}, shard LIMIT ?
`,
	Forget: `
DELETE FROM {table} WHERE name = ? AND {key} = ? AND shard = ? AND value = ? AND ts = ? AND prev = ?
`,
	Now: `
SELECT CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)
`,
}
