package decide

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/batch"
)

// A row is read until this process has found it twice in the same state, and again after another has written it.
func TestRowsThatOthersWriteAreRead(t *testing.T) {
	s := newSeenRows()
	rows := []runtime.Row{{Name: "limit", Key: "a"}}
	states := func(value float64) []runtime.State { return []runtime.State{{Value: value, TS: 1, Exists: true}} }
	assert.Nil(t, s.all(rows))
	s.read(rows, states(-1))
	s.swapped(rows[0], states(-2)[0], true)
	assert.Nil(t, s.all(rows), "seen once")
	s.read(rows, states(-2))
	assert.Equal(t, states(-2), s.all(rows))
	s.swapped(rows[0], states(-3)[0], true)
	assert.Equal(t, states(-3), s.all(rows))
	s.swapped(rows[0], states(-4)[0], false)
	assert.Nil(t, s.all(rows), "another process has written it")
	s.read(rows, states(-5))
	s.swapped(rows[0], states(-6)[0], true)
	assert.Nil(t, s.all(rows))
	s.read(rows, states(-7))
	assert.Nil(t, s.all(rows), "another process has written it again")
	s.read(rows, states(-7))
	assert.NotNil(t, s.all(rows))
	assert.Nil(t, s.all(append(rows, runtime.Row{Name: "limit", Key: "a", Shard: 1})))

	s.read(rows, make([]runtime.State, 1))
	assert.Nil(t, s.all(rows), "deleted")
	p := &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 10, Capacity: 10, Period: time.Minute}
	b := batch.New([]runtime.Call{{Requests: []runtime.Request{{Policy: p, Key: "a", Count: 1}}}})
	require.True(t, b.Run(9, make([]runtime.State, 1)))
	s.wrote(b, make([]runtime.State, 1), false)
	assert.Nil(t, s.all(rows), "a row without shards")
	s.wrote(b, make([]runtime.State, 1), true)
	assert.NotNil(t, s.all(rows), "inserted by this process")
	require.True(t, b.Run(9, states(-2)))
	s.wrote(b, states(-2), true)
	assert.Nil(t, s.all(rows), "another process has written it before")
	long := states(-1)
	long[0].Log = strings.Repeat("x", longestSeen+1)
	for range 3 {
		s.read(rows, long)
	}
	assert.Nil(t, s.all(rows), "its log is long")
}

// Otherwise few batches of many rows would have seen all of them.
func TestRowsSeldomOverwriteEachOther(t *testing.T) {
	s := newSeenRows()
	rows := make([]runtime.Row, len(s.places)/4)
	for i := range rows {
		rows[i] = runtime.Row{Name: "limit", Key: strconv.Itoa(i)}
		s.keep(rows[i], runtime.State{Exists: true}, true)
	}
	missing := slices.DeleteFunc(rows, func(r runtime.Row) bool { return s.find(r) != nil })
	assert.Less(t, len(missing), len(s.places)/100)
}
