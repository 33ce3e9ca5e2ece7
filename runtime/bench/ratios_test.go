package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRatioIsTheMedianOfTheTurns(t *testing.T) {
	q := ratio{oursPostgres, floorPostgres, 4, 1000, speed}
	r := report{Cells: []cell{
		{Contender: oursPostgres, Callers: 4, Keys: 1000, Turns: []float64{10, 20, 90}},
		{Contender: floorPostgres, Callers: 4, Keys: 1000, Turns: []float64{10, 10, 10}},
	}}
	ours, theirs, ok := q.of(&r)
	require.True(t, ok)
	require.Equal(t, 2.0, q.figure(ours, theirs))
	q.by = cpu
	_, _, ok = q.of(&r)
	require.False(t, ok, "processor time was not measured")
	ours.HasCPU, ours.Own, ours.Server = true, 1e-6, 3e-6
	theirs.HasCPU, theirs.Own = true, 2e-6
	_, _, ok = q.of(&r)
	require.True(t, ok)
	require.Equal(t, 0.5, q.figure(ours, theirs), "theirs costs half of ours")
	q.keys = 1
	_, _, ok = q.of(&r)
	require.False(t, ok, "another load was not measured")
}

func TestBothSidesOfEachRatioRunInOneHeat(t *testing.T) {
	p, err := planOf("", "")
	require.NoError(t, err)
	for _, q := range ratios {
		both := false
		for _, h := range p.heats {
			if h.callers == q.callers && h.keys == q.keys {
				require.Subset(t, h.names, []string{q.ours, q.theirs}, q)
				both = true
			}
		}
		require.True(t, both, q)
	}
	for _, q := range ratios {
		for _, name := range []string{q.ours, q.theirs} {
			_, ok := find(name)
			require.True(t, ok, name)
		}
	}
}
