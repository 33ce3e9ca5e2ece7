package sqlite

import (
	"database/sql/driver"
	"fmt"
	"sync"

	"modernc.org/sqlite"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// slips are what the statements under way are to take, each under a number of its own. The functions of SQL
// find them there: ratelimitgen_take(number, value, ts) decides, and ratelimitgen_value(number) is what to write.
var slips = slipBox{under: map[int64]*sqlstore.RowTake{}}

// slipBox holds slips.
type slipBox struct {
	mu    sync.Mutex
	last  int64
	under map[int64]*sqlstore.RowTake
}

// open adds a slip, and returns its number.
func (b *slipBox) open(s *sqlstore.RowTake) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	b.under[b.last] = s
	return b.last
}

// close drops a slip.
func (b *slipBox) close(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.under, n)
}

// find returns the slip of a number.
func (b *slipBox) find(number driver.Value) (*sqlstore.RowTake, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, _ := number.(int64)
	if s := b.under[n]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("no statement of a rate limit has the number %v", number)
}

func init() {
	sqlite.MustRegisterScalarFunction("ratelimitgen_take", 3, decide)
	sqlite.MustRegisterScalarFunction("ratelimitgen_value", 1, value)
}

// decide is ratelimitgen_take.
func decide(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
	s, err := slips.find(args[0])
	if err != nil {
		return nil, err
	}
	v, okValue := args[1].(float64)
	ts, okTS := args[2].(int64)
	if !okValue || !okTS {
		return nil, fmt.Errorf("ratelimitgen_take(%T, %T, %T)", args[0], args[1], args[2])
	}
	after, taken := s.Upsert.Take(runtime.State{Value: v, TS: ts, Seen: true})
	if s.After = after; taken {
		return int64(1), nil
	}
	return int64(0), nil
}

// value is ratelimitgen_value.
func value(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
	s, err := slips.find(args[0])
	if err != nil {
		return nil, err
	}
	return s.After.Value, nil
}
