package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// arriveInBubble runs a round with fake time, which passes only while calls, or the gaps between them, take it.
func arriveInBubble(t *testing.T, take takeFunc, perSecond float64) (r round, err error) {
	synctest.Test(t, func(*testing.T) { r, err = arrive(&instance{take: take}, keysOf(1, 1), perSecond, tenth) })
	return r, err
}

func TestCallsArriveAtTheirRateWhateverTheyTake(t *testing.T) {
	for _, takes := range []time.Duration{time.Microsecond, time.Millisecond, time.Second} {
		r, err := arriveInBubble(t, func(context.Context, string) (bool, error) {
			time.Sleep(takes)
			return true, nil
		}, 20_000)
		require.NoError(t, err)
		require.InDelta(t, 20_000, r.perSecond, 1500, "of 2,000 calls at random, give or take 45")
		require.Equal(t, latencies{takes, takes, takes}, r.latency)
	}
}

// The 100 calls of a second that arrive during a stall of 10 ms have waited 5 ms on average. Callers that wait for their
// answers before they call again would report one long call.
func TestStallCountsForAllCallsThatArriveDuringIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		stall, end := begin.Add(tenth.leadIn), begin.Add(tenth.leadIn+10*time.Millisecond)
		r, err := arrive(&instance{take: func(context.Context, string) (bool, error) {
			if now := time.Now(); !now.Before(stall) {
				time.Sleep(end.Sub(now))
			}
			return true, nil
		}}, keysOf(1, 1), 10_000, tenth)
		require.NoError(t, err)
		require.Zero(t, r.latency.P50, "nine tenths of the calls arrive after it")
		require.InDelta(t, 9*time.Millisecond, r.latency.P99, float64(time.Millisecond))
	})
}

func TestArrivalsThatFailAreNotDecisions(t *testing.T) {
	down := errors.New("the server is down")
	var calls atomic.Int64
	r, err := arriveInBubble(t, func(context.Context, string) (bool, error) {
		if calls.Add(1)%4 == 0 {
			return false, down
		}
		return true, nil
	}, 20_000)
	require.NoError(t, err)
	require.InDelta(t, 0.25, r.failed, 0.01)
	require.ErrorIs(t, r.err, down)

	_, err = arriveInBubble(t, func(context.Context, string) (bool, error) { return false, down }, 20_000)
	require.ErrorIs(t, err, down)
	_, err = arriveInBubble(t, func(context.Context, string) (bool, error) { return false, nil }, 20_000)
	require.ErrorContains(t, err, "calls were decided wrongly")
}

// A contender that answers nothing does not take all the memory.
func TestTooManyCallsWithoutAnAnswerFail(t *testing.T) {
	_, err := arriveInBubble(t, func(context.Context, string) (bool, error) {
		time.Sleep(time.Hour)
		return true, nil
	}, 2*10*mostUnanswered)
	require.ErrorIs(t, err, errUnanswered)
}

func TestArrivalsAreMeasuredAtPartsOfTheRate(t *testing.T) {
	p := briefly(t, "^SQLite$", "arrivals")
	r := newReport()
	require.NoError(t, r.measure(t.Context(), &site{servers: nowhere, dir: t.TempDir()}, p))
	half := r.cell(arrivalName(oursSQLite, arrivalParts[0].name), 0, arrivalLoad.keys)
	most := r.cell(arrivalName(oursSQLite, arrivalParts[1].name), 0, arrivalLoad.keys)
	require.NotNil(t, half, r.NotRun)
	require.NotNil(t, most, r.NotRun)
	require.Positive(t, half.latency.P50)
	require.GreaterOrEqual(t, half.latency.P999, half.latency.P99)
	require.Greater(t, most.PerSecond, half.PerSecond)
	require.Contains(t, r.arrivalTable(), "| SQLite | ")
	require.Empty(t, r.NotRun)
}
