package decide

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
)

func TestDenialIsExpectedAfterTwoAndNotAfterATake(t *testing.T) {
	row := runtime.Row{Name: "limit", Key: "key"}
	s := newDenialHints()
	for range 2 {
		for range manyDenials {
			assert.False(t, s.expect(row))
			s.denied(row)
		}
		s.denied(row)
		assert.True(t, s.expect(row))
		s.allowed(row)
	}
}

// Whatever strategy has decided calls, its answers count: a row that grants again is no longer expected to deny.
func TestAnswersDecideWhatIsExpected(t *testing.T) {
	e, p := &Engine{hints: newDenialHints()}, &runtime.Policy{Name: "limit"}
	row := runtime.Row{Name: "limit", Key: "key"}
	answer := func(op runtime.Op, d runtime.Decision) {
		calls := []runtime.Call{{Requests: []runtime.Request{{Policy: p, Key: "key", Op: op}}}, {Requests: []runtime.Request{{}}}}
		e.learn(calls, []runtime.Answer{{Decisions: []runtime.Decision{d}}, {Err: runtime.ErrInvalidPolicy}})
	}
	for range manyDenials {
		answer(runtime.Check, runtime.Decision{})
		assert.False(t, e.hints.expect(row))
		answer(runtime.Take, runtime.Decision{})
	}
	assert.True(t, e.hints.expect(row))
	answer(runtime.Check, runtime.Decision{Allowed: true})
	assert.True(t, e.hints.expect(row), "a check takes nothing")
	answer(runtime.TakeUpTo, runtime.Decision{Allowed: true})
	assert.False(t, e.hints.expect(row))
	for range manyDenials {
		answer(runtime.Take, runtime.Decision{Allowed: true, Shadowed: true})
	}
	assert.True(t, e.hints.expect(row))
}

// There are more rows than places, and each is denied once.
func TestDenialIsNotExpectedOfRowsThatShareAPlace(t *testing.T) {
	s := newDenialHints()
	for i := range 10_000 {
		s.denied(runtime.Row{Name: "limit", Key: strconv.Itoa(i)})
	}
	for i := range 20_000 {
		assert.False(t, s.expect(runtime.Row{Name: "limit", Key: strconv.Itoa(i)}))
	}
}

func TestDecodeInsertID(t *testing.T) {
	u := &meter.Upsert{T: 7, Capacity: 10, Count: 1, Debt: 1e15}
	for _, value := range []float64{-1, -2, -1.1, -4.0 / 3, -1e15} {
		s, err := dialect.DecodeInsertID(u, 2, idOf(value))
		assert.NoError(t, err)
		assert.Equal(t, math.Float64bits(value), math.Float64bits(s.Value), "%v", value)
		assert.Equal(t, runtime.State{Value: value, TS: u.T, Exists: true}, s)
	}
	s, err := dialect.DecodeInsertID(u, 1, dialect.InsertIDInserted)
	assert.NoError(t, err)
	assert.Equal(t, runtime.State{Value: -u.Count, TS: u.T, Prev: -u.Count * meter.TotalUnit, Exists: true}, s)
	for _, affected := range []int64{0, 1} {
		s, err := dialect.DecodeInsertID(u, affected, dialect.InsertIDUnchanged)
		assert.NoError(t, err, "a driver counts the rows that were changed, or those that were found")
		assert.Zero(t, s)
	}
}

// idOf encodes a value as the insert id.
func idOf(value float64) int64 { return int64(^bits.ReverseBytes64(math.Float64bits(value))) }

