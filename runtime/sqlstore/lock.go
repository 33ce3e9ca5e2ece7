package sqlstore

import (
	"context"
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
	// readFirst inserts the rows if none of them is there.
	readFirst
	// seedFirst inserts those that are not there before it looks, and locks the others on the way. Under some
	// isolations, looking in vain locks the gap in which the row would be, and two transactions that then
	// insert there wait for each other.
	seedFirst
)

// rowLock is rows that a transaction has locked.
type rowLock struct {
	session
	rows   []runtime.Row
	states []runtime.State
	found  []bool
	// marks are the rows that are there, but stand for keys never seen.
	marks []runtime.Row
	// durability is that of what is written.
	durability runtime.Durability
}

func newRowLock(se session, rows []runtime.Row, d runtime.Durability) *rowLock {
	return &rowLock{
		session: se, rows: rows, states: make([]runtime.State, len(rows)), found: make([]bool, len(rows)), durability: d,
	}
}

// errPartly: some of the rows were there, and are locked; others were not. To insert those now would lock them out of
// order, and two transactions that do so may wait for each other.
var errPartly = errors.New("rows are missing after others have been locked")

// errVanished: a row was gone again, each time that it had been inserted.
var errVanished = errors.New("a row that was inserted is not there")

// lock locks the rows in their order, and reads them. One that is inserted may be deleted by somebody else before
// it is locked.
func (l *rowLock) lock(ctx context.Context, how locking) error {
	missing := l.rows
	const tries = 10
	for try := range tries {
		if how == seedFirst || try > 0 {
			form, values := bind(bare(missing))
			if _, err := l.exec(ctx, seedRows, form, values); err != nil {
				return err
			}
		}
		if err := l.read(ctx, readRows, missing); err != nil {
			return err
		}
		missing = l.missing()
		switch {
		case len(missing) == 0 || how == plainly:
			return nil
		case how == readFirst && len(missing) < len(l.rows):
			return errPartly
		}
	}
	return errVanished
}

// bare returns rows without their states.
func bare(rows []runtime.Row) []stored {
	all := make([]stored, len(rows))
	for i, r := range rows {
		all[i].row = r
	}
	return all
}

// missing returns the rows that were not there when they were read.
func (l *rowLock) missing() []runtime.Row {
	var missing []runtime.Row
	for i, found := range l.found {
		if !found {
			missing = append(missing, l.rows[i])
		}
	}
	return missing
}

// read reads those of the rows that are there, by a statement that locks them or not.
func (l *rowLock) read(ctx context.Context, by statement, rows []runtime.Row) error {
	form, values := bind(bare(rows))
	found, err := l.query(ctx, by, form, values)
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

// set takes note of a row that was read.
func (l *rowLock) set(i int, s runtime.State) {
	l.found[i] = true
	if s.TS == unseen {
		l.marks = append(l.marks, l.rows[i])
	} else {
		l.states[i] = s
	}
}

// write writes what has changed, and deletes what is as if never seen, and the marks that were of no use.
func (l *rowLock) write(ctx context.Context, changes []runtime.Change) error {
	var seen, unseen []stored
	for _, c := range changes {
		if c.State.Exists {
			seen = append(seen, stored{c.Row, c.State})
		} else {
			unseen = append(unseen, stored{row: c.Row})
		}
	}
	for _, r := range l.marks {
		if !slices.ContainsFunc(changes, func(c runtime.Change) bool { return c.Row == r }) {
			unseen = append(unseen, stored{row: r})
		}
	}
	if err := l.put(ctx, writeRows, seen); err != nil {
		return err
	}
	return l.put(ctx, deleteRows, unseen)
}

// errTxEnded: rows that are locked were not written, which the transaction that has locked them could not fail to do.
var errTxEnded = errors.New("the transaction is no longer open: another node of the cluster has aborted it, or it was committed or never begun")

// put writes or deletes rows.
func (l *rowLock) put(ctx context.Context, s statement, rows []stored) error {
	if len(rows) == 0 {
		return nil
	}
	form, values := l.bind(rows)
	result, err := l.exec(ctx, s, form, values)
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		return errTxEnded
	}
	return err
}

// bind is bind for a statement that writes.
func (l *rowLock) bind(rows []stored) (form, *values) {
	form, v := bind(rows)
	v[paramDurability] = int(l.durability)
	return form, v
}
