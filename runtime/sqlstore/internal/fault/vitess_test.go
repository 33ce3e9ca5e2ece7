package fault

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

// vtgateError has the form of an error of go-sql-driver/mysql.
func vtgateError(number int, state, text string) error {
	return errors.New(fmt.Sprintf("Error %d (%s): ", number, state) + text)
}

// behind is the beginning of an error of a tablet, and statement the end, with a key that looks like another error.
const (
	behind    = "target: limits.0.primary: vttablet: rpc error: code = "
	statement = ` (errno 1213) (sqlstate 40001) (CallerID: userData1): Sql: "insert into rate_limits values (:v1)", BindVars: {v1: ` +
		`"type:VARBINARY value:\"Deadlock found (errno 1213) (sqlstate 40001)\""}`
)

func TestErrorsOfVitessAreKnownByTheirTexts(t *testing.T) {
	for name, row := range map[string]struct {
		err error
		// again: nothing was done, and the same transaction may succeed. lost: it may have been committed.
		again, lost bool
		hint        string
	}{
		"deadlock": {vtgateError(1213, "40001", behind+"Aborted desc = Deadlock found when trying to get lock; try restarting transaction (errno 1213) "+
			`(sqlstate 40001) (CallerID: u): Sql: "select 1", BindVars: {}`), true, false, ""},
		"lock wait": {vtgateError(1205, "HY000", behind+"DeadlineExceeded desc = Lock wait timeout exceeded; try restarting transaction (errno 1205) "+
			`(sqlstate HY000) (CallerID: u): Sql: "select 1", BindVars: {}`), true, false, ""},
		"transaction timeout": {vtgateError(1317, "70100", behind+"Aborted desc = transaction 1764: ended at 2026-11-29 04:00:00 UTC (exceeded timeout: 5s)"),
			true, false, ""},
		"tablet restarted": {vtgateError(1317, "70100", behind+"Aborted desc = transaction 1764: not found (potential transaction timeout)"), true, false, ""},
		"query timeout":    {vtgateError(1317, "70100", behind+"Canceled desc = stream terminated by RST_STREAM with error code: CANCEL"), false, true, ""},
		"many rows":        {vtgateError(1317, "70100", behind+"Aborted desc = Row count exceeded 10000"), false, false, "more rows than a tablet allows"},
		"many changes":     {vtgateError(1317, "70100", behind+"Aborted desc = caller id: u: row count exceeded 10000"), false, false, "more rows than a tablet allows"},
		"several shards": {vtgateError(1317, "70100", "multi-db transaction attempted: [target:{keyspace:\"limits\" shard:\"-80\"}]"), false, false,
			"writes to several shards"},
		"no connection": {vtgateError(1203, "42000", behind+"ResourceExhausted desc = transaction pool connection limit exceeded (CallerID: u)"), true, false,
			"--queryserver-config-transaction-cap"},
		"no tablet": {vtgateError(1105, "HY000", `target: limits.0.primary: no healthy tablet available for 'keyspace:"limits" shard:"0" tablet_type:PRIMARY'`),
			true, false, "no primary tablet"},
		"no primary": {vtgateError(1105, "HY000", "target: limits.0.primary: primary is not serving, there may be a reparent operation in progress"), true, false,
			"no primary tablet"},
		"no tablet yet": {vtgateError(1105, "HY000", "target: limits.0.primary: inconsistent state detected, primary is serving but initially found no "+
			"available tablet"), true, false, "no primary tablet"},
		"one phase": {vtgateError(1105, "HY000", "VT10002: atomic distributed transaction not allowed: not configured for semi-sync"), false, false,
			"set its durability policy to semi_sync"},
		"buffered too long": {vtgateError(1105, "HY000", "target: limits.0.primary: context was canceled before failover finished: context canceled"), true, false,
			"no primary tablet"},
		"tablet down": {vtgateError(1105, "HY000", behind+"Unavailable desc = connection error: desc = \"transport: Error while dialing: dial tcp 127.0.0.1:1: "+
			"connect: connection refused\""), true, false, "no primary tablet"},
		"tablet lost":         {vtgateError(1105, "HY000", behind+"Unavailable desc = error reading from server: EOF"), false, true, ""},
		"resharded meanwhile": {vtgateError(1815, "HY000", "VT13001: [BUG] unexpected 'autocommitted' state in transaction"), false, true, ""},
		"server lost": {vtgateError(2013, "HY000", behind+"Unknown desc = Lost connection to MySQL server during query (errno 2013) (sqlstate HY000)"), false,
			true, ""},
		"broken transaction": {vtgateError(1105, "HY000", "VT15001: transaction error, issue ROLLBACK and retry the transaction"), true, false, ""},
		"shutting down":      {vtgateError(1105, "HY000", behind+"FailedPrecondition desc = operation not allowed in state SHUTTING_DOWN"), true, false, "no primary tablet"},
		"read-only server": {vtgateError(1290, "HY000", behind+"FailedPrecondition desc = The MySQL server is running with the --super-read-only option so it "+
			"cannot execute this statement (errno 1290) (sqlstate HY000)"), true, false, "vtctldclient SetWritable"},
		"replica":         {vtgateError(1105, "HY000", "supported only for primary tablet type, current type: replica (CallerID: u)"), false, false, "to the primary server"},
		"no routed table": {vtgateError(1105, "HY000", "table rate_limits not found"), false, false, "there is no table"},
		"no table": {vtgateError(1146, "42S02", behind+"NotFound desc = Table 'vt_limits.rate_limits' doesn't exist (errno 1146) (sqlstate 42S02) (CallerID: u)"),
			false, false, "there is no table"},
		"a sharded keyspace":  {vtgateError(1105, "HY000", "table dual not found"), false, false, "not in Options.Table if it is sharded"},
		"unsupported":         {vtgateError(1235, "42000", "VT12001: unsupported: Assignment expression"), false, false, "not in Options.Table if it is sharded"},
		"unsupported as 1105": {vtgateError(1105, "HY000", "VT12001: unsupported: json_table expressions"), false, false, "not in Options.Table if it is sharded"},
		"syntax":              {vtgateError(1105, "HY000", "syntax error at position 22"), false, false, "not in Options.Table if it is sharded"},
		"the vschema":         {vtgateError(1044, "42000", "User 'app' is not authorized to perform vschema operations"), false, false, "--vschema-ddl-authorized-users"},
		"no keyspace": {vtgateError(1046, "3D000", "VT09005: no database selected: use keyspace<:shard><@type> or keyspace<[range]><@type>"), false, false,
			"no keyspace is selected"},
		"no keyspace of the name": {vtgateError(1049, "42000", "VT05003: unknown database 'x' in vschema"), false, false, "the database does not exist"},
		"a number in a key":       {vtgateError(1213, "40001", behind+"Unavailable desc = error reading from server: EOF"+statement), false, true, ""},
	} {
		for _, err := range []error{row.err, fmt.Errorf("wrapped: %w", row.err), Cut(fmt.Errorf("wrapped: %w", row.err))} {
			assert.Equal(t, row.again, Retryable(err), "%s: retry", name)
			assert.Equal(t, row.again, Undone(err), "%s: undone", name)
			assert.Equal(t, row.lost, Lost(err), "%s: lost", name)
			assert.Equal(t, row.lost, errors.Is(OfCommit(err), ErrOutcomeUnknown), "%s: commit", name)
			if row.hint == "" {
				assert.Empty(t, HintFor(err), name)
			} else {
				assert.Contains(t, HintFor(err), row.hint, name)
			}
		}
	}
}

