package sqlstore

import (
	"context"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// engine decides calls in the database, by the strategies of strategies.go.
type engine struct {
	*prepared
	// byDriver takes in a faster way that a driver has, or is nil.
	byDriver upsertStrategy
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

func newEngine(on *prepared, driver upserter) *engine {
	e := &engine{prepared: on, hints: newDenialHints()}
	e.takeDurably = slices.Contains(e.queries[takeRows][manyRows].params, paramDurability)
	if e.dialect.Taken != "" {
		e.thenSelect = &thenSelect{queries: &e.queries, taken: e.dialect.Taken}
	}
	if driver != nil {
		// It has its own connection.
		e.byDriver = func(ctx context.Context, _ session, t part) error { return driver.Upsert(ctx, t.rows) }
	}
	return e
}
