package fault

import "strings"

// mysqlErrors has the numbers of MySQL and MariaDB.
var mysqlErrors = errorTable{
	// ER_LOCK_WAIT_TIMEOUT, ER_LOCK_DEADLOCK and ER_CHECKREAD. A Galera node returns the second if another
	// node was first, also at COMMIT; a node of a MySQL group then returns ER_TRANSACTION_ROLLBACK_DURING_COMMIT.
	// ER_CANT_CHANGE_TX_CHARACTERISTICS: the connection was left in a transaction, see ended.
	retry: []string{"1205", "1213", "1020", "3101", "1568"},
	// ER_QUERY_INTERRUPTED, and ER_STATEMENT_TIMEOUT of MariaDB.
	locked: []string{"1317", "1969"},
	// ER_BAD_NULL_ERROR, ER_DUP_ENTRY, ER_WARN_DATA_OUT_OF_RANGE, WARN_DATA_TRUNCATED, ER_TRUNCATED_WRONG_VALUE,
	// ER_TRUNCATED_WRONG_VALUE_FOR_FIELD, ER_VIEW_CHECK_FAILED, ER_DATA_TOO_LONG, ER_NO_REFERENCED_ROW_2,
	// ER_ROW_IS_REFERENCED_2, ER_SIGNAL_EXCEPTION, ER_DATA_OUT_OF_RANGE, and a CHECK constraint that is violated, on
	// MySQL and on MariaDB.
	refused: []string{
		"1048", "1062", "1264", "1265", "1292", "1366", "1369", "1406", "1451", "1452", "1644", "1690", "3819", "4025",
	},
	// ER_PARSE_ERROR, ER_SP_DOES_NOT_EXIST, ER_BAD_FIELD_ERROR, ER_UNKNOWN_TABLE, ER_NO_SUCH_TABLE and
	// ER_UNKNOWN_SYSTEM_VARIABLE.
	Foreign: []string{"1064", "1305", "1054", "1109", "1146", "1193"},
	// ER_CANT_CHANGE_TX_CHARACTERISTICS: see TxInProgress.
	inTx: errorHint{codes: []string{"1568"}},
	hints: []errorHint{
		// ER_NO_SUCH_TABLE.
		{codes: []string{"1146"}, hint: MissingTable},
		// ER_DBACCESS_DENIED_ERROR, ER_TABLEACCESS_DENIED_ERROR and ER_COLUMNACCESS_DENIED_ERROR.
		{codes: []string{"1044", "1142", "1143"}, hint: LackingPrivilege},
		// ER_OPTION_PREVENTS_STATEMENT, ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION and ER_READ_ONLY_MODE.
		{codes: []string{"1290", "1792", "1836"}, hint: readOnlyServer},
		// ER_UNKNOWN_COM_ERROR, with which a Galera node refuses all statements while it is not in the primary component or
		// has not caught up; ER_SERVER_OFFLINE_MODE and ER_RUN_HOOK_ERROR, the same of a MySQL group.
		{codes: []string{"1047", "3032", "3100"}, hint: "the server is not a working member of its cluster: it is joining, or has lost " +
			"the majority of the nodes, so connect to another node, and see the server's log if that lasts"},
		// ER_BEFORE_DML_VALIDATION_ERROR.
		{codes: []string{"3098"}, hint: "a MySQL group refuses the table or the session: give table {table} its primary key and the " +
			"engine InnoDB, and in a group with several primaries do not use the isolation SERIALIZABLE"},
		// ER_BINLOG_STMT_MODE_AND_ROW_ENGINE: at READ COMMITTED, InnoDB writes no statements to the binary log.
		{codes: []string{"1665"}, hint: "the server writes statements to its binary log, which InnoDB refuses: set binlog_format=ROW or MIXED"},
		// ER_CANT_CHANGE_TX_CHARACTERISTICS.
		{codes: []string{"1568"}, hint: "the connection is in a transaction that was not ended: roll back transactions whose commit has " +
			"failed, and close the connection if that fails too"},
		// ER_SERVER_SHUTDOWN and ER_NORMAL_SHUTDOWN.
		{codes: []string{"1053", "1077"}, hint: "the server is shutting down: connect to another node, or wait until it is back"},
		// ER_BAD_DB_ERROR.
		{codes: []string{"1049"}, hint: missingDatabase},
		// ER_ACCESS_DENIED_ERROR and ER_ACCESS_DENIED_NO_PASSWORD_ERROR.
		{codes: []string{"1045", "1698"}, hint: refusedUser},
		// ER_CON_COUNT_ERROR and ER_TOO_MANY_USER_CONNECTIONS.
		{codes: []string{"1040", "1203"}, hint: tooManyConnections},
		// ER_PARSE_ERROR and ER_SP_DOES_NOT_EXIST.
		{codes: []string{"1064", "1305"}, hint: WrongDialect},
	},
}

// deadlockDuringCommit reports whether a node of a MySQL group has applied a transaction of another node instead of this
// one. It then returns ER_ERROR_DURING_COMMIT, which is any error of the storage engine, with
// HA_ERR_LOCK_DEADLOCK.
func deadlockDuringCommit(err error) bool {
	return MySQLNumber(err) == 1180 && strings.Contains(err.Error(), "Got error 149 ")
}

// TxInProgress is ER_CANT_CHANGE_TX_CHARACTERISTICS: a transaction cannot begin on a connection whose
// previous transaction is still open.
const TxInProgress = 1568
