package sqlstore

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/batch"
)

// placeholderTS is the ts of a row that was inserted only to be locked: its key has no history.
const placeholderTS = math.MinInt64

// lockOrder is how to lock rows that may be missing.
type lockOrder int

const (
	// readOnly inserts nothing: one transaction writes at a time, so missing rows need no lock.
	readOnly lockOrder = iota
	// readFirst inserts the rows if all of them are missing.
	readFirst
	// seedFirst inserts the missing rows before it reads, and locks the others on the way. Under some isolation levels,
	// reading a missing row locks the gap around it, and two transactions that then insert into the gap deadlock.
	seedFirst
)

// orderFor returns how rows are locked by a dialect, if missing rows need a lock.
func orderFor(d *Dialect, otherwise lockOrder) lockOrder {
	if d.InsertPlaceholders == "" {
		return readOnly
	}
	return otherwise
}

// rowLock is the rows of a transaction, which lock locks.
type rowLock struct {
	session
	rows   []runtime.Row
	states []runtime.State
	found  []bool
	// placeholders are the rows with [placeholderTS].
	placeholders []runtime.Row
	// durability is that of the statements that write.
	durability runtime.Durability
}

func newRowLock(in session, rows []runtime.Row, d runtime.Durability) *rowLock {
	return &rowLock{
		session: in, rows: rows, states: make([]runtime.State, len(rows)), found: make([]bool, len(rows)), durability: d,
	}
}

// run runs a batch on the locked rows, and locks guarded rows as far as the batch needs them. It returns false if all rows
// must be locked again.
func (l *rowLock) run(ctx context.Context, b *batch.Batch, now int64) (done bool, err error) {
	for !b.Run(now, l.states) {
		if !b.Guarded() {
			return false, nil
		}
		if err := l.extend(ctx, b.Rows()); err != nil {
			return false, err
		}
	}
	return true, nil
}

// extend locks and reads the rows that are not locked yet. Missing ones are not inserted: the other locks guard them.
func (l *rowLock) extend(ctx context.Context, rows []runtime.Row) error {
	more := newRowLock(l.session, rows, l.durability)
	more.placeholders = l.placeholders
	var unread []runtime.Row
	for i, row := range rows {
		if j, ok := slices.BinarySearchFunc(l.rows, row, runtime.Row.Compare); ok {
			more.states[i], more.found[i] = l.states[j], l.found[j]
		} else {
			unread = append(unread, row)
		}
	}
	*l = *more
	return l.read(ctx, readRows, unread)
}

// errSomeMissing means that some of the rows were found and are locked, and others are missing. Inserting those now would
// lock rows out of order, and two transactions that do so may deadlock.
var errSomeMissing = errors.New("rows are missing after others have been locked")

// lock locks the rows in their order, and reads them.
func (l *rowLock) lock(ctx context.Context, order lockOrder) error {
	missing := l.rows
	// A sweep may delete an inserted row before it is locked, so this takes several tries at worst.
	const tries = 10
	for try := range tries {
		if order == seedFirst || try > 0 {
			n, v := bind(withoutStates(missing))
			if _, err := l.exec(ctx, seedRows, n, v); err != nil {
				return err
			}
		}
		if err := l.read(ctx, readRows, missing); err != nil {
			return err
		}
		missing = l.missing()
		switch {
		case len(missing) == 0 || order == readOnly:
			return nil
		case order == readFirst && len(missing) < len(l.rows):
			return errSomeMissing
		}
	}
	return errVanished
}

func withoutStates(rows []runtime.Row) []stored {
	all := make([]stored, len(rows))
	for i, r := range rows {
		all[i].row = r
	}
	return all
}

// missing returns the rows that read has not found.
func (l *rowLock) missing() []runtime.Row {
	var missing []runtime.Row
	for i, found := range l.found {
		if !found {
			missing = append(missing, l.rows[i])
		}
	}
	return missing
}

// read reads rows by a statement that locks them or not.
func (l *rowLock) read(ctx context.Context, by statement, rows []runtime.Row) error {
	n, v := bind(withoutStates(rows))
	found, err := l.query(ctx, by, n, v)
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		var r runtime.Row
		s := runtime.State{Exists: true}
		if err := found.Scan(&r.Name, &r.Key, &r.Shard, &s.Value, &s.TS, &s.Prev); err != nil {
			return err
		}
		if i, ok := slices.BinarySearchFunc(l.rows, r, runtime.Row.Compare); ok {
			l.set(i, s)
		}
	}
	return found.Err()
}

func (l *rowLock) set(i int, s runtime.State) {
	l.found[i] = true
	// A placeholder has no state: its key has no history.
	if s.TS == placeholderTS {
		l.placeholders = append(l.placeholders, l.rows[i])
	} else {
		l.states[i] = s
	}
}

// write writes changes, and deletes rows that no longer exist and unused placeholders.
func (l *rowLock) write(ctx context.Context, changes []batch.Change) error {
	var written, deleted []stored
	for _, c := range changes {
		if c.State.Exists {
			written = append(written, stored{c.Row, c.State})
		} else {
			deleted = append(deleted, stored{row: c.Row})
		}
	}
	// In a transaction of the caller, keys that were only checked would otherwise keep a row each.
	for _, r := range l.placeholders {
		if !slices.ContainsFunc(changes, func(c batch.Change) bool { return c.Row == r }) {
			deleted = append(deleted, stored{row: r})
		}
	}
	if err := l.put(ctx, writeRows, written); err != nil {
		return err
	}
	return l.put(ctx, deleteRows, deleted)
}

// put writes or deletes rows.
func (l *rowLock) put(ctx context.Context, s statement, rows []stored) error {
	if len(rows) == 0 {
		return nil
	}
	n, v := l.bind(rows)
	result, err := l.exec(ctx, s, n, v)
	if err != nil {
		return err
	}
	affected, err := result.RowsAffected()
	if err == nil && affected == 0 {
		// The rows exist and are locked, so only outside of the transaction can they not be written.
		return errTxEnded
	}
	return err
}

// bind is bind for statements that write, which choose the durability of their transaction.
func (l *rowLock) bind(rows []stored) (arity, *values) {
	n, v := bind(rows)
	v.of[paramDurability] = int(l.durability)
	return n, v
}
