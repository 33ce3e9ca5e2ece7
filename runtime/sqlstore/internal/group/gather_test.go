package group

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// sizing records the sizes of its batches, each of which takes ten milliseconds.
type sizing struct {
	mu    sync.Mutex
	sizes []int
}

func (b *sizing) Do(_ context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	b.mu.Lock()
	b.sizes = append(b.sizes, len(calls))
	b.mu.Unlock()
	time.Sleep(10 * time.Millisecond)
	return make([]runtime.Answer, len(calls)), nil
}

func callOf(i int) []runtime.Call {
	return []runtime.Call{{Requests: []runtime.Request{{Key: strconv.Itoa(i)}}}}
}

func TestCallersThatCallAgainAtOnceMeetInOneBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rounds = 50
		backend := &sizing{}
		q := newQueue(backend, Options{Batch: DefaultBatch})
		var all sync.WaitGroup
		for i := range 64 {
			all.Go(func() {
				for range rounds {
					q.do(t.Context(), callOf(i))
				}
			})
		}
		all.Wait()
		// Two halves that take turns would make twice as many batches as there are rounds.
		require.Less(t, len(backend.sizes), rounds*3/2, "%v", backend.sizes)
	})
}

// The requests of a server do not wait for each other, and there is nobody to wait for.
func TestFlightsWithoutReturningCallersDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(&sizing{}, Options{Batch: DefaultBatch})
		var all sync.WaitGroup
		for i := range 400 {
			all.Go(func() { q.do(t.Context(), callOf(i)) })
			time.Sleep(5 * time.Millisecond)
		}
		all.Wait()
		synctest.Wait()
		require.Less(t, q.returns.part, fewReturn)
		worth := 0
		for range 10 * gatherEvery {
			if q.returns.worthLocked() {
				worth++
			}
		}
		require.Equal(t, 10, worth, "now and then, in case callers have come that do")
		for range 10 {
			q.returns.addLocked(8, 8)
		}
		require.True(t, q.returns.worthLocked())
	})
}
