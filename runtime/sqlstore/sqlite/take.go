package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"sync"

	"modernc.org/sqlite"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// taker is an [sqlstore.Taker]: an upsert that writes the row only if enough tokens are left, and tells
// what it has written. RETURNING would tell it too, but SQLite makes a table for what it returns, each
// time, which costs half as much again as the whole statement. So the upsert passes what it writes to a
// function of the connection, ratelimitgen_note.
type taker struct {
	db    *sql.DB
	table string

	mu   sync.Mutex
	stmt *sql.Stmt
}

// takeText is the statement of [runtime.Upsert]. Its parameters are name, key, T, Capacity, Rate, Period,
// Count, Count - Debt, Fresh and the number of the note.
const takeText = `
INSERT INTO {table} (name, {key}, shard, value, ts, prev) VALUES (?1, ?2, 0, ?9, ?3, 0)
ON CONFLICT (name, {key}, shard) DO UPDATE SET
	value = ratelimitgen_note(?10, min(?4, value + CAST(max(0, ?3 - ts) AS REAL) * ?5 / ?6) - ?7, max(ts, ?3)),
	ts    = max(ts, ?3),
	prev  = 0
WHERE min(?4, value + CAST(max(0, ?3 - ts) AS REAL) * ?5 / ?6) - ?8 >= -1e-6
`

// Take implements [sqlstore.Taker].
func (t *taker) Take(ctx context.Context, r runtime.Row, u runtime.Upsert) (runtime.State, bool, error) {
	// A statement that is cancelled may have written, and its result is lost.
	ctx = context.WithoutCancel(ctx)
	stmt, err := t.prepare(ctx)
	if err != nil {
		return runtime.State{}, false, err
	}
	fresh := runtime.State{Value: u.Fresh, TS: u.T, Seen: true}
	n := notes.open(fresh)
	result, err := stmt.ExecContext(ctx, r.Name, r.Key, u.T, u.Capacity, u.Rate, u.Period, u.Count, u.Count-u.Debt, u.Fresh, n)
	after := notes.close(n)
	if err != nil {
		return runtime.State{}, false, err
	}
	written, err := result.RowsAffected()
	return after, written == 1, err
}

// prepare prepares the statement at the first use, when the table exists.
func (t *taker) prepare(ctx context.Context) (*sql.Stmt, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stmt != nil {
		return t.stmt, nil
	}
	text, err := sqlstore.SQLite.Text(takeText, t.table)
	if err != nil {
		return nil, err
	}
	t.stmt, err = t.db.PrepareContext(ctx, text)
	return t.stmt, err
}

// notebook holds what the statements under way have written, each under a number of its own.
type notebook struct {
	mu    sync.Mutex
	last  int64
	notes map[int64]runtime.State
}

var notes = notebook{notes: map[int64]runtime.State{}}

// open begins a note, of the row that is written if there was none.
func (b *notebook) open(fresh runtime.State) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	b.notes[b.last] = fresh
	return b.last
}

// close ends a note and returns what it says.
func (b *notebook) close(n int64) runtime.State {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.notes[n]
	delete(b.notes, n)
	return s
}

// note changes a note, if it is open.
func (b *notebook) note(n int64, s runtime.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.notes[n]; ok {
		b.notes[n] = s
	}
}

func init() { sqlite.MustRegisterScalarFunction("ratelimitgen_note", 3, note) }

// note is the SQL function ratelimitgen_note(number, value, ts): it notes the row and returns its value.
func note(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
	n, okN := args[0].(int64)
	value, okValue := args[1].(float64)
	ts, okTS := args[2].(int64)
	if !okN || !okValue || !okTS {
		return nil, fmt.Errorf("ratelimitgen_note(%T, %T, %T)", args[0], args[1], args[2])
	}
	notes.note(n, runtime.State{Value: value, TS: ts, Seen: true})
	return value, nil
}
