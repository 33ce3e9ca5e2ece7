package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/batch"
)

// decider is a decide.Decider. Its statements call SQL functions of this process, because SQLite runs in it: they read the rows
// into a [callRecord], and write from it. A batch of one row is one statement, in the middle of which the batch runs.
type decider struct{ db *sql.DB }

// Decide implements decide.Decider. It ignores the context, because a canceled statement may have written although its
// result is lost.
func (d decider) Decide(_ context.Context, b *batch.Batch, now func() int64) (done bool, err error) {
	conn, err := d.db.Conn(context.Background())
	if err != nil {
		return false, err
	}
	defer conn.Close()
	err = conn.Raw(func(on any) (err error) {
		t := transaction{on.(*connection), b, now}
		defer func() { t.record = callRecord{} }()
		done, err = t.run()
		return err
	})
	return done && err == nil, err
}

// transaction is a batch on a connection.
type transaction struct {
	*connection
	batch *batch.Batch
	now   func() int64
}

func (t *transaction) run() (done bool, err error) {
	rows := t.batch.Rows()
	t.record.read = make([]runtime.State, len(rows))
	if t.batch.Reads() {
		return t.read(rows)
	}
	if len(rows) == 1 {
		if stepped, done, err := t.step(rows[0]); stepped || err != nil {
			return done, err
		}
	}
	err = t.tx(begin, func() (bool, error) {
		clear(t.record.read)
		if err := t.readRows(rows); err != nil {
			return false, err
		}
		// The time is read under the lock, so that no transaction decides as of a time before the one it waited for.
		if done = t.batch.Run(t.now(), t.record.read); !done {
			return false, nil
		}
		changes := t.batch.Changes()
		return len(changes) > 0, t.writeRows(changes)
	})
	return done && err == nil, err
}

// read runs a batch that changes nothing.
func (t *transaction) read(rows []runtime.Row) (done bool, err error) {
	if len(rows) > 1 {
		err = t.tx(beginRead, func() (bool, error) { return true, t.readRows(rows) })
	} else {
		err = t.readRows(rows)
	}
	return err == nil && t.batch.Run(t.now(), t.record.read), err
}

// step runs a batch of one row in the statement that writes it, if the row exists, and otherwise before that. So a single call is run
// twice if its row exists, first as if it did not, and the second run gives the answers. It reports whether
// it could: a row that is to be deleted needs a transaction.
func (t *transaction) step(row runtime.Row) (stepped, done bool, err error) {
	stepped, done = true, true
	exists := false
	t.record.step = func(was runtime.State) (runtime.State, bool) {
		exists = true
		if done = t.batch.Run(t.now(), t.record.read); !done {
			return was, false
		}
		changes := t.batch.Changes()
		if len(changes) == 0 {
			return was, false
		}
		stepped = changes[0].State.Exists
		return changes[0].State, stepped
	}
	update := func() error { return t.exec(stepOne, row.Name, row.Key, int64(row.Shard)) }
	if t.batch.Calls() > 1 || t.batch.Partial() {
		// They are run once only: a statement that finds no row costs less than running them in case there is none. A shard that
		// is missing does not suffice to decide.
		if err := update(); exists || err != nil {
			return stepped, done, err
		}
	}
	if !t.batch.Run(t.now(), t.record.read) {
		return true, false, nil
	}
	if inserted := t.batch.Changes(); len(inserted) > 0 {
		s := &inserted[0].State
		err = t.exec(stepOrInsert, row.Name, row.Key, int64(row.Shard), s.Value, s.TS, s.Prev, logOf(s))
	} else {
		err = update()
	}
	return stepped, done, err
}

// fewRows is how many rows of a limit are read and written one by one: a statement for many costs as much as some three for one.
const fewRows = 3

// readRows reads rows into the record.
func (t *transaction) readRows(rows []runtime.Row) error {
	for from := 0; from < len(rows); {
		name := rows[from].Name
		to, many := runOf(from, len(rows), func(i int) (string, bool) { return rows[i].Name, rows[i].Shard == 0 })
		if many {
			keys, err := keysOf(to-from, func(i int) string { return rows[from+i].Key })
			if err == nil {
				err = t.exec(readMany, int64(from), keys, name)
			}
			if err != nil {
				return err
			}
			from = to
		}
		for from < to {
			end, err := t.readShards(rows, from, to)
			if err != nil {
				return err
			}
			from = end
		}
	}
	return nil
}

// readShards reads rows[from] and the rows of the same key that follow it, before rows[to], while their shards are consecutive. It
// returns the index after the last one.
func (t *transaction) readShards(rows []runtime.Row, from, to int) (end int, err error) {
	r, end := rows[from], from+1
	for end < to && rows[end].Key == r.Key && rows[end].Shard == r.Shard+end-from {
		end++
	}
	place, shard := int64(from), int64(r.Shard)
	if end == from+1 {
		// A range costs more than one row.
		return end, t.exec(readOne, place, r.Name, r.Key, shard)
	}
	return end, t.exec(readShards, place-shard, r.Name, r.Key, shard, shard+int64(end-from))
}

// writeRows writes and deletes rows.
func (t *transaction) writeRows(changes []runtime.StoredRow) error {
	for from := 0; from < len(changes); {
		name := changes[from].Row.Name
		to, many := runOf(from, len(changes), func(i int) (string, bool) {
			return changes[i].Row.Name, changes[i].Row.Shard == 0 && changes[i].State.Exists
		})
		if many {
			keys, err := keysOf(to-from, func(i int) string { return changes[from+i].Row.Key })
			t.record.write = func(place int) *runtime.State { return &changes[from+place].State }
			if err == nil {
				err = t.exec(writeMany, name, keys)
			}
			if err != nil {
				return err
			}
			from = to
		}
		for ; from < to; from++ {
			if err := t.writeRow(&changes[from]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *transaction) writeRow(c *runtime.StoredRow) error {
	r, s := c.Row, &c.State
	if !s.Exists {
		return t.exec(deleteOne, r.Name, r.Key, int64(r.Shard))
	}
	return t.exec(writeOne, r.Name, r.Key, int64(r.Shard), s.Value, s.TS, s.Prev, logOf(s))
}

// runOf returns the end of the run of neighbours from an index on that have the same name, and whether one statement can have them all:
// they are more than a few, and of is true for each.
func runOf(from, n int, of func(i int) (string, bool)) (to int, many bool) {
	name, all := of(from)
	for to = from + 1; to < n; to++ {
		next, ok := of(to)
		if next != name {
			break
		}
		all = all && ok
	}
	return to, all && to-from > fewRows
}

// keysOf returns keys as a list in JSON.
func keysOf(n int, key func(i int) string) (driver.Value, error) {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = key(i)
	}
	text, err := json.Marshal(keys)
	return string(text), err
}