func TestVitessHasNoTransactionToRelease(t *testing.T) {
	assert.True(t, NoTx(vtgateError(1305, "42000", "SAVEPOINT does not exist: RELEASE SAVEPOINT x")))
	assert.False(t, NoTx(vtgateError(1305, "42000", behind+"Unknown desc = SAVEPOINT x does not exist (errno 1305) (sqlstate 42000)")))
}

func TestErrorsOfVitessLoseTheirStatement(t *testing.T) {
	err := &Hinted{Text: "a hint", Err: fmt.Errorf("gave up: %w", vtgateError(1105, "HY000", behind+"Unavailable desc = EOF"+statement))}
	got := Cut(err)
	assert.EqualError(t, got, "a hint: gave up: Error 1105 (HY000): "+behind+"Unavailable desc = EOF (errno 1213) (sqlstate 40001)")
	assert.Nil(t, errors.Unwrap(got), "what unwraps to the driver's error can be logged")
	assert.ErrorAs(t, got, new(*Hinted))
	assert.ErrorIs(t, Cut(OutcomeUnknown(err)), ErrOutcomeUnknown)
	assert.Equal(t, 1105, MySQLNumber(got))
	for _, whole := range []error{nil, errors.New("Error 1213 (40001): Deadlock found")} {
		assert.Equal(t, whole, Cut(whole))
	}
}

// A commit in two phases may go through after an error that otherwise means that nothing was done: to run it again would
// take twice.
func TestUnknownOutcomeIsNotTriedAgain(t *testing.T) {
	for _, text := range []string{"target: limits.0.primary: no healthy tablet available", "VT15001: transaction error, issue ROLLBACK and retry the transaction",
		behind + "DeadlineExceeded desc = Lock wait timeout exceeded; try restarting transaction"} {
		err := vtgateError(1105, "HY000", text)
		assert.True(t, Retryable(err), text)
		assert.False(t, Retryable(OutcomeUnknown(err)), text)
		assert.False(t, Undone(OutcomeUnknown(err)), text)
	}
}
