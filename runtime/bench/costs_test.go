package main

import (
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
	metersOf := func(of *instance) (meters []meter) {
		for _, n := range batchSizes {
			seconds := 100 + 2*float64(n)
			meters = append(meters, meter{
				of: of, rows: n, seconds: []float64{1, seconds, 9999}, statements: 4,
				used: split{time.Duration(4*n) * time.Second, time.Duration(4*n+40) * time.Second},
			})
		}
		return append(meters, meter{of: of, rows: 8, floor: true, seconds: []float64{58}, statements: 1})
	}
	c := newCost(metersOf(&instance{meter: func() split { return split{} }}))
	require.InDelta(t, 100, c.Fixed, 1e-6)
	require.InDelta(t, 2, c.PerRow, 1e-6)
	require.InDelta(t, 10, c.CPU.Fixed, 1e-6)
	require.InDelta(t, 1, c.CPU.PerRow, 1e-6)
	require.Len(t, c.Batches, len(batchSizes))
	require.Equal(t, batchCost{Rows: 8, Seconds: 116, CPU: 18, Own: 8}, *batch(c.Batches, 8))
	require.Equal(t, 58.0, batch(c.Floor, 8).Seconds)
	require.Nil(t, batch(c.Floor, 512))
	require.Nil(t, newCost(metersOf(&instance{})).CPU)
}

// The costs of SQLite need no server.
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
	require.Len(t, r.Costs["sqlite"].Floor, len(floorSizes))
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
