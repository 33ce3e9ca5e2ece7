package main

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ran returns the result of a contender with these decisions per second in its turns.
func ran(name string, q ratio, turns ...float64) cell {
	return cell{Contender: name, Callers: q.callers, Keys: q.keys, PerSecond: median(turns), Turns: turns}
}

func TestRatioIsTheMedianOfTheTurns(t *testing.T) {
	q := ratio{oursSQLite, redisRate, 64, 1000, 4, false}
	other := ratio{oursSQLite, redisRate, 64, 1, 4, false}
	for _, c := range []struct {
		what   string
		report report
		want   string
		figure float64
	}{
		{"more than the aim", report{Cells: []cell{ran(oursSQLite, q, 50), ran(redisRate, q, 10)}}, "reached", 5},
		{"the aim itself", report{Cells: []cell{ran(oursSQLite, q, 40), ran(redisRate, q, 10)}}, "reached", 4},
		{"less", report{Cells: []cell{ran(oursSQLite, q, 39), ran(redisRate, q, 10)}}, "not reached", 3.9},
		{
			"the median of the turns, not the quotient of the medians",
			report{Cells: []cell{ran(oursSQLite, q, 10, 50, 60), ran(redisRate, q, 2, 10, 20)}}, "reached", 5,
		},
		{
			"another load does not count",
			report{Cells: []cell{ran(oursSQLite, other, 50), ran(redisRate, other, 10)}},
			"not run: it was not measured", 0,
		},
		{
			"denials do not count",
			report{Cells: []cell{{Contender: oursSQLite, Callers: 64, Keys: 1000, Denied: true, Turns: []float64{50}}}},
			"not run: it was not measured", 0,
		},
		{
			"a server is missing",
			report{Cells: []cell{ran(oursSQLite, q, 50)}, NotRun: map[string]string{redisRate: "connection refused"}},
			"not run: connection refused", 0,
		},
	} {
		v := q.judge(&c.report)
		require.Equal(t, c.want, v.String(), c.what)
		if c.figure > 0 {
			require.Equal(t, c.figure, *v.Figure, c.what)
		}
	}
	require.Equal(t, "SQLite against redis_rate, 64 callers, 1,000 keys", q.String())
}

func TestRatioOfProcessorTimes(t *testing.T) {
	q := ratio{oursSQLite, floorSQLite, 1, 1000, 1, true}
	ours, theirs := ran(oursSQLite, q, 100), ran(floorSQLite, q, 1)
	v := q.judge(&report{Cells: []cell{ours, theirs}})
	require.Equal(t, "not run: processor time was not measured", v.String())
	ours.HasCPU, ours.Own = true, 20e-6
	theirs.HasCPU, theirs.Own, theirs.Server = true, 10e-6, 5e-6
	v = q.judge(&report{Cells: []cell{ours, theirs}})
	require.Equal(t, "not reached", v.String())
	require.InDelta(t, 0.75, *v.Figure, 1e-9)
	require.Equal(t, "SQLite against SQLite: bare upsert, 1 caller, 1,000 keys, CPU", q.String())
}

func TestCountsAreJudgedWithNoise(t *testing.T) {
	aim := countAim{oursPostgres, "round trips of a decision", 1, 0.01, trips}
	for trips, want := range map[float64]string{
		1: "reached", 1.009: "reached", 1.02: "not reached", 4: "not reached", -1: "not run: it was not measured",
	} {
		r := report{Tallies: map[string]*tally{oursPostgres: {Trips: trips}}}
		require.Equal(t, want, aim.judge(&r).String(), trips)
	}
	r := report{NotRun: map[string]string{oursPostgres: "connection refused"}}
	require.Equal(t, "not run: connection refused", aim.judge(&r).String())
}

func TestGrowthIsJudged(t *testing.T) {
	r := report{Growth: []growth{{Contender: oursSQLite, Rows: 5000, Ratio: 1.3}}}
	v := r.judgeGrowth(oursSQLite)
	require.Equal(t, "SQLite, p50 in a table of 5,000 rows against 1,000", v.What)
	require.Equal(t, "reached", v.String())
	r.Growth[0].Ratio = 1.31
	require.Equal(t, "not reached", r.judgeGrowth(oursSQLite).String())
	require.Equal(t, "not run: measure it with -rows 10000000", r.judgeGrowth(oursPostgres).String())
}

// A renamed contender must not silently lose its aim.
func TestAimsNameContendersThatRun(t *testing.T) {
	names := allNames()
	for _, q := range ratios {
		require.Contains(t, names, q.ours)
		require.Contains(t, names, q.theirs)
		for _, o := range []options{{}, {quick: true}, {all: true}} {
			require.True(t, runsTogether(planOf(o).heats, q), "%v with %+v", q, o)
		}
	}
	for _, name := range growthContenders {
		require.Contains(t, names, name)
	}
	for _, d := range costed {
		require.Contains(t, names, d.contender)
	}
	for _, a := range slices.Concat(allocationAims, tripAims, memoryAims) {
		require.Contains(t, names, a.contender)
	}
}

// runsTogether reports whether both sides of a ratio are in one heat.
func runsTogether(heats []heat, q ratio) bool {
	for _, h := range heats {
		if h.callers == q.callers && h.keys == q.keys {
			in := map[string]bool{}
			for _, name := range h.names {
				in[name] = true
			}
			return in[q.ours] && in[q.theirs]
		}
	}
	return false
}

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
