package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnyKeysAreDistinctKeysOfTheTable(t *testing.T) {
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

func TestCostIsFittedThroughTheMedians(t *testing.T) {
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

// The costs of SQLite need no server. They are read as the tests of package capacity do.
func TestCostsArePublishedAsJSON(t *testing.T) {
	r := report{NotRun: map[string]string{}}
	p := plan{turns: 2, pace: pace{leadIn: time.Millisecond, length: 5 * time.Millisecond}}
	require.NoError(t, r.measureCosts(t.Context(), &site{servers: nowhere, dir: t.TempDir()}, p))
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

func TestFitIsExactForPointsOnALine(t *testing.T) {
	for _, c := range []struct {
		what          string
		rows, seconds []float64
		want          line
	}{
		{"two points", []float64{1, 3}, []float64{5, 9}, line{3, 2}},
		{"points on a line", []float64{1, 2, 8, 64, 512}, []float64{12, 14, 26, 138, 1034}, line{10, 2}},
		{"only fixed", []float64{1, 100}, []float64{7, 7}, line{7, 0}},
		{"only per row", []float64{1, 100}, []float64{7, 700}, line{0, 7}},
	} {
		got := fit(c.rows, c.seconds)
		require.InDelta(t, c.want.Fixed, got.Fixed, 1e-6, c.what)
		require.InDelta(t, c.want.PerRow, got.PerRow, 1e-6, c.what)
	}
}

func TestFitMinimizesRelativeErrors(t *testing.T) {
	// The last point is off by 30, which is 3 %. With absolute errors, the first point would be off by half of its size.
	got := fit([]float64{1, 2, 8, 512}, []float64{12, 14, 26, 1064})
	require.InDelta(t, 12, got.Fixed+got.PerRow, 1)
}

func TestProcessorTimeIsReadFromProcStat(t *testing.T) {
	busy, err := parseStat("2208 (a (name) of) S 1 2208 2208 0 -1 4194560 9 0 0 0 120 34 5 6 20 0 1 0 99 0 0\n")
	require.NoError(t, err)
	require.Equal(t, 1540*time.Millisecond, busy)
	for _, text := range []string{"", "1 (sh) S 1 2 3", "1 (sh) S 1 2208 2208 0 -1 4194560 9 0 0 0 many 34 5"} {
		_, err := parseStat(text)
		require.Error(t, err, text)
	}
}

func TestProcessOnAnotherMachineHasNoProcessorTime(t *testing.T) {
	none := func(context.Context) (int, error) { return -1, nil }
	usage, err := cpuOf(t.Context(), &instance{pid: none})
	require.Error(t, err)
	require.Nil(t, usage)
	require.Zero(t, usage.now())
}
