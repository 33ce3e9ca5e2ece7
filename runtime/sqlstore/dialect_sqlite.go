package sqlstore

// SQLite is the dialect of SQLite 3.24 and later. Transactions must be immediate: with the driver
// modernc.org/sqlite that is _txlock=immediate, which package sqlite sets.
var SQLite = Dialect{
	Name:  "sqlite",
	Quote: `"`,
	Create: `
CREATE TABLE IF NOT EXISTS {table} (
	name  TEXT    NOT NULL,
	{key} TEXT    NOT NULL,
	shard INTEGER NOT NULL,
	value REAL    NOT NULL,
	ts    INTEGER NOT NULL,
	prev  REAL    NOT NULL,
	PRIMARY KEY (name, {key}, shard)
) WITHOUT ROWID
`,
	Describe: `
SELECT c.name, lower(c.type) || COALESCE((
	SELECT ' collate ' || x.coll
	FROM pragma_index_list('{name}', NULLIF('{schema}', '')) i, pragma_index_xinfo(i.name, NULLIF('{schema}', '')) x
	WHERE i.origin = 'pk' AND x.name = c.name AND x.coll <> 'BINARY'
), '')
FROM pragma_table_info('{name}', NULLIF('{schema}', '')) c
UNION ALL
SELECT 'primary key', group_concat(name, ', ')
FROM (SELECT name FROM pragma_table_info('{name}', NULLIF('{schema}', '')) WHERE pk > 0 ORDER BY pk)
GROUP BY 1
`,
	Parts: `
name: text
key: text
shard: integer | int | bigint
value: real | double | double precision | float
ts: integer | int | bigint
prev: real | double | double precision | float
primary key: name, key, shard
`,
	Read: `
SELECT value, ts, prev FROM {table} WHERE name = ? AND {key} = ? AND shard = ?
`,
	Write: `
INSERT INTO {table} (name, {key}, shard, value, ts, prev) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (name, {key}, shard) DO UPDATE SET value = excluded.value, ts = excluded.ts, prev = excluded.prev
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
}
