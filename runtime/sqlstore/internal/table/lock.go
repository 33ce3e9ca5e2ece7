// Package table reads and writes the tables of a store: of counts, of overrides and of registrations.
package table

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

// placeholderTS is the at_ns of a row that was inserted only to be locked: its key has no history.
const placeholderTS = math.MinInt64

// Placeholder returns the placeholder of a row.
func Placeholder(r runtime.Row) runtime.StoredRow {
	return runtime.StoredRow{Row: r, State: runtime.State{TS: placeholderTS}}
}

// LockOrder is how to lock rows that may be missing.
type LockOrder int

const (
	// readOnly inserts nothing: one transaction writes at a time, so missing rows need no lock.
	readOnly LockOrder = iota
	// ReadFirst inserts the rows if all of them are missing.
	ReadFirst
	// SeedFirst inserts the missing rows before it reads, and locks the others on the way. Under some isolation levels,
	// reading a missing row locks the gap around it, and two transactions that then insert into the gap deadlock.
	SeedFirst
)

// OrderFor returns how rows are locked by a dialect, if missing rows need a lock.
func OrderFor(d *dialect.Dialect, otherwise LockOrder) LockOrder {
	if d.InsertPlaceholders == "" {
		return readOnly
	}
	return otherwise
}

// RowLock locks, reads and writes rows in a transaction, or reads them outside of one.
type RowLock struct {
	conn.Session
	Rows   []runtime.Row
	States []runtime.State
	found  []bool
	// placeholders are the rows with [placeholderTS].
	placeholders []runtime.Row
	// Places are the shards of the first parts of keys if the rows are on several: then each has a statement of its own,
	// because one that locks rows on several of them locks these in no order.
	Places map[string]string
	// durability is that of the statements that write.
	durability runtime.Durability
}

func NewRowLock(in conn.Session, rows []runtime.Row, d runtime.Durability) *RowLock {
	return &RowLock{
		Session: in, Rows: rows, States: make([]runtime.State, len(rows)), found: make([]bool, len(rows)), durability: d,
	}
}

// ErrSomeMissing means that some of the rows were found and are locked, and others are missing. Inserting those now would
// lock rows out of order, and two transactions that do so may deadlock.
var ErrSomeMissing = errors.New("rows are missing after others have been locked")

// Lock locks the rows in their order, and reads them.
func (l *RowLock) Lock(ctx context.Context, order LockOrder) error {
	if len(l.Rows) == 0 {
		return nil
	}
	missing := l.Rows
	// A sweep may delete an inserted row before it is locked, so this takes several tries at worst.
	const tries = 10
	for try := range tries {
		if order == SeedFirst || try > 0 {
			for _, part := range byPlace(placeholders(missing), l.Places) {
				n, v := conn.Bind(part)
				if _, err := l.Exec(ctx, conn.SeedRows, n, v); err != nil {
					return err
				}
			}
		}
		if err := l.Read(ctx, conn.ReadRows, missing); err != nil {
			return err
		}
		missing = l.Missing()
		switch {
		case len(missing) == 0 || order == readOnly:
			return nil
		case order == ReadFirst && len(missing) < len(l.Rows):
			return ErrSomeMissing
		}
	}
	return fault.ErrVanished
}

// byPlace returns the rows on each shard, in the order of the shards' names, given those of the first parts of their keys.
// Without any, the rows are one part, unless there are none.
func byPlace(rows []runtime.StoredRow, places map[string]string) (parts [][]runtime.StoredRow) {
	switch {
	case len(rows) == 0:
		return nil
	case places == nil:
		return [][]runtime.StoredRow{rows}
	}
	of := map[string][]runtime.StoredRow{}
	for _, r := range rows {
		place := places[conn.FirstPart(r.Row.Key)]
		of[place] = append(of[place], r)
	}
	for _, place := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, of[place])
	}
	return parts
}

