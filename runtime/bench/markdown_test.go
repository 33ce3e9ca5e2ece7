package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReportIsWrittenAsMarkdownTables(t *testing.T) {
	five := 5.125
	r := report{
		Machine: machine{
			Go: "go1.26", OS: "linux", Arch: "amd64", CPUs: 2,
			Servers: settings{redisDB: `Redis 7, save ""`, postgres: "Postgres 15, fsync on"},
		},
		Costs: map[string]cost{
			"sqlite": {line: line{50e-6, 7.5e-6}, Batches: []batchCost{{Rows: 1, Seconds: 2}}, Floor: []batchCost{{Rows: 1, Seconds: 1}}},
			"postgres": {
				line: line{100e-6, 9e-6}, CPU: &line{60e-6, 8e-6},
				Batches: []batchCost{{Rows: 512, Seconds: 4, CPU: 3, Own: 1}}, Floor: []batchCost{{Rows: 512, Seconds: 3, CPU: 1, Own: 1}},
			},
		},
		Cells: []cell{
			{Contender: oursSQLite, Callers: 64, Keys: 1000, PerSecond: 60123.9, P50: 1_234_567, P99: 34_999, Failed: 0.125, HasCPU: true, Own: 12.34e-6},
			{Contender: xTimeRate, Callers: 1, Keys: 1, Denied: true, PerSecond: 7e6, P50: 141, P99: 200},
		},
		Tallies: map[string]*tally{
			oursSQLite: {Trips: 1, Allocations: 20.004, BytesPerKey: -1},
			xTimeRate:  {Trips: -1, BytesPerKey: 222.5},
		},
		NotRun: map[string]string{redisRate: "dial tcp: a|b"},
		Verdicts: []verdict{{
			What: "this", Aim: "at least 4", Figure: &five, Reached: true,
			Ours: &perDecision{1e-6, 2.5e-6}, Theirs: &perDecision{10e-6, 0},
		}, {What: "that", Aim: "at most 1", NotRun: "why"}, {What: "a figure", Figure: &five}},
	}
	require.Equal(t, strings.TrimSpace(`
go1.26 on linux/amd64, 2 CPUs.
Postgres 15, fsync on.
Redis 7, save "".

| ratio | aim | figure | verdict | CPU, µs | CPU of the other, µs |
| --- | --- | --- | --- | --- | --- |
| this | at least 4 | 5.12 | reached | 1.0 + 2.5 | 10.0 + 0.0 |
| that | at most 1 |  | not run: why |  |  |
| a figure |  | 5.12 |  |  |  |

| callers | keys | contender | decisions/s | p50 | p99 | failed | own CPU, µs | database CPU, µs |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
| 64 | 1,000 | SQLite | 60,123 | 1.23ms | 35µs | 12.5% | 12.3 | 0.0 |
| 1 | 1, exhausted | x/time/rate | 7,000,000 | 141ns | 200ns |  |  |  |
|  |  | redis_rate | not run: dial tcp: a\|b |  |  |  |  |  |

| contender | round trips | allocations | bytes per idle key |
| --- | --- | --- | --- |
| SQLite | 1 | 20 |  |
| x/time/rate |  | 0 | 222.5 |

| statement | fixed, µs | a row, µs | database CPU, fixed | database CPU, a row | bare upsert of 1 row: time, CPU | bare upsert of 64 rows: time, CPU | bare upsert of 512 rows: time, CPU |
| --- | --- | --- | --- | --- | --- | --- | --- |
| SQLite | 50.0 | 7.5 |  |  | 0.50 |  |  |
| Postgres | 100.0 | 9.0 | 60.0 | 8.0 |  |  | 0.75, 0.50 |
`), strings.TrimSpace(r.markdown()))
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

var discard = io.Discard

func TestTablesAreReplacedInAText(t *testing.T) {
	const text = "# bench\n\n<!-- tables -->\nold\n<!-- /tables -->\n\nThe end.\n"
	want := "# bench\n\n<!-- tables -->\n| new |\n<!-- /tables -->\n\nThe end.\n"
	for _, from := range []string{text, want} {
		got, err := withTables(from, "| new |\n")
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, from := range []string{"", "<!-- tables -->\n", "<!-- /tables -->\n<!-- tables -->\n"} {
		_, err := withTables(from, "| new |\n")
		require.EqualError(t, err, `no line "<!-- tables -->" with a line "<!-- /tables -->" after it`)
	}
}

func TestRunWritesItsTablesToTheReadme(t *testing.T) {
	path := filepath.Join(t.TempDir(), "README.md")
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, text, 0o644))
	o := options{readme: path}
	require.NoError(t, o.check())

	five := 5.0
	r := report{Verdicts: []verdict{{What: "this", Aim: "at least 4", Figure: &five, Reached: true}}}
	require.NoError(t, r.publish(o, discard))
	filled, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(filled), "| this | at least 4 | 5.00 | reached |  |  |")
	require.NotEqual(t, text, filled)
}

func TestReadmeWithoutPlaceForTablesFailsBeforeTheRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "README.md")
	require.Error(t, options{readme: path}.check(), "there is no file")
	require.NoError(t, os.WriteFile(path, []byte("# bench\n"), 0o644))
	require.ErrorContains(t, run(t.Context(), options{readme: path}, discard), "no line \"<!-- tables -->\"")
	for _, o := range []options{{costs: true}, {only: "SQLite"}, {loads: "1x1"}} {
		o.readme = path
		require.ErrorContains(t, o.check(), "leave out -costs, -only and -loads")
	}
	require.NoError(t, options{costs: true}.check())
}
