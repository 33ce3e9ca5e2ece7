package dialect_test

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
)

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

// takenRows is the upserts of four rows, and the result of a statement that has inserted the first, left the second
// unedited, and taken from the others.
func takenRows() (upserts []*meter.Upsert, taken []byte) {
	for i := range 4 {
		upserts = append(upserts, &meter.Upsert{T: int64(7 + i), Capacity: 10, Count: float64(1 + i)})
	}
	return upserts, slices.Concat([]byte(dialect.RowInserted), []byte(dialect.RowUnedited), bytesOf(-10.0/3), bytesOf(-4))
}

// bytesOf encodes a value as in the result of [dialect.Dialect.Taken].
func bytesOf(value float64) []byte {
	return binary.LittleEndian.AppendUint64(nil, math.Float64bits(value))
}

func TestDecodeTaken(t *testing.T) {
	for _, affected := range []int64{5, 6} {
		upserts, taken := takenRows()
		after, err := dialect.DecodeTaken(upserts, affected, taken)
		require.NoError(t, err, "a driver counts the rows that were changed, or those that were found")
		assert.Equal(t, []runtime.State{
			{Value: -1, TS: 7, Prev: -meter.TotalUnit, Exists: true}, {}, {Value: -10.0 / 3, TS: 9, Exists: true}, {Value: -4, TS: 10, Exists: true},
		}, after)
	}
}

func TestDecodeSwapped(t *testing.T) {
	for _, affected := range []int64{5, 7} {
		results, err := dialect.DecodeSwapped(5, affected, []byte("10120"))
		require.NoError(t, err, "a driver counts the rows that were changed, or those that were found")
		assert.Equal(t, []int{1, 0, 1, 2, 0}, results)
	}
	for name, of := range map[string]struct {
		affected int64
		taken    string
	}{
		"nothing":             {0, ""},
		"a row too few":       {5, "1012"},
		"a row too many":      {5, "101200"},
		"fewer rows affected": {4, "10120"},
		"more rows affected":  {8, "10120"},
		"another text":        {5, "1012x"},
	} {
		_, err := dialect.DecodeSwapped(5, of.affected, []byte(of.taken))
		assert.ErrorContains(t, err, "has lost the result of a statement that takes tokens", name)
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
		upserts, _ := takenRows()
		_, err := dialect.DecodeTaken(upserts, of.affected, of.taken)
		assert.ErrorContains(t, err, "has lost the result of a statement that takes tokens", name)
	}
}
