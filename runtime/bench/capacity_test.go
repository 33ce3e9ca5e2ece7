package main

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A run from which the figures can be checked by hand.
const someRun = `| decisions/s | 64 callers, 1,000 keys | 1 caller, 1,000 keys | 512 callers, 10,000 keys |
| --- | --- | --- | --- |
| Postgres | 9 · 9 + 9 | 2,000 · 90.0 + 108.0 | 60,000 · 9.0 + 8.0 |
| Postgres, relaxed | 9 · 9 + 9 | 4,000 · 90.0 + 106.0 | 60,000 · 9.0 + 6.0 |
`

func TestCostsFollowFromTheTables(t *testing.T) {
	costs, err := postgresCosts(someRun)
	require.NoError(t, err)
	const µs = time.Microsecond
	require.Equal(t, []statementCost{
		{name: "Postgres", statement: 100 * µs, row: 8 * µs, flush: 250 * µs},
		{name: "Postgres, relaxed", statement: 100 * µs, row: 6 * µs},
	}, costs)
	_, err = postgresCosts("| | 1 caller, 1,000 keys | 512 callers, 10,000 keys |\n")
	require.EqualError(t, err, `the document has no table with the row "Postgres" and the column "1 caller, 1,000 keys"`)
}

func TestDecisionsAreBoundByTheScarcest(t *testing.T) {
	c := statementCost{statement: 92 * time.Microsecond, row: 8 * time.Microsecond, flush: 200 * time.Microsecond}
	for _, of := range []struct {
		what        string
		hosts, rows int
		want        float64
	}{
		{"a host, by its statement in flight: 500 + 100 + 200 µs", 1, 1, 64 / 800e-6},
		{"two hosts, by theirs", 2, 1, 2 * 64 / 800e-6},
		{"many hosts, by the lock: 100 + 200 µs", 100, 1, 64 / 300e-6},
		{"many hosts with 64 rows, by the processors: 604 µs on 8 cores", 100, 64, 64 * 8 / 604e-6},
	} {
		require.InEpsilon(t, of.want, c.decisions(of.hosts, of.rows), 1e-9, of.what)
	}
	require.Equal(t, 3, c.enough(1), "800 ÷ 300")
	require.Equal(t, "81,000", rounded(80_501))
	require.Equal(t, "810", rounded(805))
	require.Equal(t, "8.1 µs", about(8090*time.Nanosecond))
	require.Equal(t, "81 µs", about(80_900*time.Nanosecond))
	require.Equal(t, "0 µs", about(0))
}

func TestCapacityIsThatOfTheTables(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	page, err := os.ReadFile(capacityPage)
	require.NoError(t, err)
	want, err := withCapacity(string(page), string(readme))
	require.NoError(t, err)
	require.Equal(t, want, string(page), "run go run . -update")
}

// The figures that other pages give in words promise no more than the tables, nor much less: a run on a busy machine has
// half of those on a quiet one.
func TestPagesHaveTheFiguresOfTheTables(t *testing.T) {
	document, err := os.ReadFile("README.md")
	require.NoError(t, err)
	const readme = "../../README.md"
	many, alone, hot := loadName(64, 1000), loadName(1, 1000), loadName(512, 1)
	for _, figure := range []struct{ page, pattern, row, column string }{
		{readme, `some ([\d,]+)\s+decisions per second from SQLite`, oursSQLite, many},
		{readme, `from SQLite and ([\d,]+) from Postgres`, oursPostgres, many},
		{readme, `a lone call on one machine \| ([\d.]+) ms on SQLite`, oursSQLite, alone},
		{readme, `a lone call on one machine \| .* ([\d.]+) ms on Postgres`, oursPostgres, alone},
		{readme, `round trip: ([\d.]+) ms on SQLite`, oursSQLite, alone},
		{readme, `round trip: .* ([\d.]+) ms on Postgres`, oursPostgres, alone},
		{readme, many + ` \| ([\d,]+) on SQLite`, oursSQLite, many},
		{readme, many + ` \| .* ([\d,]+) on Postgres`, oursPostgres, many},
		{readme, hot + ` \| ([\d,]+) on SQLite`, oursSQLite, hot},
		{readme, hot + ` \| .* ([\d,]+) on Postgres`, oursPostgres, hot},
		{readme, many + ` \| .* to ([\d,]+) \| millions`, "rueidis: GCRA", many},
		{readme, hot + ` \| .* up to ([\d,]+) \| millions`, "rueidis: GCRA", hot},
		{capacityPage, `([\d.]+) ms on SQLite`, oursSQLite, alone},
		{capacityPage, `([\d.]+) ms on Postgres`, oursPostgres, alone},
		{capacityPage, `([\d.]+) ms with .durability: relaxed`, oursRelaxed, alone},
		{capacityPage, `([\d.]+) ms on MariaDB`, oursMariaDB, alone},
		{capacityPage, `([\d.]+) ms on MySQL`, oursMySQL, alone},
	} {
		page, err := os.ReadFile(figure.page)
		require.NoError(t, err)
		m := regexp.MustCompile(figure.pattern).FindSubmatch(page)
		require.NotNil(t, m, "%s has no %s", figure.page, figure.pattern)
		given, err := strconv.ParseFloat(strings.ReplaceAll(string(m[1]), ",", ""), 64)
		require.NoError(t, err, figure.pattern)
		measured, err := readCell(string(document), figure.row, figure.column)
		require.NoError(t, err)
		promised := given / measured.rate
		if strings.Contains(figure.pattern, " ms") {
			promised = 1000 / given / measured.rate
		}
		if !slices.Contains([]string{oursSQLite, oursPostgres, oursRelaxed, oursMariaDB, oursMySQL}, figure.row) {
			promised = 1 / promised // by another limiter, it is no less
		}
		assert.Less(t, promised, 1.25, "%s: %s", figure.page, m[0])
		assert.Greater(t, promised, 0.3, "%s: %s", figure.page, m[0])
	}
}
