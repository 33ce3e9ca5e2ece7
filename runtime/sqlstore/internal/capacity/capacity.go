// Package capacity calculates how many decisions a second a database carries, from what its statements cost.
//
// # The model
//
// Hosts ask one database, each by lanes with one statement under way at a time (see package group). A statement
// takes tokens from a number of rows; it costs the database's processor a fixed time and a time for each row, and
// then waits until its commit is on disk. Commits that wait together share a flush. What a statement has
// written stays locked until it has committed, so that of those that write one row one is under way at a time.
// Between host and database lies a network.
//
// The functions are closed formulas: the least of what the lanes can send, of what the processor can do and of what
// a locked row lets through. The tests hold them against a simulation in which every statement is played.
// CAPACITY.md, in package sqlstore, is written from them.
package capacity

import "math"

// Costs are what a statement costs, in seconds.
type Costs struct {
	// Fixed and PerRow are what it costs the database's processor: so much, and so much for each row.
	Fixed, PerRow float64
	// Commit is how long a flush of the log to the disk takes.
	Commit float64
	// RoundTrip is how long the network takes to the database and back.
	RoundTrip float64
}

// Plan is who asks, and whom.
type Plan struct {
	Costs
	// Cores is how many statements the database's processor works at at once.
	Cores int
	// Hosts is how many hosts ask, each by so many Lanes with at most Batch calls in a statement.
	Hosts, Lanes, Batch int
	// Callers is how many callers wait for a decision on each host at any time.
	Callers int
	// Hot says that all of them ask of one key. Otherwise, no two of them ask of the same key at once.
	Hot bool
}

// busy is the processor's time for a statement of so many rows, in seconds.
func (p Plan) busy(rows float64) float64 { return p.Fixed + p.PerRow*rows }

// lanes is how many lanes send, over all hosts: a key has one on each host.
func (p Plan) lanes() float64 {
	if p.Hot {
		return float64(p.Hosts)
	}
	return float64(p.Hosts * min(p.Lanes, p.Callers))
}

// calls is how many calls a statement answers: those that have come to its lane while the one before was under way,
// but no more than a batch holds. Who has been answered asks again, in any of the host's lanes. So for each call that
// is under way in a lane, a half waits that came from another lane, some time in between, or a whole one that came
// from the lane itself, when the statement began.
func (p Plan) calls() float64 {
	lanes := p.lanes() / float64(p.Hosts)
	perLane := float64(p.Callers) / lanes
	return math.Max(1, math.Min(float64(p.Batch), perLane/(1.5+0.5/lanes)))
}

// rows is how many rows a statement writes.
func (p Plan) rows() float64 {
	if p.Hot {
		return 1
	}
	return p.calls()
}

// cycle is how long a statement takes that does not wait for the processor or a row, in seconds. One that comes while
// the log is being flushed for others waits for the next flush: if the log always is, all go at its beat.
func (p Plan) cycle() float64 {
	without := p.RoundTrip + p.busy(p.rows())
	alone := without + p.Commit
	others := p.lanes() - 1
	if p.Hot || others == 0 || p.Commit == 0 {
		return alone
	}
	if others*p.Commit >= without {
		return (math.Ceil(without/p.Commit) + 1) * p.Commit
	}
	return alone + others*p.Commit/alone*p.Commit/2
}

// Statements returns how many statements a second are carried out: the least of what the lanes send, what the
// processor can do, and, of a hot key, what its lock lets through.
func (p Plan) Statements() float64 {
	busy := p.busy(p.rows())
	most := math.Min(p.lanes()/p.cycle(), float64(p.Cores)/busy)
	if p.Hot {
		most = math.Min(most, 1/(busy+p.Commit))
	}
	return most
}

// Decisions returns how many decisions a second are made.
func (p Plan) Decisions() float64 { return p.Statements() * p.calls() }

// Leased returns how many decisions a second are made if the limit is leased, in blocks of so many tokens, and each
// decision takes one. Callers wait together for a block, so that a host asks for one key by one call at a time; its
// callers then spend the block, at most so many a second on a host.
func (p Plan) Leased(tokens, spends float64) float64 {
	p.Callers = 1
	return math.Min(p.Decisions()*tokens, float64(p.Hosts)*spends)
}

// Sharded returns how many decisions a second a hot key carries that is split into shards, at least two. A statement
// does not do: a transaction begins, reads two shards and locks them, writes them, and commits, in four round
// trips. They are locked for two of these. Hosts that do not meet would carry alone, and shards that are never idle
// most; near both, it is less than either.
func (p Plan) Sharded(shards int) float64 {
	held := 2*p.RoundTrip + 2*p.busy(2) + p.Commit
	alone := float64(p.Hosts) / (held + 2*p.RoundTrip)
	if p.Hosts == 1 {
		return alone * p.calls()
	}
	return 1 / math.Hypot(1/alone, held/together(shards)) * p.calls()
}

// together is how many transactions are under way at once, of many that each want two of so many shards at random.
// One that waits for a shard may hold another meanwhile. The formula was fitted to the simulation.
func together(shards int) float64 { return math.Max(1, 0.36*math.Pow(float64(shards), 0.83)) }

// Databases returns how many decisions a second several databases make together, if the keys are spread evenly over
// them. A hot key is on one of them.
func (p Plan) Databases(n int) float64 {
	if p.Hot {
		return p.Decisions()
	}
	p.Callers = max(1, p.Callers/n)
	return float64(n) * p.Decisions()
}
