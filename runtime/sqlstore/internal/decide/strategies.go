package decide

import (
	"context"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
)

// strategy is a way to answer calls of a batch.
type strategy struct {
	name string
	// applies reports whether to run it for the calls that have no answer.
	applies func(e *Engine, p *plan) bool
	// run answers calls, and leaves those that it cannot answer.
	run func(e *Engine, ctx context.Context, p *plan) error
	// upsert is how take takes, or nil.
	upsert upsertStrategy
	// waits: it runs a transaction, whose statements hold locks while the next is sent, and so not in the goroutine of a
	// caller.
	waits bool
}

// strategies are tried in this order. All give the same answers, bit for bit: storetest,
// package agree and the live tests compare them with [batch.Batch]. The tables of runtime/bench/README.md compare the
// upserts with bare ones, the floors, and with SELECT FOR UPDATE; ratios here are of processor times, unless they say
// otherwise. The numbers are of round trips.
var strategies = [...]strategy{
	// 12 or more on two shards.
	{name: "locked, in two phases", applies: func(_ *Engine, p *plan) bool { return p.across != nil }, run: (*Engine).locked, waits: true},
	// 4 or more. The setting belongs to a session, which only a transaction holds on to.
	{name: "locked, waiting for the disk", applies: (*Engine).setsSync, run: (*Engine).locked, waits: true},
	// 0 (SQLite). All batches: 64 callers cost 0.4 of compareAndSwap and of locked.
	{name: "by the driver", applies: func(e *Engine, p *plan) bool { return e.Decider != nil }, run: (*Engine).byDriver},
	// 1. Plain takes on Postgres and MariaDB, without a transaction of four statements.
	{name: "upsert of one row", applies: (*Engine).returnsOne, run: (*Engine).take, upsert: (*Engine).upsertOneReturning},
	// 1 (MySQL). The same on MySQL, which has no RETURNING.
	{name: "upsert with an insert id", applies: (*Engine).returnsInsertID, run: (*Engine).take, upsert: (*Engine).upsertInsertID},
	// 2 (MySQL). Several rows of a limit; the locked transaction has 5 round trips.
	{name: "upsert, then select", applies: (*Engine).selects, run: (*Engine).take, upsert: (*Engine).upsertThenSelect},
	// 1.
	{name: "upsert", applies: (*Engine).returns, run: (*Engine).take, upsert: (*Engine).upsertReturning},
	// 1 or 2. Sliding windows, precise limits, other methods and denials of one row without a transaction, and lone calls of
	// sharded limits whose shards were not seen lately.
	{name: "compare and swap", applies: (*Engine).triesSwap, run: (*Engine).compareAndSwap},
	// 1. Calls that change nothing: checks and denials.
	{name: "unlocked", applies: (*Engine).triesUnlocked, run: (*Engine).unlocked},
	// 1 or 2. The same for batches of calls about one row each: 64 callers cost 0.65 of the locked transaction on
	// Postgres, and 0.7 on MariaDB and MySQL.
	{name: "compare and swap of many rows", applies: (*Engine).triesSwapMany, run: (*Engine).swapMany},
	// 1. Calls of several limits on Postgres: lone ones at 0.6 of the time of the locked transaction and half of its processor
	// time in this process, and batches of 64 callers at 0.8 of its processor time.
	{name: "together", applies: (*Engine).takesTogether, run: (*Engine).takeTogether},
	// 4 or more. The only one that serves everything: several rows, all or none, first uses, debts of shards.
	{name: "locked", applies: func(*Engine, *plan) bool { return true }, run: (*Engine).locked, waits: true},
}

func (e *Engine) setsSync(p *plan) bool {
	return e.server.Dialect.Sync != "" && e.server.SetsSync(durabilityOf(p.calls))
}

func (e *Engine) returnsOne(p *plan) bool {
	return p.takesOne() && p.on.Has(conn.TakeOne) &&
		(!e.takeDurably || p.rows[0].policy.Durability == runtime.DurabilityDefault)
}

func (e *Engine) returnsInsertID(p *plan) bool { return p.takesOne() && p.on.Has(conn.TakeInsertID) }

func (e *Engine) selects(p *plan) bool {
	return p.takesMany() && e.server.Dialect.Taken != "" && !e.lost.Load()
}

func (e *Engine) returns(p *plan) bool {
	return p.takesMany() && e.server.Dialect.Taken == "" && e.server.Dialect.Take != ""
}

func (e *Engine) takesTogether(p *plan) bool { return p.on.Together != nil && !p.on.NeedsTx() }
