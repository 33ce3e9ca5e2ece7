package middleware

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPace(t *testing.T) {
	var p Pace
	now := time.Unix(1_000_000_000, 0)
	require.True(t, p.Due(now))
	require.False(t, p.Due(now.Add(time.Second-1)))
	require.True(t, p.Due(now.Add(time.Second)))
	// A clock that is set back by an hour does not silence it for an hour.
	require.True(t, p.Due(now.Add(-time.Hour)))
	require.False(t, p.Due(now.Add(-time.Hour+1)))
}

func TestPaceOfSeveralGoroutines(t *testing.T) {
	var p Pace
	var due atomic.Int64
	var all sync.WaitGroup
	now := time.Unix(1_000_000_000, 0)
	for range 64 {
		all.Go(func() {
			if p.Due(now) {
				due.Add(1)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1, due.Load())
}
