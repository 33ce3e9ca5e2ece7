package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPercentileOfSortedValues(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for _, c := range []struct {
		sorted []time.Duration
		p      int
		want   time.Duration
	}{
		{nil, 50, 0},
		{[]time.Duration{7}, 50, 7},
		{[]time.Duration{7}, 99, 7},
		{[]time.Duration{1, 9}, 50, 1},
		{[]time.Duration{1, 9}, 51, 9},
		{hundred, 0, 1},
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred, 100, 100},
	} {
		require.Equal(t, c.want, percentile(c.sorted, c.p), "%d of %v", c.p, c.sorted)
	}
}

func TestMedianKeepsItsArgument(t *testing.T) {
	require.Zero(t, median[float64](nil))
	values := []float64{5, 1, 3}
	require.Equal(t, 3.0, median(values))
	require.Equal(t, []float64{5, 1, 3}, values, "the order of the turns is kept")
	require.Equal(t, 2.0, median([]float64{4, 1, 2, 3}), "the lower one of two")
}
