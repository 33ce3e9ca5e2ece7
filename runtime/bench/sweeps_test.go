package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSweepThatEndsTooEarlyIsAnError(t *testing.T) {
	c, _ := find(oursSQLite)
	p := plan{turns: 3, sweepRows: 1200, pace: pace{length: time.Second, stride: 1}}
	r := report{NotRun: map[string]string{}}
	err := r.measureSweep(t.Context(), &site{dir: t.TempDir()}, p, c)
	require.ErrorIs(t, err, errSweepEnded)
	require.ErrorContains(t, err, "after 0 turns and 200 deleted rows")
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
	_, _, err = measureDuring(t.Context(), o, l, tenth)
	require.ErrorContains(t, err, "closed")
	require.NotErrorIs(t, err, errSweepEnded)
	o.take = take
	_, _, err = measureDuring(t.Context(), o, l, tenth)
	require.ErrorContains(t, err, "no call succeeded")
}
