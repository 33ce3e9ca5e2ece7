package faults

import (
	"database/sql"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// pair is a Postgres primary and its standby, which is promoted by hand; see server.sh.
type pair struct {
	*site
	// both are the two servers, for statements of the test itself.
	both [2]*sql.DB
}

// startPair starts the servers. They are stopped when the test ends.
func startPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{site: &site{own: &own{script: "./server.sh", args: []string{"postgres"}}}}
	t.Cleanup(p.own.remove)
	require.NoError(t, p.own.start())
	require.NoError(t, p.own.run("standby", strconv.Itoa(p.own.port(0))))
	p.pids = []string{filepath.Join(p.own.dir, "pid")}
	for i := range p.both {
		p.both[i] = live.Server{Name: "own postgres", Driver: "pgx", DSN: p.dsn(i), Dialect: dialect.Postgres}.Open(t)
	}
	return p
}

func (p *pair) dsn(i int) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", p.own.port(i))
}

// set changes a setting of a server.
func (p *pair) set(t *testing.T, i int, setting, value string) {
	t.Helper()
	live.Execute(t, p.both[i], fmt.Sprintf("ALTER SYSTEM SET %s = '%s'", setting, value))
	live.Execute(t, p.both[i], "SELECT pg_reload_conf()")
	require.Eventually(t, func() bool {
		var is string
		return p.both[i].QueryRow("SHOW "+setting).Scan(&is) == nil && is == value
	}, 10*time.Second, 10*time.Millisecond)
}

// disconnect makes the standby stop following the primary, after it has received what is committed now.
func (p *pair) disconnect(t *testing.T) {
	t.Helper()
	var committed string
	require.NoError(t, p.both[0].QueryRow("SELECT CAST(pg_current_wal_lsn() AS text)").Scan(&committed))
	require.Eventually(t, func() bool {
		var received bool
		err := p.both[0].QueryRow("SELECT flush_lsn >= CAST(CAST($1 AS text) AS pg_lsn) FROM pg_stat_replication", committed).Scan(&received)
		return err == nil && received
	}, 10*time.Second, 10*time.Millisecond)
	p.set(t, 1, "primary_conninfo", "")
	require.Eventually(t, func() bool {
		var followers int
		return p.both[0].QueryRow("SELECT COUNT(*) FROM pg_stat_replication").Scan(&followers) == nil && followers == 0
	}, 10*time.Second, 10*time.Millisecond)
}

// proxied starts an HAProxy of a kind in front of servers; see haproxy.sh. It is stopped when the test ends.
func proxied(t *testing.T, kind string, ports ...int) (port int) {
	t.Helper()
	o := &own{script: "./haproxy.sh", args: []string{kind}}
	for _, port := range ports {
		o.args = append(o.args, strconv.Itoa(port))
	}
	t.Cleanup(o.remove)
	require.NoError(t, o.start())
	return o.port(0)
}

// routes are ways to the primary, by a driver, among servers at two ports.
var routes = map[string]func(t *testing.T, driver string, first, second int) live.Server{
	"HAProxy": func(t *testing.T, driver string, first, second int) live.Server {
		port := proxied(t, "postgres", first, second)
		return live.Server{Name: "haproxy", Driver: driver, DSN: fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port), Dialect: dialect.Postgres}
	},
	"hosts": func(_ *testing.T, driver string, first, second int) live.Server {
		return live.Server{Name: "hosts", Driver: driver, DSN: fmt.Sprintf("host=127.0.0.1,127.0.0.1 port=%d,%d user=postgres dbname=postgres sslmode=disable "+
			"target_session_attrs=read-write", first, second), Dialect: dialect.Postgres}
	},
}

// A primary is killed and its standby promoted, while callers take tokens. They reach the primary through HAProxy, or
// find it among several hosts.
func TestPostgresFailover(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		route, driver string
		synchronous   bool
		long          bool
	}{
		{"HAProxy", "pgx", true, false}, {"HAProxy", "postgres", false, false},
		{"hosts", "postgres", true, false}, {"hosts", "pgx", false, false},
		{"HAProxy", "postgres", true, true}, {"HAProxy", "pgx", false, true},
		{"hosts", "pgx", true, true}, {"hosts", "postgres", false, true},
	} {
		if row.long && !*long {
			continue
		}
		replication, run := "synchronous", failsOverWithoutLoss
		if !row.synchronous {
			replication, run = "asynchronous", failsOverWithBoundedLoss
		}
		live.AtOnce(t, fmt.Sprintf("%s %s %s", row.route, row.driver, replication), func(t *testing.T) {
			p := startPair(t)
			run(t, p, routes[row.route](t, row.driver, p.own.port(0), p.own.port(1)))
		})
	}
}

