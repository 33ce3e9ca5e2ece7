package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// tenth is a round of 100ms, after a lead-in whose end is between the ends of calls.
var tenth = pace{leadIn: 100*time.Millisecond + time.Microsecond, length: 100 * time.Millisecond}

// measureInBubble runs a round with fake time, which passes only while the contender sleeps.
func measureInBubble(t *testing.T, take takeFunc, l load) (r round, err error) {
	synctest.Test(t, func(*testing.T) { r, err = measure(&instance{take: take}, l, tenth, nil) })
	return r, err
}

// withoutAllocations returns a round without those of the benchmark itself.
func withoutAllocations(r round) round {
	r.objects, r.bytes = 0, 0
	return r
}

// slow is a contender that takes 1ms, and 10ms for key 1.
func slow(_ context.Context, key string) (bool, error) {
	if key == keyOf(1) {
		time.Sleep(9 * time.Millisecond)
	}
	time.Sleep(time.Millisecond)
	return true, nil
}

func TestRoundCountsCallsThatEndInIt(t *testing.T) {
	r, err := measureInBubble(t, slow, load{callers: 3, keys: keysOf(1, 1)})
	require.NoError(t, err)
	require.Equal(t, round{perSecond: 3000, latency: latencies{time.Millisecond, time.Millisecond, time.Millisecond}, decisions: 300}, withoutAllocations(r))
}

func TestRoundMeasuresProcessorTimeAfterTheLeadIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		// This process works half of the time, and the server twice as much.
		meter := func() split {
			took := time.Since(begin)
			return split{took / 2, 2 * took}
		}
		r, err := measure(&instance{take: slow, meter: meter}, load{callers: 3, keys: keysOf(1, 1)}, tenth, nil)
		require.NoError(t, err)
		require.True(t, r.metered)
		require.Equal(t, split{50 * time.Millisecond, 200 * time.Millisecond}, r.used)
		c := newCell("", load{}, []round{r, r})
		require.InDelta(t, 50e-3/300, c.Own, 1e-9)
		require.InDelta(t, 200e-3/300, c.Server, 1e-9)
	})
}

func TestRoundMeasuresAllocations(t *testing.T) {
	var kept [100]*[64]byte
	r, err := measureInBubble(t, func(ctx context.Context, key string) (bool, error) {
		for i := range kept {
			kept[i] = new([64]byte)
		}
		return slow(ctx, key)
	}, load{callers: 1, keys: keysOf(1, 1)})
	require.NoError(t, err)
	c := newCell("", load{}, []round{r, r})
	require.InDelta(t, len(kept), c.Objects, 2)
	require.InDelta(t, 64*len(kept), c.Bytes, 200)
}

func TestRoundUsesEveryKey(t *testing.T) {
	r, err := measureInBubble(t, slow, load{callers: 64, keys: keysOf(2, 2)})
	require.NoError(t, err)
	require.Equal(t, 10*time.Millisecond, r.latency.P99)
	require.InDelta(t, 64_000/5.5, r.perSecond, 1000, "half of the calls take 1ms and half 10ms")
}

func TestRoundTimesOneCallPerStride(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := measure(&instance{take: slow, stride: 10}, load{callers: 1, keys: keysOf(1, 1)}, tenth, nil)
		require.NoError(t, err)
		require.Equal(t, round{perSecond: 1000, latency: latencies{time.Millisecond, time.Millisecond, time.Millisecond}, decisions: 100}, withoutAllocations(r))
	})
}

// A round that ends with a sweep has no calls after it.
func TestRoundEndsWithWhatRunsDuringIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		o := &instance{take: slow, meter: func() split { return split{own: time.Since(begin)} }}
		r, err := measure(o, load{callers: 1, keys: keysOf(1, 1)}, tenth, func() <-chan struct{} {
			require.Equal(t, tenth.leadIn, time.Since(begin))
			done := make(chan struct{})
			time.AfterFunc(50*time.Millisecond, func() { close(done) })
			return done
		})
		require.NoError(t, err)
		require.Equal(t, 50, r.decisions)
		require.Equal(t, 1000.0, r.perSecond)
		require.Equal(t, 50*time.Millisecond, r.used.own)
	})
}

// A round whose end is late has as many more calls, and so the same rate.
func TestCallsAfterTheEndOfARoundAreNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends := 0
		r, err := measure(&instance{take: func(ctx context.Context, key string) (bool, error) {
			defer func() { ends++ }()
			return slow(ctx, keyOf(1))
		}}, load{callers: 1, keys: keysOf(1, 1)}, tenth, nil)
		require.NoError(t, err)
		require.Equal(t, 10, r.decisions)
		require.Equal(t, 21, ends, "10 in the lead-in, and one that ends after the round")
	})
}

