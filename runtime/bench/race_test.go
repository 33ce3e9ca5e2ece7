package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// tenth is a round of 100ms, after a lead-in of 100ms.
var tenth = pace{leadIn: 100 * time.Millisecond, length: 100 * time.Millisecond, stride: 1}

// measureInBubble runs a round with fake time, which passes only while the contender sleeps.
func measureInBubble(t *testing.T, take takeFunc, l load, p pace) (r round, err error) {
	synctest.Test(t, func(*testing.T) { r, err = measure(take, l, p, nil) })
	return r, err
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
	r, err := measureInBubble(t, slow, load{callers: 3, keys: keysOf(1, 1)}, tenth)
	require.NoError(t, err)
	require.Equal(t, round{perSecond: 3000, p50: time.Millisecond, p99: time.Millisecond, decisions: 300}, r)
}

func TestRoundMeasuresProcessorTimeAfterTheLeadIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		// This process works half of the time, and the server twice as much.
		meter := func() split {
			took := time.Since(begin)
			return split{took / 2, 2 * took}
		}
		r, err := measure(slow, load{callers: 3, keys: keysOf(1, 1)}, tenth, meter)
		require.NoError(t, err)
		require.True(t, r.metered)
		require.Equal(t, split{50 * time.Millisecond, 200 * time.Millisecond}, r.used)
		c := newCell("", load{}, []round{r, r})
		require.InDelta(t, 50e-3/300, c.Own, 1e-9)
		require.InDelta(t, 200e-3/300, c.Server, 1e-9)
	})
}

func TestRoundUsesEveryKey(t *testing.T) {
	r, err := measureInBubble(t, slow, load{callers: 64, keys: keysOf(2, 2)}, tenth)
	require.NoError(t, err)
	require.Equal(t, 10*time.Millisecond, r.p99)
	require.InDelta(t, 64_000/5.5, r.perSecond, 1000, "half of the calls take 1ms and half 10ms")
}

func TestRoundTimesOneCallPerStride(t *testing.T) {
	p := tenth
	p.stride = 10
	r, err := measureInBubble(t, slow, load{callers: 1, keys: keysOf(1, 1)}, p)
	require.NoError(t, err)
	require.Equal(t, round{perSecond: 1000, p50: time.Millisecond, p99: time.Millisecond, decisions: 100}, r)
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
	}, load{callers: 1, keys: keysOf(1, 1)}, tenth)
	require.NoError(t, err)
	require.Equal(t, 750.0, r.perSecond)
	require.Equal(t, 0.25, r.failed)
	require.ErrorIs(t, r.err, down)

	_, err = measureInBubble(t, func(context.Context, string) (bool, error) {
		time.Sleep(time.Millisecond)
		return false, down
	}, load{callers: 2, keys: keysOf(1, 1)}, tenth)
	require.ErrorIs(t, err, down)
}

func TestWrongDecisionFailsTheRound(t *testing.T) {
	_, err := measureInBubble(t, func(ctx context.Context, key string) (bool, error) {
		_, err := slow(ctx, key)
		return false, err
	}, load{callers: 1, keys: keysOf(1, 1)}, tenth)
	require.ErrorContains(t, err, "decided wrongly")
}

func TestStallIsARoundWithoutDecisions(t *testing.T) {
	r, err := measureInBubble(t, func(context.Context, string) (bool, error) {
		time.Sleep(time.Second)
		return true, nil
	}, load{callers: 1, keys: keysOf(1, 1)}, tenth)
	require.NoError(t, err)
	require.Equal(t, round{p50: tenth.length, p99: tenth.length}, r)
	require.False(t, newCell("", load{}, []round{{metered: true}}).HasCPU)
}

func TestContenderThatStallsInMostTurnsIsOut(t *testing.T) {
	for stalls, want := range map[int]string{1: "", 2: errNoAnswer.Error()} {
		synctest.Test(t, func(t *testing.T) {
			turn := 0
			open := field{"slow": {take: func(_ context.Context, key string) (bool, error) {
				if turn < stalls {
					time.Sleep(time.Second)
					turn++
				}
				return slow(t.Context(), key)
			}}}
			l := load{callers: 1, keys: keysOf(1, 1)}
			r := report{NotRun: map[string]string{}}
			r.run(t.Context(), heat{1, 1, []string{"slow"}}, open, l, plan{turns: 3, pace: tenth})
			require.Equal(t, want, r.NotRun["slow"])
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
		c.began = time.Now()
		c.run()
	}))
	require.Greater(t, c.calls, 10*900)
}

// newTestCaller returns a caller whose round ends after every n calls.
func newTestCaller(n int) *caller {
	c := &caller{
		load: load{keys: keysOf(10, 10)}, stride: 1,
		random: rand.New(rand.NewPCG(1, 2)), samples: make([]time.Duration, n),
		began: time.Now(), to: time.Hour,
	}
	calls := 0
	c.take = func(context.Context, string) (bool, error) {
		if calls++; calls%n == 0 {
			c.began = c.began.Add(-time.Hour)
		}
		return true, nil
	}
	return c
}
