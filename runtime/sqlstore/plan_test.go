package sqlstore

import (
	"math"
	"math/bits"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ratelimitgen/ratelimitgen/runtime"
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
	u := &runtime.Upsert{T: 7, Capacity: 10, Count: 1, Debt: 1e15}
	for _, value := range []float64{-1, -2, -1.1, -4.0 / 3, -1e15} {
		s, err := decodeInsertID(u, 2, idOf(value))
		assert.NoError(t, err)
		assert.Equal(t, math.Float64bits(value), math.Float64bits(s.Value), "%v", value)
		assert.Equal(t, runtime.State{Value: value, TS: u.T, Exists: true}, s)
	}
	s, err := decodeInsertID(u, 1, insertIDInserted)
	assert.NoError(t, err)
	assert.Equal(t, runtime.State{Value: -u.Count, TS: u.T, Exists: true}, s)
	for _, affected := range []int64{0, 1} {
		s, err := decodeInsertID(u, affected, insertIDUnchanged)
		assert.NoError(t, err, "a driver counts the rows that were changed, or those that were found")
		assert.Zero(t, s)
	}
}

// idOf encodes a value as the insert id.
func idOf(value float64) int64 { return int64(^bits.ReverseBytes64(math.Float64bits(value))) }

// The ids are none, those of numbered rows, those that contradict the count of rows, and those of impossible values.
func TestDecodeInsertIDRefusesForeignIDs(t *testing.T) {
	u := &runtime.Upsert{T: 7, Capacity: 10, Count: 1}
	ids := []int64{0, 1, 2, 3, 256, 1 << 40, idOf(0), idOf(-0.5), idOf(-11), idOf(math.Inf(1)), idOf(math.Inf(-1)), idOf(math.NaN())}
	for _, id := range ids {
		for affected := range int64(4) {
			s, err := decodeInsertID(u, affected, id)
			assert.Zero(t, s, "%d rows, id %d", affected, id)
			assert.ErrorContains(t, err, "has lost the result of a statement that takes tokens", "%d rows, id %d", affected, id)
		}
	}
	for affected, id := range map[int64]int64{0: insertIDInserted, 1: idOf(3), 2: insertIDInserted, 3: insertIDUnchanged} {
		_, err := decodeInsertID(u, affected, id)
		assert.ErrorContains(t, err, "has lost the result", "%d rows, id %d", affected, id)
	}
	_, err := decodeInsertID(u, 2, insertIDUnchanged)
	assert.ErrorContains(t, err, "has lost the result")
}
