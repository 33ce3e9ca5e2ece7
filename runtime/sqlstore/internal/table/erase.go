package table

import (
	"context"

	"github.com/ratelimitgen/ratelimitgen/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
)

// Eraser erases keys from both tables.
type Eraser struct{ *OverrideLog }

// deleteRows deletes the rows of a key, and blotEntries changes its entries of the log up to an ID.
const (
	deleteRows  = "DELETE FROM {table} WHERE name = ? AND {key} = ?"
	blotEntries = "UPDATE {table} SET {key} = ?, reason = ?, author = ? WHERE name = ? AND {key} = ? AND id <= ?"
)

// Erase erases a key in a transaction of the store.
func (e *Eraser) Erase(ctx context.Context, limit, key string, why runtime.OverrideEnd) (done runtime.Erased, err error) {
	return Using(ctx, e.prepared, func(ctx context.Context, x *conn.Executor) (runtime.Erased, error) {
		now, err := e.server.Now(ctx, e.server.DB)
		if err != nil {
			return done, err
		}
		_, err = e.withNextID(ctx, x, func(in conn.Session, refused int64) (id int64, err error) {
			id, done, err = e.EraseIn(ctx, in, limit, key, why, now(), refused)
			return id, err
		})
		return done, err
	})
}

// EraseIn erases a key in a transaction, at the instant now. Errors about the log are explained. It returns the ID of its entry in the log,
// or 0 without one, unless that ID was refused before.
func (e *Eraser) EraseIn(
	ctx context.Context, in conn.Session, limit, key string, why runtime.OverrideEnd, now, refused int64,
) (id int64, done runtime.Erased, err error) {
	entries, err := e.entriesIn(ctx, in, limit, key)
	if err != nil {
		return 0, done, e.Explain(err)
	}
	// Before the rows: the caller's transaction may go on after this error.
	entry, err := override.Erasure(limit, entries, why, now)
	if err == nil && entry.What != "" {
		err = e.Err
	}
	if err != nil {
		return 0, done, err
	}
	// The lock of the first row guards the others of a precise limit. Without it, rows could stay that a take has inserted
	// after the deletion began.
	l := NewRowLock(in, []runtime.Row{{Name: limit, Key: key}}, runtime.DurabilityDefault)
	if err := l.Lock(ctx, OrderFor(&e.server.Dialect, SeedFirst)); err != nil {
		return 0, done, err
	}
	remove, err := e.server.Naming(e.server.Table, e.server.Dialect.WithNumbers(deleteRows))
	if err != nil {
		return 0, done, err
	}
	result, err := in.ExecContext(ctx, remove, limit, key)
	if err != nil {
		return 0, done, err
	}
	deleted, err := result.RowsAffected()
	if err != nil {
		return 0, done, err
	}
	done.Rows = int(deleted) - len(l.placeholders)
	if entry.What == "" {
		return 0, done, nil
	}
	if done.Entries = len(entries); done.Entries > 0 {
		// An entry that was appended meanwhile may be in force.
		last := entries[len(entries)-1].ID
		if _, err := in.ExecContext(ctx, e.sql(blotEntries), entry.Key, override.Blotted, override.Blotted, limit, key, last); err != nil {
			return 0, done, e.Explain(err)
		}
	}
	entry.ID, err = e.insertEntry(ctx, in, entry, refused)
	done.Entry = entry
	return entry.ID, done, e.Explain(err)
}

// entriesIn returns the entries of a key. There are none without the table, for which a statement would end the transaction.
func (e *Eraser) entriesIn(ctx context.Context, tx conn.Runner, limit, key string) ([]runtime.OverrideEntry, error) {
	if e.Err != nil {
		return nil, nil
	}
	if e.server.Dialect.Describe != "" {
		if found, err := conn.Describe(ctx, tx, e.sql(e.server.Dialect.Describe)); err != nil || len(found) == 0 {
			return nil, err
		}
	}
	return scanOverrides(ctx, tx, e.reading(readHistory), []any{limit, key})
}
