package faults

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// The server restarts under load.
func TestPostgresRestartLosesNoTokens(t *testing.T) {
	t.Parallel()
	postgres := own{script: "./postgres.sh"}
	defer postgres.remove()
	needOwn(t, postgres.start())
	dsn := fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", postgres.port(0))
	for _, driver := range []string{"pgx", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			const capacity, restarts = 2000, 3
			s := live.Server{Name: "own postgres", Driver: driver, DSN: dsn, Dialect: dialect.Postgres}
			store := s.Store(t, s.Open(t), nil)
			l := live.StartLoad(live.Once("limit", capacity), []runtime.Store{store})
			for i := range int64(restarts) {
				l.Await(t, "progress", func() bool { return l.Admitted() >= (i+1)*capacity/(restarts+2) })
				require.NoError(t, postgres.run("restart"))
			}
			before := l.PerNode[0].Answers()
			l.Await(t, "service after the last restart", func() bool { return l.PerNode[0].Answers() > before })
			l.Await(t, "the last token", func() bool { return l.PerNode[0].Denied.Load() > 0 })
			l.Finish(t, store)
		})
	}
}

// A node is killed with SIGKILL under load, and rejoins.
func TestGaleraNodeKilledLosesNoTokens(t *testing.T) {
	if !*long {
		t.Skip("a node takes 20 s to rejoin: run it with -long")
	}
	const capacity, victim = 4000, 3
	nodes := galeraServers(t)
	_, stores := live.Shared(t, nodes, nil)
	l := live.StartLoad(live.Once("limit", capacity), stores)
	l.Await(t, "progress", func() bool { return l.Admitted() >= capacity/8 })
	require.NoError(t, galera.run("kill", strconv.Itoa(victim)))
	others := l.PerNode[0].Answers()
	l.Await(t, "service by the other nodes", func() bool { return l.PerNode[0].Answers() > others })
	t.Logf("admitted while node %d was down: %d", victim, l.Admitted())
	require.NoError(t, galera.run("rejoin", strconv.Itoa(victim)))
	again := l.PerNode[victim-1].Answers()
	l.Await(t, "service by the node that was killed", func() bool { return l.PerNode[victim-1].Answers() > again })
	l.Await(t, "the last token", func() bool { return l.PerNode[victim-1].Denied.Load() > 0 })
	l.Finish(t, stores[0])
}
