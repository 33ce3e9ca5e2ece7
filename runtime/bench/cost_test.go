package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnyKeysAreDifferentKeysOfTheTable(t *testing.T) {
	all := map[string]bool{}
	for _, key := range keysOf(costRows, costRows) {
		all[key] = true
	}
	for _, n := range batchSizes {
		seen := map[string]bool{}
		for _, key := range anyKeys(n) {
			require.True(t, all[key], key)
			seen[key] = true
		}
		require.Len(t, seen, n)
	}
}

func TestALineIsDrawnThroughTheMedians(t *testing.T) {
	var meters []meter
	for _, n := range batchSizes {
		seconds := 100 + 2*float64(n)
		meters = append(meters, meter{
			seconds: []float64{1, seconds, 9999}, statements: 4, cpu: time.Duration(4*n+40) * time.Second,
		})
	}
	c := newCost(meters, true)
	require.InDelta(t, 100, c.Fixed, 1e-6)
	require.InDelta(t, 2, c.PerRow, 1e-6)
	require.InDelta(t, 10, c.CPU.Fixed, 1e-6)
	require.InDelta(t, 1, c.CPU.PerRow, 1e-6)
	require.Len(t, c.Batches, len(batchSizes))
	require.Equal(t, batchCost{Rows: 8, Seconds: 116, CPU: 18}, c.Batches[2])
	require.Nil(t, newCost(meters, false).CPU)
}

// TestCosts measures those that need no server, and reads them as a simulation does.
func TestCosts(t *testing.T) {
	r := report{NotRun: map[string]string{}}
	p := plan{turns: 2, pace: pace{leadIn: time.Millisecond, length: 5 * time.Millisecond}}
	require.NoError(t, r.price(t.Context(), &site{servers: nowhere, dir: t.TempDir()}, p))
	require.NotEmpty(t, r.NotRun[oursPostgres])

	path := filepath.Join(t.TempDir(), "costs.json")
	require.NoError(t, r.publish(options{costs: true, json: path}, discard))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var read map[string]struct{ Fixed, PerRow float64 }
	require.NoError(t, json.Unmarshal(text, &read))
	require.Len(t, read, 1)
	require.Positive(t, read["sqlite"].PerRow)
	require.Len(t, r.Costs["sqlite"].Batches, len(batchSizes))
}
