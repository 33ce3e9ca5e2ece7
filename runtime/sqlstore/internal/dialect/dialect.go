// Package dialect has the statements and settings of databases, of which package sqlstore/dialect has the names. It imports
// no driver.
package dialect

import (
	"database/sql"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
)

// penaltyLength is how much of a log CompareAndSwap compares.
var penaltyLength = strconv.Itoa(meter.PenaltyLength)

// DefaultTable is the name of the table if sqlstore.Options.Table is empty.
const DefaultTable = "rate_limits"

// Dialect is the statements and settings of a database: data without code.
//
// In each text, {table} is replaced by the quoted name of the table, {schema} and {name} by its two parts without quotes,
// {schema.} by the quoted schema with a dot unless it is empty, and {key} by the quoted name of the column key, which is a
// word of SQL. A parameter is written with a colon, as :name. A field is optional if its comment says what an empty one
// means.
type Dialect struct {
	// Name is the name in flags and messages: "sqlite".
	Name string
	// Numbered means that parameters are $1, $2 and so on. If it is false, they are ?.
	Numbered bool
	// Literals means that arguments are sent as literals of MySQL in the text of a statement, for a database that would round
	// doubles, and that prepares a statement on another server than the one that runs it.
	Literals bool
	// Quote is the character before and after a quoted name.
	Quote string
	// Prepare makes the store prepare statements in the database, each at its first use. If it is false, statements are
	// sent with their arguments, and only the driver may prepare them. It must be false for a database that is
	// reached through a pooler that sends each transaction to another session, where a prepared statement
	// may be missing, or be another client's.
	Prepare bool
	// Isolation is the isolation level of transactions that the store begins; zero is the database's default. Read must
	// return the rows as they are committed when it gets their locks, not as they were when the transaction began.
	Isolation sql.IsolationLevel
	// OneWriter means that the database runs in this process and has one writer at a time, so that a statement cannot be
	// interrupted while it waits for the disk, and another one could not go around it.
	OneWriter bool

	// Create creates the table if it does not exist.
	Create string
	// Describe selects the name and the description of each part of the table, such as "value" and "double", or
	// "primary key" and "name, key, shard", and nothing if the table does not exist. If it is empty, the table is
	// not checked before it is used.
	Describe string
	// Locate selects names of tables and the schemas in which the session finds them, of those in {names}, a list of texts. The
	// store runs it once, and from then on names its tables with their schemas, so that a session whose search path or database
	// is another one uses the same tables. Two schemas of one name are an error, so Locate may also select the one in which the
	// session would have found the table when it began. A row with the name "." has the schema in which a table is created, and
	// one with "*" that of all tables, whether they exist or not. If Locate is empty, names are sent as they are given.
	Locate string
	// Keyspaces selects, for a database that may be sharded, the name of each schema as its first column, and whether it is
	// sharded as its second one, true or false. If the schema of the session is, the table of counts is there, and the others
	// in one that is not: that which has the table of registrations, or the only one. Vindexes selects the columns and the name
	// of the functions that distribute the rows of the table, and AddVindex is a statement that has the column first_part
	// distribute them, which is the key up to the first "|". PlacesOf begins a statement that selects values of that column and
	// their shards, from a function as {table}, and ends before a list of values. UsePlace has all further statements of a
	// session go to the shard {place} of the schema. If they are empty, the database is not sharded.
	Keyspaces, Vindexes, AddVindex, PlacesOf, UsePlace string
	// TwoPhase has the transactions of a session be atomic over all shards to which they write, and OnePhase refuses those that
	// write to several again. If they are empty, no transaction is.
	TwoPhase, OnePhase string
	// AddColumn adds the last of Parts to a table that lacks it, with its value for the rows that exist. If it is empty, a
	// table has had all of them since the first version.
	AddColumn string
	// Parts are the parts that the table must have, in the form of Describe, one per line: the name and the accepted
	// descriptions, "at_ns: bigint | int8", the one of Create's table first. It goes with Describe.
	Parts string
	// CreateOverrides creates the table of overrides if it does not exist, and OverridesParts are the parts that it must have,
	// as with Create and Parts. The columns are those of Postgres's. The table must refuse a second row with an id, and rows
	// that exceed the most that the limit declares. If they are empty, limits cannot have overrides.
	CreateOverrides, OverridesParts string
	// CreateRegistry creates the table of registrations if it does not exist, and RegistryParts are the parts that it must
	// have, as with Create and Parts. The columns are those of Postgres's. If they are empty, the limits of another program, or
	// with another key, are not told apart.
	CreateRegistry, RegistryParts string
	// Grants are the statements that give the role {app} of a program, and {migrator}, which runs Migrate, the privileges that
	// they need on {table}, {overrides} and {registry}. If it is empty, NoGrants says why.
	Grants, NoGrants string
	// Session selects the names and values of the session's settings on which the statements rely. If it is empty, no
	// settings are checked.
	Session string
	// SessionNeeds is the accepted values of Session's settings, in the form of Parts. It goes with Session.
	SessionNeeds string
	// Ready and ReadyNeeds are the same for settings that make no call wrong, but may make calls wait for long: only Ready
	// checks them.
	Ready, ReadyNeeds string

	// One and Many are the sources of a statement's rows: both select the columns name, key, shard, value, at_ns
	// and prev, and replace {rows} in the statements below. One has the parameters :name, :key, :shard,
	// :value, :at_ns and :prev. Many has :rows, a JSON list of lists of the six, in the order in which the rows are to be
	// locked; value and prev are strings in it, because MySQL 8.0 reads numbers in JSON with a digit too few. Or it has
	// :names, :keys, :shards, :values, :instants and :prevs, Postgres array literals, and the parameters of
	// One: the array of a column that is the same for all rows is empty, and the parameter of One has the value. No two
	// rows have the same name, key and shard.
	One, Many string
	// OneLogged and ManyLogged are One and Many with a seventh column, log, of bytes or NULL. They replace {logged}. The
	// parameter of OneLogged is :log, and in place of :rows, ManyLogged has :logged, whose lists have the log in hexadecimal
	// digits as their seventh element, or :logs, an array literal of those of Postgres, in which an empty log is empty.
	OneLogged, ManyLogged string
	// ManySwapped is ManyLogged with the columns oldvalue, oldat, oldprev and oldpenalty, as CompareAndSwap compares them, and
	// replaces {swapped}. It has :oldvalues, :oldinstants, :oldprevs and :oldpenalties too, and the parameters of
	// CompareAndSwap. If it is empty, SwapMany has its rows from :swaps, a JSON list of lists of name, key, shard, value,
	// at_ns, prev, log and the other four, in the form of :logged.
	ManySwapped string
	// ManyNumbered is Many with the columns capacity, rate, period, debt, lowest and allowance, and replaces {numbered}. It has
	// :capacities, :rates, :periods, :debts, :lowests and :allowances too, and the parameters of Take.
	ManyNumbered string
	// ManyKeys selects name, key and shard only, where that is faster, and replaces {keys}. It has :ids, a JSON list of
	// lists of the three. If it is empty, Many replaces {keys}. OneKey is the same for One.
	//
	// On a database that cannot read lists from a parameter, these sources are no selects but values: those of a row, or
	// :tuples, :loggedtuples or :keytuples, which are literals of MySQL for all rows, with "),(" between two of them.
	//
	// On such a database, {parts} is replaced by the first parts of the keys: :first_part, or :parts, literals with commas
	// between them.
	OneKey, ManyKeys string

	// ReadHint is a comment that begins each statement that reads one of the store's tables without a lock, or follows its
	// SELECT if it is a directive, /*vt+. A proxy that sends reads to a replica, which may lag, or answers one by the result of
	// another that had begun before it, understands it and sends the statement to the primary server. If it is empty, the
	// database has no such proxies.
	ReadHint string
	// Read locks the rows that exist, in their order, until the transaction ends, and selects
	// their name, key, shard, value, at_ns, prev and log, as bytes or as a text of hexadecimal digits.
	Read string
	// ReadUnlocked selects the same columns as last committed, outside of a transaction. If it is empty, Read is used.
	ReadUnlocked string
	// ReadManyUnlocked is ReadUnlocked for several rows. If it is empty, ReadUnlocked is used for them too.
	ReadManyUnlocked string
	// ReadFree is Read without the rows that other transactions have locked, and waits for none of them. If it is empty, the
	// store finds out by trying which rows are locked.
	ReadFree string
	// InsertPlaceholders inserts the missing rows with the smallest at_ns, -9223372036854775808, as placeholders, and
	// locks all rows. If it is empty, the database has one writer at a time, and missing rows need no lock.
	InsertPlaceholders string
	// Write inserts or updates the rows, which it gets from {logged}. If a server can end a transaction unnoticed, see TxOpen,
	// neither Write nor Delete may affect a row outside of one.
	Write string
	// Delete deletes the rows, DeleteUnchanged those whose value, at_ns and prev have not changed, and DeleteKey those of :name
	// with the key :key, in all shards.
	Delete, DeleteUnchanged, DeleteKey string
	// Page selects key, shard, value, at_ns, prev and log of :count rows of the limit :name after :key and
	// :shard, in that order.
	Page string

	// Take takes tokens by the formula of meter.Upsert from rows of one limit. The value of a row is -Count, its at_ns
	// T, and its prev that of a new row; the other parameters are :capacity, :twice, which is 2*Capacity, :rate, :period,
	// which is an integer, :debt, :lowest, :allowance, :unit, which is meter.TotalUnit, and :fresh.
	// It selects key, value, at_ns, prev and 1 of the rows that it has written; it may select others with 0; see Taken for a
	// database that cannot. In place of {rows} it may have :name and :takes, a JSON list of lists of key, value, as a
	// string, and at_ns. If it is empty, the store takes by TakeInsertID or by other statements.
	Take string
	// TakeShards is Take for rows of any shard, and not only of shard 0, as TakeOne then is too. In place of :takes it may have
	// :sharded, whose lists have the shard as their fourth element. If it is empty, other statements take from shards.
	TakeShards string
	// TakeKeys is Take for rows with the same value and at_ns, :value and :at_ns, and with :only, a JSON list of their keys. It
	// goes with Taken.
	TakeKeys string
	// TakeEach is Take for rows of shard 0, each with numbers of its own. In place of {rows} it has {numbered}; or :name and
	// :each, a JSON list of lists of key, value, at_ns, capacity, rate, period, debt, lowest and allowance, with doubles as
	// strings. It need not insert rows that do not exist. If it is empty, rows with different numbers are of different
	// statements.
	TakeEach string
	// TakeOne is Take for one row, without :durability, which is 0. It selects value, at_ns, prev and 1 if it has written the
	// row. If it is empty, Take is used for one row too.
	TakeOne string
	// TakeInsertID is TakeOne for a database that cannot select the rows that it has written. It returns its result as the
	// number of affected rows and the id of the last insert:
	//
	//	row        affected  id
	//	inserted   1         0x7261746c67690000
	//	taken from 2         the bits of its value, the least byte first, each of them inverted; its at_ns is T
	//	unchanged  0 or 1    0x7261746c67690100
	//
	// It may leave rows unchanged whose at_ns is after T. No finite value is encoded as one of the two numbers, or as 0.
	// Any other result is an error, as where a trigger makes MySQL lose the id, or a column numbers the rows; the call may
	// then have taken tokens. Describe and Parts should refuse such a table. Reserved tokens are taken by other statements,
	// because this one does not return prev, without which few of them could be refunded. If it is empty, the store takes by
	// Take or by other statements.
	TakeInsertID string
	// Taken is for a database that cannot select the rows that it has written: it selects the result of the session's last
	// statement, a Take or TakeKeys that selects nothing, as eight bytes for each row in their order. They are the bits of the
	// value of a row taken from, the least byte first, whose at_ns is T, or the text inserted, or the text unedited: as
	// values, these would be positive. Take and TakeKeys are then sent with their arguments as literals of MySQL,
	// because package database/sql cannot run a statement that it has prepared on a chosen connection. A part
	// of one row is taken by TakeInsertID. If it is empty, Take selects the rows.
	Taken string
	// TakeTogether is Take as the part for rows of one limit of a statement that takes from several limits, from all rows or
	// none. It has the condition {when}, and selects key as k, value, at_ns and prev. Denies is true if one of {rows}, as last
	// committed, lacks tokens; the statement then does nothing. Undone is an expression with the column at_ns that fails when
	// it is evaluated, with an error about a value: that undoes a statement of which some parts have not taken. If they are
	// empty, a transaction takes from several rows.
	TakeTogether, Denies, Undone string
	// CompareAndSwap updates one row that still has :oldvalue, :oldat and :oldprev, and :oldpenalty as the first
	// meter.PenaltyLength bytes of its log: the rest of a log does not change without the numbers. If it is empty, a
	// transaction does.
	CompareAndSwap string
	// SwapMany is CompareAndSwap for several rows, each by itself. It selects name, key, shard and a result of rows: 1 if it
	// has updated a row, and 2 if it has inserted a placeholder for a missing one. It need not select others, whose result is
	// 0. If there is a Taken, it selects nothing: Taken then selects the result of each row as a digit, in their order, and if
	// all rows were updated, the number of affected rows is twice as many. If it is empty, a transaction writes several rows.
	SwapMany string

	// BoundWaits is a condition that is true, and makes the statement fail if it then waits for a lock for more than 50 ms: the
	// calls for other rows are executed without it. The store adds it to the sources of rows, and to the end of CompareAndSwap.
	BoundWaits string
	// BoundTime comes before a statement that may wait for locks, and makes it fail if it takes more than 200 ms: longer than
	// BoundWaits, because the time of a statement that is only slow counts too.
	BoundTime string
	// BoundSession means that a setting of the session ends waits for locks, as ReadyNeeds requires.
	BoundSession bool
	// Holder selects a text about the transaction that has locked a row: its session and since when it is open. If it is empty,
	// or fails, as without a privilege for it, errors do not name the transaction.
	Holder string
	// Statements selects the columns Id and Info, among others: the number of each session, and the text of the statement that
	// it executes. Kill ends a session's statement, not the session: the number comes at the end. The store then sends a
	// statement that may wait for locks as a text of MySQL after a comment, and ends it after 200 ms. A dialect has one of
	// BoundWaits, BoundTime, BoundSession and these two; if it has none, calls that share a statement wait for all of its rows.
	Statements, Kill string

	// Sync is the session's setting for waiting for the disk at a commit: as a statement it selects a number, and followed
	// by "= 2" it makes the session wait. If it is empty, the database has no such setting, and Write, Delete, Take and
	// CompareAndSwap may choose by their parameter :durability: 0 is the database's setting, 1 relaxed and 2 full.
	Sync string
	// Reclaim makes room on a full volume, such as by emptying a log. If it is empty, no statement can.
	Reclaim string
	// Now selects the database's clock, in microseconds since 1970 UTC. If it is empty, the store uses the
	// process's clock.
	Now string
	// FindPrepared selects whether the session has a prepared statement whose text is like :name. Its own text contains
	// ratelimitgen_named. Ready runs it to find out whether the driver prepares statements under names, and whether a
	// pooler mixes them up. If it is empty, the database has no such poolers.
	FindPrepared string
	// FindReplica selects whether the current transaction is read-only, as it is on a replica. Ready runs it as it runs reads,
	// with ReadHint, to find out whether a proxy sends them to a replica. If it is empty, this is not checked.
	FindReplica string

	// RepeatsStatements selects a row if the server may execute a statement again after it has responded to it, outside
	// of a transaction, as Galera nodes may. Then no statement that writes is sent outside of one. If it is empty, no
	// server does.
	RepeatsStatements string
	// TxOpen selects 1 while the session is in a transaction, and 0 otherwise. It is for servers for which
	// RepeatsStatements selects a row: they may abort a transaction between two statements, and discard the error if the
	// next command prepares or closes a statement, so that the next statements run outside of the transaction. If it is
	// empty, no server does.
	TxOpen string
	// OnlyInTx is a statement that fails outside of a transaction, and NeverInTx one that fails inside, each with an error
	// that fault.NoTx or fault.InTx recognizes, or several of them, a line each. They change nothing. The store runs one of
	// them on the connection that a caller has passed to WithConn. Without both, none is accepted.
	OnlyInTx, NeverInTx string
	// CountPrepared selects how many statements the session has prepared on the server, which shows whether a driver that
	// gets :name as an argument prepares the statement or writes the argument into it. It goes with TxOpen.
	CountPrepared string
	// Latest selects the greatest at_ns of some rows, or NULL: the nodes of a cluster have a clock each, and an at_ns
	// in the future shows that they differ. If it is empty, clocks are not compared.
	Latest string
}

