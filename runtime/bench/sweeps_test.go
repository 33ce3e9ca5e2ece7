package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSweepThatEndsTooEarlyIsAnError(t *testing.T) {
	c, _ := find(oursSQLite)
	p := plan{turns: 2, sweepRows: 1200, pace: pace{length: 300 * time.Millisecond}}
	r := newReport()
	err := r.measureSweep(t.Context(), &site{dir: t.TempDir()}, p, c)
	require.ErrorContains(t, err, "the sweep ended after 1 turns and 200 deleted rows")
	require.Empty(t, r.Cells)
}

func TestFailedSweepIsAnError(t *testing.T) {
	c, _ := find(oursSQLite)
	o, err := c.open(t.Context(), &site{dir: t.TempDir(), rows: 1}, plenty)
	require.NoError(t, err)
	o.close()
	l := load{callers: 1, keys: keysOf(1, 1)}
	take := o.take
	o.take = slow
	_, _, ended, err := measureDuring(t.Context(), o, l, tenth)
	require.ErrorContains(t, err, "closed")
	require.True(t, ended)
	o.take = take
	_, _, _, err = measureDuring(t.Context(), o, l, tenth)
	require.ErrorContains(t, err, "no call succeeded")
}

func TestSweepIsStoppedWhenItsRoundIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &instance{take: slow, sweep: func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 7, ctx.Err()
		}}
		r, deleted, ended, err := measureDuring(t.Context(), o, load{callers: 1, keys: keysOf(1, 1)}, tenth)
		require.NoError(t, err)
		require.False(t, ended)
		require.Equal(t, 7, deleted)
		require.Equal(t, 100, r.decisions)
	})
}
