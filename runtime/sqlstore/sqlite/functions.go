package sqlite

import (
	"database/sql/driver"
	"fmt"
	"sync"
	"sync/atomic"

	"modernc.org/sqlite"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// callRecord has the rows that a statement in flight reads by the SQL function ratelimitgen_read(record, place, id, value, at_ns, prev, log).
// It is found by its number, the first argument.
type callRecord struct {
	// read are the rows, each at its place.
	read []storedRow
}

// keep is ratelimitgen_read.
func (c *callRecord) keep(place driver.Value, columns []driver.Value) error {
	i, ok := place.(int64)
	if !ok || i < 0 || i >= int64(len(c.read)) {
		return fmt.Errorf("the statement's row %v is not in its call record; this is a bug in ratelimitgen", place)
	}
	id, okID := columns[0].(int64)
	value, okValue := columns[1].(float64)
	at, okAt := columns[2].(int64)
	prev, okPrev := columns[3].(float64)
	log, okLog := columns[4].([]byte)
	if !okID || !okValue || !okAt || !okPrev || !okLog && columns[4] != nil {
		return fmt.Errorf("the row of a rate limit has a value of %T, an at_ns of %T, a prev of %T and a log of %T",
			columns[1], columns[2], columns[3], columns[4])
	}
	c.read[i] = storedRow{id, runtime.State{Value: value, TS: at, Prev: prev, Log: string(log), Exists: true}}
	return nil
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
	sqlite.MustRegisterFunction("ratelimitgen_read", &sqlite.FunctionImpl{
		NArgs: 7,
		// Arguments are valid during the call only, which saves copying them; keep copies what it needs.
		VolatileArgs: true,
		Scalar: func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
			c, err := findRecord(args[0])
			if err != nil {
				return nil, err
			}
			return nil, c.keep(args[1], args[2:])
		},
	})
}
