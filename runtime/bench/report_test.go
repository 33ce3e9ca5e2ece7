package main

import (
	"os"
	"strings"
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
		{nil, 500, 0},
		{[]time.Duration{7}, 500, 7},
		{[]time.Duration{7}, 999, 7},
		{[]time.Duration{1, 9}, 500, 1},
		{[]time.Duration{1, 9}, 501, 9},
		{hundred, 0, 1},
		{hundred, 500, 50},
		{hundred, 990, 99},
		{hundred, 991, 100},
		{hundred, 1000, 100},
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

func TestReportIsWrittenAsMarkdownTables(t *testing.T) {
	loads := []heat{{callers: 64, keys: 1000}, {callers: 1, keys: 1000}}
	r := newReport()
	r.Cells = []cell{
		{Contender: oursSQLite, Callers: 64, Keys: 1000, PerSecond: 60123.9, latency: latencies{P99: 34_999}, HasCPU: true, Own: 12.34e-6, Spread: 0.02, Objects: 20.004, Bytes: 1233.9},
		{Contender: floorOf(oursSQLite), Callers: 64, Keys: 1000, PerSecond: 9, latency: latencies{P99: 2}, HasCPU: true, Own: 6.17e-6},
		{Contender: oursPostgres, Callers: 1, Keys: 1000, PerSecond: 9, Failed: 0.125, HasCPU: true, Own: 100e-6, Server: 0.25e-6, Spread: 0.1},
		{Contender: "rueidis: GCRA", Callers: 64, Keys: 1000, PerSecond: 9, latency: latencies{P99: 2e6}, HasCPU: true, Own: 20e-6, Server: 20e-6},
		{Contender: "redis_rate", Callers: 64, Keys: 1000, PerSecond: 9, latency: latencies{P99: 2e6}, HasCPU: true, Own: 10e-6, Server: 8.51e-6},
		{Contender: "ulule/limiter", Callers: 64, Keys: 1000, PerSecond: 9, latency: latencies{P99: 2e6}, HasCPU: true, Own: 6.17e-6},
		{Contender: rueidisSafe, Callers: 64, Keys: 1000, PerSecond: 9, latency: latencies{P99: 2e6}, HasCPU: true, Own: 1e-6},
		{Contender: "x/time/rate", Callers: 1, Keys: 1000, PerSecond: 7e6, latency: latencies{P99: 200}},
	}
	require.Equal(t, strings.TrimSpace(`
| decisions/s · CPU of one, µs | 64 callers, 1,000 keys | 1 caller, 1,000 keys | p99, 64 callers, 1,000 keys | allocations, 64 callers, 1,000 keys |
| --- | --- | --- | --- | --- |
| SQLite | 60,123 · 12.3 |  | 35µs | 20, 1,234 B |
| SQLite: floor | 9 · 6.2 |  | 2ns | 0, 0 B |
| Postgres |  | 9 · 100.0 + 0.25 · 12.5 % failed |  |  |
| rueidis: GCRA | 9 · 20.0 + 20.0 |  | 2ms | 0, 0 B |
| redis_rate | 9 · 10.0 + 8.5 |  | 2ms | 0, 0 B |
| ulule/limiter | 9 · 6.2 |  | 2ms | 0, 0 B |
| rueidis: GCRA, appendfsync always | 9 · 1.0 |  | 2ms | 0, 0 B |
| x/time/rate |  | 7,000,000 |  |  |
`), strings.TrimSpace(r.contenderTable(loads)))
	require.Equal(t, strings.TrimSpace(`
| CPU of a decision, as a ratio | 64 callers, 1,000 keys | 1 caller, 1,000 keys |
| --- | --- | --- |
| SQLite ÷ its floor | 2.00 |  |
| token bucket on Redis ÷ SQLite | 1.50 |  |
| window on Redis ÷ SQLite | 0.50 |  |
| Postgres ÷ its floor |  |  |
| token bucket on Redis ÷ Postgres |  |  |
| window on Redis ÷ Postgres |  |  |
`), strings.TrimSpace(r.againstTable(loads)))
	require.Equal(t, "Half of the turns are within 0.0 % of the median of a rate, at worst within 10.0 % (Postgres, 1 caller, 1,000 keys).\n",
		r.spread(func(string) bool { return true }))
	require.Empty(t, r.spread(func(string) bool { return false }))
}

func TestCostsOfCallsAreRatiosToTheFirst(t *testing.T) {
	r := newReport()
	r.Cells = []cell{
		{Contender: callName(oursSQLite, calls[0].name), Callers: 64, Keys: callKeys, HasCPU: true, Own: 10e-6},
		{Contender: callName(oursSQLite, calls[1].name), Callers: 64, Keys: callKeys, HasCPU: true, Own: 12e-6},
		{Contender: callName(oursPostgres, calls[1].name), Callers: 1, Keys: callKeys, HasCPU: true, Own: 12e-6, Server: 3e-6},
	}
	lines := strings.Split(r.callTable(), "\n")
	require.Equal(t, "| token bucket, Allow |  | 10.0 |  |  |  |  |  |  |", lines[2])
	require.Equal(t, "| one in ten denied |  | 12.0 · 1.20 | 15.0 |  |  |  |  |  |", lines[3])
}

func TestSweepIsComparedTurnByTurn(t *testing.T) {
	r := newReport()
	r.Cells = []cell{
		{Contender: withoutSweep(oursMySQL), Callers: sweepCallers, Keys: sweepKeys, PerSecond: 20, Turns: []float64{10, 20, 90}},
		{Contender: duringSweep(oursMySQL), Callers: sweepCallers, Keys: sweepKeys, PerSecond: 10, Turns: []float64{8, 10, 90}},
	}
	require.Contains(t, r.sweepTable(), "| MySQL | 20 | 10 | 0.80 |")
}

func TestUpdateReplacesTheTablesOfASection(t *testing.T) {
	const document = "# a\n<!-- calls -->\nold\n<!-- end -->\nb\n<!-- sweeps -->\n<!-- end -->\n"
	text, err := replaceSection(document, "calls", "| new |\n\n")
	require.NoError(t, err)
	require.Equal(t, "# a\n<!-- calls -->\n\n| new |\n\n<!-- end -->\nb\n<!-- sweeps -->\n<!-- end -->\n", text)
	for _, document := range []string{"", "<!-- calls -->\n", "<!-- end -->\n"} {
		_, err := replaceSection(document, "calls", "new")
		require.EqualError(t, err, `the document has no lines "<!-- calls -->" and <!-- end -->`)
	}
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for _, s := range sections {
		_, err := replaceSection(string(readme), s.name, "new")
		require.NoError(t, err)
	}
}

func TestDigitsAreGroupedByCommas(t *testing.T) {
	for n, want := range map[int]string{
		0: "0", 7: "7", 999: "999", 1000: "1,000", 123456: "123,456", 1234567: "1,234,567", -1000: "-1,000", -100: "-100",
	} {
		require.Equal(t, want, digits(n))
	}
}

func TestDurationsHaveThreeDigits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 999: "999ns", 1004: "1µs", 15_349: "15.3µs", 1_999_999: "2ms", 12_345_678_901: "12.3s",
	} {
		require.Equal(t, want, brief(d))
	}
}
