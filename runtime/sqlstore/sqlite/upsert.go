package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"modernc.org/sqlite"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/dialect"
)

// upserter is an sqlstore.Upserter whose statements call SQL functions of this process, because SQLite runs in it. For a
// row that exists, the functions decide whether to write it and what, see [callRecord], and nothing else is computed.
// Computing in SQL is slower, and RETURNING costs half as much again: SQLite makes a table for it each time.
type upserter struct {
	db    *sql.DB
	table string

	// mu guards the rest: there is one record, so one statement at a time.
	mu        sync.Mutex
	record    callRecord
	number    int64
	one, many *sql.Stmt
	// oneArgs are the arguments of one. Those that the next statement has too are not made again.
	oneArgs [5]any
}

// upsertOne takes from one row, and inserts it if it is missing. Its parameters are the name, the key, the value of a new row, T,
// and its prev.
const upsertOne = `INSERT INTO {table} (name, {key}, shard, value, at_ns, prev) VALUES (?, ?, 0, ?, ?, ?)
` + onConflict + `
WHERE ratelimitgen_take({record}, 0, value, at_ns, prev)
`

// upsertMany takes from several rows of one limit. Its parameters are the name and the keys, in JSON. It fetches the other
// columns of a row by its place in the list, which json_each calls key. For each row that is two thirds of the work of a
// statement in a transaction, and less than half of that with all columns in JSON.
const upsertMany = `
INSERT INTO {table} (name, {key}, shard, value, at_ns, prev)
SELECT ?, value, 0, ratelimitgen_fresh({record}, {key}), ratelimitgen_ts({record}, {key}),
	ratelimitgen_freshprev({record}, {key}) FROM json_each(?) WHERE true
` + onConflict + `
WHERE ratelimitgen_take({record}, excluded.{key}, value, at_ns, prev)
`

const onConflict = `ON CONFLICT (name, {key}, shard) DO UPDATE SET
	value = ratelimitgen_value({record}),
	at_ns = max(at_ns, excluded.at_ns),
	prev  = ratelimitgen_prev({record})`

// Upsert implements sqlstore.Upserter. It ignores the context, because a canceled statement may have
// written although its result is lost.
func (u *upserter) Upsert(_ context.Context, rows []meter.RowUpsert) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.prepareLocked(); err != nil {
		return err
	}
	u.record.begin(rows)
	defer u.record.end()
	return u.runLocked(rows)
}

func (u *upserter) runLocked(rows []meter.RowUpsert) error {
	first := &rows[0]
	if len(rows) == 1 {
		if u.oneArgs[0] != first.Row.Name {
			u.oneArgs[0] = first.Row.Name
		}
		if u.oneArgs[2] != -first.Upsert.Count {
			u.oneArgs[2] = -first.Upsert.Count
		}
		u.oneArgs[1], u.oneArgs[3], u.oneArgs[4] = first.Row.Key, first.Upsert.T, first.After.Prev
		_, err := u.one.Exec(u.oneArgs[:]...)
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
	_, err = u.many.Exec(first.Row.Name, string(text))
	return err
}

// prepareLocked prepares the statements at the first use, when the table exists.
func (u *upserter) prepareLocked() (err error) {
	if u.many != nil {
		return nil
	}
	if u.number == 0 {
		u.number = addRecord(&u.record)
	}
	// Kept even if the second one fails, so that each call does not prepare it again.
	if u.one == nil {
		if u.one, err = u.prepareText(upsertOne); err != nil {
			return err
		}
	}
	u.many, err = u.prepareText(upsertMany)
	return err
}

func (u *upserter) prepareText(text string) (*sql.Stmt, error) {
	text, err := dialect.SQLite.Text(text, u.table)
	if err != nil {
		return nil, err
	}
	return u.db.Prepare(strings.ReplaceAll(text, "{record}", strconv.FormatInt(u.number, 10)))
}

// close removes the record. Closing the database closes the statements.
func (u *upserter) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	records.Delete(u.number)
}

// callRecord is the arguments and results of the SQL functions that a statement in flight calls. It is found by its
// number, their first argument:
//
//   - ratelimitgen_fresh(record, place), ratelimitgen_ts(record, place) and ratelimitgen_freshprev(record, place) return
//     the value, the ts and the prev with which the row at a place is inserted,
//   - ratelimitgen_take(record, key, value, at_ns, prev) decides whether the row of a key, which exists, is written; instead of the
//     key it may get the place, and
//   - ratelimitgen_value(record) and ratelimitgen_prev(record) return the value and the prev that are then written.
type callRecord struct {
	// rows are of one limit, in the order of their keys.
	rows []meter.RowUpsert
	// last is the place of the row that was decided last.
	last int
}

// begin sets the rows of the statement. A row that ratelimitgen_take is not called for is inserted.
func (c *callRecord) begin(rows []meter.RowUpsert) {
	c.rows, c.last = rows, 0
	for i := range rows {
		// SQLite calls no function of ours for a row that it inserts.
		r := &rows[i]
		r.After = r.Upsert.Inserted()
	}
}

