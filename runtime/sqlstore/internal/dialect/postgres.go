package dialect

import (
	"database/sql"
	"strings"
)

// Postgres is dialect.Postgres of sqlstore, where the settings of drivers and poolers are documented.
var Postgres = postgresDialect

var postgresDialect = Dialect{
	Name:      "postgres",
	Numbered:  true,
	Quote:     `"`,
	Isolation: sql.LevelReadCommitted,
	Create: `
CREATE TABLE IF NOT EXISTS {table} (
	name  TEXT COLLATE "C" NOT NULL,
	{key} TEXT COLLATE "C" NOT NULL,
	shard INTEGER          NOT NULL,
	value DOUBLE PRECISION NOT NULL,
	at_ns BIGINT           NOT NULL,
	prev  DOUBLE PRECISION NOT NULL,
	log   BYTEA,
	PRIMARY KEY (name, {key}, shard)
) WITH (fillfactor = 50)
`,
	CreateOverrides: `
CREATE TABLE IF NOT EXISTS {table} (
	id            BIGINT           NOT NULL,
	name          TEXT COLLATE "C" NOT NULL,
	{key}         TEXT COLLATE "C" NOT NULL,
	what          TEXT             NOT NULL,
	plan          TEXT             NOT NULL,
	rate          BIGINT           NOT NULL,
	capacity      BIGINT           NOT NULL,
	max_reserved  BIGINT           NOT NULL,
	most_rate     BIGINT           NOT NULL,
	most_capacity BIGINT           NOT NULL,
	most_reserved BIGINT           NOT NULL,
	may_lift      INTEGER          NOT NULL,
	until_ns      BIGINT           NOT NULL,
	reason        TEXT             NOT NULL,
	author        TEXT             NOT NULL,
	at_ns         BIGINT           NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (name, {key}, id),
` + overridesChecks + `
)
`,
	OverridesParts: `
id: bigint
name: text | character varying | character varying(255)
key: text | character varying | character varying(255)
what: text | character varying | character varying(255)
plan: text | character varying | character varying(255)
rate: bigint
capacity: bigint
max_reserved: bigint
most_rate: bigint
most_capacity: bigint
most_reserved: bigint
may_lift: integer | bigint
until_ns: bigint
reason: text | character varying | character varying(1000)
author: text | character varying | character varying(255)
at_ns: bigint
primary key: id
`,
	CreateRegistry: `
CREATE TABLE IF NOT EXISTS {table} (
	name      TEXT COLLATE "C" NOT NULL,
	owner     TEXT             NOT NULL,
	format    BIGINT           NOT NULL,
	key_types TEXT             NOT NULL,
	numbers   TEXT             NOT NULL,
	at_ns     BIGINT           NOT NULL,
	PRIMARY KEY (name)
)
`,
	RegistryParts: `
name: text | character varying | character varying(255)
owner: text | character varying | character varying(255)
format: bigint
key_types: text | character varying | character varying(1000)
numbers: text | character varying | character varying(1000)
at_ns: bigint
primary key: name
`,
	Grants: `
-- Before Migrate.
GRANT USAGE, CREATE ON SCHEMA "{schema}" TO {migrator};
-- After Migrate.
GRANT USAGE ON SCHEMA "{schema}" TO {app};
GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {app};
GRANT SELECT, INSERT{rewrite} ON {overrides} TO {app};
GRANT SELECT ON {registry} TO {app};
`,
	// With quote_all_identifiers, types are described in quotes.
	Describe: `
SELECT CAST(a.attname AS TEXT), replace(format_type(a.atttypid, a.atttypmod), '"', '')
	|| CASE WHEN c.collname NOT IN ('C', 'POSIX', 'default') THEN ' collate ' || CAST(c.collname AS TEXT) ELSE '' END
FROM pg_attribute a LEFT JOIN pg_collation c ON c.oid = a.attcollation
WHERE a.attrelid = CAST(to_regclass('{table}') AS oid) AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL
SELECT 'primary key', string_agg(CAST(a.attname AS TEXT), ', '
	ORDER BY array_position(string_to_array(CAST(i.indkey AS TEXT), ' '), CAST(a.attnum AS TEXT)))
FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
WHERE i.indrelid = CAST(to_regclass('{table}') AS oid) AND i.indisprimary
GROUP BY i.indexrelid
`,
	// Neither temporary tables, which a session finds first, nor a change of the role count. A name in the search path is in
	// lower case unless it is in quotes; one with a comma is not found.
	Locate: `
WITH p AS (
	SELECT false AS began, i, schema FROM unnest(current_schemas(false)) WITH ORDINALITY AS a(schema, i)
	UNION ALL
	SELECT true, i, CASE
		WHEN part IN ('$user', '"$user"') THEN session_user
		WHEN left(part, 1) = '"' THEN CAST(replace(substr(part, 2, length(part) - 2), '""', '"') AS name)
		ELSE CAST(lower(part) AS name) END
	FROM pg_settings s, unnest(string_to_array(s.reset_val, ',')) WITH ORDINALITY AS b(raw, i), btrim(raw) AS c(part)
	WHERE s.name = 'search_path'
), q AS (
	SELECT p.began, p.i, n.oid, n.nspname FROM p JOIN pg_namespace n ON n.nspname = p.schema AND has_schema_privilege(n.oid, 'USAGE')
)
SELECT DISTINCT CAST(f.relname AS text), CAST(f.nspname AS text) FROM (
	SELECT DISTINCT ON (q.began, t.relname) t.relname, q.nspname FROM q JOIN pg_class t ON t.relnamespace = q.oid
	WHERE t.relname IN ({names}) AND t.relpersistence <> 't' ORDER BY q.began, t.relname, q.i
) f
UNION ALL SELECT '.', CAST((SELECT nspname FROM q ORDER BY began, i LIMIT 1) AS text)
`,
	Parts: `
name: text | character varying | character varying(255)
key: text | character varying | character varying(255)
shard: integer | bigint
value: double precision
at_ns: bigint
prev: double precision
log: bytea
primary key: name, key, shard
`,
	Session: `
SELECT 'extra_float_digits', current_setting('extra_float_digits')
	|| CASE WHEN CAST(current_setting('server_version_num') AS integer) < 120000 THEN ' before Postgres 12' ELSE '' END
UNION ALL SELECT 'server_encoding', current_setting('server_encoding')
UNION ALL SELECT 'client_encoding', current_setting('client_encoding')
`,
	SessionNeeds: `
server_encoding: UTF8 | SQL_ASCII
extra_float_digits: 3 | 2 | 1 | 3 before Postgres 12 | 2 before Postgres 12
client_encoding: UTF8 | SQL_ASCII
`,
	FindPrepared: `
SELECT EXISTS (SELECT FROM pg_prepared_statements WHERE statement LIKE CAST(:name AS text)) AS ratelimitgen_named
`,
	FindReplica: "SELECT CAST(current_setting('transaction_read_only') AS boolean)",
	One:         oneOnPostgres,
	OneLogged:   oneOnPostgres + ", CAST(:log AS bytea) AS log",
	Many:        manyOnPostgres + "FROM unnest(" + listsOnPostgres + ") AS u(n, k, s, v, t, p)",
	ManyLogged: manyOnPostgres + ", NULLIF(COALESCE(l, CAST(:log AS bytea)), CAST('' AS bytea)) AS log\n" +
		"FROM unnest(" + listsOnPostgres + ", CAST(:logs AS bytea[])) AS u(n, k, s, v, t, p, l)",
	ManySwapped: manyOnPostgres + ", NULLIF(COALESCE(l, CAST(:log AS bytea)), CAST('' AS bytea)) AS log,\n" + oldOnPostgres +
		"FROM unnest(" + listsOnPostgres + ", CAST(:logs AS bytea[]), " + oldListsOnPostgres + ") AS u(n, k, s, v, t, p, l, ov, ot, op, ol)",
	ManyNumbered: manyOnPostgres + numbersOnPostgres +
		"FROM unnest(" + listsOnPostgres + ", " + numberListsOnPostgres + ") AS u(n, k, s, v, t, p, c, rt, pd, d, lo, a)",
	// Pgpool-II sends no statement to a replica that begins with a comment.
	ReadHint: "/*NO LOAD BALANCE*/ ",
	// A text of bytes depends on bytea_output, whose form "escape" pgx cannot read where it gets texts.
	Read: `
SELECT r.name, r.{key}, r.shard, r.value, r.at_ns, r.prev, encode(r.log, 'hex')
FROM {rows} k JOIN {table} r ON ` + sameRowOnPostgres + `
ORDER BY r.name, r.{key}, r.shard FOR NO KEY UPDATE OF r
`,
	ReadFree: `
SELECT r.name, r.{key}, r.shard, r.value, r.at_ns, r.prev, encode(r.log, 'hex')
FROM {rows} k JOIN {table} r ON ` + sameRowOnPostgres + `
ORDER BY r.name, r.{key}, r.shard FOR NO KEY UPDATE OF r SKIP LOCKED
`,
	// The xmax of a row is the transaction that has locked it, unless there are several.
	Holder: `
SELECT format('process %s of application "%s", %s, begun at %s', a.pid, a.application_name, a.state, date_trunc('second', a.xact_start))
FROM {rows} k JOIN {table} r ON ` + sameRowOnPostgres + `
	JOIN pg_catalog.pg_locks l ON l.locktype OPERATOR(pg_catalog.=) 'transactionid' AND l.granted
		AND l.transactionid OPERATOR(pg_catalog.=) r.xmax
	JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
`,
	// For the transaction of the statement. As a subquery it is evaluated once, before there are rows to lock.
	BoundWaits: `(SELECT set_config('lock_timeout', '50ms', true)) IS NOT NULL`,
	ReadUnlocked: `
SELECT r.name, r.{key}, r.shard, r.value, r.at_ns, r.prev, encode(r.log, 'hex')
FROM {rows} k JOIN {table} r ON ` + sameRowOnPostgres + `
`,
	InsertPlaceholders: `
INSERT INTO {table} AS r (name, {key}, shard, value, at_ns, prev)
SELECT name, {key}, shard, 0, -9223372036854775808, 0 FROM {rows} k
ON CONFLICT (name, {key}, shard) DO UPDATE SET shard = excluded.shard WHERE false
`,
	Write: `
INSERT INTO {table} AS r (name, {key}, shard, value, at_ns, prev, log) SELECT * FROM {logged} k
WHERE ` + syncOnPostgres + `
ON CONFLICT (name, {key}, shard) DO UPDATE SET value = excluded.value, at_ns = excluded.at_ns, prev = excluded.prev, log = excluded.log
`,
	Delete: `
DELETE FROM {table} r USING {rows} k WHERE ` + sameRowOnPostgres + `
	AND ` + syncOnPostgres,
	DeleteKey: deleteKey,
	DeleteUnchanged: `
DELETE FROM {table} r USING {rows} k WHERE ` + sameRowOnPostgres + `
	AND r.value = k.value AND r.at_ns = k.at_ns AND r.prev = k.prev
`,
	Take:       takeManyOnPostgres,
	TakeShards: takeManyOnPostgres,
	// The update of an INSERT sees only the columns of the table. An UPDATE with an INSERT after it would not lock the rows in
	// the order in which all statements do.
	TakeEach: `
UPDATE {table} r SET` + numberedOnPostgres.Replace(takenOnPostgres) + `
FROM {numbered} k
WHERE ` + sameRowOnPostgres + ` AND (SELECT ` + syncOnPostgres + ` AND ` + typedOnPostgres + `)
	AND ` + numberedOnPostgres.Replace(hasOnPostgres) + `
RETURNING r.{key}, r.value, r.at_ns, r.prev, true
`,
	TakeOne: `
INSERT INTO {table} AS r (name, {key}, shard, value, at_ns, prev) VALUES (:name, :key, :shard, :value, :at_ns, :prev)` + takeOnPostgres + `
RETURNING value, at_ns, prev, ` + typedOnPostgres + `
`,
	TakeTogether: `
INSERT INTO {table} AS r (name, {key}, shard, value, at_ns, prev) SELECT * FROM {rows} k
WHERE {when} AND (SELECT ` + syncOnPostgres + ` AND ` + typedOnPostgres + `)` + takeOnPostgres + `
RETURNING {key} AS k, value, at_ns, prev
`,
	Denies: `
EXISTS (SELECT FROM {rows} k JOIN {table} r ON ` + sameRowOnPostgres + ` WHERE (` + deniesOnPostgres + `) IS NOT TRUE)
`,
	Undone: `CAST('a limit denies, so nothing was taken: ' || CAST(at_ns AS text) AS boolean)`,
	CompareAndSwap: `
UPDATE {table} SET value = :value, at_ns = :at_ns, prev = :prev, log = :log
WHERE name OPERATOR(pg_catalog.=) :name AND {key} OPERATOR(pg_catalog.=) :key AND shard = :shard
	AND value = :oldvalue AND at_ns = :oldat AND prev = :oldprev
	AND COALESCE(substr(log, 1, ` + penaltyLength + `), CAST('' AS BYTEA)) = :oldpenalty AND ` + syncOnPostgres,
	SwapMany: `
UPDATE {table} r SET value = k.value, at_ns = k.at_ns, prev = k.prev, log = k.log FROM {swapped} k
WHERE ` + sameRowOnPostgres + ` AND r.value = k.oldvalue AND r.at_ns = k.oldat AND r.prev = k.oldprev
	AND COALESCE(substr(r.log, 1, ` + penaltyLength + `), CAST('' AS bytea)) = k.oldpenalty AND (SELECT ` + syncOnPostgres + `)
RETURNING r.name, r.{key}, r.shard, 1
`,
	Page: `
SELECT {key}, shard, value, at_ns, prev, encode(log, 'hex') FROM {table}
WHERE name OPERATOR(pg_catalog.=) :name AND {key} OPERATOR(pg_catalog.>=) :key
	AND ({key} OPERATOR(pg_catalog.>) :key OR shard > :shard) ORDER BY {key}, shard LIMIT :count
`,
	// The statements that follow in a transaction take the same lock.
	OnlyInTx: "LOCK TABLE {table} IN ACCESS SHARE MODE",
	Now: `
SELECT CAST(date_part('epoch', clock_timestamp()) * CAST(1000000 AS double precision) AS BIGINT)
`,
}

