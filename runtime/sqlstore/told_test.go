package sqlstore

import (
	"math"
	"math/bits"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// TestTold reads what a statement tells: the id has the bits of a value, the least byte first.
func TestTold(t *testing.T) {
	u := &runtime.Upsert{T: 7, Fresh: 9}
	idOf := func(value float64) int64 { return int64(bits.ReverseBytes64(math.Float64bits(value))) }
	for _, value := range []float64{0, 1, -0.1, math.Copysign(0, -1), 1.0 / 3, -1e15} {
		s := told(u, 2, idOf(value))
		assert.Equal(t, math.Float64bits(value), math.Float64bits(s.Value), "%v", value)
		assert.Equal(t, runtime.State{Value: value, TS: u.T, Seen: true}, s)
	}
	assert.Equal(t, runtime.State{Value: u.Fresh, TS: u.T, Seen: true}, told(u, 1, 0), "inserted")
	assert.Zero(t, told(u, 0, 1), "refused, told by a driver that counts what was changed")
	assert.Zero(t, told(u, 1, 1), "refused, told by a driver that counts what was found")
}