// deleteKey is the DeleteKey of most dialects.
const deleteKey = "DELETE FROM {table} WHERE name = :name AND {key} = :key"

// Text returns a statement with its placeholders filled in for a table, [DefaultTable] if it is "". The
// error is about the table's name.
func (d Dialect) Text(statement, table string) (string, error) { return d.TextIn("", statement, table) }

// TextIn is Text for a table in a schema, which is put before the table's name unless the name has one or schema is "".
func (d Dialect) TextIn(schema, statement, table string) (string, error) {
	if table == "" {
		table = DefaultTable
	}
	if schema, name, qualified := strings.Cut(table, "."); !isName(schema) || qualified && !isName(name) {
		return "", fmt.Errorf("table %q: a name has only letters, digits and underscores, and at most one dot", table)
	}
	given, name, ok := strings.Cut(table, ".")
	if ok {
		schema = given
	} else {
		name = table
	}
	dotted, quoted := "", d.quoted(name)
	if schema != "" {
		dotted = d.quoted(schema) + "."
		quoted = dotted + quoted
	}
	names := strings.NewReplacer(
		"{table}", quoted, "{schema.}", dotted, "{schema}", schema, "{name}", name, "{key}", d.quoted("key"))
	return names.Replace(strings.TrimSpace(statement)), nil
}