const (
	oneOnPostgres = `
SELECT CAST(:name AS text) AS name, CAST(:key AS text) AS {key}, CAST(:shard AS integer) AS shard,
	CAST(:value AS double precision) AS value, CAST(:at_ns AS bigint) AS at_ns, CAST(:prev AS double precision) AS prev
`
	// Of lists that differ in length, unnest fills the shorter ones with NULL.
	manyOnPostgres = `
SELECT COALESCE(n, CAST(:name AS text)) AS name, COALESCE(k, CAST(:key AS text)) AS {key},
	COALESCE(s, CAST(:shard AS integer)) AS shard, COALESCE(v, CAST(:value AS double precision)) AS value,
	COALESCE(t, CAST(:at_ns AS bigint)) AS at_ns, COALESCE(p, CAST(:prev AS double precision)) AS prev
`
	listsOnPostgres = `CAST(:names AS text[]), CAST(:keys AS text[]), CAST(:shards AS integer[]), CAST(:values AS double precision[]),
	CAST(:instants AS bigint[]), CAST(:prevs AS double precision[])`
	numbersOnPostgres = `, COALESCE(c, CAST(:capacity AS double precision)) AS capacity, COALESCE(rt, CAST(:rate AS double precision)) AS rate,
	COALESCE(pd, CAST(:period AS bigint)) AS period, COALESCE(d, CAST(:debt AS double precision)) AS debt,
	COALESCE(lo, CAST(:lowest AS double precision)) AS lowest, COALESCE(a, CAST(:allowance AS double precision)) AS allowance
`
	numberListsOnPostgres = `CAST(:capacities AS double precision[]), CAST(:rates AS double precision[]), CAST(:periods AS bigint[]),
	CAST(:debts AS double precision[]), CAST(:lowests AS double precision[]), CAST(:allowances AS double precision[])`
	oldOnPostgres = `	COALESCE(ov, CAST(:oldvalue AS double precision)) AS oldvalue, COALESCE(ot, CAST(:oldat AS bigint)) AS oldat,
	COALESCE(op, CAST(:oldprev AS double precision)) AS oldprev, COALESCE(ol, CAST(:oldpenalty AS bytea)) AS oldpenalty
`
	oldListsOnPostgres = `CAST(:oldvalues AS double precision[]), CAST(:oldinstants AS bigint[]), CAST(:oldprevs AS double precision[]),
	CAST(:oldpenalties AS bytea[])`
)

