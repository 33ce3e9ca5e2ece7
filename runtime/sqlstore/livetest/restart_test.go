package livetest

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
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
			s := server{"own postgres", driver, dsn, dialect.Postgres}
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

// A node is killed with SIGKILL under load, and rejoins.
func TestGaleraNodeKilledLosesNoTokens(t *testing.T) {
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

// await waits for a condition, and ends the test if it does not come.
func (l *load) await(t *testing.T, expected string, come func() bool) {
	t.Helper()
	if !assert.Eventually(t, come, time.Minute, 5*time.Millisecond, expected) {
		l.stop()
		t.FailNow()
	}
}

// finish is compare for a load with faults.
func (l *load) finish(t *testing.T, store runtime.Store) {
	t.Helper()
	l.compare(t, store)
	_, _, errors := l.sums()
	assert.NotZero(t, errors, "there were no faults")
}

// compare stops the load and compares the decisions with the stored row. A call that returned an error may have taken
// its token.
func (l *load) compare(t *testing.T, store runtime.Store) {
	t.Helper()
	l.stop()
	admitted, denied, errors := l.sums()
	b := must(limiter.New(store).Limit(l.policy, runtime.Key{}).Peek(t.Context()))(t)
	taken := l.policy.Capacity - b.Remaining
	over := max(0, admitted-l.policy.Capacity)
	assert.Zero(t, over, "over-admitted")
	assert.GreaterOrEqual(t, taken, admitted, "tokens stored as taken")
	assert.LessOrEqual(t, taken, admitted+errors, "tokens stored as taken")
	t.Logf("%d calls: %d admitted of %d, %d denied, %d errors, %d over-admitted; %d stored as taken",
		admitted+denied+errors, admitted, l.policy.Capacity, denied, errors, over, taken)
}

// load is callers that take from one key of a limit, one token after the other, until they are stopped.
type load struct {
	policy *runtime.Policy
	// perNode counts the results of the callers of each node.
	perNode []counts
	stopped chan struct{}
	all     sync.WaitGroup
}

// counts counts the results of calls.
type counts struct {
	admitted, denied, errors atomic.Int64

	mu sync.Mutex
	// slowest is the longest duration of a call.
	slowest time.Duration
}

func (n *counts) took(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slowest = max(n.slowest, d)
}

// answers returns how many calls returned a decision.
func (n *counts) answers() int64 { return n.admitted.Load() + n.denied.Load() }

// callers is how many take at once.
const callers = 16

// startLoad starts the callers, spread over the nodes.
func startLoad(p *runtime.Policy, nodes []runtime.Store) *load {
	l := &load{policy: p, perNode: make([]counts, len(nodes)), stopped: make(chan struct{})}
	for i := range callers {
		n := i % len(nodes)
		limit := limiter.New(nodes[n]).Limit(p, runtime.Key{})
		l.all.Go(func() { l.call(limit, &l.perNode[n]) })
	}
	return l
}

// stop stops the callers, and waits for them.
func (l *load) stop() {
	close(l.stopped)
	l.all.Wait()
}

// call takes until the load is stopped. A call that takes longer than a few seconds is an error.
func (l *load) call(limit limiter.Limit, count *counts) {
	const patience, pause = 5 * time.Second, 10 * time.Millisecond
	for !l.isStopped() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		began := time.Now()
		d, err := limit.Allow(ctx)
		count.took(time.Since(began))
		cancel()
		switch {
		case err != nil:
			count.errors.Add(1)
			<-time.After(pause) // without it, a server that is down would be flooded with connections
		case d.Allowed:
			count.admitted.Add(1)
		default:
			count.denied.Add(1)
		}
	}
}

func (l *load) isStopped() bool {
	select {
	case <-l.stopped:
		return true
	default:
		return false
	}
}

// sums returns the results of all nodes.
func (l *load) sums() (admitted, denied, errors int64) {
	for i := range l.perNode {
		n := &l.perNode[i]
		admitted, denied, errors = admitted+n.admitted.Load(), denied+n.denied.Load(), errors+n.errors.Load()
	}
	return admitted, denied, errors
}

// admitted returns how many calls were allowed.
func (l *load) admitted() int64 {
	admitted, _, _ := l.sums()
	return admitted
}