// Reading returns a statement that reads with ReadHint.
func (d Dialect) Reading(statement string) string {
	statement = strings.TrimSpace(statement)
	if rest, ok := strings.CutPrefix(statement, "SELECT "); ok && strings.HasPrefix(d.ReadHint, "/*vt+") {
		return "SELECT " + d.ReadHint + rest
	}
	return d.ReadHint + statement
}

// Spellable reports whether a schema's name can be part of a statement: quotes, and what begins a parameter, cannot. In such
// a schema, names of tables are sent without it.
func Spellable(schema string) bool {
	return schema != "" && !strings.ContainsAny(schema, "'\"`\\?$\x00")
}

// LocateText returns Locate for tables.
func (d Dialect) LocateText(tables ...string) string {
	return strings.ReplaceAll(strings.TrimSpace(d.Locate), "{names}", "'"+strings.Join(tables, "', '")+"'")
}

// isName reports whether a text may be the name of a table or of a schema.
func isName(text string) bool { return len(text) <= maxName && nameLetters.MatchString(text) }

// maxName is how many bytes a name has at most on Postgres, and nameLetters are those that need no quotes anywhere. An
// expression that counts them would take a millisecond at each start of a program.
const maxName = 63

var nameLetters = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// OverridesTable returns the name of the table of overrides of a store whose counts are in the given table: for
// [DefaultTable], which "" stands for, rate_limit_overrides, and for another one the name with _overrides.
func OverridesTable(table string) string { return beside(table, "_overrides") }

