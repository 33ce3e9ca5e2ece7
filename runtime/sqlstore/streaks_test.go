package sqlstore

import (
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
