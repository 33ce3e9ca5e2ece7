// Package capacity calculates how many decisions a second a database carries, from what its statements cost.
//
// # The model
//
// Several hosts use one database, over a network. Each host has one statement in flight, and as many as it has lanes if
// enough calls wait (see package group). The model leaves out that a host sends one at a time while the database is busy, so
// that its statements are larger then. A statement takes tokens from a number of rows. It costs the database's processor a
// fixed time and a time for each row, and then waits until its commit is on disk. Commits that wait together share a flush.
// The rows of a statement stay locked until it has committed, so only one statement on a row is in flight at a time.
//
// The functions are closed formulas. The throughput is the smallest of three bounds: the lanes, the processor, and the
// lock of a hot row. The tests compare them with a simulation of every statement, and CAPACITY.md, in package sqlstore,
// is generated from them.
package capacity

import (
	"math"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/group"
)

// Costs are the costs of a statement, in seconds.
type Costs struct {
	// Fixed and PerRow are the time of the database's processor, for a statement and for each of its rows.
	Fixed, PerRow float64
	// Commit is how long a flush of the log to the disk takes.
	Commit float64
	// RoundTrip is how long the network takes to the database and back.
	RoundTrip float64
}

// network is an assumed, not measured, round trip between two machines of one data centre, in seconds.
const network = 0.0005

// Postgres and Relaxed are the costs of a statement that takes tokens on PostgreSQL 15, the second with durability relaxed.
// They were measured by "go run . -costs" in runtime/bench, on an otherwise idle virtual machine with two cores. Fixed and
// PerRow are processor times; Commit is the difference between the fixed times of the two.
var (
	Postgres = Costs{Fixed: 112e-6, PerRow: 9.7e-6, Commit: 130e-6, RoundTrip: network}
	Relaxed  = Costs{Fixed: 59e-6, PerRow: 10.8e-6, Commit: 0, RoundTrip: network}
)

// Cores, Lanes and Batch are those of CAPACITY.md: a database of eight cores, and the defaults of the store.
const (
	Cores = 8
	Lanes = 2
	Batch = 1000
)

// Plan is a database and its load.
type Plan struct {
	Costs
	// Cores is how many statements the database runs at once.
	Cores int
	// Hosts is the number of hosts, and Lanes the most statements that each has in flight. A statement has at most Batch
	// calls.
	Hosts, Lanes, Batch int
	// Callers is how many callers wait for a decision on each host at any time.
	Callers int
	// Hot: all calls are for one key. Otherwise, no two calls at the same time are for the same key.
	Hot bool
}

// busy returns the processor time of a statement with this number of rows, in seconds.
func (p Plan) busy(rows float64) float64 { return p.Fixed + p.PerRow*rows }

// lanes returns how many statements are in flight at most, over all hosts.
func (p Plan) lanes() float64 { return float64(p.Hosts * p.inFlight()) }

// inFlight returns how many statements a host has in flight. Statements for a hot key wait for each other.
func (p Plan) inFlight() int {
	n := min(p.Lanes, p.Callers)
	for ; n > 1; n-- {
		if !p.Hot && p.waiting(n) >= float64(p.enough(n-1, p.waiting(n))) {
			break
		}
	}
	return n
}

// waiting returns how many calls of a host wait while a number of statements are in flight. When a statement ends, its
// callers call again and wait, and those that have waited are the next statement. With one statement in flight, half of the
// callers wait. With more, the statements are not of the same size, and the large ones take longer, unless only statements of
// the same size have enough calls.
func (p Plan) waiting(inFlight int) float64 {
	groups := 0.8 + 1.2*float64(inFlight)
	calls := p.perStatement(groups)
	if inFlight > 1 && calls < float64(p.enough(inFlight-1, calls)) {
		calls = p.perStatement(float64(inFlight))
	}
	return calls
}

// perStatement returns the calls of a statement if the callers are in this number of groups.
func (p Plan) perStatement(groups float64) float64 {
	return math.Max(1, math.Min(float64(p.Batch), float64(p.Callers)/groups))
}

// enough returns how many calls that wait are worth another statement, while each host has some with this number of calls.
func (p Plan) enough(inFlight int, calls float64) int {
	shortest := math.Max(p.RoundTrip+p.busy(calls)+p.Commit, float64(p.Hosts*inFlight)*p.busy(calls)/float64(p.Cores))
	return group.Enough(time.Duration(shortest*float64(time.Second)), inFlight, int(calls)*inFlight)
}

// calls returns how many calls a statement answers.
func (p Plan) calls() float64 { return p.waiting(p.inFlight()) }

// rows returns how many rows a statement writes.
func (p Plan) rows() float64 {
	if p.Hot {
		return 1
	}
	return p.calls()
}

// cycle returns how long a statement takes if it does not wait for the processor or a row, in seconds.
func (p Plan) cycle() float64 {
	without := p.RoundTrip + p.busy(p.rows())
	alone := without + p.Commit
	others := p.lanes() - 1
	if p.Hot || others == 0 || p.Commit == 0 {
		return alone
	}
	// A commit that comes during a flush for others waits for the next one. If the log is flushed all the time, a cycle is
	// a whole number of flushes.
	if others*p.Commit >= without {
		return (math.Ceil(without/p.Commit) + 1) * p.Commit
	}
	return alone + others*p.Commit/alone*p.Commit/2
}

// Statements returns the statements per second: the smallest of the bounds set by the lanes, the processor and, for a hot
// key, the lock of its row.
func (p Plan) Statements() float64 {
	busy := p.busy(p.rows())
	most := math.Min(p.lanes()/p.cycle(), float64(p.Cores)/busy)
	if p.Hot {
		most = math.Min(most, 1/(busy+p.Commit))
	}
	return most
}

// Decisions returns the decisions per second.
func (p Plan) Decisions() float64 { return p.Statements() * p.calls() }

// Leased returns the decisions per second if the limit is leased in blocks of this number of tokens, and each decision
// takes one. spends is how many decisions per second a host makes from its memory.
func (p Plan) Leased(tokens, spends float64) float64 {
	// The callers of a host share a block, so each key of a host has one call in flight.
	p.Callers = 1
	return math.Min(p.Decisions()*tokens, float64(p.Hosts)*spends)
}

// Sharded returns the decisions per second of a hot key that is split into shards, at least two.
func (p Plan) Sharded(shards int) float64 {
	// It takes a transaction: begin, read two shards and lock them, write them, and commit, in four round trips. The shards
	// are locked during two of these.
	held := 2*p.RoundTrip + 2*p.busy(2) + p.Commit
	alone := float64(p.Hosts) / (held + 2*p.RoundTrip)
	if p.Hosts == 1 {
		return alone * p.calls()
	}
	// The bounds are hosts that never wait for each other, and shards that are never idle. Where the bounds are close, the
	// throughput is below both.
	return 1 / math.Hypot(1/alone, held/together(shards)) * p.calls()
}

// together returns how many transactions run at once if each locks two of the shards at random: at most half of the
// number of shards, and fewer because a transaction that waits for one shard may hold another. The formula is fitted to the
// simulation.
func together(shards int) float64 { return math.Max(1, 0.36*math.Pow(float64(shards), 0.83)) }

// Databases returns the decisions per second of n databases together, with the keys spread evenly over them. A hot key is
// in one of them.
func (p Plan) Databases(n int) float64 {
	if p.Hot {
		return p.Decisions()
	}
	p.Callers = max(1, p.Callers/n)
	return float64(n) * p.Decisions()
}
