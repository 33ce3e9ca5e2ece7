package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"modernc.org/sqlite"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// taker is an [sqlstore.Taker] whose statements call back into this process: SQLite runs in it. For a row that is
// there, they ask whether to write and what, and that is all that is calculated; see [slip]. To calculate in SQL
// takes longer, and RETURNING, which would tell the result, much longer: SQLite makes a table for it each time.
type taker struct {
	db    *sql.DB
	table string

	// mu guards the rest: there is one slip, so one statement at a time.
	mu        sync.Mutex
	slip      slip
	number    int64
	one, many *sql.Stmt
}

// takeOne takes from one row, which is inserted as it is to be, unless it turns out to be there. Its parameters
// are the name, the key, Fresh and T.
const takeOne = `INSERT INTO {table} (name, {key}, shard, value, ts, prev) VALUES (?, ?, 0, ?, ?, 0)` + onConflict

// takeMany takes from several rows of one limit. Its parameters are the name and the keys, in JSON. The rest of a
// row is fetched by its place among them, which json_each calls key. That is two thirds of the work of a statement
// for each row, in a transaction, and less than half of that with all of the rows in JSON.
const takeMany = `
INSERT INTO {table} (name, {key}, shard, value, ts, prev)
SELECT ?, value, 0, ratelimitgen_fresh({slip}, {key}), ratelimitgen_ts({slip}, {key}), 0 FROM json_each(?) WHERE true` + onConflict

const onConflict = `
ON CONFLICT (name, {key}, shard) DO UPDATE SET
	value = ratelimitgen_value({slip}),
	ts    = max(ts, excluded.ts),
	prev  = 0
WHERE ratelimitgen_take({slip}, excluded.{key}, value, ts)
`

// Take implements [sqlstore.Taker]. It does not end with the context: a statement that is cancelled may have
// written, and its result is lost.
func (t *taker) Take(_ context.Context, rows []sqlstore.RowTake) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.prepare(); err != nil {
		return err
	}
	t.slip.begin(rows)
	defer t.slip.end()
	return t.run(rows)
}

// run runs the statement for one row or for many.
func (t *taker) run(rows []sqlstore.RowTake) error {
	first := &rows[0]
	if len(rows) == 1 {
		_, err := t.one.Exec(first.Row.Name, first.Row.Key, first.Upsert.Fresh, first.Upsert.T)
		return err
	}
	keys := make([]string, len(rows))
	for i := range rows {
		keys[i] = rows[i].Row.Key
	}
	text, err := json.Marshal(keys)
	if err != nil {
		return err
	}
	_, err = t.many.Exec(first.Row.Name, string(text))
	return err
}

// prepare prepares the statements at the first use, when the table exists.
func (t *taker) prepare() (err error) {
	if t.many != nil {
		return nil
	}
	if t.number == 0 {
		t.number = addSlip(&t.slip)
	}
	if t.one == nil {
		if t.one, err = t.prepareText(takeOne); err != nil {
			return err
		}
	}
	t.many, err = t.prepareText(takeMany)
	return err
}

func (t *taker) prepareText(text string) (*sql.Stmt, error) {
	text, err := sqlstore.SQLite.Text(text, t.table)
	if err != nil {
		return nil, err
	}
	return t.db.Prepare(strings.ReplaceAll(text, "{slip}", strconv.FormatInt(t.number, 10)))
}

// close ends the taker, whose statements the database closes.
func (t *taker) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	dropSlip(t.number)
}

// slip is what a statement under way is to take. The functions of SQL find it by its number:
//
//   - ratelimitgen_fresh(slip, place) and ratelimitgen_ts(slip, place) are the value and the ts of the row at a place
//     as it is to be inserted,
//   - ratelimitgen_take(slip, key, value, ts) decides whether the row of a key, which is there, is written, and
//   - ratelimitgen_value(slip) is the value that is then written.
type slip struct {
	// rows are of one limit, in the order of their keys.
	rows []sqlstore.RowTake
	// at is the place of the row that was decided last.
	at int
}

