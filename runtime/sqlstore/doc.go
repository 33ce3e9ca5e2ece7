// Package sqlstore keeps the counts of rate limits in an SQL database.
//
// # The model
//
// A [Store] is a database, a [Dialect] and a table. Calls that arrive while a transaction is under way share the
// next one; see the package internal/group. What it does with a batch of calls is the same on every database. Tokens that
// are plainly taken from a token bucket or a fixed window are taken by one statement a limit, which decides and
// writes in one round trip, on MySQL if all of them are of one row: see [runtime.Upsert]. For everything else, and
// for what the statements have not taken, it begins a transaction, reads the rows that the calls are about, in one
// order and locked, lets [runtime.Batch] answer, writes what has changed, and commits. A row that is not there
// cannot be locked, so it is inserted first, marked as never seen. Calls about one row need no transaction: it is
// read, and written if it still is what it was; only if somebody else was faster does it come to one. On a
// server, they begin with that if the row had too little again and again: to take in vain is a round trip for nothing.
//
// A dialect is the text of the statements and nothing else. A statement takes one row as parameters, and any
// number of rows as one parameter in JSON, or as a list for each column. A package that knows a driver may have a
// faster way to take, a [Taker].
//
// The same statements run in a transaction of the caller, by WithTx: then the store neither retries nor
// commits, and a conflict is a [RetryTxError].
//
// On Postgres the store prepares no statements, so that it works behind a pooler that sends each transaction to another
// session of the server; see [Postgres] for what drivers and poolers must be set to. On MySQL, MariaDB and SQLite each
// statement is prepared at its first use.
//
// Before its first use, the table is compared with what the dialect says it must be: one without its primary
// key, for example, would have two rows of one key. An error that comes of how the program is deployed says
// what to do, and wraps the driver's.
//
// # Durability
//
// The default is what the database is set up for: on a server, counts are usually on its disk before a call
// is answered, as everything else that it keeps; of SQLite, package sqlite tells. A limit of its own can be relaxed,
// for counts that a crash may set back by some moments:
//
//   - Postgres then does not wait for the disk when it commits (synchronous_commit = off, for these transactions
//     only), and waits if the limit's durability is full: as with synchronous_commit = on, or remote_apply if that is
//     set.
//   - SQLite is not told to wait; for full, these transactions run with synchronous = FULL.
//   - MySQL and MariaDB have one setting for the whole server, innodb_flush_log_at_trx_commit: there a limit's
//     durability has no effect.
//
// In a transaction of the caller, it is the caller's. Calls that share a statement, or a transaction, wait for the disk if
// one of them does.
//
// # Time
//
// The time is the database's, measured now and then, so that hosts need not agree.
//
// # When the database does not answer
//
// A call returns when its context ends, at its limit's timeout, and after [Timeout] at the latest. A transaction is given
// up after half of [Timeout], or a quarter of a second after the last of its calls has returned; the next one uses another
// connection. [Store.Do] says which drivers then close the connection, and which settings help the others. Calls in a
// transaction of the caller have the caller's context only.
//
// What the store prepares at its first use goes on when the call that began it has ended, so that a timeout of a few round
// trips is enough.
//
// If packets are dropped, the server does not hear of the end of a connection either, and keeps the rows locked that a
// transaction had locked. Set idle_in_transaction_session_timeout on Postgres, idle_transaction_timeout on MariaDB, and
// wait_timeout on MySQL, to a few seconds, for example in the data source name. Sessions
// that waited for such a row get it one after the other, each for as long as that: with [Options.Batch] 1 they may be many.
//
// How many decisions a second a database carries, and what to do when they are not enough, is in CAPACITY.md.
//
// The package imports no driver. Package sqlite, below it, brings the embedded one.
//
// # What is guaranteed
//
//   - What a call was told is taken has been committed.
//   - However many goroutines, processes and hosts ask at once, as much is admitted as if they asked one
//     after the other.
//   - A row that is not stored is that of a key never seen. Sweep deletes only rows that are worth no more.
//
// # What is not
//
//   - That a call whose error came from the database took nothing: if the connection broke while it was
//     committing, or the transaction was given up, it may have.
//   - That a node of a Galera cluster sees at once what another has committed: for that, connections set
//     wsrep_sync_wait=1. Without it, no more is admitted either, but a denial or a Peek may come from a
//     moment before.
//   - That several primaries of a Galera cluster or of MySQL Group Replication have one time: each store uses the clock of
//     the node that it is connected to. A clock that is ahead by d grants the tokens of d early, and keys that it was used
//     for get no more by the other nodes until their clocks are there. Synchronize them by NTP; on Galera, Ready returns
//     an error if it sees rows more than 10 seconds ahead.
//   - Anything behind a proxy that sends the statements of one connection to several servers, such as ProxySQL or MaxScale
//     with read/write splitting, or the statements of one transaction to several connections: no such proxy was tested.
//     Neither was Percona XtraDB Cluster, whose servers cannot report whether a transaction is still open.
package sqlstore
