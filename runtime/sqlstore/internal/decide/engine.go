// Package decide executes batches of calls in the database, by the first strategy that applies.
package decide

import (
	"context"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/table"
)

// Engine decides calls in the database, by the strategies of strategies.go.
type Engine struct {
	*table.Prepared
	registry *table.Registry
	// ByDriver takes in a faster way that a driver has, or is nil.
	ByDriver upsertStrategy
	// thenSelect takes by two statements, or is nil.
	thenSelect *thenSelect
	// takeDurably means that the dialect's Take chooses the durability of its transaction, which TakeOne does not.
	takeDurably bool
	hints       *denialHints
}

// upserter takes tokens by a driver.
type upserter interface {
	Upsert(ctx context.Context, rows []meter.RowUpsert) error
}

func NewEngine(on *table.Registry, driver upserter) *Engine {
	e := &Engine{Prepared: on.Prepared, registry: on, hints: newDenialHints()}
	e.takeDurably = slices.Contains(e.Queries[conn.TakeRows][conn.ManyRows].Params, conn.ParamDurability)
	if e.Dialect.Taken != "" {
		e.thenSelect = &thenSelect{queries: &e.Queries, taken: e.Dialect.Taken}
	}
	if driver != nil {
		// It has its own connection.
		e.ByDriver = func(ctx context.Context, _ conn.Session, t part) error { return driver.Upsert(ctx, t.rows) }
	}
	return e
}
