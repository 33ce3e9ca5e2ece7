package faults

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// pooler is a PgBouncer in front of the Postgres server; see pgbouncer.sh.
type pooler struct{ own }

// startPooler starts a release of PgBouncer with settings. It is stopped when the test ends.
func startPooler(t *testing.T, release string, settings ...string) *pooler {
	t.Helper()
	u := live.Must(url.Parse(postgresDSN))(t)
	target := u.Host + u.Path
	if u.Port() == "" {
		target = u.Host + ":5432" + u.Path
	}
	p := &pooler{own{script: "./pgbouncer.sh", args: append([]string{target, release}, settings...)}}
	t.Cleanup(p.remove)
	needOwn(t, p.start())
	return p
}

// server returns a database of the pooler with a driver and parameters of its connections.
func (p *pooler) server(driver, database string, parameters ...string) live.Server {
	s := live.Server{Name: "pgbouncer", Driver: driver, DSN: fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", p.port(0), database), Dialect: dialect.Postgres}
	for _, parameter := range parameters {
		s = s.With(parameter)
	}
	return s
}

// way is a driver and parameters of its connections.
type way struct{ driver, parameter string }

func (w way) String() string {
	if w.parameter == "" {
		return w.driver
	}
	return w.driver + " " + w.parameter
}

// unnamed are the ways without named prepared statements, for which a pooler may use another session for each
// transaction.
var unnamed = []way{
	{"pgx", "default_query_exec_mode=exec"}, {"pgx", "default_query_exec_mode=simple_protocol"},
	{"pgx", "default_query_exec_mode=cache_describe"},
	{"postgres", ""}, {"postgres", "binary_parameters=yes"},
}

// named is the way with named prepared statements.
var named = way{"pgx", ""}

const ignoreDigits = "ignore_startup_parameters=extra_float_digits"

// Through the installed PgBouncer, which does not track prepared statements before version 1.21, in each pool mode:
// either exactly the capacity is granted, or Ready returns an error that says what to change.
func TestPgBouncerIsExactOrExplained(t *testing.T) {
	p := startPooler(t, "installed", ignoreDigits)
	for _, w := range unnamed {
		for _, mode := range []string{"transaction", "single", "session"} {
			t.Run(mode+" "+w.String(), func(t *testing.T) { exactBehind(t, direct, p.server(w.driver, mode, w.parameter)) })
		}
	}
	t.Run("session "+named.String(), func(t *testing.T) { exactBehind(t, direct, p.server(named.driver, "session")) })
	refused := func(mode string, w way, connections int, says ...string) {
		t.Run(fmt.Sprintf("%s %s by %d", mode, w, connections), func(t *testing.T) {
			db, table := direct.Open(t), live.NewTable()
			direct.StoreIn(t, db, table, nil)
			for range 3 {
				refusesBehind(t, p.server(w.driver, mode, w.parameter), table, connections, says...)
			}
		})
	}
	for _, connections := range []int{0, 1, 2} {
		refused("transaction", named, connections, "default_query_exec_mode=exec", "max_prepared_statements")
		refused("single", named, connections, "default_query_exec_mode=exec", "max_prepared_statements")
	}
	for _, w := range append(unnamed, named) {
		refused("statement", w, 0, "transaction or session")
	}
}

// Ready says what to set in a PgBouncer that refuses a parameter, does not reach its server, or has no free connection.
func TestPgBouncerSettingsAreExplained(t *testing.T) {
	p := startPooler(t, "installed", "query_wait_timeout=1", "server_round_robin=1")
	db, table := direct.Open(t), live.NewTable()
	direct.StoreIn(t, db, table, nil)
	for _, w := range unnamed[len(unnamed)-2:] {
		live.FailsWith(t, p.server(w.driver, "transaction", w.parameter, "extra_float_digits=3").Visit(t, table).Ready(t.Context()), "add it to PgBouncer's ignore_startup_parameters")
	}
	exec := unnamed[0].parameter
	exactBehind(t, direct, p.server("pgx", "transaction", exec))
	refusesBehind(t, p.server("pgx", "transaction"), table, 0, "default_query_exec_mode=exec")

	single := p.server("pgx", "single", exec)
	tx := live.Must(single.Open(t).Begin())(t)
	defer tx.Rollback()
	live.Execute(t, tx, "SELECT 1")
	live.FailsWith(t, single.Visit(t, table).Ready(t.Context()), "the pooler had no connection to the server in time")

	live.FailsWith(t, p.server("pgx", "nowhere", exec).Visit(t, table).Ready(t.Context()), "check that it reaches the server")
	live.FailsWith(t, p.server("pgx", "no_such", exec).Visit(t, table).Ready(t.Context()),
		"PgBouncer's configuration lacks the database or its user")
}

// A PgBouncer that tracks prepared statements works with every driver in every mode.
func TestPgBouncerTrackingIsExact(t *testing.T) {
	if !*long {
		t.Skip("it gets a newer PgBouncer from Debian: run it with -long")
	}
	p := startPooler(t, "trixie", ignoreDigits, "max_prepared_statements=100")
	for _, w := range append(unnamed, named) {
		for _, mode := range []string{"transaction", "single", "session"} {
			t.Run(mode+" "+w.String(), func(t *testing.T) { exactBehind(t, direct, p.server(w.driver, mode, w.parameter)) })
		}
	}
}

// Slots are held by processes that are killed and frozen, behind a pooler that ends silent transactions as the server would.
func TestSlotsBehindPgBouncer(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"transaction", "session"} {
		live.AtOnce(t, mode, func(t *testing.T) {
			p := startPooler(t, "installed", ignoreDigits+",idle_in_transaction_session_timeout", "idle_transaction_timeout=1")
			conforms(t, []live.Server{p.server("postgres", mode)}, "TestProcessesNeverHoldMoreThanTheSlots")
		})
	}
	live.AtOnce(t, "gone", func(t *testing.T) {
		// PgBouncer 1.18 ends itself when a client leaves while it cancels a statement: "bad client state: 0".
		p := startPooler(t, "trixie", ignoreDigits)
		conforms(t, []live.Server{p.server("postgres", "transaction")}, "TestNothingIsHeldForCallersThatHaveGone")
	})
}

