package sqlite

import (
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"modernc.org/sqlite"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

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
