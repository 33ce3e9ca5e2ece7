package dialect

import "strings"

// Vitess is the dialect of Vitess 24 and later, on a keyspace that is sharded or not. It differs from [MySQL] in what a
// vtgate does not pass on to its servers: variables of the user that a statement sets, lists in a parameter, and the numbers
// of their sessions, by which statements are ended.
var Vitess = vitessDialect()

func vitessDialect() Dialect {
	d := mysqlDialect
	d.Name = "vitess"
	d.SessionNeeds = strings.Replace(d.SessionNeeds, "server: MySQL", "server: Vitess", 1)
	// The schema of a keyspace in the tables of the server has another name. A target, such as keyspace@primary, has none.
	d.Locate = `
SELECT '*', IF(LOCATE('@', DATABASE()) + LOCATE(':', DATABASE()) + LOCATE('/', DATABASE()) > 0, NULL, DATABASE())
` + allRowsOnMySQL
	// An expression as the default, so that rows have the column that were stored before it was added, or by another dialect.
	d.Create = strings.Replace(d.Create, "log   BLOB,\n", "log   BLOB,\n\t"+firstPart+",\n", 1)
	d.AddColumn = "ALTER TABLE {table} ADD COLUMN " + firstPart
	d.Parts += FirstPart + ": varbinary(255)\n"
	// A vtgate does not read lists from a parameter on a sharded keyspace, and derives the shard of a statement from its
	// literals.
	d.OneKey, d.ManyKeys = ":name, :key, :shard", ":keytuples"
	d.One, d.Many = ":first_part, "+d.OneKey+", :value, :at_ns, :prev", ":tuples"
	d.OneLogged, d.ManyLogged = d.One+", :log", ":loggedtuples"
	d.Read, d.ReadFree = readOnVitess+"FOR UPDATE\n", readOnVitess+"FOR UPDATE SKIP LOCKED\n"
	d.ReadUnlocked, d.ReadManyUnlocked = readOnVitess, readOnVitess
	d.InsertPlaceholders = "INSERT INTO {table} (first_part, name, {key}, shard, value, at_ns, prev) VALUES {rows}\nON DUPLICATE KEY UPDATE shard = VALUES(shard)\n"
	d.Write = strings.NewReplacer("(name", "(first_part, name", "SELECT * FROM {logged} k", "VALUES {logged}").Replace(d.Write)
	d.Delete = "DELETE FROM {table} WHERE " + rowsOnVitess + "\n"
	d.DeleteUnchanged = strings.TrimSpace(d.Delete) + " AND (first_part, name, {key}, shard, value, at_ns, prev) IN ({rows})\n"
	d.DeleteKey = deleteKey + " AND first_part = :first_part"
	d.CompareAndSwap += "\tAND first_part = :first_part\n"
	d.TakeInsertID = strings.NewReplacer("(name", "(first_part, name", "(:name", "(:first_part, :name").Replace(d.TakeInsertID)
	d.Keyspaces, d.UsePlace = "SHOW VSCHEMA KEYSPACES", "USE `{schema}:{place}`"
	d.Vindexes, d.AddVindex = "SHOW VSCHEMA VINDEXES FROM {table}",
		"ALTER VSCHEMA ON {table} ADD VINDEX rate_limit_key (first_part) USING xxhash"
	d.TwoPhase, d.OnePhase = "SET transaction_mode = 'twopc'", "SET transaction_mode = 'single'"
	d.PlacesOf = "SELECT id, shard FROM {table} WHERE id IN "
	d.Grants, d.NoGrants = "", "vtgate has users of its own, which no statement changes"
	d.Take, d.TakeEach, d.TakeKeys, d.Taken, d.SwapMany = "", "", "", "", ""
	d.Statements, d.Kill, d.Holder = "", "", ""
	// A vtgate ignores where SET TRANSACTION must not be.
	d.NeverInTx, d.OnlyInTx = "", "SAVEPOINT ratelimitgen_begun\nRELEASE SAVEPOINT ratelimitgen_begun"
	// A vtgate writes the doubles of prepared statements without an exponent, and MySQL reads 30 decimals of such numbers. In a
	// transaction, it reads the columns of a SELECT that is prepared from any shard, which then is part of the transaction.
	d.Prepare, d.Literals = false, true
	// By default a tablet answers a read by the result of an equal one that is still running, which may have begun before the
	// last commit.
	d.ReadHint = "/*vt+ CONSOLIDATOR=DISABLED */ "
	d.BoundSession = true
	d.Ready = `
SELECT 'transaction_mode', CAST(@@transaction_mode AS BINARY)
UNION ALL SELECT 'transaction_timeout', CASE WHEN @@transaction_timeout BETWEEN 1 AND 5000 THEN _binary'1 to 5000' ELSE CAST(@@transaction_timeout AS BINARY) END
UNION ALL SELECT 'innodb_lock_wait_timeout', CASE WHEN @@innodb_lock_wait_timeout <= 3 THEN _binary'1 to 3' ELSE CAST(@@innodb_lock_wait_timeout AS BINARY) END
` + allRowsOnMySQL
	d.ReadyNeeds = `
transaction_mode: SINGLE | TWOPC
transaction_timeout: 1 to 5000
innodb_lock_wait_timeout: 1 to 3
`
	// From a table of the keyspace, because a vtgate calculates the time by its own clock where it can, and each has another.
	d.Now = strings.Replace(d.Now, allRowsOnMySQL, "FROM {schema.}dual "+allRowsOnMySQL, 1)
	return d
}

// FirstPart is the column that distributes the rows. So those of keys that begin with the same part are on one shard, and a
// call can take from a team and from its users.
const FirstPart = "first_part"

const firstPart = FirstPart + " VARBINARY(255) NOT NULL DEFAULT (SUBSTRING_INDEX({key}, '|', 1))"

// rowsOnVitess is the condition for rows: the shards by their column, and the rows there by the primary key, which it is no
// part of.
const rowsOnVitess = "first_part IN {parts} AND (name, {key}, shard) IN ({keys})"

const readOnVitess = `
SELECT name, {key}, shard, value, at_ns, prev, log FROM {table} WHERE ` + rowsOnVitess + `
` + allRowsOnMySQL