// begin makes rows those of the statement. Where no row is found to be there, the row is inserted.
func (s *slip) begin(rows []sqlstore.RowTake) {
	s.rows, s.at = rows, 0
	for i := range rows {
		r := &rows[i]
		r.After = runtime.State{Value: r.Upsert.Fresh, TS: r.Upsert.T, Exists: true}
	}
}

func (s *slip) end() { s.rows = nil }

// row returns the row at a place.
func (s *slip) row(place driver.Value) (*sqlstore.RowTake, error) {
	if i, ok := place.(int64); ok && 0 <= i && i < int64(len(s.rows)) {
		return &s.rows[i], nil
	}
	return nil, fmt.Errorf("the statement of a rate limit has no row %v", place)
}

// find finds the row of a key. SQLite comes to the rows one after the other, so it is most often the next.
func (s *slip) find(key driver.Value) (*sqlstore.RowTake, error) {
	text, _ := key.(string)
	for i := s.at; i < len(s.rows) && i <= s.at+1; i++ {
		if s.rows[i].Row.Key == text {
			s.at = i
			return &s.rows[i], nil
		}
	}
	i, ok := slices.BinarySearchFunc(s.rows, text, func(r sqlstore.RowTake, key string) int { return strings.Compare(r.Row.Key, key) })
	if !ok {
		return nil, fmt.Errorf("the statement of a rate limit has no row %q", text)
	}
	s.at = i
	return &s.rows[i], nil
}

// decide takes from the row of a key, which is there with this value and ts.
func (s *slip) decide(key, value, ts driver.Value) (driver.Value, error) {
	r, err := s.find(key)
	if err != nil {
		return nil, err
	}
	v, okValue := value.(float64)
	t, okTS := ts.(int64)
	if !okValue || !okTS {
		return nil, fmt.Errorf("the row of a rate limit has a value of %T and a ts of %T", value, ts)
	}
	after, taken := r.Upsert.Take(runtime.State{Value: v, TS: t, Exists: true})
	if r.After = after; taken {
		return int64(1), nil
	}
	return int64(0), nil
}

// slips are the slips of this process, each under a number of its own, which is an int64.
var (
	slips    sync.Map
	lastSlip atomic.Int64
)

// addSlip adds a slip, and returns its number.
func addSlip(s *slip) int64 {
	n := lastSlip.Add(1)
	slips.Store(n, s)
	return n
}

func dropSlip(number int64) { slips.Delete(number) }

// findSlip returns the slip of a number.
func findSlip(number driver.Value) (*slip, error) {
	if _, ok := number.(int64); ok {
		if s, ok := slips.Load(number); ok {
			return s.(*slip), nil
		}
	}
	return nil, fmt.Errorf("no statement of a rate limit has the number %v", number)
}

func init() {
	register("ratelimitgen_fresh", 2, func(s *slip, args []driver.Value) (driver.Value, error) {
		r, err := s.row(args[0])
		if err != nil {
			return nil, err
		}
		return r.Upsert.Fresh, nil
	})
	register("ratelimitgen_ts", 2, func(s *slip, args []driver.Value) (driver.Value, error) {
		r, err := s.row(args[0])
		if err != nil {
			return nil, err
		}
		return r.Upsert.T, nil
	})
	register("ratelimitgen_take", 4, func(s *slip, args []driver.Value) (driver.Value, error) {
		return s.decide(args[0], args[1], args[2])
	})
	register("ratelimitgen_value", 1, func(s *slip, _ []driver.Value) (driver.Value, error) {
		r, err := s.row(int64(s.at))
		if err != nil {
			return nil, err
		}
		return r.After.Value, nil
	})
}

// register makes a function known to SQL, whose first argument is the number of a slip. It keeps no text that it is
// given, so none is copied for it.
func register(name string, args int32, f func(*slip, []driver.Value) (driver.Value, error)) {
	sqlite.MustRegisterFunction(name, &sqlite.FunctionImpl{
		NArgs:        args,
		VolatileArgs: true,
		Scalar: func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
			s, err := findSlip(args[0])
			if err != nil {
				return nil, err
			}
			return f(s, args[1:])
		},
	})
}