func (c *callRecord) end() { c.rows = nil }

// row returns the row at a place.
func (c *callRecord) row(place driver.Value) (*meter.RowUpsert, error) {
	if i, ok := place.(int64); ok && 0 <= i && i < int64(len(c.rows)) {
		return &c.rows[i], nil
	}
	return nil, fmt.Errorf("the statement's row %v is not in its call record; this is a bug in ratelimitgen", place)
}

// find returns the row of a key, or at a place.
func (c *callRecord) find(key driver.Value) (*meter.RowUpsert, error) {
	if place, ok := key.(int64); ok {
		c.last = int(place)
		return c.row(key)
	}
	text, _ := key.(string)
	// SQLite decides the rows one after the other, unless a trigger of the table's owner makes it collect them first.
	for i := c.last; i < len(c.rows) && i <= c.last+1; i++ {
		if c.rows[i].Row.Key == text {
			c.last = i
			return &c.rows[i], nil
		}
	}
	i, ok := slices.BinarySearchFunc(c.rows, text, func(r meter.RowUpsert, key string) int { return strings.Compare(r.Row.Key, key) })
	if !ok {
		// Without the key, which may be personal.
		return nil, errors.New("the statement's key is not in its call record; this is a bug in ratelimitgen")
	}
	c.last = i
	return &c.rows[i], nil
}

// decide takes from the row of a key, which exists with this value, at_ns and prev.
func (c *callRecord) decide(key, value, at, prev driver.Value) (driver.Value, error) {
	r, err := c.find(key)
	if err != nil {
		return nil, err
	}
	v, okValue := value.(float64)
	t, okTS := at.(int64)
	p, okPrev := prev.(float64)
	if !okValue || !okTS || !okPrev {
		return nil, fmt.Errorf("the row of a rate limit has a value of %T, an at_ns of %T and a prev of %T", value, at, prev)
	}
	after, taken := r.Upsert.Take(runtime.State{Value: v, TS: t, Prev: p, Exists: true})
	if r.After = after; taken {
		return int64(1), nil
	}
	return int64(0), nil
}

// records are the call records of this process by their numbers, which are int64: the functions of SQL belong to the
// driver, and not to a connection or a store.
var (
	records    sync.Map
	lastRecord atomic.Int64
)

// addRecord adds a record, and returns its number.
func addRecord(c *callRecord) int64 {
	n := lastRecord.Add(1)
	records.Store(n, c)
	return n
}

// findRecord returns the record with a number.
func findRecord(number driver.Value) (*callRecord, error) {
	// Only an int64: a []byte, as of x'00', would panic as a key of the map.
	if _, ok := number.(int64); ok {
		if c, ok := records.Load(number); ok {
			return c.(*callRecord), nil
		}
	}
	return nil, fmt.Errorf("no statement of a rate limit has the number %v: the ratelimitgen functions are only for the "+
		"statements of package sqlite, so do not call them", number)
}

func init() {
	register("ratelimitgen_take", 5, func(c *callRecord, args []driver.Value) (driver.Value, error) {
		return c.decide(args[0], args[1], args[2], args[3])
	})
	registerColumn("ratelimitgen_fresh", 2, func(r *meter.RowUpsert) driver.Value { return -r.Upsert.Count })
	registerColumn("ratelimitgen_ts", 2, func(r *meter.RowUpsert) driver.Value { return r.Upsert.T })
	registerColumn("ratelimitgen_freshprev", 2, func(r *meter.RowUpsert) driver.Value { return r.Upsert.Inserted().Prev })
	registerColumn("ratelimitgen_value", 1, func(r *meter.RowUpsert) driver.Value { return r.After.Value })
	registerColumn("ratelimitgen_prev", 1, func(r *meter.RowUpsert) driver.Value { return r.After.Prev })
}

// registerColumn adds an SQL function that returns a column of the row at a place, its second argument, or of the row that was
// decided last if it has none.
func registerColumn(name string, args int32, column func(*meter.RowUpsert) driver.Value) {
	register(name, args, func(c *callRecord, args []driver.Value) (driver.Value, error) {
		var place driver.Value
		if len(args) > 0 {
			place = args[0]
		} else {
			place = int64(c.last)
		}
		r, err := c.row(place)
		if err != nil {
			return nil, err
		}
		return column(r), nil
	})
}

// register adds an SQL function whose first argument is the number of a record.
func register(name string, args int32, f func(*callRecord, []driver.Value) (driver.Value, error)) {
	sqlite.MustRegisterFunction(name, &sqlite.FunctionImpl{
		NArgs: args,
		// Arguments are valid during the call only, which saves copying them; f keeps none.
		VolatileArgs: true,
		Scalar: func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
			c, err := findRecord(args[0])
			if err != nil {
				return nil, err
			}
			return f(c, args[1:])
		},
	})
}
