package main

import (
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHandOverHandsOverEveryCallOnce(t *testing.T) {
	const callers, calls = 16, 500
	var handed []string
	h := &handOver{
		open: newHandful(), wake: make(chan struct{}, 1),
		handed: func(keys []string) { handed = append(handed, keys...) },
	}
	ended := make(chan struct{})
	go func() { h.run(); close(ended) }()
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for call := range calls {
				h.join(keyOf(caller*calls + call))
			}
		})
	}
	all.Wait()
	close(h.wake)
	<-ended
	slices.Sort(handed)
	require.Equal(t, keysOf(callers*calls, callers*calls), handed)
}

// A batch that is being handed over must not hold back those that come after it.
func TestHandOverCollectsWhileABatchIsHandedOver(t *testing.T) {
	sizes, next := make(chan int), make(chan struct{})
	h := &handOver{open: newHandful(), wake: make(chan struct{}, 1), handed: func(keys []string) {
		sizes <- len(keys)
		<-next
	}}
	go h.run()
	defer close(h.wake)
	var all sync.WaitGroup
	all.Go(func() { h.join("first") })
	require.Equal(t, 1, <-sizes)
	for range 5 {
		all.Go(func() { h.join("later") })
	}
	waiting := func() int { h.mu.Lock(); defer h.mu.Unlock(); return len(h.open.keys) }
	for waiting() < 5 {
		runtime.Gosched()
	}
	next <- struct{}{}
	require.Equal(t, 5, <-sizes)
	next <- struct{}{}
	all.Wait()
}