// A role with CREATE on a schema of the search_path can define an operator, and Postgres prefers it to its own ones if it
// matches the types of both operands better. So operands have types for which Postgres has an operator, or the operator
// is qualified: names and keys may be of type character varying, which has none.

// sameRowOnPostgres joins k, a source of rows, to the table r. Its last condition is true. The planner believes that few
// rows of k meet it, and so looks each of them up by the index of r. Without it, a statement that is planned while the table
// is small and has no statistics reads all of the table, and keeps that plan until the next ANALYZE, however large the table
// is by then.
const sameRowOnPostgres = `r.name OPERATOR(pg_catalog.=) k.name AND r.{key} OPERATOR(pg_catalog.=) k.{key} AND r.shard = k.shard
	AND k.shard = k.shard + 0`

// typedOnPostgres is true, and an error if a column that a take reads has another type: it may have been changed since
// the table was checked, and an error that only the driver reports would come after the commit.
const typedOnPostgres = `(CAST(ROW((CAST(NULL AS {table})).value, (CAST(NULL AS {table})).at_ns, (CAST(NULL AS {table})).prev) AS record) OPERATOR(pg_catalog.*=)
	CAST(ROW(CAST(NULL AS double precision), CAST(NULL AS bigint), CAST(NULL AS double precision)) AS record))`

