package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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

// locked answers calls in a transaction of the store that has locked all of their rows.
func (s *Store) locked(ctx context.Context, p *prepared, calls []runtime.Call) ([]runtime.Answer, error) {
	var b *runtime.Batch
	err := retry(ctx, func() error {
		b = runtime.NewBatch(calls)
		how := s.locking(readFirst)
		for {
			done, err := s.run(ctx, p, b, how, durabilityOf(calls))
			switch {
			case errors.Is(err, errPartly):
				how = seedFirst
			case done || err != nil:
				return err
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return b.Answers(), nil
}

// run runs a batch in a transaction, or returns false if it takes more rows. A batch that changes nothing
// is rolled back, and with it the rows that were inserted to be locked.
func (s *Store) run(ctx context.Context, p *prepared, b *runtime.Batch, how locking, d runtime.Durability) (done bool, err error) {
	now, err := s.now(ctx, s.db)
	if err != nil {
		return false, err
	}
	err = s.inTx(ctx, p, d, func(se session) error {
		l := newRowLock(se, b.Rows(), d)
		if err := l.lock(ctx, how); err != nil {
			return err
		}
		if done = b.Run(now(), l.states); !done {
			return errRollback
		}
		changes := b.Changes()
		if len(changes) == 0 {
			return errRollback
		}
		return l.write(ctx, changes)
	})
	if errors.Is(err, errRollback) {
		err = nil
	}
	return done, err
}

// errRollback rolls a transaction back that has done nothing to keep.
var errRollback = errors.New("nothing to commit")

// inTx runs fn in a transaction of the store, and commits it if fn returns no error. If ctx ends during the commit, the
// transaction may have been committed although there is an error.
func (s *Store) inTx(ctx context.Context, p *prepared, d runtime.Durability, fn func(se session) error) error {
	if err := p.prepareWanted(ctx); err != nil {
		return err
	}
	err := s.again(ctx, func() error { return s.inTxOnce(ctx, p, d, fn) })
	if unbegun := new(unbegunError); errors.As(err, &unbegun) && ctx.Err() == nil {
		return &advised{closedAtBegin, unbegun.err}
	}
	return err
}

// inTxOnce is inTx without a second try.
func (s *Store) inTxOnce(ctx context.Context, p *prepared, d runtime.Durability, fn func(se session) error) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return s.withSync(ctx, conn, d, func() error { return s.inTxOf(ctx, conn, p, fn) })
}

// inTxOf is inTx on a connection.
func (s *Store) inTxOf(ctx context.Context, conn *sql.Conn, p *prepared, fn func(se session) error) error {
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: s.dialect.Isolation})
	if err != nil {
		return unbegun(ended(conn, err))
	}
	defer rollback(conn, tx)
	if err := fn(own{tx, p}); err != nil {
		return err
	}
	if p.resends && s.dialect.TxOpen != "" {
		if err := requireOpen(ctx, tx, s.dialect.TxOpen); err != nil {
			return err
		}
	}
	return commit(ctx, conn, tx)
}

// locking returns how rows are locked by the dialect, if not plainly.
func (s *Store) locking(otherwise locking) locking {
	if s.dialect.Seed == "" {
		return plainly
	}
	return otherwise
}

// durabilityOf returns the durability of what calls change together: full if one of them asks for it, and
// relaxed if all do.
func durabilityOf(calls []runtime.Call) runtime.Durability {
	relaxed := true
	for _, c := range calls {
		for _, q := range c.Requests {
			if q.Policy == nil {
				continue
			}
			switch q.Policy.Durability {
			case runtime.DurabilityFull:
				return runtime.DurabilityFull
			case runtime.DurabilityDefault:
				relaxed = false
			}
		}
	}
	if relaxed {
		return runtime.DurabilityRelaxed
	}
	return runtime.DurabilityDefault
}

// setsSync reports whether a durability is a setting of the session, and not of a statement.
func (s *Store) setsSync(d runtime.Durability) bool {
	return s.dialect.Sync != "" && d == runtime.DurabilityFull
}

// syncFull is the setting of a session whose transactions wait for the disk.
const syncFull = 2

// withSync runs fn while the session waits for the disk, if the durability asks for it.
func (s *Store) withSync(ctx context.Context, conn *sql.Conn, d runtime.Durability, fn func() error) error {
	if !s.setsSync(d) {
		return fn()
	}
	var before int
	if err := conn.QueryRowContext(ctx, s.dialect.Sync).Scan(&before); err != nil {
		return err
	}
	if before >= syncFull {
		return fn()
	}
	if err := s.setSync(ctx, conn, syncFull); err != nil {
		return err
	}
	// If it cannot be set back, the session waits more often than it must.
	defer s.setSync(context.WithoutCancel(ctx), conn, before)
	return fn()
}

func (s *Store) setSync(ctx context.Context, conn *sql.Conn, to int) error {
	_, err := conn.ExecContext(ctx, fmt.Sprintf("%s = %d", s.dialect.Sync, to))
	return err
}
