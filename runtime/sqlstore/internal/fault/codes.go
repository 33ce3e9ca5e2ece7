package fault

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// errorTable is the meaning of a database's error codes. There is one for each form of errors that CodeOf distinguishes,
// in the file of a dialect.
type errorTable struct {
	// retry are the codes after which the same transaction may succeed if it is run again.
	retry []string
	// locked are the codes of a statement that has waited too long for a lock, and did nothing.
	locked []string
	// refused are the prefixes of codes for a statement that failed because of a value in it, such as a key that a
	// constraint refuses; the same statement with other values may succeed.
	refused []string
	// lost are the codes of a server that has lost the connection to another one, behind it, on which it executed the
	// statement.
	lost []string
	// Foreign are the codes with which the database rejects a query of another one's system tables, settings or functions.
	Foreign []string
	// noTx and inTx are the errors of statements that need a transaction, and that none may be in. They have no hint.
	noTx, inTx errorHint
	// hints are in the order in which they are tried.
	hints []errorHint
}

// errorHint is the remedy for an error that is caused by the deployment.
type errorHint struct {
	// codes are codes of the database, or the first two characters of SQLSTATEs for a class.
	codes []string
	// messages distinguish errors that share a code: the error contains one of them, if there are any.
	messages []string
	// hint says how to fix it. See conn.Server.FillIn for the placeholders.
	hint string
}

// matches reports whether an error contains one of the messages, if there are any.
func (h errorHint) matches(err error) bool {
	contains := func(message string) bool { return strings.Contains(err.Error(), message) }
	return len(h.messages) == 0 || slices.ContainsFunc(h.messages, contains)
}

// Code is an error code of a database, as a text, and the table that it belongs to.
type Code struct {
	Table *errorTable
	Text  string
	// exact means that a code in a table must equal the text; otherwise it may be a prefix of the text.
	exact bool
}

// In reports whether the code is in a list.
func (c Code) In(list []string) bool {
	return slices.ContainsFunc(list, func(listed string) bool {
		return c.Text == listed || !c.exact && c.Text != "" && strings.HasPrefix(c.Text, listed)
	})
}

// stateOf returns the SQLSTATE of a driver's error, or "".
func stateOf(err error) string {
	var withState interface{ SQLState() string }
	if errors.As(err, &withState) {
		return withState.SQLState()
	}
	return ""
}

// sqliteCode returns the code of a driver's error, or 0.
func sqliteCode(err error) int {
	var withCode interface{ Code() int }
	if errors.As(err, &withCode) {
		return withCode.Code()
	}
	return 0
}

// MySQLNumber returns the number in "Error 1213 (40001): Deadlock found ...", or 0 if err does not have this form.
func MySQLNumber(err error) int {
	for ; err != nil; err = unwrap(err) {
		if rest, ok := strings.CutPrefix(err.Error(), "Error "); ok {
			digits, _, _ := strings.Cut(rest, " ")
			number, _ := strconv.Atoi(strings.TrimSuffix(digits, ":"))
			return number
		}
	}
	return 0
}

// Hinted is a hint and the error of the database, if there is one.
type Hinted struct {
	Text string
	Err  error
}

func (e *Hinted) Error() string {
	if e.Err == nil {
		return e.Text
	}
	return e.Text + ": " + e.Err.Error()
}

// Unwrap returns the driver's error.
func (e *Hinted) Unwrap() error { return e.Err }

// Hints that several databases share.
const (
	LackingPrivilege = "the database user lacks a privilege: on table {table} it needs SELECT, INSERT, UPDATE and DELETE, " +
		"and to run Migrate also CREATE"
	readOnlyServer = "the server, or the transaction, is read-only: taking tokens writes to the table, so connect to the " +
		"primary server, and not to a replica, and begin transactions that may write (default_transaction_read_only on Postgres, " +
		"transaction_read_only on MySQL, tx_read_only on MariaDB)"
	missingDatabase = "the database does not exist: create it, or name another in the data source name"
	refusedUser     = "the server refuses the database user: check user and password in the data source name, and which " +
		"users the server accepts from this host"
	tooManyConnections = "the server accepts no more connections: limit those of each process with db.SetMaxOpenConns, or " +
		"allow more in the server"
	WrongDialect      = "the database rejects the SQL of dialect {dialect}: pass the database's own dialect to sqlstore.New"
	endedTx           = "the transaction has ended: it was committed or rolled back, or its context has ended"
	closedConn        = "the connection was closed, or returned to its pool"
	ClosedDatabase    = "the *sql.DB was closed: close the store before it, and make no calls afterwards"
	unreachableServer = "the database server cannot be reached: check host and port in the data source name, and that the " +
		"server runs"
)

// Hints about the table and the session. See conn.Server.FillIn for the placeholders.
const (
	MissingTable     = `there is no table {table}: call Start or Migrate, or run what "ratelimitgen sql {flags}" prints`
	MissingTableInTx = `there is no table {table} where the transaction was begun: begin it in the database that holds the counts, ` +
		`or create the table there: call Start or Migrate, or run what "ratelimitgen sql {flags}" prints`
	// Some databases do not list a table for a user without privileges on it.
	InvisibleTable = `there is no table {table}, or no right to see it: call Start or Migrate, or run what "ratelimitgen sql {flags}" prints`
	WrongSession   = `change the settings of the connections, in the data source name or in the server`
	// OtherServer is for a server that accepts the dialect's statements, and would return other results.
	OtherServer = `dialect {dialect} is that of another database: pass the database's own dialect to sqlstore.New, if there is one`
	// ChangedSession is for a session whose settings were right when the store was prepared.
	ChangedSession = `a program, or another client of a pooler, has changed the settings of a connection`
	// The encoding of an existing database cannot be changed.
	WrongEncoding = `keep table {table} in a database whose encoding is UTF8, such as "CREATE DATABASE ... ENCODING 'UTF8' ` +
		`TEMPLATE template0" makes`
	// The first versions before the registry stored the tokens left, and the later ones the tokens used.
	FirstTable = `table {table} is that of a version before v0.1.0, which did not record what its rows mean, and that has changed: if ` +
		`only versions of 23 November 2026 or later have written it, run "ALTER TABLE {name} RENAME COLUMN ts TO at_ns", add ` +
		`the column log of "ratelimitgen sql {flags}", and run Migrate; otherwise drop the table, upon which all keys are full`
	// FirstRows has the name of a limit.
	FirstRows = `table {table} has rows that a version before 23 November 2026 has written, such as one of limit %q: they say how many tokens ` +
		`are left, and today's how many are used, so that all of their keys would be full. Drop the table and run Migrate, upon which all keys are ` +
		`full too, or delete the rows whose value is above 0 if a version of today has already used the table`
	WrongTable = `change table {table} to what "ratelimitgen sql {flags}" prints`
)
