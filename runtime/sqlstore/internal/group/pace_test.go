package group

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

func TestEnoughCallsForAnotherFlight(t *testing.T) {
	for _, row := range []struct {
		took           time.Duration
		flights, calls int
		want           int
	}{
		{0, 1, 1, 8}, // not known yet
		{100 * time.Microsecond, 1, 1, 8},
		{100 * time.Microsecond, 1, 40, 20},
		{100 * time.Microsecond, 1, 1000, 32},
		{400 * time.Microsecond, 1, 1, 8},
		{400 * time.Microsecond, 1, 1000, 8},
		{800 * time.Microsecond, 1, 1000, 2},
		{800 * time.Microsecond, 2, 1000, 4},
		{20 * time.Millisecond, 1, 1000, 1},
		{time.Hour, 3, 1000, 1},
	} {
		var p pace
		if row.took > 0 {
			p.add(row.took, 1, 1)
			p.add(10*row.took, 1, 1) // it waited for a busy database
		}
		require.Equal(t, row.want, p.enough(row.flights, row.calls), "%+v", row)
	}
}

func TestPaceForgetsFlightsOfAnEarlierWindow(t *testing.T) {
	var p pace
	p.add(100*time.Microsecond, 1, 1)
	for range 2*window - 2 {
		p.add(time.Second, 1, 1)
	}
	require.Equal(t, most, p.enough(1, 1000))
	p.add(time.Second, 1, 1)
	require.Equal(t, 1, p.enough(1, 1000), "the database is farther away now")
}

func TestRestOnABusyDatabase(t *testing.T) {
	const ms = time.Millisecond
	for _, row := range []struct {
		first, took time.Duration
		calls       int
		want        time.Duration
	}{
		{ms, 40 * ms, 1, 0}, // too few calls
		{ms, 2 * ms, 20, 0},
		{ms, 4 * ms, 20, ms / 2},
		{ms, 3 * ms, 60, 0}, // their rows explain it
		{ms, 12 * ms, 60, 3 * ms / 2},
		{ms, time.Second, 60, maxRest},
		{20 * ms, 40 * ms, 20, 0}, // far away
		{20 * ms, 80 * ms, 20, maxRest},
	} {
		var p pace
		require.Zero(t, p.rest())
		p.add(row.first, 1, 1)
		for range 10 * recent {
			p.add(row.took, row.calls, row.calls)
		}
		require.InDelta(t, row.want, p.rest(), float64(ms/100), "%+v", row)
	}
}

// A call of three limits takes three times as long, which is not a reason to wait.
func TestNoRestAfterCallsOfSeveralRequests(t *testing.T) {
	var p pace
	for range 10 * recent {
		p.add(time.Millisecond, 1, 3)
		p.add(10*time.Millisecond, 100, 300)
	}
	require.Zero(t, p.rest())
	for range 10 * recent {
		p.add(100*time.Millisecond, 100, 300)
	}
	require.Equal(t, maxRest, p.rest())
}

// busyBackend takes a millisecond for its first batch, and ten for the others, whatever their size.
type busyBackend struct {
	runtime.MemStore
	mu    sync.Mutex
	sizes []int
}

func (b *busyBackend) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	b.mu.Lock()
	took := time.Millisecond
	if len(b.sizes) > 0 {
		took = 10 * time.Millisecond
	}
	b.sizes = append(b.sizes, len(calls))
	b.mu.Unlock()
	time.Sleep(took)
	return b.MemStore.Do(ctx, calls)
}

func TestCallersOfABusyDatabaseMeetInOneBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend, policy := &busyBackend{}, &runtime.Policy{Name: "p", Kind: runtime.TokenBucket, Rate: 1000, Period: time.Hour, Capacity: 1000}
		s := New(backend, Options{Lanes: 2})
		var all sync.WaitGroup
		for i := range 64 {
			all.Go(func() {
				for range 200 {
					_, err := s.Do(t.Context(), []runtime.Call{{Requests: []runtime.Request{{Count: 1, Policy: policy, Key: strconv.Itoa(i)}}}})
					assert.NoError(t, err)
				}
			})
		}
		all.Wait()
		require.Equal(t, 64, backend.sizes[len(backend.sizes)/2])
	})
}

func TestKeySet(t *testing.T) {
	var a, b keySet
	for hash := range uint64(2048) {
		require.False(t, a.has(hash))
		a.add(hash)
		require.True(t, a.has(hash))
		require.Equal(t, hash > 0, a.meets(&b))
		b.addAll(&a)
		require.True(t, b.has(hash))
	}
}
