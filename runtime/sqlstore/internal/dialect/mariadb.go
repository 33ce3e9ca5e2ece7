package dialect

import "strings"

// MariaDB is the dialect of MariaDB 10.6 and later, and of Galera clusters of it. It differs from
// [MySQL] in Take, because an INSERT of MariaDB can return the rows that it has written, and in the statements that clusters
// need.
var MariaDB = mariadbDialect()

// mariadbDialect lists the differences from MySQL. The error codes are the same.
func mariadbDialect() Dialect {
	d := mysqlDialect
	d.Name = "mariadb"
	// Triggers and numbered rows change no result of RETURNING.
	d.Describe, d.Parts = describeOnMySQL+allRowsOnMySQL, partsOnMySQL
	d.SessionNeeds = strings.Replace(d.SessionNeeds, "server: MySQL", "server: MariaDB", 1)
	// A node of a cluster repeats a statement that has conflicted with a write of another node (wsrep_retry_autocommit).
	d.RepeatsStatements = `
SELECT variable_name FROM information_schema.session_variables WHERE variable_name = 'WSREP_ON' AND variable_value = 'ON'
` + allRowsOnMySQL
	d.TxOpen = "SELECT @@in_transaction " + allRowsOnMySQL
	d.CountPrepared = `
SELECT CAST(variable_value AS SIGNED) FROM information_schema.session_status WHERE variable_name = 'COM_STMT_PREPARE' AND :name IS NOT NULL
` + allRowsOnMySQL
	d.BoundTime, d.Statements, d.Kill = "SET STATEMENT max_statement_time = 0.2 FOR ", "", ""
	d.Holder = holderOnMySQL + `
FROM information_schema.innodb_lock_waits w
	JOIN information_schema.innodb_locks l ON l.lock_id = w.requested_lock_id AND l.lock_table LIKE CONCAT('%{name}', _utf8mb4 X'6025')
	JOIN information_schema.innodb_trx b ON b.trx_id = w.blocking_trx_id AND b.trx_state = 'RUNNING'
HAVING COUNT(DISTINCT b.trx_id) = 1
`
	// A bounded number of rows, so that Ready is fast on a large table too.
	d.Latest = "SELECT MAX(at_ns) FROM (SELECT at_ns FROM {table} LIMIT 10000) r " + allRowsOnMySQL
	// Writes nothing outside a transaction, because a Galera node may have aborted the transaction unnoticed.
	d.Write = `
INSERT INTO {table} (name, {key}, shard, value, at_ns, prev, log) SELECT * FROM {logged} k WHERE @@in_transaction
ON DUPLICATE KEY UPDATE value = VALUES(value), at_ns = VALUES(at_ns), prev = VALUES(prev), log = VALUES(log)
`
	d.Delete += "WHERE @@in_transaction\n"
	// RETURNING serves any number of rows.
	d.TakeInsertID, d.Taken, d.TakeKeys = "", "", ""
	d.Take = `
INSERT INTO {table} (name, {key}, shard, value, at_ns, prev)
SELECT :name, k, 0 * (@ratelimitgen_taken := 1), v, t, :fresh + v * :unit
FROM JSON_TABLE(:takes, '$[*]' COLUMNS (k VARBINARY(255) PATH '$[0]', v DOUBLE PATH '$[1]', t BIGINT PATH '$[2]')) k
` + mariadbTake + `
RETURNING {key}, value, at_ns, prev, @ratelimitgen_taken
`
	d.TakeEach = eachOnMySQL.Replace(d.Take)
	// Not for keys with one row too, whose statement another column makes 4 % more expensive.
	d.TakeShards = strings.NewReplacer("k, 0 *", "k, s + 0 *", ":takes", ":sharded", "PATH '$[2]'", "PATH '$[2]', s INT PATH '$[3]'").Replace(d.Take)
	d.SwapMany = `
INSERT INTO {table} (name, {key}, shard, value, at_ns, prev)
SELECT n, k, s + 0 * (@ratelimitgen_swapped := 2), 0, -9223372036854775808, 0 FROM ` + swapsOnMySQL + `
ON DUPLICATE KEY UPDATE
	value = IF(@ratelimitgen_swapped := (` + unswappedOnMySQL + `), v, {table}.value),
	at_ns = IF(@ratelimitgen_swapped, t, {table}.at_ns),
	prev  = IF(@ratelimitgen_swapped, p, {table}.prev),
	log   = IF(@ratelimitgen_swapped, UNHEX(NULLIF(l, '')), {table}.log)
RETURNING name, {key}, shard, @ratelimitgen_swapped
`
	// A JSON_TABLE costs a lone call half as much again.
	d.TakeOne = `
INSERT INTO {table} (name, {key}, shard, value, at_ns, prev)
VALUES (:name, :key, :shard + 0 * (@ratelimitgen_taken := 1), :value, :at_ns, :prev)
` + mariadbTake + `
RETURNING value, at_ns, prev, @ratelimitgen_taken
`
	return d
}

// mariadbTake is the part of Take for a row that exists. What has accrued is computed once, because it is a fifteenth of the
// statement.
const mariadbTake = `
ON DUPLICATE KEY UPDATE
	value = IF(@ratelimitgen_taken := (
		{table}.value >= :lowest AND
		:capacity + (@ratelimitgen_filled := ` + filledOnMariaDB + `) + (VALUES(value) + :debt) + :allowance >= 0
		IS TRUE),
		@ratelimitgen_filled + VALUES(value),
		{table}.value),
	at_ns = IF(@ratelimitgen_taken, GREATEST({table}.at_ns, VALUES(at_ns)), {table}.at_ns),
	prev  = IF(@ratelimitgen_taken,
		IF({table}.prev > -1 AND {table}.prev < 0, {table}.prev + VALUES(value) * :unit, VALUES(prev)),
		{table}.prev)`

// filledOnMariaDB is the filled of meter.Upsert.
const filledOnMariaDB = `(LEAST(0, {table}.value + (
			CAST(` + elapsedOnMariaDB + ` DIV :period AS DOUBLE) * :rate
			+ CAST(` + elapsedOnMariaDB + ` MOD :period AS DOUBLE) * :rate / :period)) + :twice - :twice)`

const elapsedOnMariaDB = `GREATEST(0, VALUES(at_ns) - NULLIF({table}.at_ns, -9223372036854775808))`
