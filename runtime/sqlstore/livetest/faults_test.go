package livetest

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// TestPostgresRestarts restarts a server under load, several times and without any preparation.
func TestPostgresRestarts(t *testing.T) {
	postgres := own{script: "./postgres.sh", offset: 15}
	defer postgres.remove()
	needOwn(t, postgres.start())
	dsn := fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", postgres.port(0))
	for _, driver := range []string{"pgx", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			const capacity, restarts = 2000, 3
			s := server{"own postgres", driver, dsn, sqlstore.Postgres}
			store := s.store(t, s.open(t), nil)
			l := startLoad(once("limit", capacity), []runtime.Store{store})
			for i := range int64(restarts) {
				l.await(t, "progress", func() bool { return l.admitted() >= (i+1)*capacity/(restarts+2) })
				require.NoError(t, postgres.run("restart"))
			}
			before := l.perNode[0].answers()
			l.await(t, "service after the last restart", func() bool { return l.perNode[0].answers() > before })
			l.await(t, "the last token", func() bool { return l.perNode[0].denied.Load() > 0 })
			l.finish(t, store)
		})
	}
}

// TestGaleraNodeKilled kills a node of a cluster under load with SIGKILL, and has it rejoin.
func TestGaleraNodeKilled(t *testing.T) {
	if !*long {
		t.Skip("a node takes 20 s to rejoin: run it with -long")
	}
	const capacity, victim = 4000, 3
	nodes := galeraServers(t)
	_, stores := shared(t, nodes, nil)
	l := startLoad(once("limit", capacity), stores)
	l.await(t, "progress", func() bool { return l.admitted() >= capacity/8 })
	require.NoError(t, galera.run("kill", strconv.Itoa(victim)))
	others := l.perNode[0].answers()
	l.await(t, "service by the other nodes", func() bool { return l.perNode[0].answers() > others })
	t.Logf("admitted while node %d was down: %d", victim, l.admitted())
	require.NoError(t, galera.run("rejoin", strconv.Itoa(victim)))
	again := l.perNode[victim-1].answers()
	l.await(t, "service by the node that was killed", func() bool { return l.perNode[victim-1].answers() > again })
	l.await(t, "the last token", func() bool { return l.perNode[victim-1].denied.Load() > 0 })
	l.finish(t, stores[0])
}

// await waits until what was expected has come about.
func (l *load) await(t *testing.T, expected string, come func() bool) {
	t.Helper()
	if !assert.Eventually(t, come, time.Minute, 5*time.Millisecond, expected) {
		l.stop()
		t.FailNow()
	}
}

// finish stops the load and compares what the callers were told with what there was, and with what is
// stored: a call that ended with an error may have taken its token, but no other.
func (l *load) finish(t *testing.T, store runtime.Store) {
	t.Helper()
	l.stop()
	admitted, denied, errors := l.sums()
	b, err := runtime.NewLimiter(store).Limit(l.policy, runtime.Key{}).Peek(t.Context())
	require.NoError(t, err)
	taken := l.policy.Capacity - b.Remaining
	over := max(0, admitted-l.policy.Capacity)
	assert.Zero(t, over, "over-admitted")
	assert.GreaterOrEqual(t, taken, admitted, "tokens stored as taken")
	assert.LessOrEqual(t, taken, admitted+errors, "tokens stored as taken")
	assert.NotZero(t, errors, "there were no faults")
	t.Logf("%d calls: %d admitted of %d, %d denied, %d errors, %d over-admitted; %d stored as taken",
		admitted+denied+errors, admitted, l.policy.Capacity, denied, errors, over, taken)
}