// RegistryTable returns the name of the table of registrations of a store whose counts are in the given table: for
// [DefaultTable], which "" stands for, rate_limit_registry, and for another one the name with _registry. If that is longer
// than 63 characters, there is no such table, and limits are not compared.
func RegistryTable(table string) string { return beside(table, "_registry") }

func beside(table, suffix string) string {
	schema, name, ok := strings.Cut(table, ".")
	if !ok {
		schema, name = "", table
	} else {
		schema += "."
	}
	if name == "" || name == DefaultTable {
		name = "rate_limit"
	}
	return schema + name + suffix
}

// DDL returns the statement that creates a table, for programs with migrations of their own; ratelimitgen
// sql prints it. The error is about the table's name.
func (d Dialect) DDL(table string) (string, error) { return d.Text(d.Create, table) }

// OverridesDDL returns the statement that creates the table of overrides of a store whose counts are in the given table; see
// sqlstore.Store.Migrate. The error is about the table's name.
func (d Dialect) OverridesDDL(table string) (string, error) {
	return d.Text(d.CreateOverrides, OverridesTable(table))
}

// RegistryDDL returns the statement that creates the table of registrations of a store whose counts are in the given table;
// see sqlstore.Store.Migrate. The error is about the table's name.
func (d Dialect) RegistryDDL(table string) (string, error) {
	return d.Text(d.CreateRegistry, RegistryTable(table))
}