func placeholders(rows []runtime.Row) []runtime.StoredRow {
	all := make([]runtime.StoredRow, len(rows))
	for i, r := range rows {
		all[i] = Placeholder(r)
	}
	return all
}

func withoutStates(rows []runtime.Row) []runtime.StoredRow {
	all := make([]runtime.StoredRow, len(rows))
	for i, r := range rows {
		all[i].Row = r
	}
	return all
}

// Missing returns the rows that Read has not found.
func (l *RowLock) Missing() []runtime.Row {
	var missing []runtime.Row
	for i, found := range l.found {
		if !found {
			missing = append(missing, l.Rows[i])
		}
	}
	return missing
}

// Read reads rows by a statement that locks them or not.
func (l *RowLock) Read(ctx context.Context, by conn.Statement, rows []runtime.Row) error {
	for _, part := range byPlace(withoutStates(rows), l.Places) {
		if err := l.readPart(ctx, by, part); err != nil {
			return err
		}
	}
	return nil
}

func (l *RowLock) readPart(ctx context.Context, by conn.Statement, rows []runtime.StoredRow) error {
	n, v := conn.Bind(rows)
	found, err := l.Query(ctx, by, n, v)
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		var r runtime.Row
		s := runtime.State{Exists: true}
		if err := found.Scan(&r.Name, &r.Key, &r.Shard, &s.Value, &s.TS, &s.Prev, (*conn.Log)(&s.Log)); err != nil {
			return err
		}
		if i, ok := slices.BinarySearchFunc(l.Rows, r, runtime.Row.Compare); ok {
			l.set(i, s)
		}
	}
	return found.Err()
}

func (l *RowLock) set(i int, s runtime.State) {
	l.found[i] = true
	// A placeholder has no state: its key has no history.
	if s.TS == placeholderTS {
		l.placeholders = append(l.placeholders, l.Rows[i])
	} else {
		l.States[i] = s
	}
}

// Write writes changes, and deletes rows that no longer exist and unused placeholders.
func (l *RowLock) Write(ctx context.Context, changes []runtime.StoredRow) error {
	var written, deleted []runtime.StoredRow
	for _, c := range changes {
		if c.State.Exists {
			written = append(written, runtime.StoredRow{Row: c.Row, State: c.State})
		} else {
			deleted = append(deleted, runtime.StoredRow{Row: c.Row})
		}
	}
	// In a transaction of the caller, keys that were only checked would otherwise keep a row each.
	for _, r := range l.placeholders {
		if !slices.ContainsFunc(changes, func(c runtime.StoredRow) bool { return c.Row == r }) {
			deleted = append(deleted, runtime.StoredRow{Row: r})
		}
	}
	if err := l.put(ctx, conn.WriteRows, written); err != nil {
		return err
	}
	return l.put(ctx, conn.DeleteRows, deleted)
}

// put writes or deletes rows.
func (l *RowLock) put(ctx context.Context, s conn.Statement, rows []runtime.StoredRow) error {
	for _, part := range byPlace(rows, l.Places) {
		if err := l.putPart(ctx, s, part); err != nil {
			return err
		}
	}
	return nil
}

func (l *RowLock) putPart(ctx context.Context, s conn.Statement, rows []runtime.StoredRow) error {
	n, v := l.Bind(rows)
	result, err := l.Exec(ctx, s, n, v)
	if err != nil {
		return err
	}
	affected, err := result.RowsAffected()
	if err == nil && affected == 0 {
		// The rows exist and are locked, so only outside of the transaction can they not be written.
		return fault.ErrTxEnded
	}
	return err
}

// Bind is [conn.Bind] for statements that write, which choose the durability of their transaction.
func (l *RowLock) Bind(rows []runtime.StoredRow) (conn.Arity, *conn.Values) {
	n, v := conn.Bind(rows)
	v.Of[conn.ParamDurability] = int(l.durability)
	return n, v
}
