package main

import (
	"context"
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
			require.Equal(t, []bool{true, decidesNothing(c), decidesNothing(c)}, verdictsOf(t, c, s, exhausted))
		})
	}
}

// decidesNothing reports whether a contender allows every call.
func decidesNothing(c contender) bool {
	return strings.HasSuffix(c.name, ": floor") || c.name == "hand-over" || c.name == "an empty call"
}

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

// briefly is a plan of short rounds.
func briefly(t *testing.T, only, section string) plan {
	p, err := planOf(only, section, 3)
	require.NoError(t, err)
	p.loads = []heat{{2, 10, p.loads[0].names}}
	p.pace, p.sweepRows = pace{leadIn: time.Millisecond, length: 30 * time.Millisecond}, 50_000
	return p
}

func TestContendersWithoutServerAreReportedAndOthersRun(t *testing.T) {
	p := briefly(t, "^(SQLite|Postgres|redis_rate|x/|hand|memstore)", "contenders")
	r := newReport()
	require.NoError(t, r.measure(t.Context(), &site{servers: nowhere, dir: t.TempDir(), rows: p.maxKeys()}, p))
	for _, c := range contenders {
		cell, why := r.cell(c.name, 2, 10), r.NotRun[c.name]
		switch {
		case !p.only.MatchString(c.name):
			require.Nil(t, cell, c.name)
			require.Empty(t, why, c.name)
		case c.server != "":
			require.Nil(t, cell, c.name)
			require.NotEmpty(t, why, c.name)
		default:
			require.Empty(t, why, c.name)
			require.NotNil(t, cell, c.name)
			require.Len(t, cell.Turns, 3)
			require.Positive(t, cell.PerSecond)
			require.Positive(t, cell.latency.P99)
			require.Zero(t, cell.Failed)
		}
	}
	require.Greater(t, r.cell(oursSQLite, 2, 10).Objects, 1.0)
	var out strings.Builder
	require.NoError(t, r.print(p, &out))
	require.Contains(t, out.String(), "| x/time/rate | ")
	require.Contains(t, out.String(), "\nNot run: redis_rate: ")
}

func TestCallsOfSQLiteAreMeasured(t *testing.T) {
	p := briefly(t, "^SQLite: (token|one in ten)", "calls")
	r := newReport()
	require.NoError(t, r.measure(t.Context(), &site{servers: nowhere, dir: t.TempDir()}, p))
	for _, callers := range callLoads {
		require.NotNil(t, r.cell("SQLite: token bucket, Allow", callers, callKeys), r.NotRun)
		require.NotNil(t, r.cell("SQLite: one in ten denied", callers, callKeys), r.NotRun)
	}
	require.Len(t, r.Cells, 2*len(callLoads))
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := newReport()
	require.ErrorIs(t, r.measure(ctx, &site{servers: nowhere, dir: t.TempDir()}, briefly(t, "", "")), context.Canceled)
	require.Empty(t, r.Cells)
}

func TestFlagsNarrowThePlan(t *testing.T) {
	p, err := planOf("^(SQLite|Postgres: SELECT.*)$", "contenders", 2)
	require.NoError(t, err)
	require.Len(t, p.sections, 1)
	require.Equal(t, heat{64, 1000, []string{oursSQLite, "Postgres: SELECT FOR UPDATE"}}, p.loads[0])
	require.Equal(t, heat{512, 1, []string{oursSQLite}}, p.loads[3], "the other one stalls")
	require.Equal(t, 10_000, p.maxKeys())
	p, err = planOf("", "", 1)
	require.NoError(t, err)
	require.Equal(t, len(sections), len(p.sections))

	for _, c := range []struct {
		only, section string
		turns         int
		want          string
	}{
		{"(", "", 1, "-only: error parsing regexp"},
		{"", "call", 1, `-section: "call" is none of contenders, calls, arrivals, sweeps`},
		{"", "", 0, "-turns: 0 is less than 1"},
	} {
		_, err := planOf(c.only, c.section, c.turns)
		require.ErrorContains(t, err, c.want)
	}
}

func TestHostsOfServers(t *testing.T) {
	for dsn, of := range map[string]server{
		"postgres://user:secret@db/app?sslmode=disable": postgres, "user:secret@tcp(db:3307)/app?parseTime=true": mariadb,
		"redis://:secret@db:6380/5": redisDB,
	} {
		host, err := servers{of: dsn}.hostOf(of)
		require.NoError(t, err)
		require.Equal(t, "db", host)
	}
	for _, of := range []server{postgres, redisDurable} {
		_, err := servers{}.hostOf(of)
		require.EqualError(t, err, "the data source name of "+string(of)+" is not a URL with a host")
	}
	_, err := servers{postgres: "postgres://user:secret@%zz/app"}.hostOf(postgres)
	require.NotContains(t, err.Error(), "secret")
}
