package dialect

import "strings"

// Vitess is the dialect of Vitess 24 and later, on an unsharded keyspace. It differs from [MySQL] in what a vtgate does not pass on to
// its servers: variables of the user that a statement sets, and the numbers of their sessions, by which statements are ended.
var Vitess = vitessDialect()

func vitessDialect() Dialect {
	d := mysqlDialect
	d.Name = "vitess"
	d.SessionNeeds = strings.Replace(d.SessionNeeds, "server: MySQL", "server: Vitess", 1)
	// The schema of a keyspace in the tables of the server has another name. A target, such as keyspace@primary, has none.
	d.Locate = `
SELECT '*', IF(LOCATE('@', DATABASE()) + LOCATE(':', DATABASE()) + LOCATE('/', DATABASE()) > 0, NULL, DATABASE())
` + allRowsOnMySQL
	d.Grants, d.NoGrants = "", "vtgate has users of its own, which no statement changes"
	d.Take, d.TakeKeys, d.Taken = "", "", ""
	d.Statements, d.Kill, d.Holder = "", "", ""
	// A vtgate ignores where SET TRANSACTION must not be.
	d.NeverInTx, d.OnlyInTx = "", "SAVEPOINT ratelimitgen_begun\nRELEASE SAVEPOINT ratelimitgen_begun"
	// A vtgate writes the doubles of prepared statements without an exponent, and MySQL reads 30 decimals of such numbers.
	d.DoublesAsText = true
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
