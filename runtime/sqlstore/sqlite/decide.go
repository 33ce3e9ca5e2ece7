package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/batch"
)

// decider is a decide.Decider. It reads the rows that the connection does not have in its [rowCache], and writes those that
// have changed. Statements for several rows call SQL functions of this process, because SQLite runs in it: see [callRecord].
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
		if done, err = t.run(); errors.Is(err, errGone) {
			// Its transaction was rolled back, and the next one reads the row.
			done, err = t.run()
		}
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
	if t.batch.Reads() {
		return t.read(rows)
	}
	if len(rows) == 1 && !t.batch.Partial() {
		if ended, done, err := t.insertFirst(rows[0]); ended || err != nil {
			return done, err
		}
	}
	known, wrote := false, false
	// Also after a panic.
	defer func() {
		if !known {
			t.cache.doubt()
		}
	}()
	err = t.tx(begin, func() (bool, error) {
		t.cache.use(t.version())
		if err := t.find(rows); err != nil {
			return false, err
		}
		// The time is read under the lock, so that no transaction decides as of a time before the one it waited for.
		if done = t.batch.Run(t.now(), t.states); !done {
			return false, nil
		}
		changes := t.batch.Changes()
		wrote = len(changes) > 0
		return wrote, t.write(rows, changes)
	})
	if err == nil && wrote {
		t.cache.committed(t.version())
	}
	known = err == nil
	return done && known, err
}

// insertFirst runs a batch of one row as if the row did not exist, unless the cache has it, and inserts it by a statement
// without a transaction. It reports whether that was so.
func (t *transaction) insertFirst(row runtime.Row) (ended, done bool, err error) {
	if _, seen := t.cache.number(row); seen {
		return false, false, nil
	}
	t.states = append(t.states[:0], runtime.State{})
	if !t.batch.Run(t.now(), t.states) {
		return true, false, nil
	}
	changes := t.batch.Changes()
	if len(changes) == 0 {
		return false, false, nil
	}
	s := &changes[0].State
	result, err := t.exec(insertMissing, row.Name, row.Key, int64(row.Shard), s.Value, s.TS, s.Prev, logOf(s))
	if err != nil {
		t.cache.doubt()
		return false, false, err
	}
	if inserted, err := result.RowsAffected(); inserted == 0 {
		return false, false, err
	}
	id, err := result.LastInsertId()
	if err != nil {
		t.cache.doubt()
		return false, false, err
	}
	t.cache.committedAlone(t.version())
	t.cache.set(row, storedRow{id, *s})
	return true, true, nil
}

// read runs a batch that changes nothing.
func (t *transaction) read(rows []runtime.Row) (done bool, err error) {
	if len(rows) > 1 {
		err = t.tx(beginRead, func() (bool, error) { return true, t.readRows(rows) })
	} else {
		err = t.readRows(rows)
	}
	if err != nil {
		return false, err
	}
	t.stored = append(t.stored[:0], t.record.read...)
	t.setStates()
	return t.batch.Run(t.now(), t.states), nil
}

// find sets stored to the rows, from the cache or the table.
func (t *transaction) find(rows []runtime.Row) error {
	t.stored = t.stored[:0]
	var missing []runtime.Row
	for _, r := range rows {
		if cached := t.cache.find(r); cached != nil {
			t.stored = append(t.stored, *cached)
			continue
		}
		t.stored = append(t.stored, storedRow{})
		missing = append(missing, r)
	}
	if len(missing) > 0 {
		if err := t.readRows(missing); err != nil {
			return err
		}
		read := t.record.read
		for i := range t.stored {
			if !t.stored[i].state.Exists {
				t.stored[i], read = read[0], read[1:]
				t.cache.set(rows[i], t.stored[i])
			}
		}
	}
	t.setStates()
	return nil
}

func (t *transaction) setStates() {
	t.states = t.states[:0]
	for i := range t.stored {
		t.states = append(t.states, t.stored[i].state)
	}
}

// fewRows is how many rows of a limit are read and inserted one by one: a statement for many costs as much as some three for
// one.
const fewRows = 3

