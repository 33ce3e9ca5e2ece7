// Package dialect has the databases that sqlstore.New can be given, and the statements that create their tables. It imports
// no driver.
package dialect

import "github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"

// Dialect is a database. The zero Dialect is none.
type Dialect uint8

const (
	// SQLite is the dialect of SQLite 3.41 and later. Transactions must be immediate: with the driver
	// modernc.org/sqlite that is _txlock=immediate, which package sqlite sets.
	SQLite Dialect = iota + 1
	// Postgres is the dialect of PostgreSQL 9.5 and later, and of databases that are compatible with it.
	//
	// A session that rounds the doubles that it sends as text is refused. Before version 12 that was the default: there,
	// set extra_float_digits=3 in the data source name (2 is enough for doubles).
	//
	// The database's encoding must be UTF8, or SQL_ASCII, which keeps bytes as they are, and so must that of the client:
	// others convert names and keys, so that two drivers may store one key in two rows, or refuse some keys.
	//
	// Statements use the functions, types and operators of pg_catalog, which a session searches first unless its search_path
	// lists pg_catalog after another schema. In such a session, whoever can create objects in that schema can change what
	// statements mean.
	//
	// The store prepares no statements. Behind a pooler that sends each transaction to another session, as PgBouncer does
	// with pool_mode = transaction, pgx must not prepare them under names either, unless the pooler keeps track of them
	// (PgBouncer 1.21 or later, with max_prepared_statements): set default_query_exec_mode to exec, simple_protocol or
	// cache_describe. sqlstore.Store.Ready detects this. With lib/pq, everything that has arguments runs in transactions, where
	// a pooler cannot mistake another client's statement for the store's. If a data source name or a driver sets
	// extra_float_digits, PgBouncer needs ignore_startup_parameters = extra_float_digits. A pooler without transactions
	// (pool_mode = statement) cannot be used.
	//
	// Pgpool-II may send reads to replicas, but no statement of the store that reads its tables, unless its allow_sql_comments
	// is on: leave it off, which is its default. sqlstore.Store.Ready detects proxies that send reads of the store to a
	// replica.
	Postgres
	// MariaDB is the dialect of MariaDB 10.6 and later, and of Galera clusters of it, which need interpolateParams=true in the
	// data source name for sqlstore.Store.WithTx.
	MariaDB
	// MySQL is the dialect of MySQL 8.0 and later, and of databases that are compatible with it.
	MySQL
	// Vitess is the dialect of Vitess 24 and later, by way of a vtgate, on a keyspace that is the default database of the data
	// source name, without an own schema in sqlstore.Options.Table. If it is sharded, the tables beside that of the counts are
	// in one that is not: that which has the table of registrations, or the only one. The rows of keys that begin with the same
	// part are on one shard. Those of a call are, or the call is refused with a *runtime.ShardsError, unless sqlstore.Options
	// has TwoPhase.
	//
	// Connect with transaction_mode='single', transaction_timeout=5000 and innodb_lock_wait_timeout=1 in the data source name:
	// sqlstore.Store.Ready returns an error if a transaction may span shards, which Vitess does not commit atomically, or may
	// keep rows locked for long.
	Vitess

	endOfDialects // every dialect before it has an entry in the table texts
)

// texts has an entry for every [Dialect].
var texts = [endOfDialects]dialect.Dialect{
	SQLite:   dialect.SQLite,
	Postgres: dialect.Postgres,
	MariaDB:  dialect.MariaDB,
	MySQL:    dialect.MySQL,
	Vitess:   dialect.Vitess,
}

// All returns every Dialect, the default of ratelimitgen's commands first.
func All() (all []Dialect) {
	for d := Dialect(1); d < endOfDialects; d++ {
		all = append(all, d)
	}
	return all
}

func (d Dialect) text() dialect.Dialect {
	if d < endOfDialects {
		return texts[d]
	}
	return texts[0]
}

// String returns the name in flags and messages: "postgres". It is "" if d is none of the constants.
func (d Dialect) String() string { return d.text().Name }

// DefaultTable is the name of the table if sqlstore.Options.Table is empty.
const DefaultTable = dialect.DefaultTable

// OverridesTable returns the name of the table of overrides of a store whose counts are in the given table: for
// [DefaultTable], which "" stands for, rate_limit_overrides, and for another one the name with _overrides.
func OverridesTable(table string) string { return dialect.OverridesTable(table) }

// RegistryTable returns the name of the table of registrations of a store whose counts are in the given table: for
// [DefaultTable], which "" stands for, rate_limit_registry, and for another one the name with _registry. If that is longer
// than 63 characters, there is no such table, and limits are not compared.
func RegistryTable(table string) string { return dialect.RegistryTable(table) }

// Quoted returns the name of a table as statements have it, in quotes. The error is about the name.
func (d Dialect) Quoted(table string) (string, error) { return d.text().Text("{table}", table) }

// DDL returns the statement that creates a table, for programs with migrations of their own; ratelimitgen
// sql prints it. The error is about the table's name.
func (d Dialect) DDL(table string) (string, error) { return d.text().DDL(table) }

// OverridesDDL returns the statement that creates the table of overrides of a store whose counts are in the given table; see
// sqlstore.Store.Migrate. The error is about the table's name.
func (d Dialect) OverridesDDL(table string) (string, error) { return d.text().OverridesDDL(table) }

// RegistryDDL returns the statement that creates the table of registrations of a store whose counts are in the given table;
// see sqlstore.Store.Migrate. The error is about the table's name.
func (d Dialect) RegistryDDL(table string) (string, error) { return d.text().RegistryDDL(table) }

// ShardingDDL returns the statement that distributes the rows of the table by the first parts of their keys if its schema is
// sharded, as a keyspace of Vitess may be, or "" if the database has no such schemas. The error is about the table's name.
func (d Dialect) ShardingDDL(table string) (string, error) { return d.text().ShardingDDL(table) }

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
	return d.text().GrantsFor(table, dialect.Roles(to))
}