func TestFailedCallsAreNotCountedAsDecisions(t *testing.T) {
	down := errors.New("the server is down")
	calls := 0
	r, err := measureInBubble(t, func(ctx context.Context, key string) (bool, error) {
		calls++
		time.Sleep(time.Millisecond)
		if calls%4 == 0 {
			return false, down
		}
		return true, nil
	}, load{callers: 1, keys: keysOf(1, 1)})
	require.NoError(t, err)
	require.Equal(t, 750.0, r.perSecond)
	require.Equal(t, 0.25, r.failed)
	require.ErrorIs(t, r.err, down)

	_, err = measureInBubble(t, func(context.Context, string) (bool, error) {
		time.Sleep(time.Millisecond)
		return false, down
	}, load{callers: 2, keys: keysOf(1, 1)})
	require.ErrorIs(t, err, down)
}

func TestWrongDecisionFailsTheRound(t *testing.T) {
	_, err := measureInBubble(t, func(ctx context.Context, key string) (bool, error) {
		_, err := slow(ctx, key)
		return false, err
	}, load{callers: 1, keys: keysOf(1, 1)})
	require.ErrorContains(t, err, "decided wrongly")
}

func TestStallIsARoundWithoutDecisions(t *testing.T) {
	r, err := measureInBubble(t, func(context.Context, string) (bool, error) {
		time.Sleep(time.Second)
		return true, nil
	}, load{callers: 1, keys: keysOf(1, 1)})
	require.NoError(t, err)
	require.Equal(t, round{latency: latencies{tenth.length, tenth.length, tenth.length}}, withoutAllocations(r))
	require.False(t, newCell("", load{}, []round{{metered: true}}).HasCPU)
}

func TestContenderThatStallsInMostTurnsIsOut(t *testing.T) {
	for stalls, want := range map[int]string{1: "", 2: errNoAnswer.Error()} {
		synctest.Test(t, func(t *testing.T) {
			turn := 0
			open := field{"slow": {take: func(_ context.Context, key string) (bool, error) {
				if turn <= stalls {
					time.Sleep(time.Second)
					turn++
				}
				return slow(t.Context(), key)
			}}}
			r := newReport()
			r.race(t.Context(), heat{1, 1, []string{"slow"}}, open, plan{turns: 3, pace: tenth})
			require.Equal(t, want, r.NotRun["slow, 1 caller, 1 key"])
			require.Equal(t, want == "", len(r.Cells) == 1)
		})
	}
}

func TestSamplesBeyondTheBufferOverwriteOldOnes(t *testing.T) {
	c := newTestCaller(1000)
	c.samples = make([]time.Duration, 10)
	c.run()
	require.Equal(t, 1000-1, c.taken, "the call that is after the end is not measured")
	r, err := sum([]*caller{c}, time.Second)
	require.NoError(t, err)
	require.Equal(t, 999.0, r.perSecond)
}

func TestCallerDoesNotAllocate(t *testing.T) {
	c := newTestCaller(1000)
	require.Zero(t, testing.AllocsPerRun(10, func() {
		c.phase.Store(counting)
		c.run()
	}))
	require.Greater(t, c.calls, 10*900)
}

// newTestCaller returns a caller whose round ends after every n calls.
func newTestCaller(n int) *caller {
	c := &caller{
		load: load{keys: keysOf(10, 10)}, stride: 1, phase: new(atomic.Int32),
		random: rand.New(rand.NewPCG(1, 2)), samples: make([]time.Duration, n), began: time.Now(),
	}
	c.phase.Store(counting)
	calls := 0
	c.take = func(context.Context, string) (bool, error) {
		if calls++; calls%n == 0 {
			c.phase.Store(over)
		}
		return true, nil
	}
	return c
}

func TestHandOverAnswersEveryCallerOnce(t *testing.T) {
	for _, failed := range []error{nil, errors.New("the disk is full")} {
		written := map[string]int{}
		h := &handOver{write: func(keys []string) error {
			require.True(t, slices.IsSorted(keys))
			for _, key := range keys {
				written[key]++
			}
			return failed
		}}
		keys := keysOf(100, 100)
		require.Equal(t, failed, takeEach(t.Context(), h.take, slices.Concat(keys, keys)))
		if failed == nil {
			require.Len(t, written, len(keys))
		}
		require.False(t, h.writing)
		require.Empty(t, h.waiting)
	}
}

func TestTakeEachSaysThatItsTimeIsOver(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var taken atomic.Int64
	err := takeEach(ctx, func(context.Context, string) (bool, error) {
		if taken.Add(1) == 10 {
			cancel()
		}
		return true, nil
	}, keysOf(10_000, 10_000))
	require.ErrorIs(t, err, context.Canceled)
	require.Less(t, taken.Load(), int64(10_000))
}