// readRows reads rows into the record.
func (t *transaction) readRows(rows []runtime.Row) error {
	t.record.read = make([]storedRow, len(rows))
	for from := 0; from < len(rows); {
		name := rows[from].Name
		to, many := runOf(from, len(rows), func(i int) (string, bool) { return rows[i].Name, rows[i].Shard == 0 })
		if many {
			keys, err := keysOf(to-from, func(i int) string { return rows[from+i].Key })
			if err == nil {
				err = t.query(readMany, int64(from), keys, name)
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

// readShards reads rows[from] and the rows of the same key that follow it, before rows[to], while their shards are
// consecutive. It returns the index after the last one.
func (t *transaction) readShards(rows []runtime.Row, from, to int) (end int, err error) {
	r, end := rows[from], from+1
	for end < to && rows[end].Key == r.Key && rows[end].Shard == r.Shard+end-from {
		end++
	}
	place, shard := int64(from), int64(r.Shard)
	if end > from+1 {
		// A range costs less than some rows, and more than one.
		return end, t.query(readShards, place-shard, r.Name, r.Key, shard, shard+int64(end-from))
	}
	if id, ok := t.cache.number(r); ok {
		// It saves the pages of the index.
		if err := t.query(readNumber, place, id, r.Name, r.Key, shard); err != nil || t.record.read[from].state.Exists {
			return end, err
		}
	}
	return end, t.query(readOne, place, r.Name, r.Key, shard)
}

// write writes the changes of rows that find has found.
func (t *transaction) write(rows []runtime.Row, changes []runtime.StoredRow) error {
	t.fresh = t.fresh[:0]
	at := 0
	for i := range changes {
		// Both are in one order.
		for rows[at] != changes[i].Row {
			at++
		}
		was := &t.stored[at]
		if !was.state.Exists {
			t.fresh = append(t.fresh, changes[i])
			continue
		}
		if err := t.writeRow(was.id, &changes[i]); err != nil {
			return err
		}
	}
	for fresh := t.fresh; len(fresh) > 0; {
		n, many := runOf(0, len(fresh), func(i int) (string, bool) { return fresh[i].Row.Name, fresh[i].Row.Shard == 0 })
		if err := t.insert(fresh[:n], many); err != nil {
			return err
		}
		fresh = fresh[n:]
	}
	return nil
}

// insert inserts rows of a limit, many by one statement.
func (t *transaction) insert(rows []runtime.StoredRow, many bool) error {
	if many {
		keys, err := keysOf(len(rows), func(i int) string { return rows[i].Row.Key })
		if err != nil {
			return err
		}
		t.record.write = rows
		// Their numbers are not known, so they are not in the cache.
		_, err = t.written(len(rows), insertMany, rows[0].Row.Name, keys)
		return err
	}
	for i := range rows {
		r, s := rows[i].Row, &rows[i].State
		result, err := t.written(1, insertOne, r.Name, r.Key, int64(r.Shard), s.Value, s.TS, s.Prev, logOf(s))
		if err != nil {
			return err
		}
		id, err := result.LastInsertId()
		if err != nil {
			return err
		}
		t.cache.set(r, storedRow{id, *s})
	}
	return nil
}

// writeRow writes the change of a row that exists.
func (t *transaction) writeRow(id int64, change *runtime.StoredRow) (err error) {
	if s := &change.State; s.Exists {
		_, err = t.written(1, update, s.Value, s.TS, s.Prev, logOf(s), id)
	} else {
		_, err = t.written(1, remove, id)
	}
	t.cache.set(change.Row, storedRow{id, change.State})
	return err
}

// errGone: a row of the cache is not in the table, as after another program has truncated the log.
var errGone = errors.New("a row of a rate limit was not written: a trigger on the table has ignored it, or another program writes to the file " +
	"without SQLite")

// written runs a statement that must write so many rows.
func (t *transaction) written(rows int, s statement, args ...driver.Value) (driver.Result, error) {
	result, err := t.exec(s, args...)
	if err != nil {
		return nil, err
	}
	if affected, err := result.RowsAffected(); affected != int64(rows) {
		return nil, cmp.Or(err, errGone)
	}
	return result, nil
}

// runOf returns the end of the run of neighbours from an index on that have the same name, and whether one statement can
// have them all: they are more than a few, and of is true for each.
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
