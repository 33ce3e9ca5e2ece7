package sqlite

import (
	"database/sql/driver"
	"fmt"
	"sync"
	"sync/atomic"

	"modernc.org/sqlite"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// callRecord is the arguments and results of the SQL functions that a statement in flight calls. It is found by its
// number, their first argument:
//
//   - ratelimitgen_read(record, place, value, at_ns, prev, log) keeps the state of the row at a place,
//   - ratelimitgen_step(record, value, at_ns, prev, log) decides whether the row at place 0, which exists, is written, and
//   - ratelimitgen_value(record, place), ratelimitgen_at(record, place), ratelimitgen_prev(record, place) and
//     ratelimitgen_log(record, place) return what is then written to the row at a place.
type callRecord struct {
	// read are the states of the rows of the statement.
	read []runtime.State
	// step is called with read[0], and returns what becomes of it, or false if the row is not written.
	step func(runtime.State) (runtime.State, bool)
	// write returns what is written to the row at a place.
	write func(place int) *runtime.State
}

// keep is ratelimitgen_read.
func (c *callRecord) keep(place driver.Value, columns []driver.Value) error {
	i, ok := place.(int64)
	if !ok || i < 0 || i >= int64(len(c.read)) {
		return fmt.Errorf("the statement's row %v is not in its call record; this is a bug in ratelimitgen", place)
	}
	value, okValue := columns[0].(float64)
	at, okAt := columns[1].(int64)
	prev, okPrev := columns[2].(float64)
	log, okLog := columns[3].([]byte)
	if !okValue || !okAt || !okPrev || !okLog && columns[3] != nil {
		return fmt.Errorf("the row of a rate limit has a value of %T, an at_ns of %T, a prev of %T and a log of %T",
			columns[0], columns[1], columns[2], columns[3])
	}
	c.read[i] = runtime.State{Value: value, TS: at, Prev: prev, Log: string(log), Exists: true}
	return nil
}

// decide is ratelimitgen_step.
func (c *callRecord) decide(columns []driver.Value) (driver.Value, error) {
	if err := c.keep(int64(0), columns); err != nil {
		return nil, err
	}
	after, written := c.step(c.read[0])
	if !written {
		return int64(0), nil
	}
	c.write = func(int) *runtime.State { return &after }
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
	register("ratelimitgen_read", 6, func(c *callRecord, args []driver.Value) (driver.Value, error) {
		return nil, c.keep(args[0], args[1:])
	})
	register("ratelimitgen_step", 5, func(c *callRecord, args []driver.Value) (driver.Value, error) { return c.decide(args) })
	registerColumn("ratelimitgen_value", func(s *runtime.State) driver.Value { return s.Value })
	registerColumn("ratelimitgen_at", func(s *runtime.State) driver.Value { return s.TS })
	registerColumn("ratelimitgen_prev", func(s *runtime.State) driver.Value { return s.Prev })
	registerColumn("ratelimitgen_log", logOf)
}

// registerColumn adds an SQL function that returns a column of what is written to the row at a place, its second argument.
func registerColumn(name string, column func(*runtime.State) driver.Value) {
	register(name, 2, func(c *callRecord, args []driver.Value) (driver.Value, error) {
		place, ok := args[0].(int64)
		if !ok || c.write == nil {
			return nil, fmt.Errorf("nothing is written to the statement's row %v; this is a bug in ratelimitgen", args[0])
		}
		return column(c.write(int(place))), nil
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