// syncOnPostgres is true, and as a side effect sets whether this transaction waits for the disk when it commits. A session
// with remote_apply already waits for more than full durability needs, and keeps doing so. The casts are for drivers that
// write parameters into the text, where a number may be in quotes.
const syncOnPostgres = `(CAST(:durability AS integer) = 0
	OR set_config('synchronous_commit', CASE
		WHEN CAST(:durability AS integer) = 1 THEN 'off'
		WHEN current_setting('synchronous_commit') = 'remote_apply' THEN 'remote_apply'
		ELSE 'on' END, true) <> '')`

// takeOnPostgres is the part of Take for a row that exists.
const takeOnPostgres = `
ON CONFLICT (name, {key}, shard) DO UPDATE SET` + takenOnPostgres + `
WHERE ` + hasOnPostgres

// takenOnPostgres is what a take sets.
const takenOnPostgres = `
	value = ` + filledOnPostgres + ` + excluded.value,
	at_ns = GREATEST(r.at_ns, excluded.at_ns),
	prev  = CASE WHEN r.prev > CAST(-1 AS double precision) AND r.prev < CAST(0 AS double precision)
		THEN r.prev + excluded.value * :unit ELSE excluded.prev END`

// numberedOnPostgres replaces the parameters of a take by the columns of k, a source of rows.
var numberedOnPostgres = strings.NewReplacer(
	"excluded.", "k.", ":capacity", "k.capacity", ":twice", "(k.capacity + k.capacity)", ":rate", "k.rate",
	":period", "k.period", ":debt", "k.debt", ":lowest", "k.lowest", ":allowance", "k.allowance")