// ShardingDDL returns the statement that distributes the rows of the table if its schema is sharded, or "" if the database
// has no such schemas. The error is about the table's name.
func (d Dialect) ShardingDDL(table string) (string, error) { return d.Text(d.AddVindex, table) }

// Roles are the database users of [Dialect.GrantsFor]. On MySQL, a role is a user, or user@host.
type Roles struct {
	// App is the role of the program, and Migrator the role that calls Migrate.
	App, Migrator string
	// AppendOnly keeps App from changing and deleting entries of the log of overrides, which is also the log of what
	// operators do. Migrator then has these rights, for Erase of a key in the log and for Sweep of old entries.
	AppendOnly bool
}

// GrantsFor returns the statements that give the role of a program the privileges that it needs once Migrate has made the
// tables, and the role that runs Migrate those that it needs before. The error is about a name, says that the database has
// no roles, or that one role cannot be both.
func (d Dialect) GrantsFor(table string, to Roles) (string, error) {
	if d.Grants == "" {
		return "", fmt.Errorf("%s has no roles: %s", d.Name, d.NoGrants)
	}
	rewrite, migratorToo := ", UPDATE, DELETE", ""
	if to.AppendOnly {
		if to.App == to.Migrator {
			return "", fmt.Errorf("an append-only log needs a role that migrates and another one of the program, not %q for both", to.App)
		}
		rewrite, migratorToo = "", rewrite
	}
	for _, role := range []string{to.App, to.Migrator} {
		if len(role) > maxName || !roleLetters.MatchString(role) {
			return "", fmt.Errorf("role %q: a name has only letters, digits and the characters _ - . %% @", role)
		}
	}
	statements := strings.NewReplacer(
		"{overrides}", d.quotedParts(OverridesTable(table)), "{registry}", d.quotedParts(RegistryTable(table)),
		"{app}", d.role(to.App), "{migrator}", d.role(to.Migrator), "{rewrite}", rewrite, "{migrator too}", migratorToo).Replace(d.Grants)
	if !strings.Contains(table, ".") {
		statements = strings.ReplaceAll(statements, "{schema}", "public")
	}
	return d.Text(statements, table)
}

