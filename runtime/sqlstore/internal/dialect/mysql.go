package dialect

import (
	"database/sql"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

// MySQL is the dialect of MySQL 8.0 and later, and of databases that are compatible with it. MySQL cannot select the rows
// that an INSERT has written, but it can return 64 bits as the id of the last insert, which is enough for the value of one
// row. The values of several rows are collected in a variable of the session, which a second statement selects; see
// [MariaDB].
var MySQL = mysqlDialect

var mysqlDialect = Dialect{
	Name:      "mysql",
	Quote:     "`",
	Prepare:   true,
	Isolation: sql.LevelReadCommitted,
	Create: `
CREATE TABLE IF NOT EXISTS {table} (
	name  VARBINARY(255) NOT NULL,
	{key} VARBINARY(255) NOT NULL,
	shard INT            NOT NULL,
	value DOUBLE         NOT NULL,
	at_ns BIGINT         NOT NULL,
	prev  DOUBLE         NOT NULL,
	log   BLOB,
	PRIMARY KEY (name, {key}, shard)
) ENGINE = InnoDB
`,
	CreateOverrides: `
CREATE TABLE IF NOT EXISTS {table} (
	id            BIGINT                                                  NOT NULL,
	name          VARBINARY(255)                                          NOT NULL,
	{key}         VARBINARY(255)                                          NOT NULL,
	what          VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin  NOT NULL,
	plan          VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin  NOT NULL,
	rate          BIGINT                                                  NOT NULL,
	capacity      BIGINT                                                  NOT NULL,
	max_reserved  BIGINT                                                  NOT NULL,
	most_rate     BIGINT                                                  NOT NULL,
	most_capacity BIGINT                                                  NOT NULL,
	most_reserved BIGINT                                                  NOT NULL,
	may_lift      INT                                                     NOT NULL,
	until_ns      BIGINT                                                  NOT NULL,
	reason        VARCHAR(1000) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
	author        VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin  NOT NULL,
	at_ns         BIGINT                                                  NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (name, {key}, id),
` + overridesChecks + `
) ENGINE = InnoDB
`,
	OverridesParts: `
id: bigint | bigint(20)
name: varbinary(255)
key: varbinary(255)
what: varchar(255) collate utf8mb4_bin
plan: varchar(255) collate utf8mb4_bin
rate: bigint | bigint(20)
capacity: bigint | bigint(20)
max_reserved: bigint | bigint(20)
most_rate: bigint | bigint(20)
most_capacity: bigint | bigint(20)
most_reserved: bigint | bigint(20)
may_lift: int | int(11) | bigint | bigint(20)
until_ns: bigint | bigint(20)
reason: varchar(1000) collate utf8mb4_bin
author: varchar(255) collate utf8mb4_bin
at_ns: bigint | bigint(20)
primary key: id
engine: InnoDB
`,
	CreateRegistry: `
CREATE TABLE IF NOT EXISTS {table} (
	name      VARBINARY(255)                                          NOT NULL,
	owner     VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin  NOT NULL,
	format    BIGINT                                                  NOT NULL,
	key_types VARCHAR(1000) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
	numbers   VARCHAR(1000) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
	at_ns     BIGINT                                                  NOT NULL,
	PRIMARY KEY (name)
) ENGINE = InnoDB
`,
	RegistryParts: `
name: varbinary(255)
owner: varchar(255) collate utf8mb4_bin
format: bigint | bigint(20)
key_types: varchar(1000) collate utf8mb4_bin
numbers: varchar(1000) collate utf8mb4_bin
at_ns: bigint | bigint(20)
primary key: name
engine: InnoDB
`,
	Grants: `
-- Before Migrate.
GRANT CREATE, SELECT, INSERT, UPDATE, DELETE ON {table} TO {migrator};
GRANT CREATE, SELECT, INSERT{migrator too} ON {overrides} TO {migrator};
GRANT CREATE, SELECT, INSERT, UPDATE, DELETE ON {registry} TO {migrator};
-- After Migrate.
GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {app};
GRANT SELECT, INSERT{rewrite} ON {overrides} TO {app};
GRANT SELECT ON {registry} TO {app};
`,
	Describe: describeOnMySQL + describeInsertIDOnMySQL + allRowsOnMySQL,
	Locate: `
SELECT table_name, table_schema FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name IN ({names})
UNION ALL SELECT '.', DATABASE()
` + allRowsOnMySQL,
	Session: `
SELECT 'server', CASE WHEN LOCATE('MariaDB', CONCAT(VERSION(), @@version_comment)) > 0 THEN _binary'MariaDB'
	WHEN LOCATE('Vitess', @@version) > 0 THEN _binary'Vitess' WHEN LOCATE('TiDB', @@version) > 0 THEN _binary'TiDB' ELSE _binary'MySQL' END
UNION ALL SELECT 'autocommit', CAST(@@autocommit AS BINARY)
UNION ALL SELECT 'completion_type', CAST(@@completion_type AS BINARY)
UNION ALL SELECT 'character_set_client', CAST(@@character_set_client AS BINARY)
UNION ALL SELECT 'character_set_connection', CAST(@@character_set_connection AS BINARY)
UNION ALL SELECT 'an empty text', CASE WHEN '' IS NULL THEN _binary'NULL' ELSE _binary'a text' END
` + allRowsOnMySQL,
	SessionNeeds: `
server: MySQL
autocommit: 1 | ON
completion_type: NO_CHAIN
character_set_client: utf8mb4
character_set_connection: utf8mb4
an empty text: a text
`,
	Parts: partsOnMySQL + `auto_increment: none
triggers: none
`,
	One:       oneOnMySQL,
	OneLogged: oneOnMySQL + ", CAST(:log AS BINARY) AS log",
	Many:      "SELECT " + manyOnMySQL + " FROM JSON_TABLE(:rows, '$[*]' COLUMNS (" + columnsOnMySQL + ")) j",
	ManyLogged: "SELECT " + manyOnMySQL + ", UNHEX(NULLIF(l, '')) AS log FROM JSON_TABLE(:logged, '$[*]' COLUMNS (" +
		columnsOnMySQL + ", l VARBINARY(40000) PATH '$[6]')) j",
	ManyKeys: `
SELECT n AS name, k AS {key}, s AS shard
FROM JSON_TABLE(:ids, '$[*]' COLUMNS (n VARBINARY(255) PATH '$[0]', k VARBINARY(255) PATH '$[1]', s INT PATH '$[2]')) j
`,
	Read: `
SELECT r.name, r.{key}, r.shard, r.value, r.at_ns, r.prev, r.log
FROM {keys} k STRAIGHT_JOIN {table} r ON r.name = k.name AND r.{key} = k.{key} AND r.shard = k.shard
` + allRowsOnMySQL + `FOR UPDATE
`,
	ReadFree: `
SELECT r.name, r.{key}, r.shard, r.value, r.at_ns, r.prev, r.log
FROM {keys} k STRAIGHT_JOIN {table} r ON r.name = k.name AND r.{key} = k.{key} AND r.shard = k.shard
` + allRowsOnMySQL + `FOR UPDATE SKIP LOCKED
`,
	Holder: holderOnMySQL + `
FROM performance_schema.data_lock_waits w
	JOIN performance_schema.data_locks l ON l.engine_lock_id = w.requesting_engine_lock_id AND l.object_name = '{name}'
	JOIN information_schema.innodb_trx b ON b.trx_id = w.blocking_engine_transaction_id AND b.trx_state = 'RUNNING'
HAVING COUNT(DISTINCT b.trx_id) = 1
`,
	// A SELECT fails if a statement of any session has bytes in it that are no text.
	Statements: "SHOW FULL PROCESSLIST",
	Kill:       "KILL QUERY ",
	ReadUnlocked: `
SELECT name, {key}, shard, value, at_ns, prev, log FROM {table} WHERE name = :name AND {key} = :key AND shard = :shard
` + allRowsOnMySQL,
	ReadManyUnlocked: `
SELECT r.name, r.{key}, r.shard, r.value, r.at_ns, r.prev, r.log
FROM {keys} k STRAIGHT_JOIN {table} r ON r.name = k.name AND r.{key} = k.{key} AND r.shard = k.shard
` + allRowsOnMySQL,
	InsertPlaceholders: `
INSERT INTO {table} (name, {key}, shard, value, at_ns, prev)
SELECT name, {key}, shard, 0, -9223372036854775808, 0 FROM {keys} k
ON DUPLICATE KEY UPDATE shard = VALUES(shard)
`,
	Write: `
INSERT INTO {table} (name, {key}, shard, value, at_ns, prev, log) SELECT * FROM {logged} k
ON DUPLICATE KEY UPDATE value = VALUES(value), at_ns = VALUES(at_ns), prev = VALUES(prev), log = VALUES(log)
`,
	Delete: `
DELETE r FROM {keys} k STRAIGHT_JOIN {table} r ON r.name = k.name AND r.{key} = k.{key} AND r.shard = k.shard
`,
	DeleteKey: deleteKey,
	DeleteUnchanged: `
DELETE r FROM {rows} k STRAIGHT_JOIN {table} r ON r.name = k.name AND r.{key} = k.{key} AND r.shard = k.shard
	AND r.value = k.value AND r.at_ns = k.at_ns AND r.prev = k.prev
`,
	Take:     takeManyOnMySQL,
	TakeEach: eachOnMySQL.Replace(takeManyOnMySQL),
	TakeKeys: `
INSERT INTO {table} (name, {key}, shard, value, at_ns, prev)
SELECT :name, k, ` + collectOnMySQL + `, :value, :at_ns, :prev
FROM (SELECT @ratelimitgen_rows := _binary'', @ratelimitgen_row := _binary'') z,
	JSON_TABLE(:only, '$[*]' COLUMNS (k VARBINARY(255) PATH '$')) k
` + mysqlTakeRows,
	Taken:        "SELECT CONCAT(@ratelimitgen_rows, @ratelimitgen_row) " + allRowsOnMySQL,
	TakeInsertID: mysqlTakeOne,
	CompareAndSwap: `
UPDATE {table} SET value = :value, at_ns = :at_ns, prev = :prev, log = :log
WHERE name = :name AND {key} = :key AND shard = :shard AND value = :oldvalue AND at_ns = :oldat AND prev = :oldprev
	AND COALESCE(SUBSTRING(log, 1, ` + penaltyLength + `), _binary'') = :oldpenalty
`,
	// As long as it is updated, a row has an at_ns that no row has, as the mark by which the columns after it are set. A
	// missing row becomes a placeholder.
	SwapMany: `
INSERT INTO {table} (name, {key}, shard, value, at_ns, prev)
SELECT n, k, s + 0 * LENGTH(@ratelimitgen_rows := CONCAT(@ratelimitgen_rows, @ratelimitgen_row)) * LENGTH(@ratelimitgen_row := _binary'2'),
	0, -9223372036854775808, 0
FROM (SELECT @ratelimitgen_rows := _binary'', @ratelimitgen_row := _binary'') z, ` + swapsOnMySQL + `
ON DUPLICATE KEY UPDATE
	at_ns = IF(` + unswappedOnMySQL + `, ` + swapMarkOnMySQL + `, {table}.at_ns),
	value = IF({table}.at_ns = ` + swapMarkOnMySQL + `, v, {table}.value),
	prev  = IF({table}.at_ns = ` + swapMarkOnMySQL + `, p, {table}.prev),
	log   = IF({table}.at_ns = ` + swapMarkOnMySQL + `, UNHEX(NULLIF(l, '')), {table}.log),
	at_ns = IF({table}.at_ns = ` + swapMarkOnMySQL + `, 
		t + 0 * LENGTH(@ratelimitgen_row := _binary'1'), {table}.at_ns + 0 * LENGTH(@ratelimitgen_row := _binary'0'))
`,
	Page: `
SELECT {key}, shard, value, at_ns, prev, log FROM {table}
WHERE name = :name AND {key} >= :key AND ({key} > :key OR shard > :shard) ORDER BY {key}, shard LIMIT :count
`,
	// It is about the next transaction of the session, which would be the same without it.
	NeverInTx: "SET TRANSACTION READ WRITE",
	// A session may have set its time, to which SYSDATE pays no attention.
	Now: `
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6))
` + allRowsOnMySQL,
}

// allRowsOnMySQL ends statements that select rows, whose number a session may otherwise limit by sql_select_limit.
const allRowsOnMySQL = "LIMIT 9223372036854775807\n"

const (
	oneOnMySQL = `
SELECT CAST(:name AS BINARY) AS name, CAST(:key AS BINARY) AS {key}, :shard AS shard, :value AS value, :at_ns AS at_ns, :prev AS prev
`
	manyOnMySQL    = "n AS name, k AS {key}, s AS shard, v AS value, t AS at_ns, p AS prev"
	columnsOnMySQL = `
	n VARBINARY(255) PATH '$[0]', k VARBINARY(255) PATH '$[1]', s INT PATH '$[2]',
	v DOUBLE PATH '$[3]', t BIGINT PATH '$[4]', p DOUBLE PATH '$[5]'`
)

// swapsOnMySQL is the rows of SwapMany, unswappedOnMySQL whether one has not changed, and swapMarkOnMySQL an at_ns that no
// row has.
var (
	swapsOnMySQL = "JSON_TABLE(:swaps, '$[*]' COLUMNS (" + columnsOnMySQL + `, l VARBINARY(40000) PATH '$[6]',
	ov DOUBLE PATH '$[7]', ot BIGINT PATH '$[8]', op DOUBLE PATH '$[9]', ol VARBINARY(100) PATH '$[10]')) j`
	unswappedOnMySQL = `{table}.value = ov AND {table}.at_ns = ot AND {table}.prev = op
		AND COALESCE(SUBSTRING({table}.log, 1, ` + penaltyLength + `), _binary'') = UNHEX(ol)`
	swapMarkOnMySQL = "-9223372036854775807"
)

// holderOnMySQL describes a transaction that others wait for, if it is the only one: which of several has locked a row is
// not easy to find out.
const holderOnMySQL = "SELECT CONCAT('connection ', MAX(b.trx_mysql_thread_id), ', in a transaction since ', MAX(b.trx_started))"

// describeOnMySQL also works where an empty text is NULL, and where CONCAT treats NULL as an empty text. It does without
// GROUP_CONCAT, which cuts its result at a length that is a setting of the session. Some modes of MariaDB describe types
// with the word binary, and a blob with its length.
const describeOnMySQL = `
SELECT column_name, CASE WHEN collation_name IS NULL THEN REPLACE(CAST(column_type AS BINARY), 'blob(65535)', 'blob')
	ELSE CONCAT(REPLACE(CAST(column_type AS BINARY), ' binary', ''), ' collate ', collation_name) END
FROM information_schema.columns
WHERE table_schema = COALESCE(NULLIF('{schema}', ''), DATABASE()) AND table_name = '{name}'
UNION ALL
SELECT 'primary key', CONCAT_WS(', ', MAX(CASE seq_in_index WHEN 1 THEN column_name END),
	MAX(CASE seq_in_index WHEN 2 THEN column_name END), MAX(CASE seq_in_index WHEN 3 THEN column_name END),
	MAX(CASE seq_in_index WHEN 4 THEN column_name END))
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
at_ns: bigint | bigint(20)
prev: double
log: blob | mediumblob | longblob
primary key: name, key, shard
engine: InnoDB
`

// describeInsertIDOnMySQL selects triggers and numbered columns, which change the insert id of TakeInsertID. A user without
// the privilege TRIGGER sees no triggers.
const describeInsertIDOnMySQL = `
UNION ALL
SELECT 'auto_increment', COALESCE(MIN(CASE WHEN extra = 'auto_increment' THEN column_name END), 'none')
FROM information_schema.columns
WHERE table_schema = COALESCE(NULLIF('{schema}', ''), DATABASE()) AND table_name = '{name}'
GROUP BY table_name
UNION ALL
SELECT 'triggers', COALESCE(MIN(g.trigger_name), 'none')
FROM information_schema.tables t LEFT JOIN information_schema.triggers g
	ON g.event_object_schema = t.table_schema AND g.event_object_table = t.table_name AND g.event_manipulation <> 'DELETE'
WHERE t.table_schema = COALESCE(NULLIF('{schema}', ''), DATABASE()) AND t.table_name = '{name}'
GROUP BY t.table_name
`

// mysqlTake is the part of a statement for a row that exists, with two expressions that return the result for a row taken
// from, whose value is in {table}.value, and for an unchanged one. It relies on MySQL assigning the columns from left to
// right, where each assignment sees those before it:
//
//  1. prev marks the row, by a product that no state has, if it has enough, while value and at_ns are still the old ones,
//  2. value is the rest, if it is marked,
//  3. at_ns is the time of that, and
//  4. prev is unmarked, and the result is returned; for an inserted row, shard has returned it.
//
// A row whose prev is not a total is left unchanged, and so is one from before 1970, because its distance from now may be
// more than a BIGINT holds.
const mysqlTake = `
ON DUPLICATE KEY UPDATE
	prev  = IF({table}.prev > -1 AND {table}.prev < 0 AND {table}.at_ns BETWEEN 0 AND VALUES(at_ns)
		AND {table}.value >= :lowest AND :capacity + ` + filledOnMySQL + ` + (VALUES(value) + :debt) + :allowance >= 0,
		{table}.prev * ` + markOnMySQL + `, {table}.prev),
	value = IF({table}.prev < -1e100, ` + filledOnMySQL + ` + VALUES(value), {table}.value),
	at_ns = IF({table}.prev < -1e100, VALUES(at_ns), {table}.at_ns),
	prev  = IF({table}.prev < -1e100, {table}.prev / ` + markOnMySQL + ` + VALUES(value) * :unit + 0 * %s, IF(%s, {table}.prev, 0))
`

// markOnMySQL is 2^500, by which a total can be multiplied and divided without a rounding.
const markOnMySQL = "3.273390607896142e150"

// mysqlTakeOne returns its result as the id of the last insert.
var mysqlTakeOne = fmt.Sprintf(`
INSERT INTO {table} (name, {key}, shard, value, at_ns, prev)
VALUES (:name, :key, 0 * LAST_INSERT_ID(%d), :value, :at_ns, :prev)
`, InsertIDInserted) + fmt.Sprintf(mysqlTake,
	"LAST_INSERT_ID(~CAST(CONV(HEX("+bitsOnMySQL+"), 16, 10) AS UNSIGNED))", fmt.Sprintf("LAST_INSERT_ID(%d)", InsertIDUnchanged))

// takeManyOnMySQL takes from several rows.
var takeManyOnMySQL = `
INSERT INTO {table} (name, {key}, shard, value, at_ns, prev)
SELECT :name, k, ` + collectOnMySQL + `, v, t, :fresh + v * :unit
FROM (SELECT @ratelimitgen_rows := _binary'', @ratelimitgen_row := _binary'') z,
	JSON_TABLE(:takes, '$[*]' COLUMNS (k VARBINARY(255) PATH '$[0]', v DOUBLE PATH '$[1]', t BIGINT PATH '$[2]')) k
` + mysqlTakeRows

// eachOnMySQL replaces the parameters of a take from several rows by columns of their source.
var eachOnMySQL = strings.NewReplacer(":takes", ":each", "PATH '$[2]'", `PATH '$[2]',
	capacity DOUBLE PATH '$[3]', rate DOUBLE PATH '$[4]', period BIGINT PATH '$[5]', debt DOUBLE PATH '$[6]', lowest DOUBLE PATH '$[7]',
	allowance DOUBLE PATH '$[8]'`, ":capacity", "capacity", ":twice", "(capacity + capacity)", ":rate", "rate", ":period", "period", ":debt", "debt",
	":lowest", "lowest", ":allowance", "allowance")

// mysqlTakeRows sets the variable for the result of one row.
var mysqlTakeRows = fmt.Sprintf(mysqlTake,
	"LENGTH(@ratelimitgen_row := "+bitsOnMySQL+")", "LENGTH(@ratelimitgen_row := _binary'"+RowUnedited+"')")

// bitsOnMySQL is the bits of a value, the least byte first. The binary form of a point is the only expression in MySQL that
// gives them, and a text may lack the last digits.
const bitsOnMySQL = "SUBSTR(ST_AsBinary(POINT({table}.value, 0)), 6, 8)"

// collectOnMySQL is the shard of a row, 0. It is evaluated before the row is inserted or updated: it appends the result of
// the row before, and sets that of a row that is inserted. MySQL deprecates such assignments, but has nothing else that a
// statement could leave to the next one.
const collectOnMySQL = "0 * LENGTH(@ratelimitgen_rows := CONCAT(@ratelimitgen_rows, @ratelimitgen_row))" +
	" * LENGTH(@ratelimitgen_row := _binary'" + RowInserted + "')"

// filledOnMySQL is the filled of [meter.Upsert]. The zeros convert integers to doubles: a driver may write the rate as an
// integer into the text, and a product of two can be more than a BIGINT holds.
const filledOnMySQL = `(LEAST(0, {table}.value + (
			((VALUES(at_ns) - {table}.at_ns) DIV :period + 0e0) * :rate
			+ ((VALUES(at_ns) - {table}.at_ns) MOD :period + 0e0) * :rate / :period)) + :twice - :twice)`

// Results of [Dialect.TakeInsertID]. They are not the bits of a finite value, and too large for a column that numbers its
// rows.
const (
	InsertIDInserted  int64 = 0x7261746c67690000
	InsertIDUnchanged int64 = 0x7261746c67690100
)

// Results of [Dialect.Taken].
const (
	RowInserted = "inserted"
	RowUnedited = "unedited"
)

// lostInsertID is the hint if the insert id is neither of these nor an encoded value.
const lostInsertID = "the server has lost the result of a statement that takes tokens, as if the table had a trigger or an " +
	"AUTO_INCREMENT column: remove it, or a proxy that changes LAST_INSERT_ID()"

// DecodeInsertID decodes the result of [Dialect.TakeInsertID]: the state in which the statement has left the row, if it
// has taken.
func DecodeInsertID(u *meter.Upsert, affected, id int64) (runtime.State, error) {
	value := math.Float64frombits(bits.ReverseBytes64(^uint64(id)))
	switch {
	case id == InsertIDUnchanged && affected <= 1:
		// Depending on its settings, a driver counts the row that was found, or only rows that were changed.
		return runtime.State{}, nil
	case id == InsertIDInserted && affected == 1:
		return u.Inserted(), nil
	case affected == 2 && leaves(u, value):
		return runtime.State{Value: value, TS: u.T, Exists: true}, nil
	}
	return runtime.State{}, &fault.Hinted{Text: lostInsertID, Err: nil}
}

// leaves reports whether a take can leave a value: at least the count is missing, and at most the capacity and the debt that
// is allowed, to within less than a token.
func leaves(u *meter.Upsert, value float64) bool {
	return value <= -u.Count && value > -u.Capacity-u.Debt-1
}

// DecodeSwapped decodes the result of [Dialect.Taken] after a SwapMany of some rows: 0, 1 or 2 for each. They must explain
// the number of affected rows.
func DecodeSwapped(rows int, affected int64, taken []byte) ([]int, error) {
	results, count := make([]int, rows), [3]int64{}
	for i, digit := range taken {
		if i == rows || digit < '0' || digit > '2' {
			return nil, &fault.Hinted{Text: lostInsertID, Err: nil}
		}
		results[i] = int(digit - '0')
		count[results[i]]++
	}
	affected -= 2*count[1] + count[2]
	if len(taken) != rows || affected != 0 && affected != count[0] {
		return nil, &fault.Hinted{Text: lostInsertID, Err: nil}
	}
	return results, nil
}

// DecodeTaken decodes the result of [Dialect.Taken]: it returns the states in which the rows were left. There must be a
// result for each row, and together they must explain the number of affected rows, as in DecodeInsertID.
func DecodeTaken(upserts []*meter.Upsert, affected int64, taken []byte) ([]runtime.State, error) {
	if len(taken) != 8*len(upserts) {
		return nil, &fault.Hinted{Text: lostInsertID, Err: nil}
	}
	after, unedited := make([]runtime.State, len(upserts)), int64(0)
	for i, u := range upserts {
		result := taken[8*i : 8*i+8]
		switch value := math.Float64frombits(binary.LittleEndian.Uint64(result)); {
		case string(result) == RowUnedited:
			unedited++
		case string(result) == RowInserted:
			affected--
			after[i] = u.Inserted()
		case leaves(u, value):
			affected -= 2
			after[i] = runtime.State{Value: value, TS: u.T, Exists: true}
		default:
			return nil, &fault.Hinted{Text: lostInsertID, Err: nil}
		}
	}
	if affected != 0 && affected != unedited {
		return nil, &fault.Hinted{Text: lostInsertID, Err: nil}
	}
	return after, nil
}
