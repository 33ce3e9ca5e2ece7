// Package decide executes batches of calls in the database, by the strategies that apply, in their order.
package decide

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/batch"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/table"
)

// Engine decides calls in the database, by the strategies of strategies.go.
type Engine struct {
	server   *conn.Server
	prepared *table.Prepared
	// Decider decides in a faster way that a driver has, or is nil.
	Decider Decider
	// lost is set once the server has lost a result of upsertThenSelect.
	lost atomic.Bool
	// takeDurably means that the dialect's Take chooses the durability of its transaction, which TakeOne does not.
	takeDurably bool
	hints       *denialHints
	// seen is nil with a Decider, which does not need it.
	seen *seenRows
	// turns chooses the shards for the Decider.
	turns batch.Turns
	// Unknown gets calls that may have acquired slots, with the answers that they would have, when it is not known whether
	// these were written.
	Unknown func(calls []runtime.Call, answers []runtime.Answer)
	// undone is how many batches go without takeTogether.
	undone atomic.Int32
	races  races
}

// Decider decides batches where a driver has a faster way than the dialect's statements, with the same results. Package
// sqlite has one.
type Decider interface {
	// Decide begins a transaction that no other one can write beside, reads b.Rows(), runs b on them as of the instant that now
	// returns then, writes b.Changes() and commits. It returns false if b needs more rows. In that case, and if it returns an
	// error, nothing was changed.
	Decide(ctx context.Context, b *batch.Batch, now func() int64) (done bool, err error)
}

func NewEngine(on *table.Prepared, d Decider) *Engine {
	e := &Engine{server: on.Server, prepared: on, Decider: d, hints: newDenialHints()}
	if d == nil {
		e.seen = newSeenRows()
	}
	e.takeDurably = slices.Contains(e.server.Place().Queries[conn.TakeRows][conn.ManyRows].Params, conn.ParamDurability)
	return e
}

// byDriver decides by the Decider.
func (e *Engine) byDriver(ctx context.Context, p *plan) error {
	return p.decideRest(func(calls []runtime.Call, answers []runtime.Answer) error {
		b := batch.NewInTurn(calls, &e.turns)
		now, err := e.server.Now(ctx, e.server.DB)
		for done := false; err == nil && !done; {
			done, err = e.Decider.Decide(ctx, b, now)
		}
		if err == nil {
			copy(answers, b.Answers())
		}
		return err
	})
}

// shards returns the shards that were seen lately, or nil if no statement takes from one.
func (e *Engine) shards() *seenRows {
	if e.server.Dialect.TakeShards != "" {
		return e.seen
	}
	return nil
}
