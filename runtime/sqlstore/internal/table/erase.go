package table

import (
	"context"
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
)

// Eraser erases keys from both tables.
type Eraser struct{ *OverrideLog }

// blotEntries changes the entries of a key in the log up to an ID.
const blotEntries = "UPDATE {table} SET {key} = ?, reason = ?, author = ? WHERE name = ? AND {key} = ? AND id <= ?"

// Erase erases a key in a transaction of the store, or in two of them if the tables are in different databases: then the log
// comes first, so that a block that has come meanwhile keeps the rows, and the whole can be repeated after an error.
func (e *Eraser) Erase(ctx context.Context, limit, key string, why runtime.OverrideEnd) (done runtime.Erased, err error) {
	return Using(ctx, e.prepared, func(ctx context.Context, x *conn.Executor) (runtime.Erased, error) {
		now, err := e.server.Now(ctx, e.server.DB)
		if err != nil {
			return done, err
		}
		apart := e.server.Sharded()
		_, err = e.withNextID(ctx, x, func(in conn.Session, refused int64) (id int64, err error) {
			of, err := e.erasureIn(ctx, in, limit, key, why, now())
			if err != nil {
				return 0, err
			}
			rows := 0
			if !apart {
				if rows, err = e.deleteIn(ctx, in, limit, key); err != nil {
					return 0, err
				}
			}
			id, done, err = e.logIn(ctx, in, of, refused)
			done.Rows = rows
			return id, err
		})
		if err != nil || !apart {
			return done, err
		}
		return done, conn.Retry(ctx, func(ctx context.Context) error {
			return e.server.InTx(ctx, x, runtime.DurabilityFull, func(in conn.Session) (err error) {
				done.Rows, err = e.deleteIn(ctx, in, limit, key)
				return err
			})
		})
	})
}

// EraseIn erases a key in a transaction of the caller, at the instant now. Errors about the log are explained.
func (e *Eraser) EraseIn(ctx context.Context, in conn.Session, limit, key string, why runtime.OverrideEnd, now int64) (done runtime.Erased, err error) {
	of, err := e.erasureIn(ctx, in, limit, key, why, now)
	if err != nil {
		return done, err
	}
	if of.entry.What != "" && e.server.Sharded() {
		return done, fmt.Errorf("%w: the log of operators is in another keyspace than the counts: erase the key outside of the transaction", runtime.ErrNoTx)
	}
	rows, err := e.deleteIn(ctx, in, limit, key)
	if err != nil {
		return done, err
	}
	_, done, err = e.logIn(ctx, in, of, 0)
	done.Rows = rows
	return done, err
}

// erasure is an erased key, with its entries of the log and the new one, which is zero if the log stays as it is.
type erasure struct {
	limit, key string
	entries    []runtime.OverrideEntry
	entry      runtime.OverrideEntry
}

// erasureIn reads what the log has of a key. It comes before the rows are deleted: the caller's transaction may go on after
// its error.
func (e *Eraser) erasureIn(
	ctx context.Context, in conn.Session, limit, key string, why runtime.OverrideEnd, now int64,
) (of erasure, err error) {
	of.limit, of.key = limit, key
	if of.entries, err = e.entriesIn(ctx, in, limit, key); err != nil {
		return of, e.Explain(err)
	}
	of.entry, err = override.Erasure(limit, of.entries, why, now)
	if err == nil && of.entry.What != "" {
		err = e.Err
	}
	return of, err
}

// deleteIn deletes the rows of a key, and returns how many they were.
func (e *Eraser) deleteIn(ctx context.Context, in conn.Session, limit, key string) (rows int, err error) {
	// The lock of the first row guards the others of a precise limit. Without it, rows could stay that a take has inserted
	// after the deletion began.
	first := []runtime.StoredRow{{Row: runtime.Row{Name: limit, Key: key}}}
	l := NewRowLock(in, []runtime.Row{first[0].Row}, runtime.DurabilityDefault)
	if err := l.Lock(ctx, OrderFor(&e.server.Dialect, SeedFirst)); err != nil {
		return 0, err
	}
	n, v := conn.Bind(first)
	result, err := in.Exec(ctx, conn.DeleteKey, n, v)
	if err != nil {
		return 0, err
	}
	deleted, err := result.RowsAffected()
	return int(deleted) - len(l.placeholders), err
}

// logIn writes an erasure to the log. It returns the ID of its entry, or 0 without one, unless that ID was refused before.
func (e *Eraser) logIn(ctx context.Context, in conn.Session, of erasure, refused int64) (id int64, done runtime.Erased, err error) {
	entry := of.entry
	if entry.What == "" {
		return 0, done, nil
	}
	if done.Entries = len(of.entries); done.Entries > 0 {
		// An entry that was appended meanwhile may be in force.
		last := of.entries[len(of.entries)-1].ID
		if _, err := in.ExecContext(ctx, e.sql(blotEntries), entry.Key, override.Blotted, override.Blotted, of.limit, of.key, last); err != nil {
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
	return e.scanOverrides(ctx, tx, e.reading(readHistory), []any{limit, key})
}