// takeManyOnPostgres is Take for rows of any shard. A subquery is evaluated once and not for each row.
const takeManyOnPostgres = `
INSERT INTO {table} AS r (name, {key}, shard, value, at_ns, prev) SELECT * FROM {rows} k
WHERE (SELECT ` + syncOnPostgres + ` AND ` + typedOnPostgres + `)` + takeOnPostgres + `
RETURNING {key}, value, at_ns, prev, true
`

// hasOnPostgres is true if the row has enough.
const hasOnPostgres = `r.value >= :lowest AND :capacity + ` + filledOnPostgres + ` + (excluded.value + :debt) + :allowance
	>= CAST(0 AS double precision)`

// deniesOnPostgres is hasOnPostgres outside of an upsert.
var deniesOnPostgres = strings.ReplaceAll(hasOnPostgres, "excluded.", "k.")

// filledOnPostgres is the filled of meter.Upsert.
const filledOnPostgres = `(LEAST(0, r.value + (
		CAST(` + elapsedOnPostgres + ` / CAST(:period AS bigint) AS double precision) * :rate
		+ CAST(` + elapsedOnPostgres + ` % CAST(:period AS bigint) AS double precision) * :rate
			/ CAST(CAST(:period AS bigint) AS double precision))) + :twice - :twice)`

const elapsedOnPostgres = `GREATEST(0, excluded.at_ns - NULLIF(r.at_ns, -9223372036854775808))`
