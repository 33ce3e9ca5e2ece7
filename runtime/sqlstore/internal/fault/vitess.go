package fault

import (
	"slices"
	"strconv"
	"strings"
)

// Codes of errors of a vtgate. One number of MySQL stands for errors with opposite remedies, and a vtgate takes the number
// of others from their text, in which a key may have it: so the text decides.
const (
	vitessDeadlock    = "deadlock"
	vitessLockWait    = "lock wait"
	vitessEnded       = "transaction ended"
	vitessUnavailable = "no tablet"
	vitessPool        = "pool exhausted"
	vitessLost        = "lost"
	vitessRows        = "too many rows"
	vitessShards      = "several shards"
	vitessUnsupported = "unsupported"
	vitessReplica     = "replica"
	vitessNoTable     = "no table"
	vitessVSchema     = "no right to the vschema"
	vitessTwoPhase    = "no two-phase commit"
)

// vitessTexts are parts of the texts, the first of which decides.
var vitessTexts = []struct{ code, part string }{
	{vitessTwoPhase, "VT10002"},
	{vitessUnsupported, "VT12001"},
	// While a keyspace is resharded, vtgate runs a statement again in a transaction, which it then leaves.
	{vitessLost, "unexpected 'autocommitted' state in transaction"},
	{vitessUnsupported, "VT13001"},
	// A sharded keyspace has no such table, from which the time is read before anything else if the keyspace is in
	// Options.Table.
	{vitessUnsupported, "table dual not found"},
	{vitessUnsupported, "syntax error at position"},
	{vitessVSchema, "not authorized to perform vschema operations"},
	{vitessShards, "multi-db transaction attempted"},
	{vitessRows, "ow count exceeded"},
	{vitessReplica, "supported only for primary tablet type"},
	{vitessDeadlock, "Deadlock found"},
	{vitessLockWait, "Lock wait timeout exceeded"},
	{vitessEnded, "VT15001"},
	{vitessEnded, "exceeded timeout"},
	{vitessEnded, "potential transaction timeout"},
	{vitessEnded, "for tx killer rollback"},
	{vitessEnded, "transaction rolled back to reverse changes"},
	{vitessUnavailable, "operation not allowed in state SHUTTING_DOWN"},
	{vitessUnavailable, "operation not allowed in state NOT_SERVING"},
	{vitessUnavailable, "tx engine can't accept new connections"},
	{vitessUnavailable, "wrong tablet type"},
	{vitessUnavailable, "invalid tablet type"},
	{vitessUnavailable, "no healthy tablet"},
	{vitessUnavailable, "primary is not serving"},
	{vitessUnavailable, "inconsistent state detected"},
	{vitessUnavailable, "keyspace is being resharded"},
	{vitessUnavailable, "destination shard is missing"},
	{vitessUnavailable, "primary buffer is full"},
	{vitessUnavailable, "request evicted for newer request"},
	{vitessUnavailable, "before failover finished"},
	{vitessUnavailable, "connection refused"},
	{vitessPool, "pool connection limit exceeded"},
	{vitessLost, "rpc error: code = Unavailable"},
	{vitessLost, "RST_STREAM"},
	{vitessLost, "context canceled"},
	{vitessLost, "context deadline exceeded"},
}

// vitessBeginnings are the beginnings of all texts without a statement.
var vitessBeginnings = []string{"target: ", "vttablet: ", "VT", "multi-db transaction", "supported only for primary",
	"syntax error at position", "SAVEPOINT does not exist", "table ", "User '"}

// vitessErrors has codes of texts, and numbers of the servers behind the vtgate.
var vitessErrors = errorTable{
	// ER_OPTION_PREVENTS_STATEMENT is the error of a primary that is not writable yet.
	retry:  []string{vitessDeadlock, vitessLockWait, vitessEnded, vitessUnavailable, vitessPool, "1290"},
	locked: []string{vitessLockWait},
	// CR_CONNECTION_ERROR, CR_CONN_HOST_ERROR, CR_SERVER_GONE_ERROR, CR_SERVER_LOST and CR_MALFORMED_PACKET of the tablet's
	// connection.
	lost:    []string{vitessLost, "2002", "2003", "2006", "2013", "2027"},
	refused: mysqlErrors.refused,
	Foreign: append([]string{vitessUnsupported}, mysqlErrors.Foreign...),
	// ER_SP_DOES_NOT_EXIST.
	noTx: errorHint{codes: []string{"1305"}, messages: []string{"SAVEPOINT does not exist"}},
	hints: append([]errorHint{
		{codes: []string{vitessUnsupported}, hint: "vtgate cannot run a statement of dialect {dialect}: dialect vitess needs the keyspace of " +
			"table {table} as the database of the data source name, and not in Options.Table if it is sharded"},
		// ER_NO_DB_ERROR.
		{codes: []string{"1046"}, hint: "no keyspace is selected: name that of table {table} as the database of the data source name"},
		{codes: []string{vitessShards}, hint: "the transaction writes to several shards, which transaction_mode SINGLE refuses: keep what it " +
			"writes on the shard of the key, or commit it by itself, and set interpolateParams=true in the data source name, without which the driver has " +
			"any shard prepare the statements of the transaction"},
		{codes: []string{vitessVSchema}, hint: "vtgate does not let the user change the vschema, which distributes the rows of table {table} over the " +
			"shards: add the user to its --vschema-ddl-authorized-users, or pass what \"ratelimitgen sql {flags}\" prints about it to " +
			"\"vtctldclient ApplyVSchema --sql\""},
		{codes: []string{vitessTwoPhase}, hint: "Options.TwoPhase needs a keyspace whose primaries wait for a replica: set its durability policy to " +
			"semi_sync by \"vtctldclient SetKeyspaceDurabilityPolicy\", with a replica in each shard"},
		{codes: []string{vitessRows}, hint: "the statement reads or changes more rows than a tablet allows: raise the tablets' " +
			"--queryserver-config-max-result-size"},
		{codes: []string{vitessReplica}, hint: readOnlyServer},
		{codes: []string{vitessNoTable}, hint: MissingTable},
		{codes: []string{vitessUnavailable}, hint: "vtgate has no primary tablet for the keyspace of table {table}: one is being replaced or " +
			"is down, see SHOW VITESS_TABLETS"},
		{codes: []string{vitessPool}, hint: "the transactions of the tablet are used up: limit the connections of each process with " +
			"db.SetMaxOpenConns, or raise the tablets' --queryserver-config-transaction-cap"},
		{codes: []string{"1290"}, hint: "the primary server of the keyspace of table {table} is read-only, as after a crash: VTOrc or " +
			`"vtctldclient SetWritable" makes it writable`},
	}, mysqlErrors.hints...),
}

// vitessText returns the text of an error of a vtgate, without the statement and its values, which follow the message.
func vitessText(err error) (text string, ok bool) {
	for ; err != nil; err = unwrap(err) {
		if _, rest, numbered := strings.Cut(err.Error(), ": "); numbered && strings.HasPrefix(err.Error(), "Error ") {
			text = beforeStatement(rest)
			return text, len(text) < len(rest) ||
				slices.ContainsFunc(vitessBeginnings, func(b string) bool { return strings.HasPrefix(text, b) })
		}
	}
	return "", false
}

// vitessCode returns the code of an error of a vtgate.
func vitessCode(text string, number int) string {
	for _, t := range vitessTexts {
		if strings.Contains(text, t.part) {
			return t.code
		}
	}
	if strings.HasPrefix(text, "table ") && strings.HasSuffix(text, " not found") {
		return vitessNoTable
	}
	return strconv.Itoa(number)
}