var roleLetters = regexp.MustCompile(`^[A-Za-z0-9_.%@-]+$`)

// role returns the name of a role in quotes. On MySQL it has a host.
func (d Dialect) role(name string) string {
	if d.Numbered {
		return d.Quote + name + d.Quote
	}
	user, host, ok := strings.Cut(name, "@")
	if !ok {
		host = "%"
	}
	return "'" + user + "'@'" + host + "'"
}

// quoted returns a name in quotes.
func (d Dialect) quoted(name string) string { return d.Quote + name + d.Quote }

// quotedParts returns the name of a table in quotes, part by part.
func (d Dialect) quotedParts(table string) string {
	return d.quoted(strings.ReplaceAll(table, ".", d.Quote+"."+d.Quote))
}

// WithNumbers returns a statement with the dialect's parameters in place of question marks.
func (d Dialect) WithNumbers(text string) string {
	if !d.Numbered {
		return text
	}
	parts := strings.Split(text, "?")
	for i := range parts[1:] {
		parts[i] += "$" + strconv.Itoa(i+1)
	}
	return strings.Join(parts, "")
}

// overridesChecks keep out overrides that exceed what their limit declares, whoever writes them. MySQL has checks since
// 8.0.16, and ignores them before.
const overridesChecks = `	CHECK (id > 0),
	CHECK (rate BETWEEN 0 AND most_rate),
	CHECK (capacity BETWEEN 0 AND most_capacity),
	CHECK (max_reserved BETWEEN 0 AND most_reserved),
	CHECK (what NOT IN ('unlimited', 'off', 'shadow') OR may_lift = 1),
	CHECK (until_ns > 0),
	CHECK (reason <> ''),
	CHECK (author <> '')`