// refusesBehind requires that Ready of a store with at most this number of connections returns an error that contains
// says, in bounded time.
func refusesBehind(t *testing.T, s live.Server, table string, connections int, says ...string) {
	t.Helper()
	db := live.Must(sql.Open(s.Driver, s.DSN))(t)
	defer db.Close()
	db.SetMaxOpenConns(connections)
	store := s.StoreWith(t, db, sqlstore.Options{Table: table})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := store.Ready(ctx)
	require.Error(t, err)
	for _, says := range says {
		assert.ErrorContains(t, err, says)
	}
	assert.NoError(t, ctx.Err())
	t.Log(err)
}

// exactBehind takes tokens of one key of two limits by several programs, while other clients run their own statements.
// Exactly the capacity is granted, and stored as taken. The direct server is the one behind s.
func exactBehind(t *testing.T, direct, s live.Server) {
	const programs, callersEach, capacity = 3, 8, 400
	// Without the pooler, so that the test reads the rows themselves.
	table := live.NewTable()
	truth := direct.StoreIn(t, direct.Open(t), table, nil)
	bucket, sliding := live.Once("bucket", capacity), live.Once("sliding", capacity)
	sliding.Kind, sliding.Rate = runtime.SlidingWindow, capacity

	var admitted, failed atomic.Int64
	var all sync.WaitGroup
	done := make(chan struct{})
	for range programs {
		store := behind(t, s, table)
		require.NoError(t, store.Ready(t.Context()))
		for i := range callersEach {
			p := []*runtime.Policy{bucket, sliding}[i%2]
			all.Go(func() {
				limit := limiter.New(store).Limit(p, runtime.Key{})
				for denied := false; !denied; {
					d, err := limit.Allow(t.Context())
					if err != nil && assert.Less(t, failed.Add(1), int64(10), "%v", err) {
						continue
					}
					if denied = !d.Allowed; !denied {
						admitted.Add(1)
					}
				}
				_, err := limit.Peek(t.Context())
				assert.NoError(t, err)
			})
		}
	}
	others := others(t, s, table, bucket, done)
	all.Wait()
	close(done)
	others.Wait()
	for _, p := range []*runtime.Policy{bucket, sliding} {
		assert.Zero(t, live.Left(t, truth, p), p.Name)
	}
	assert.EqualValues(t, 2*capacity, admitted.Load(), "admitted")
	assert.Zero(t, failed.Load(), "errors")
	t.Logf("%d admitted of %d that fit, %d errors", admitted.Load(), 2*capacity, failed.Load())
}

// behind returns a store with few connections, like that of another program.
func behind(t *testing.T, s live.Server, table string) *sqlstore.Store {
	t.Helper()
	db := live.Must(sql.Open(s.Driver, s.DSN))(t)
	db.SetMaxOpenConns(2)
	if strings.Contains(s.DSN, "/session") {
		db.SetMaxOpenConns(1) // each needs a session of the pool
	}
	store := live.Must(agree.NewStore(db, s.Dialect, sqlstore.Options{Table: table, Batch: 3}))(t)
	t.Cleanup(func() {
		store.Close()
		db.Close()
	})
	return store
}

// others runs clients of the pooler that are not stores, until done is closed. Their statements have the same
// parameters as those that write and delete rows, and lib/pq sends them without a transaction. A pooler may mix up the
// prepared statements of its clients, and must not run one of a store.
func others(t *testing.T, s live.Server, table string, p *runtime.Policy, done chan struct{}) *sync.WaitGroup {
	var all sync.WaitGroup
	u := live.Must(url.Parse(s.DSN))(t)
	u.RawQuery = "sslmode=disable"
	for range 2 {
		all.Go(func() {
			db := live.Must(sql.Open("postgres", u.String()))(t)
			defer db.Close()
			db.SetMaxOpenConns(1)
			for {
				select {
				case <-done:
					return
				default:
				}
				// It may fail if the pooler runs the other statement, which has fewer parameters.
				db.Exec(`SELECT CAST($1 AS text), CAST($2 AS text), CAST($3 AS integer), CAST($4 AS double precision),
					CAST($5 AS bigint), CAST($6 AS double precision), CAST($7 AS integer)`,
					p.Name, "", 0, float64(p.Capacity), time.Now().UnixNano(), 0.0, 0)
				db.Exec("SELECT CAST($1 AS text)", table)
			}
		})
	}
	return &all
}
