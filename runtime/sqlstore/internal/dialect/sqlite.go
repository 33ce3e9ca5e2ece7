package dialect

// SQLite is the dialect of SQLite 3.41 and later. Transactions must be immediate: with the driver
// modernc.org/sqlite that is _txlock=immediate, which package sqlite sets.
var SQLite = sqliteDialect

var sqliteDialect = Dialect{
	Name:      "sqlite",
	Quote:     `"`,
	OneWriter: true,
	Prepare:   true,
	NoGrants:  "whoever can write the file can use it",
	Create: `
CREATE TABLE IF NOT EXISTS {table} (
	name  TEXT    NOT NULL,
	{key} TEXT    NOT NULL,
	shard INTEGER NOT NULL,
	value REAL    NOT NULL,
	at_ns INTEGER NOT NULL,
	prev  REAL    NOT NULL,
	log   BLOB,
	PRIMARY KEY (name, {key}, shard)
)
`,
	CreateOverrides: `
CREATE TABLE IF NOT EXISTS {table} (
	id            INTEGER NOT NULL,
	name          TEXT    NOT NULL,
	{key}         TEXT    NOT NULL,
	what          TEXT    NOT NULL,
	plan          TEXT    NOT NULL,
	rate          INTEGER NOT NULL,
	capacity      INTEGER NOT NULL,
	max_reserved  INTEGER NOT NULL,
	most_rate     INTEGER NOT NULL,
	most_capacity INTEGER NOT NULL,
	most_reserved INTEGER NOT NULL,
	may_lift      INTEGER NOT NULL,
	until_ns      INTEGER NOT NULL,
	reason        TEXT    NOT NULL,
	author        TEXT    NOT NULL,
	at_ns         INTEGER NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (name, {key}, id),
` + overridesChecks + `
)
`,
	OverridesParts: `
id: integer
name: text
key: text
what: text
plan: text
rate: integer
capacity: integer
max_reserved: integer
most_rate: integer
most_capacity: integer
most_reserved: integer
may_lift: integer
until_ns: integer
reason: text
author: text
at_ns: integer
primary key: id
`,
	CreateRegistry: `
CREATE TABLE IF NOT EXISTS {table} (
	name      TEXT    NOT NULL,
	owner     TEXT    NOT NULL,
	format    INTEGER NOT NULL,
	key_types TEXT    NOT NULL,
	numbers   TEXT    NOT NULL,
	at_ns     INTEGER NOT NULL,
	PRIMARY KEY (name)
) WITHOUT ROWID
`,
	RegistryParts: `
name: text
owner: text
format: integer
key_types: text
numbers: text
at_ns: integer
primary key: name
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
	// SQLite searches the main database before attached ones, but after temporary tables.
	Locate: `
SELECT name, CASE WHEN max(schema = 'main') THEN 'main' ELSE min(schema) END FROM pragma_table_list
WHERE schema <> 'temp' AND name IN ({names}) GROUP BY name
UNION ALL SELECT '.', 'main'
`,
	Parts: `
name: text
key: text
shard: integer | int | bigint
value: real | double | double precision | float
at_ns: integer | int | bigint
prev: real | double | double precision | float
log: blob
primary key: name, key, shard
`,
	One:        oneOnSQLite,
	OneLogged:  oneOnSQLite + ", :log AS log",
	Many:       manyOnSQLite + "FROM json_each(:rows)",
	ManyLogged: manyOnSQLite + ", unhex(NULLIF(value->>6, '')) AS log FROM json_each(:logged)",
	Read: `
SELECT r.name, r.{key}, r.shard, r.value, r.at_ns, r.prev, r.log
FROM {rows} k CROSS JOIN {table} r ON r.name = k.name AND r.{key} = k.{key} AND r.shard = k.shard
`,
	Write: `
INSERT INTO {table} AS r (name, {key}, shard, value, at_ns, prev, log) SELECT * FROM {logged} WHERE true
ON CONFLICT (name, {key}, shard) DO UPDATE SET value = excluded.value, at_ns = excluded.at_ns, prev = excluded.prev, log = excluded.log
`,
	Delete: `
DELETE FROM {table} WHERE (name, {key}, shard) IN (SELECT name, {key}, shard FROM {rows})
`,
	DeleteKey: deleteKey,
	DeleteUnchanged: `
DELETE FROM {table} WHERE (name, {key}, shard, value, at_ns, prev) IN (SELECT * FROM {rows})
`,
	Take: `
INSERT INTO {table} AS r (name, {key}, shard, value, at_ns, prev) SELECT * FROM {rows} WHERE true
ON CONFLICT (name, {key}, shard) DO UPDATE SET
	value = ` + filledOnSQLite + ` + excluded.value,
	at_ns = max(r.at_ns, excluded.at_ns),
	prev  = CASE WHEN r.prev > -1 AND r.prev < 0 THEN r.prev + excluded.value * :unit ELSE excluded.prev END
WHERE r.value >= :lowest AND :capacity + ` + filledOnSQLite + ` + (excluded.value + :debt) + :allowance >= 0
RETURNING {key}, value, at_ns, prev, 1
`,
	CompareAndSwap: `
UPDATE {table} SET value = :value, at_ns = :at_ns, prev = :prev, log = :log
WHERE name = :name AND {key} = :key AND shard = :shard AND value = :oldvalue AND at_ns = :oldat AND prev = :oldprev
	AND COALESCE(substr(log, 1, ` + penaltyLength + `), x'') = :oldpenalty
`,
	Sync:    "PRAGMA {schema.}synchronous",
	Reclaim: "PRAGMA {schema.}wal_checkpoint(TRUNCATE)",
	// The temporary tables have no such setting, so that it changes nothing.
	NeverInTx: "PRAGMA temp.synchronous = 1",
	// The LIMIT is an expression because SQLite would prepare the statement again for each value bound to a bare parameter.
	Page: `
SELECT {key}, shard, value, at_ns, prev, log FROM {table}
WHERE name = :name AND {key} >= :key AND ({key} > :key OR shard > :shard) ORDER BY {key}, shard LIMIT :count + 0
`,
}

const (
	oneOnSQLite  = "SELECT :name AS name, :key AS {key}, :shard AS shard, :value AS value, :at_ns AS at_ns, :prev AS prev"
	manyOnSQLite = `
SELECT value->>0 AS name, value->>1 AS {key}, value->>2 AS shard,
	CAST(value->>3 AS REAL) AS value, value->>4 AS at_ns, CAST(value->>5 AS REAL) AS prev
`
)

// filledOnSQLite is the filled of meter.Upsert.
const filledOnSQLite = `(min(0.0, r.value + (
		CAST(max(0, excluded.at_ns - r.at_ns) / :period AS REAL) * :rate
		+ CAST(max(0, excluded.at_ns - r.at_ns) % :period AS REAL) * :rate / :period)) + :twice - :twice)`
