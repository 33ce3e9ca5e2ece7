package fault

import (
	"slices"
	"strings"
)

// postgresErrors has SQLSTATEs, or their first two characters for a class.
var postgresErrors = errorTable{
	// serialization_failure, deadlock_detected and lock_not_available.
	retry: []string{"40001", "40P01", "55P03"},
	// lock_not_available.
	locked: []string{"55P03"},
	// The classes data exception, integrity constraint violation, with check option violation, program limit exceeded,
	// and the errors that triggers raise.
	refused: []string{"22", "23", "44", "54", "P0"},
	// syntax_error, undefined_function, undefined_object, undefined_column and undefined_table.
	Foreign: []string{"42601", "42883", "42704", "42703", "42P01"},
	// no_active_sql_transaction.
	noTx: errorHint{codes: []string{"25P01"}},
	hints: []errorHint{
		// undefined_table.
		{codes: []string{"42P01"}, hint: MissingTable},
		// invalid_schema_name.
		{codes: []string{"3F000"}, hint: "the schema of table {table} does not exist: create it, because Migrate creates only " +
			"the table"},
		// insufficient_privilege.
		{codes: []string{"42501"}, hint: LackingPrivilege},
		// in_failed_sql_transaction.
		{codes: []string{"25P02"}, hint: "an earlier statement of the transaction has failed: roll it back, and run it again from " +
			"its beginning"},
		// datatype_mismatch.
		{codes: []string{"42804"}, hint: WrongTable},
		// read_only_sql_transaction.
		{codes: []string{"25006"}, hint: readOnlyServer},
		// feature_not_supported, a replica's error for a transaction that writes.
		{codes: []string{"0A000"}, hint: "the server does not support a feature that the store needs: if it is a read-only replica, " +
			"connect to the primary server"},
		// invalid_catalog_name.
		{codes: []string{"3D000"}, hint: missingDatabase},
		// The class invalid authorization specification.
		{codes: []string{"28"}, hint: refusedUser},
		{codes: misplacedStatement, hint: namedStatements},
		// protocol_violation, with which PgBouncer reports errors of its own.
		{codes: []string{"08P01"}, messages: []string{"bind message supplies", "prepared statement name is already in use"},
			hint: namedStatements},
		{codes: []string{"08P01"}, messages: []string{"not allowed in statement pooling mode"},
			hint: "the pooler does not allow transactions: set PgBouncer's pool_mode to transaction or session"},
		{codes: []string{"08P01"}, messages: []string{"unsupported startup parameter"},
			hint: "the pooler does not accept a startup parameter of the connection: add it to PgBouncer's " +
				"ignore_startup_parameters (some releases of lib/pq send extra_float_digits)"},
		{codes: []string{"08P01"}, messages: []string{"query_wait_timeout"},
			hint: "the pooler had no connection to the server in time: check that it reaches the server, and raise its pool_size " +
				"or limit the connections of each process with db.SetMaxOpenConns"},
		{codes: []string{"08P01"}, messages: []string{"no such database", "bouncer config error"},
			hint: "PgBouncer's configuration lacks the database or its user: add it"},
		{codes: []string{"08P01"},
			messages: []string{"server login", "server_login_retry", "cannot connect to server", "server conn crashed"},
			hint: "the pooler cannot reach the database server: check host, port and user in PgBouncer's [databases], and " +
				"that the server runs"},
		{codes: []string{"08P01"}, messages: []string{"no more connections allowed"},
			hint: "the pooler accepts no more connections: limit those of each process with db.SetMaxOpenConns, or raise " +
				"PgBouncer's max_client_conn"},
		// The class connection exception, and cannot_connect_now. A refused connection has no SQLSTATE: see unreachable.
		{codes: []string{"08", "57P03"}, hint: unreachableServer},
		// too_many_connections.
		{codes: []string{"53300"}, hint: tooManyConnections},
		// syntax_error, undefined_function and undefined_object.
		{codes: []string{"42601", "42883", "42704"}, hint: WrongDialect},
	},
}

// sessionEnded are admin_shutdown, crash_shutdown and idle_session_timeout.
var sessionEnded = []string{"57P01", "57P02", "57P05"}

// misplacedStatement are invalid_sql_statement_name and duplicate_prepared_statement: a session does not have the
// statement that a driver has prepared in it, or has one of another client.
var misplacedStatement = []string{"26000", "42P05"}

// changedResult reports whether the columns of a prepared statement have changed, as after a migration of the table.
func changedResult(err error) bool {
	return stateOf(err) != "" && strings.Contains(err.Error(), "cached plan must not change result type")
}

// CreatedMeanwhile reports whether CREATE TABLE IF NOT EXISTS failed because another session was creating the table:
// Postgres checks for the table first, and does not lock its name.
func CreatedMeanwhile(err error) bool {
	// unique_violation, duplicate_table and duplicate_object.
	return slices.Contains([]string{"23505", "42P07", "42710"}, stateOf(err))
}

const (
	namedStatements = "a named prepared statement is missing in this session, or is another client's, because a pooler " +
		"gave the transaction another session: set default_query_exec_mode=exec in pgx's data source name, or " +
		"pool_mode = session or, from PgBouncer 1.21 on, max_prepared_statements in the pooler"
	ClosedAtBegin = "the server, or a pooler before it, closes connections when a transaction begins: if it is PgBouncer " +
		"with pool_mode = statement, set it to transaction or session"
)
