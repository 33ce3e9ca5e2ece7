package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// unseen is the ts of a row that stands for a key never seen: it was inserted only to be locked.
const unseen = math.MinInt64

// locking is how to lock a row that may not be there: what is not there cannot be locked.
type locking int

const (
	// plainly: there is nothing to do, for one transaction writes at a time.
	plainly locking = iota
	// readFirst inserts a row if it is not there.
	readFirst
	// seedFirst inserts it before it looks. Under some isolations, looking in vain locks the gap in which
	// the row would be, and two transactions that then insert there wait for each other.
	seedFirst
)

// rowLock is rows that a transaction has locked.
type rowLock struct {
	session
	rows   []runtime.Row
	states []runtime.State
	// marks are the rows that are there, but stand for keys never seen.
	marks []runtime.Row
}

// lock locks rows in their order, and reads them.
func lock(ctx context.Context, se session, rows []runtime.Row, how locking) (*rowLock, error) {
	l := &rowLock{session: se, rows: rows, states: make([]runtime.State, len(rows))}
	for i := range rows {
		if err := l.lockRow(ctx, i, how); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// errVanished: a row was gone again, each time that it had been inserted.
var errVanished = errors.New("a row that was inserted is not there")

// lockRow locks a row. One that is inserted may be deleted by somebody else before it is locked.
func (l *rowLock) lockRow(ctx context.Context, i int, how locking) error {
	const tries = 10
	for try := range tries {
		if how == seedFirst || try > 0 {
			r := l.rows[i]
			if _, err := l.exec(ctx, seedRow, r.Name, r.Key, r.Shard); err != nil {
				return err
			}
		}
		found, err := l.read(ctx, i)
		if err != nil || found || how == plainly {
			return err
		}
	}
	return errVanished
}

// read reads a row, and reports whether it is there.
func (l *rowLock) read(ctx context.Context, i int) (found bool, err error) {
	r, s := l.rows[i], runtime.State{Seen: true}
	switch err := l.queryRow(ctx, readRow, r.Name, r.Key, r.Shard).Scan(&s.Value, &s.TS, &s.Prev); {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	case s.TS == unseen:
		l.marks = append(l.marks, r)
	default:
		l.states[i] = s
	}
	return true, nil
}

// write writes what has changed, and deletes the marks that were of no use.
func (l *rowLock) write(ctx context.Context, changes []runtime.Change) error {
	for _, c := range changes {
		if err := l.put(ctx, c.Row, c.State); err != nil {
			return err
		}
	}
	for _, r := range l.marks {
		if slices.ContainsFunc(changes, func(c runtime.Change) bool { return c.Row == r }) {
			continue
		}
		if err := l.put(ctx, r, runtime.State{}); err != nil {
			return err
		}
	}
	return nil
}

// put writes the state of a row, or deletes that of a key never seen.
func (l *rowLock) put(ctx context.Context, r runtime.Row, s runtime.State) (err error) {
	if s.Seen {
		_, err = l.exec(ctx, writeRow, r.Name, r.Key, r.Shard, s.Value, s.TS, s.Prev)
	} else {
		_, err = l.exec(ctx, deleteRow, r.Name, r.Key, r.Shard)
	}
	return err
}