// The ids are none, those of numbered rows, those that contradict the count of rows, and those of impossible values.
func TestDecodeInsertIDRefusesForeignIDs(t *testing.T) {
	u := &meter.Upsert{T: 7, Capacity: 10, Count: 1}
	ids := []int64{0, 1, 2, 3, 256, 1 << 40, idOf(0), idOf(-0.5), idOf(-11), idOf(math.Inf(1)), idOf(math.Inf(-1)), idOf(math.NaN())}
	for _, id := range ids {
		for affected := range int64(4) {
			s, err := dialect.DecodeInsertID(u, affected, id)
			assert.Zero(t, s, "%d rows, id %d", affected, id)
			assert.ErrorContains(t, err, "has lost the result of a statement that takes tokens", "%d rows, id %d", affected, id)
		}
	}
	for affected, id := range map[int64]int64{0: dialect.InsertIDInserted, 1: idOf(3), 2: dialect.InsertIDInserted, 3: dialect.InsertIDUnchanged} {
		_, err := dialect.DecodeInsertID(u, affected, id)
		assert.ErrorContains(t, err, "has lost the result", "%d rows, id %d", affected, id)
	}
	_, err := dialect.DecodeInsertID(u, 2, dialect.InsertIDUnchanged)
	assert.ErrorContains(t, err, "has lost the result")
}

// takenRows is a part of four rows, and the result of a statement that has inserted the first, left the second unedited, and
// taken from the others.
func takenRows() (t part, taken []byte) {
	for i := range 4 {
		t.rows = append(t.rows, meter.RowUpsert{Upsert: meter.Upsert{T: int64(7 + i), Capacity: 10, Count: float64(1 + i)}})
	}
	return t, slices.Concat([]byte(dialect.RowInserted), []byte(dialect.RowUnedited), bytesOf(-10.0/3), bytesOf(-4))
}

// bytesOf encodes a value as in the result of [dialect.Dialect.Taken].
func bytesOf(value float64) []byte {
	return binary.LittleEndian.AppendUint64(nil, math.Float64bits(value))
}

func TestDecodeTaken(t *testing.T) {
	for _, affected := range []int64{5, 6} {
		p, taken := takenRows()
		require.NoError(t, dialect.DecodeTaken(p.rows, affected, taken), "a driver counts the rows that were changed, or those that were found")
		assert.Equal(t, runtime.State{Value: -1, TS: 7, Prev: -meter.TotalUnit, Exists: true}, p.rows[0].After)
		assert.Zero(t, p.rows[1].After)
		assert.Equal(t, runtime.State{Value: -10.0 / 3, TS: 9, Exists: true}, p.rows[2].After)
		assert.Equal(t, runtime.State{Value: -4, TS: 10, Exists: true}, p.rows[3].After)
	}
}

func TestDecodeTakenRefusesOtherResults(t *testing.T) {
	_, taken := takenRows()
	last := func(result []byte) []byte { return slices.Concat(taken[:24], result) }
	for name, of := range map[string]struct {
		affected int64
		taken    []byte
	}{
		"nothing":                   {5, nil},
		"a row too few":             {5, taken[:24]},
		"a row too many":            {5, slices.Concat(taken, taken[:8])},
		"a part of a row":           {5, taken[:31]},
		"fewer rows affected":       {4, taken},
		"more rows affected":        {7, taken},
		"a row inserted, not taken": {6, last([]byte(dialect.RowInserted))},
		"another text":              {5, last([]byte("deleted!"))},
		"less than was taken":       {5, last(bytesOf(-3.5))},
		"more than there was":       {5, last(bytesOf(-11))},
		"no number":                 {5, last(bytesOf(math.NaN()))},
		"no finite number":          {5, last(bytesOf(math.Inf(-1)))},
	} {
		p, _ := takenRows()
		assert.ErrorContains(t, dialect.DecodeTaken(p.rows, of.affected, of.taken), "has lost the result of a statement that takes tokens", name)
	}
}

func TestLiteralsMeanTheSameInEverySQLMode(t *testing.T) {
	q, err := conn.Compile(dialect.MySQL, "SELECT :name, :value, :period", conn.RowSource{}, "", "")
	require.NoError(t, err)
	v := new(conn.Values)
	v.Of[conn.ParamName], v.Of[conn.ParamValue], v.Of[conn.ParamPeriod] = `a?'"\`, -1e300/3, int64(-5)
	assert.Equal(t, `SELECT _utf8mb4 X'613f27225c', -3.3333333333333335e+299, -5`, q.Literal(v))
	v.Of[conn.ParamValue] = 2.0
	assert.Contains(t, q.Literal(v), " 2e+00, ")
}