// failsOverWithoutLoss requires that no token is lost with synchronous replication.
func failsOverWithoutLoss(t *testing.T, p *pair, s live.Server) {
	const capacity = 3000
	store := s.Store(t, s.Open(t), nil)
	l := live.StartLoad(live.Once("limit", capacity), []runtime.Store{store})
	l.Await(t, "progress", func() bool { return l.Admitted() >= capacity/4 })
	began := time.Now()
	require.NoError(t, p.signal(0, "KILL"))
	require.NoError(t, p.own.run("promote"))
	awaitService(t, l, "the failover", began)
	l.Await(t, "the last token", func() bool { return l.PerNode[0].Denied.Load() > 0 })
	l.Finish(t, store)
}

// failsOverWithBoundedLoss requires that with asynchronous replication only the tokens can be lost, and granted again, that
// were taken after the last commit that the standby has received.
func failsOverWithBoundedLoss(t *testing.T, p *pair, s live.Server) {
	const capacity, unreceived = 3000, 200
	p.set(t, 0, "synchronous_standby_names", "")
	store := s.Store(t, s.Open(t), nil)
	l := live.StartLoad(live.Once("limit", capacity), []runtime.Store{store})
	l.Await(t, "progress", func() bool { return l.Admitted() >= capacity/4 })
	received := l.Admitted()
	p.disconnect(t)
	since := l.Admitted()
	l.Await(t, "takes that the standby does not receive", func() bool { return l.Admitted() >= since+unreceived })
	began := time.Now()
	require.NoError(t, p.signal(0, "KILL"))
	// A take that the standby has not received may be counted late: each caller has one call at a time.
	atMost := l.Admitted() + live.Callers - received
	require.NoError(t, p.own.run("promote"))
	awaitService(t, l, "the failover", began)
	// The primary may have denied calls too.
	denied := l.PerNode[0].Denied.Load()
	l.Await(t, "the last token", func() bool { return l.PerNode[0].Denied.Load() > denied+live.Callers })
	l.Stop()

	admitted, _, errors := l.Sums()
	again := admitted - capacity
	assert.Zero(t, live.Left(t, store, l.Policy))
	assert.GreaterOrEqual(t, again, int64(unreceived)-errors, "the standby has received everything")
	assert.LessOrEqual(t, again, atMost, "tokens granted again")
	t.Logf("%d admitted of %d: %d granted again, of %d that the standby may not have received; %d errors", admitted, capacity, again, atMost, errors)
}

// Patroni promotes the standby by itself when the primary's machine has failed, and makes a standby of the old primary when
// it returns. Then the same happens the other way round.
func TestPatroniFailover(t *testing.T) {
	if !*long {
		t.Skip("Patroni waits 20 s before it promotes: run it with -long")
	}
	for _, row := range []struct{ route, driver string }{{"HAProxy", "pgx"}, {"hosts", "postgres"}} {
		t.Run(row.route+" "+row.driver, func(t *testing.T) {
			patroni := own{script: "./patroni.sh"}
			t.Cleanup(patroni.remove)
			require.NoError(t, patroni.start())
			s := routes[row.route](t, row.driver, patroni.port(1), patroni.port(2))
			store := s.Store(t, s.Open(t), nil)
			// One is used up early, so that every grant after that is one too many, and the other one never.
			few, many := live.StartLoad(live.Once("few", 2000), []runtime.Store{store}), live.StartLoad(live.Once("many", 1_000_000), []runtime.Store{store})
			few.Await(t, "progress", func() bool { return few.Admitted() >= 500 })
			var killed []string
			for range 2 {
				out := live.Must(exec.Command(patroni.script, "primary", patroni.dir).Output())(t)
				primary := strings.TrimSpace(string(out))
				killed = append(killed, primary)
				// Member 3 - n is the standby of member n.
				n := live.Must(strconv.Atoi(primary))(t)
				standby := live.Server{Name: "standby", Driver: "pgx", DSN: fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", patroni.port(3-n)), Dialect: dialect.Postgres}.Open(t)
				began := time.Now()
				require.NoError(t, patroni.run("kill", primary))
				many.Await(t, "promotion", func() bool {
					var follows bool
					return standby.QueryRow("SELECT pg_is_in_recovery()").Scan(&follows) == nil && !follows
				})
				promoted := time.Now()
				t.Logf("promoted %.1f s after the primary was killed", promoted.Sub(began).Seconds())
				awaitService(t, many, "the promotion", promoted)
				require.NoError(t, patroni.run("rejoin", primary))
				awaitService(t, many, "it returned", time.Now())
			}
			assert.ElementsMatch(t, []string{"1", "2"}, killed)
			few.Await(t, "the last token", func() bool { return few.PerNode[0].Denied.Load() > 0 })
			few.Finish(t, store)
			many.Finish(t, store)
		})
	}
}

// awaitService waits until calls return decisions again.
func awaitService(t *testing.T, l *live.Load, after string, since time.Time) {
	t.Helper()
	answers := func() (sum int64) {
		for i := range l.PerNode {
			sum += l.PerNode[i].Answers()
		}
		return sum
	}
	before := answers()
	l.Await(t, "service after "+after, func() bool { return answers() > before+live.Callers })
	t.Logf("service %.1f s after %s", time.Since(since).Seconds(), after)
}
