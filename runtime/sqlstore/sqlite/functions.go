package sqlite

import (
	"database/sql/driver"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"modernc.org/sqlite"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// callRecord is the arguments and results of the SQL functions that a statement in flight calls. It is found by its
// number, their first argument:
//
//   - ratelimitgen_read(record, place, id, value, at_ns, prev, log) keeps the row at a place,
//   - ratelimitgen_value(record, place), ratelimitgen_at(record, place), ratelimitgen_prev(record, place) and
//     ratelimitgen_log(record, place) return what is written to the row at a place, and
//   - ratelimitgen_sweep(record, key, shard, id, value, at_ns, prev, log) judges a row of a page.
type callRecord struct {
	// read and write are the rows, each at its place.
	read  []storedRow
	write []runtime.StoredRow
	// page is that of a sweep in flight.
	page *page
}

// page is the rows of a limit that a sweep judges, in any order.
type page struct {
	name  string
	mayGo func(runtime.StoredRow) bool
	// some: there are rows, of which last is the last one by key and shard.
	some bool
	last runtime.Row
	// gone are those that may go.
	gone []runtime.Row
}

// keep is ratelimitgen_read.
func (c *callRecord) keep(place driver.Value, columns []driver.Value) error {
	i, ok := place.(int64)
	if !ok || i < 0 || i >= int64(len(c.read)) {
		return fmt.Errorf("the statement's row %v is not in its call record; this is a bug in ratelimitgen", place)
	}
	stored, err := storedRowOf(columns)
	c.read[i] = stored
	return err
}

// judge is ratelimitgen_sweep.
func (c *callRecord) judge(args []driver.Value) (driver.Value, error) {
	key, okKey := args[0].(string)
	shard, okShard := args[1].(int64)
	if !okKey || !okShard || c.page == nil {
		return nil, fmt.Errorf("the row of a rate limit has a key of %T and a shard of %T, or no sweep is in flight",
			args[0], args[1])
	}
	stored, err := storedRowOf(args[2:])
	if err != nil {
		return nil, err
	}
	p := c.page
	// The argument is valid during the call only.
	row := runtime.Row{Name: p.name, Key: strings.Clone(key), Shard: int(shard)}
	if !p.some || row.Compare(p.last) > 0 {
		p.some, p.last = true, row
	}
	if !p.mayGo(runtime.StoredRow{Row: row, State: stored.state}) {
		return int64(0), nil
	}
	p.gone = append(p.gone, row)
	return int64(1), nil
}

// logOf returns the column log of a state.
func logOf(s *runtime.State) driver.Value {
	if s.Log == "" {
		return nil
	}
	return []byte(s.Log)
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
	register("ratelimitgen_read", 7, func(c *callRecord, args []driver.Value) (driver.Value, error) { return nil, c.keep(args[0], args[1:]) })
	registerColumn("ratelimitgen_value", func(s *runtime.State) driver.Value { return s.Value })
	registerColumn("ratelimitgen_at", func(s *runtime.State) driver.Value { return s.TS })
	registerColumn("ratelimitgen_prev", func(s *runtime.State) driver.Value { return s.Prev })
	registerColumn("ratelimitgen_log", logOf)
	register("ratelimitgen_sweep", 8, (*callRecord).judge)
}

// registerColumn adds an SQL function that returns a column of what is written to the row at a place, its second argument.
func registerColumn(name string, column func(*runtime.State) driver.Value) {
	register(name, 2, func(c *callRecord, args []driver.Value) (driver.Value, error) {
		place, ok := args[0].(int64)
		if !ok || place < 0 || place >= int64(len(c.write)) {
			return nil, fmt.Errorf("nothing is written to the statement's row %v; this is a bug in ratelimitgen", args[0])
		}
		return column(&c.write[place].State), nil
	})
}

// register adds an SQL function whose first argument is the number of a record.
func register(name string, args int32, f func(*callRecord, []driver.Value) (driver.Value, error)) {
	sqlite.MustRegisterFunction(name, &sqlite.FunctionImpl{
		NArgs: args,
		// Arguments are valid during the call only, which saves copying them; f copies what it keeps.
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
