package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFit(t *testing.T) {
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

func TestWhatIsCheapCountsAsMuchAsWhatIsDear(t *testing.T) {
	// The last point is 30 off, a thirty-fourth of its size; the first would be off by more than half of its.
	got := fit([]float64{1, 2, 8, 512}, []float64{12, 14, 26, 1064})
	require.InDelta(t, 12, got.Fixed+got.PerRow, 1)
}
