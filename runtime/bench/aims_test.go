package main

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// ran returns the result of a contender with these decisions per second in its turns.
func ran(name string, q ratio, turns ...float64) cell {
	return cell{Contender: name, Callers: q.callers, Keys: q.keys, PerSecond: median(turns), Turns: turns}
}

func TestRatioIsTheMedianOfTheTurns(t *testing.T) {
	q := ratio{oursSQLite, redisRate, 64, 1000, 4, speed}
	other := ratio{oursSQLite, redisRate, 64, 1, 4, speed}
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
	for _, c := range []struct {
		by     basis
		aim    float64
		what   string
		want   string
		figure float64
	}{
		{cpu, 0.75, "a against b, 1 caller, 1,000 keys, CPU", "at least 0.75: reached", 0.75},
		{cpu, 0.76, "a against b, 1 caller, 1,000 keys, CPU", "at least 0.76: not reached", 0.75},
		{cpuTimes, 1.34, "a against b, 1 caller, 1,000 keys, CPU", "at most 1.34: reached", 4.0 / 3},
		{cpuTimes, 1.33, "a against b, 1 caller, 1,000 keys, CPU", "at most 1.33: not reached", 4.0 / 3},
		{serverTimes, 1.6, "a against b, 1 caller, 1,000 keys, database CPU", "at most 1.6: reached", 1.6},
		{serverTimes, 1.5, "a against b, 1 caller, 1,000 keys, database CPU", "at most 1.5: not reached", 1.6},
		{serverTimes, 0, "a against b, 1 caller, 1,000 keys, database CPU", ": ", 1.6},
	} {
		q := ratio{"a", "b", 1, 1000, c.aim, c.by}
		ours, theirs := ran("a", q, 100), ran("b", q, 1)
		require.Equal(t, "not run: "+noCPU, q.judge(&report{Cells: []cell{ours, theirs}}).String())
		ours.HasCPU, ours.Own, ours.Server = true, 12e-6, 8e-6
		theirs.HasCPU, theirs.Own, theirs.Server = true, 10e-6, 5e-6
		v := q.judge(&report{Cells: []cell{ours, theirs}})
		require.Equal(t, c.what, v.What)
		require.Equal(t, c.want, v.Aim+": "+v.String(), c.what)
		require.InDelta(t, c.figure, *v.Figure, 1e-9, c.what)
		require.Equal(t, perDecision{12e-6, 8e-6}, *v.Ours)
		require.Equal(t, perDecision{10e-6, 5e-6}, *v.Theirs)
	}
}

func TestBatchesAreJudgedByProcessorTime(t *testing.T) {
	r := report{Costs: map[string]cost{"postgres": {
		Batches: []batchCost{{Rows: 64, CPU: 9}, {Rows: 512, CPU: 6, Own: 4}},
		Floor:   []batchCost{{Rows: 512, CPU: 5, Own: 3}},
	}, "mysql": {Batches: []batchCost{{Rows: 512}}, Floor: []batchCost{{Rows: 512}}}}}
	v := batchAim{oursPostgres, 0.8}.judge(&r)
	require.Equal(t, "Postgres against Postgres: bare upsert, a statement of 512 rows, CPU", v.What)
	require.Equal(t, 0.8, *v.Figure)
	require.Equal(t, "reached", v.String())
	require.Equal(t, "not reached", batchAim{oursPostgres, 0.81}.judge(&r).String())
	require.Equal(t, "not run: it was not measured", batchAim{oursSQLite, 0.8}.judge(&r).String())
	require.Equal(t, "not run: "+noCPU, batchAim{oursMySQL, 0.8}.judge(&r).String())
}

func TestReasonOfASweepIsThatOfItsDatabase(t *testing.T) {
	r := report{NotRun: map[string]string{oursMySQL: "refused", duringSweep(oursSQLite): "too short"}}
	require.Equal(t, "refused", r.reasonNotRun(duringSweep(oursMySQL)))
	require.Equal(t, "too short", r.reasonNotRun(duringSweep(oursSQLite)))
	require.Equal(t, "it was not measured", r.reasonNotRun(duringSweep(oursPostgres)))
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
			p, err := planOf(o)
			require.NoError(t, err)
			require.True(t, runsTogether(p.heats, q), "%v with %+v", q, o)
		}
	}
	for _, d := range costed {
		require.Contains(t, names, d.contender)
		require.Contains(t, append(names, ""), d.floor)
	}
	for _, a := range batchAims {
		require.NotEmpty(t, a.judge(&report{}).What, a.contender)
	}
	for _, name := range slices.Concat(growthContenders, swept, shared) {
		require.Contains(t, names, name)
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
