// Package bounds has the waiting times and tries of a store in an SQL database, from which follows how long a call can take.
//
// A call waits at most [Timeout], whatever its context: up to half of it in the queue, and up to half of it for its
// statements, with [Grace] for a driver that returns late. A call for a row that another transaction has locked waits as
// long in all. In a transaction of the caller, each call waits at most Timeout, and so does each task of Ready, Migrate,
// Sweep and the log of overrides. However its loops stand in one another, a call has [MaxAttempts] attempts of its first
// plan and as many to recover, with at most [MaxPause] before each, all of them within that time.
package bounds

import "time"

// A call.
const (
	// Timeout is the longest that a call waits.
	Timeout = 10 * time.Second
	// Grace is how long a driver has to return after its context has ended. Its error has more details than ours.
	Grace = 50 * time.Millisecond
	// ExplainTimeout is how long an error may wait for its explanation.
	ExplainTimeout = 250 * time.Millisecond
)

// Trying again.
const (
	// MaxAttempts is how many attempts a call has.
	MaxAttempts = 100
	// MaxPause is the longest pause between two attempts.
	MaxPause = 100 * time.Millisecond
	// OutdatedTries is how often calls are decided again after an outdated statement, in addition to once for each open
	// connection.
	OutdatedTries = 3
	// LeaseAttempts is how many blocks a request waits for, before it goes to the database by itself. More than one, because
	// others may spend the block first.
	LeaseAttempts = 3
	// ShortestUndoPause and LongestUndoPause are the pauses between two tries to give back, which double.
	ShortestUndoPause, LongestUndoPause = 50 * time.Millisecond, time.Second
)

// Calls that wait for one another.
const (
	// Linger is how long a flight that all callers have left may go on. Most answers that are late are a little late, and
	// drivers abort a statement by closing its connection. Without Linger, connections would be closed and opened all the
	// time, and with a timeout shorter than it takes to open one, no call would ever succeed. Calls wait as long for a flight
	// that has one of their keys.
	Linger = 250 * time.Millisecond
	// Glance is how often the context of a lone caller is checked, and how long its statement may go on after that. After that
	// time, too, the next flight goes around one that has not ended.
	Glance = 25 * time.Millisecond
)

// Rows that other transactions have locked.
const (
	// LockWait is how long a statement of calls that share it may wait for a lock, on a database that does not end it by
	// itself.
	LockWait = 200 * time.Millisecond
	// KillTimeout bounds what ends a statement. It is as long as a call's statement may take.
	KillTimeout = Timeout / 2
	// LockedPatience is how long calls for a locked row wait for the flight that waits for it, before one of them asks the
	// database whether the row is still locked.
	LockedPatience = time.Second
	// AskTimeout is how long it may take to find out which transaction has locked a row.
	AskTimeout = time.Second
	// MaxWaits is the most flights that wait for locked rows at once, each with a connection.
	MaxWaits = 8
	// MostProbes is how often it is found out which rows are locked, before the rest of the calls is decided in halves.
	MostProbes = 3
	// TxLasts is how long a transaction of the caller is assumed to take until it commits.
	TxLasts = 10 * time.Second
)

// A database that does not respond.
const (
	// Suspicious is how long a call may be without an answer before a probe begins, and Silent how long the probe may.
	Suspicious = 250 * time.Millisecond
	Silent     = time.Second
	// ProbeTimeout includes the seconds after which TCP repeats the first packet of a connection, 1 and 3. A shorter one would
	// queue up more dead clients in a pooler, which serves them first.
	ProbeTimeout = 5 * time.Second
	// ProbePause is between two probes.
	ProbePause = time.Second
)

// The first use.
const (
	// PreparationPatience is how long calls wait for one preparation before another begins, because its connection may not
	// respond.
	PreparationPatience = Timeout / 4
	// MaxPreparations are in flight at once. Each goes on for as long as a call may take, so that the round trips of a long
	// line fit.
	MaxPreparations = 4
	// TurnPatience is how long a call waits for the turn of another one to register limits, whose connection may not respond.
	TurnPatience = 250 * time.Millisecond
	// SpareTurns bounds the connections of calls that wait no longer.
	SpareTurns = 3
	// SpareTimeout is how long Ready waits for a second connection, or for a pooler's second session, which may not exist.
	SpareTimeout = 250 * time.Millisecond
	// OpenTimeout is how long the first call in a transaction of the caller waits for another connection, to find the tables
	// by. Over a network and on a busy machine it takes time to open one.
	OpenTimeout = 2 * time.Second
	// PoolerRounds is how often Ready gives a pooler the occasion to mix up statements: it may have several sessions, and other
	// clients at the same time.
	PoolerRounds = 2
)

// The database's clock.
const (
	// MeasureAfter is how old a measurement may become before the next one.
	MeasureAfter = 30 * time.Second
	// MeasureSoon is the pause after one that was poor or failed. It doubles each time, up to MeasureAfter.
	MeasureSoon = time.Second
	// MaxMeasurements is how many are made at once to confirm one that is in doubt.
	MaxMeasurements = 3
	// Drift is by how many parts per million the clocks of two hosts drift apart: each has at most 100, the tolerance of common
	// quartz oscillators. A clock that NTP moves faster counts as one that was set.
	Drift = 200
	// Fine is a bound with which no measurement is poor.
	Fine = 5 * time.Millisecond
	// Stale is by how much a clock may become worse before calls wait for its next measurement.
	Stale = 10 * time.Millisecond
	// LeastJump is how far the host's wall clock must move against its monotonic clock to be noticed. Go reads one after the
	// other, so that they differ by as long as the thread was suspended in between.
	LeastJump = 100 * time.Millisecond
	// ClockLead is how far a row may be ahead of a node's clock: more than the error of a measurement, and more than
	// the difference between synchronized nodes.
	ClockLead = 10 * time.Second
)

// The file of SQLite.
const (
	// GuardEvery is the time between two checks of the files: four calls of stat take some microseconds, as much as a
	// fifth of a decision.
	GuardEvery = 100 * time.Millisecond
	// GuardTimeout is how long to wait for a connection when the log is missing.
	GuardTimeout = time.Second
)
