// Package sqlstore keeps the counts of rate limits in an SQL database.
//
// # The model
//
// A [Store] is a database, a [Dialect] and a table. What it does is the same on every database: it begins
// a transaction, reads the rows that a batch of calls is about, in one order and locked, lets
// [runtime.Batch] answer, writes what has changed, and commits. A dialect is the text of the statements
// and nothing else. For one plain take from one row there is a statement that does it all at once, by the
// formula of [runtime.Upsert]; what it does not allow is asked again in a transaction, for the numbers of
// the denial.
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
//     committing, it may have.
package sqlstore
