package main

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// exhausted denies every call after the first.
var exhausted = limit{name: "exhausted", rate: 1, capacity: 1, period: 24 * time.Hour}

// nowhere is servers that do not answer.
var nowhere = servers{
	postgres: "postgres://postgres@127.0.0.1:1/test?sslmode=disable",
	mariadb:  "root@tcp(127.0.0.1:1)/test",
	mysqlDB:  "root@tcp(127.0.0.1:1)/test",
	redisDB:  "redis://127.0.0.1:1/0",

	redisDurable: "redis://127.0.0.1:1/0",
}

func TestContendersInTheProcessDecide(t *testing.T) {
	for _, c := range contenders {
		if c.server != "" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			s := &site{servers: nowhere, dir: t.TempDir(), rows: 10}
			require.Equal(t, []bool{true, true, true}, verdictsOf(t, c, s, plenty))
			require.Equal(t, []bool{true, isFloor(c), isFloor(c)}, verdictsOf(t, c, s, exhausted))
		})
	}
}

// isFloor reports whether a contender only writes rows, and so allows every call.
func isFloor(c contender) bool { return strings.Contains(c.name, "bare upsert") }

// verdictsOf takes three tokens of one key.
func verdictsOf(t *testing.T, c contender, s *site, l limit) (allowed []bool) {
	o, err := c.open(t.Context(), s, l)
	require.NoError(t, err)
	defer o.close()
	for range 3 {
		ok, err := o.take(t.Context(), keyOf(3))
		require.NoError(t, err)
		allowed = append(allowed, ok)
	}
	return allowed
}

// brieflyOf is a plan of one short heat of all contenders.
func brieflyOf(turns int) plan {
	return plan{
		heats: []heat{{2, 10, allNames()}}, turns: turns, sweepRows: 50_000, only: regexp.MustCompile(""),
		pace: pace{leadIn: time.Millisecond, length: 50 * time.Millisecond, stride: 1},
	}
}

func TestContendersWithoutServerAreReportedAndOthersRun(t *testing.T) {
	r := report{NotRun: map[string]string{}}
	p := brieflyOf(3)
	require.NoError(t, r.measure(t.Context(), &site{servers: nowhere, dir: t.TempDir(), rows: p.maxKeys()}, p))
	for _, c := range contenders {
		cell, why := r.cell(c.name, 2, 10), r.NotRun[c.name]
		if c.server != "" {
			require.Nil(t, cell, c.name)
			require.NotEmpty(t, why, c.name)
			continue
		}
		require.Empty(t, why, c.name)
		require.NotNil(t, cell, c.name)
		require.Len(t, cell.Turns, 3)
		require.Positive(t, cell.PerSecond)
		require.LessOrEqual(t, cell.P50, cell.P99)
		require.Zero(t, cell.Failed)
	}
	require.Equal(t, -1.0, r.Tallies[floorSQLite].Trips)
	require.Positive(t, r.Tallies[floorSQLite].Allocations)
	require.NotNil(t, r.cell(duringSweep(oursSQLite), sweepCallers, sweepKeys), r.NotRun)
	require.Contains(t, r.markdown(), "| redis_rate | not run: ")
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := report{NotRun: map[string]string{}}
	require.ErrorIs(t, r.measure(ctx, &site{servers: nowhere, dir: t.TempDir()}, brieflyOf(3)), context.Canceled)
	require.Empty(t, r.Cells)
}

func TestOnlyAndLoadsNarrowThePlan(t *testing.T) {
	loads := func(p plan) (names []string) {
		for _, h := range p.heats {
			names = append(names, loadName(h.callers, h.keys))
		}
		return names
	}
	for _, c := range []struct {
		what       string
		only, load string
		loads      []string
		names      []string
	}{
		{"a pattern", "^(MySQL|redis_rate)$", "", []string{
			"64 callers, 1,000 keys", "1 caller, 1,000 keys", "4 callers, 1,000 keys", "512 callers, 1 key", "512 callers, 10,000 keys",
		}, []string{oursMySQL, redisRate}},
		{"loads", "^SQLite$", "3x50,1x7", []string{"3 callers, 50 keys", "1 caller, 7 keys"}, []string{oursSQLite}},
		{"a sweep needs no heat", "sweep", "", nil, nil},
	} {
		p, err := planOf(c.only, c.load)
		require.NoError(t, err, c.what)
		require.Equal(t, c.loads, loads(p), c.what)
		for _, h := range p.heats {
			require.Subset(t, c.names, h.names, c.what)
			require.NotEmpty(t, h.names, c.what)
		}
		require.Equal(t, c.load != "", p.onlyRaces)
	}
	p, err := planOf("sweep", "")
	require.NoError(t, err)
	require.True(t, p.only.MatchString(duringSweep(oursSQLite)))
	require.False(t, p.only.MatchString(oursSQLite))

	_, err = planOf("(", "")
	require.ErrorContains(t, err, "-only: error parsing regexp")
	for loads, want := range map[string]string{
		"4":      `-loads: "4" is not a load, such as 4x1000 for 4 callers and 1,000 keys`,
		"4x1,x5": `-loads: "x5" is not a load`,
		"0x1":    `-loads: "0x1" is not a load`,
		"1x-1":   `-loads: "1x-1" is not a load`,
	} {
		_, err := planOf("", loads)
		require.ErrorContains(t, err, want)
	}
}

// With -loads only the heats run, and the report has only their figures.
func TestOneComparisonRunsAlone(t *testing.T) {
	p, err := planOf("^SQLite(: bare upsert)?$", "2x10")
	require.NoError(t, err)
	p.turns, p.pace.leadIn, p.pace.length = 2, time.Millisecond, 5*time.Millisecond
	r := report{NotRun: map[string]string{}}
	require.NoError(t, r.measure(t.Context(), &site{servers: nowhere, dir: t.TempDir(), rows: p.maxKeys()}, p))
	require.Len(t, r.Cells, 2)
	require.Empty(t, r.NotRun)
	require.Empty(t, r.Tallies)
}

func TestServersAreMovedToAnotherAddress(t *testing.T) {
	s := servers{
		postgres: "postgres://user:secret@db/app?sslmode=disable",
		mariadb:  "user:secret@tcp(db:3307)/app?parseTime=true",
		redisDB:  "redis://:secret@db:6380/5",
	}
	for _, c := range []struct {
		of      server
		address string
		moved   string
	}{
		{postgres, "db:5432", "postgres://user:secret@127.0.0.1:1/app?sslmode=disable"},
		{mariadb, "db:3307", "user:secret@tcp(127.0.0.1:1)/app?parseTime=true"},
		{redisDB, "db:6380", "redis://:secret@127.0.0.1:1/5"},
	} {
		address, moved, err := s.through(c.of, "127.0.0.1:1")
		require.NoError(t, err)
		require.Equal(t, c.address, address)
		require.Equal(t, c.moved, moved[c.of])
		require.NotEqual(t, s[c.of], moved[c.of], "the original is not changed")
	}
}

func TestServerWithoutDataSourceNameIsAnError(t *testing.T) {
	for _, of := range []server{postgres, redisDurable} {
		_, _, err := servers{}.through(of, "")
		require.EqualError(t, err, "the data source name of "+string(of)+" is not a URL with a host")
	}
	_, _, err := servers{postgres: "postgres://user:secret@%zz/app"}.through(postgres, "")
	require.NotContains(t, err.Error(), "secret")
}
