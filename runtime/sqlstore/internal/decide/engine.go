// Package decide executes batches of calls in the database, by the first strategy that applies.
package decide

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/ratelimitgen/ratelimitgen/runtime/batch"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/table"
)

// Engine decides calls in the database, by the strategies of strategies.go.
type Engine struct {
	*table.Prepared
	registry *table.Registry
	// Decider decides in a faster way that a driver has, or is nil.
	Decider decider
	// thenSelect takes by two statements, or is nil.
	thenSelect *thenSelect
	// takeDurably means that the dialect's Take chooses the durability of its transaction, which TakeOne does not.
	takeDurably bool
	hints       *denialHints
	seen        *seenRows
	// turns chooses the shards for the Decider.
	turns batch.Turns
	// undone is how many batches go without takeAll.
	undone atomic.Int32
}

// decider is sqlstore.Decider.
type decider interface {
	Decide(ctx context.Context, b *batch.Batch, now func() int64) (done bool, err error)
}

func NewEngine(on *table.Registry, d decider) *Engine {
	e := &Engine{Prepared: on.Prepared, registry: on, Decider: d, hints: newDenialHints(), seen: newSeenRows()}
	e.takeDurably = slices.Contains(e.Place().Queries[conn.TakeRows][conn.ManyRows].Params, conn.ParamDurability)
	if e.Dialect.Taken != "" {
		e.thenSelect = &thenSelect{on: e.Server}
	}
	return e
}

// byDriver runs a batch by the Decider.
func (e *Engine) byDriver(ctx context.Context, b *batch.Batch) error {
	now, err := e.Now(ctx, e.DB)
	for done := false; err == nil && !done; {
		done, err = e.Decider.Decide(ctx, b, now)
	}
	return err
}

// shards returns the shards that were seen lately, or nil if no statement takes from one.
func (e *Engine) shards() *seenRows {
	if e.Dialect.TakeShards != "" {
		return e.seen
	}
	return nil
}
