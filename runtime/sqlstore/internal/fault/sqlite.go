package fault

import "slices"

var sqliteErrors = errorTable{
	// SQLITE_BUSY and SQLITE_LOCKED.
	retry: []string{"5", "6"},
	// SQLITE_TOOBIG, SQLITE_CONSTRAINT and SQLITE_MISMATCH.
	refused: []string{"18", "19", "20"},
	// SQLITE_ERROR.
	Foreign: []string{"1"},
	// SQLITE_ERROR, of a PRAGMA synchronous.
	inTx: errorHint{codes: []string{"1"}, messages: []string{"inside a transaction"}},
	hints: []errorHint{
		// SQLITE_ERROR, for everything without a code of its own.
		{codes: []string{"1"}, messages: []string{"no such table: "}, hint: MissingTable +
			"; each connection to a database in memory has its own tables: for :memory:, use package sqlite, or db.SetMaxOpenConns(1)"},
		// SQLITE_READONLY.
		{codes: []string{"8"}, hint: "the database file is read-only: taking tokens writes to it, so make the file and its " +
			"directory writable"},
		// SQLITE_CANTOPEN.
		{codes: []string{"14"}, hint: "the database file cannot be opened: check its path, the permissions of its directory, and " +
			"that its volume is not mounted read-only, because the write-ahead log (-wal) and its index (-shm) are written beside the file"},
		// SQLITE_FULL.
		{codes: []string{"13"}, hint: "the volume of the database file is full: free some space on it, at least some MB for the " +
			"write-ahead log (-wal) beside the file, and end readers that keep a transaction open, because the log " +
			"grows as long as they do"},
		// SQLITE_IOERR.
		{codes: []string{"10"}, hint: "the database file cannot be read or written: its volume may be full, gone, or failing"},
	},
}

// fullCodes are SQLITE_FULL, and SQLITE_IOERR_WRITE and SQLITE_IOERR_SHMSIZE, the errors at a quota and for the log's
// index.
var fullCodes = []int{13, 778, 4874}

// VolumeFull reports whether a statement failed, and did nothing, because its volume was full.
func VolumeFull(err error) bool { return slices.Contains(fullCodes, sqliteCode(err)) }
