package sqlstore

import (
	"math"
	"math/bits"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// TestStreaks expects a denial of a row after two of them, and none after it had enough.
func TestStreaks(t *testing.T) {
	row := runtime.Row{Name: "limit", Key: "key"}
	s := newStreaks()
	for range 2 {
		for range longStreak {
			assert.False(t, s.expects(row))
			s.denied(row)
		}
		s.denied(row)
		assert.True(t, s.expects(row))
		s.ended(row)
	}
}

// TestStreaksAreOfOneRow denies more rows than there are places, each once: nothing is expected of them, nor of others.
func TestStreaksAreOfOneRow(t *testing.T) {
	s := newStreaks()
	for i := range 10_000 {
		s.denied(runtime.Row{Name: "limit", Key: strconv.Itoa(i)})
	}
	for i := range 20_000 {
		assert.False(t, s.expects(runtime.Row{Name: "limit", Key: strconv.Itoa(i)}))
	}
}

// TestTold reads what a statement tells: the id has the bits of a value, the least byte first.
func TestTold(t *testing.T) {
	u := &runtime.Upsert{T: 7, Fresh: 9, Debt: 1e15}
	for _, value := range []float64{0, 1, -0.1, math.Copysign(0, -1), 1.0 / 3, -1e15} {
		s, err := told(u, 2, idOf(value))
		assert.NoError(t, err)
		assert.Equal(t, math.Float64bits(value), math.Float64bits(s.Value), "%v", value)
		assert.Equal(t, runtime.State{Value: value, TS: u.T, Exists: true}, s)
	}
	s, err := told(u, 1, ToldInserted)
	assert.NoError(t, err)
	assert.Equal(t, runtime.State{Value: u.Fresh, TS: u.T, Exists: true}, s)
	for _, affected := range []int64{0, 1} {
		s, err := told(u, affected, ToldRefused)
		assert.NoError(t, err, "a driver counts what was changed, or what was found")
		assert.Zero(t, s)
	}
}

// idOf returns the id that tells of a value.
func idOf(value float64) int64 { return int64(^bits.ReverseBytes64(math.Float64bits(value))) }

// TestUntold reads nothing into an id that is not the statement's: none, that of a numbered row, one that says
// something else than the count of rows does, and one of a value that cannot be.
func TestUntold(t *testing.T) {
	u := &runtime.Upsert{T: 7, Fresh: 9}
	ids := []int64{0, 1, 2, 3, 256, 1 << 40, idOf(10), idOf(-1), idOf(math.Inf(1)), idOf(math.Inf(-1)), idOf(math.NaN())}
	for _, id := range ids {
		for affected := range int64(4) {
			s, err := told(u, affected, id)
			assert.Zero(t, s, "%d rows, id %d", affected, id)
			assert.ErrorContains(t, err, "does not tell what a statement has taken", "%d rows, id %d", affected, id)
		}
	}
	for affected, id := range map[int64]int64{0: ToldInserted, 1: idOf(3), 2: ToldInserted, 3: ToldRefused} {
		_, err := told(u, affected, id)
		assert.ErrorContains(t, err, "does not tell", "%d rows, id %d", affected, id)
	}
	_, err := told(u, 2, ToldRefused)
	assert.ErrorContains(t, err, "does not tell")
}
