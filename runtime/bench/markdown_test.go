package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReportIsWrittenAsMarkdownTables(t *testing.T) {
	r := report{
		Machine: "go1.26 on linux/amd64, 2 CPUs.\nPostgres 15, fsync on.\nRedis 7, save \"\".\n",
		Cells: []cell{
			{Contender: oursSQLite, Callers: 64, Keys: 1000, PerSecond: 60123.9, P50: 1_234_567, P99: 34_999, Failed: 0.125, HasCPU: true, Own: 12.34e-6},
			{Contender: oursLeased, Callers: 1, Keys: 1000, PerSecond: 3e6, P50: 141, P99: 200, Turns: []float64{3, 4, 5}},
			{Contender: xTimeRate, Callers: 1, Keys: 1000, PerSecond: 7e6, P50: 141, P99: 200, Turns: []float64{6, 4, 10}},
			{Contender: oursSQLite, Callers: 1, Keys: 1000, PerSecond: 9, P50: 1, P99: 2, HasCPU: true, Own: 10e-6, Server: 2.5e-6},
			{Contender: floorSQLite, Callers: 1, Keys: 1000, PerSecond: 9, P50: 1, P99: 2, HasCPU: true, Own: 25e-6},
			{Contender: oursPostgres, Callers: 1, Keys: 1000, PerSecond: 9, P50: 1, P99: 2},
			{Contender: floorPostgres, Callers: 1, Keys: 1000, PerSecond: 9, P50: 1, P99: 2, HasCPU: true},
		},
		Tallies: map[string]*tally{oursPostgres: {Trips: 1, Allocations: 20.004}, xTimeRate: {Trips: -1}},
		NotRun:  map[string]string{redisRate: "dial tcp: a|b"},
	}
	require.Equal(t, strings.TrimSpace(`
go1.26 on linux/amd64, 2 CPUs.
Postgres 15, fsync on.
Redis 7, save "".

| ratio | figure | CPU, µs | CPU of the other, µs |
| --- | --- | --- | --- |
| SQLite against SQLite: bare upsert, 1 caller, 1,000 keys, CPU | 2.00 | 10.0 + 2.5 | 25.0 + 0.0 |
| Postgres, leased against x/time/rate, 1 caller, 1,000 keys | 0.50 |  |  |

| callers | keys | contender | decisions/s | p50 | p99 | failed | own CPU, µs | database CPU, µs |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
| 64 | 1,000 | SQLite | 60,123 | 1.23ms | 35µs | 12.5% | 12.3 | 0.0 |
| 1 | 1,000 | Postgres, leased | 3,000,000 | 141ns | 200ns |  |  |  |
| 1 | 1,000 | x/time/rate | 7,000,000 | 141ns | 200ns |  |  |  |
| 1 | 1,000 | SQLite | 9 | 1ns | 2ns |  | 10.0 | 2.5 |
| 1 | 1,000 | SQLite: bare upsert | 9 | 1ns | 2ns |  | 25.0 | 0.0 |
| 1 | 1,000 | Postgres | 9 | 1ns | 2ns |  |  |  |
| 1 | 1,000 | Postgres: bare upsert | 9 | 1ns | 2ns |  | 0.0 | 0.0 |
|  |  | redis_rate | not run: dial tcp: a\|b |  |  |  |  |  |

| contender | round trips | allocations |
| --- | --- | --- |
| Postgres | 1 | 20 |
| x/time/rate |  | 0 |
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
