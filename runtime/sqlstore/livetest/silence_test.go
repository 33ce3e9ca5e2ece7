package livetest

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
)

// impatient returns the server with a setting that ends a session after a second, if it is silent while it holds locks.
// Without it, a lost client keeps its rows locked until the server notices.
func (s server) impatient(t *testing.T) server {
	t.Helper()
	if s.driver == "mysql" {
		c := must(mysql.ParseDSN(s.dsn))(t)
		if c.Params == nil {
			c.Params = map[string]string{}
		}
		c.Params["wait_timeout"] = "1"
		s.dsn = c.FormatDSN()
		return s
	}
	u := must(url.Parse(s.dsn))(t)
	q := u.Query()
	q.Set("idle_in_transaction_session_timeout", "1000")
	u.RawQuery = q.Encode()
	s.dsn = u.String()
	return s
}

// lateness is how late the timers of this machine fire at most, because it may be busy.
type lateness struct {
	stopped chan struct{}
	most    chan time.Duration
}

func watchLateness() *lateness {
	l := &lateness{make(chan struct{}), make(chan time.Duration)}
	go func() {
		const tick = 5 * time.Millisecond
		most := time.Duration(0)
		for {
			start := time.Now()
			select {
			case <-time.After(tick):
				most = max(most, time.Since(start)-tick)
			case <-l.stopped:
				l.most <- most
				return
			}
		}
	}()
	return l
}

func (l *lateness) stop() time.Duration {
	close(l.stopped)
	return <-l.most
}

// The connections of a store under load fall silent again and again, as if packets were dropped. No call waits longer
// than its limit's timeout, new connections are used soon, tokens reported as taken are stored, and Close returns in
// time.
func TestSilentConnectionsDoNotBlockCalls(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s server) {
		for _, batch := range []int{0, 1} {
			atOnce(t, fmt.Sprintf("batch %d", batch), func(t *testing.T) { loadInSilence(t, s.impatient(t), batch) })
		}
	})
}

func loadInSilence(t *testing.T, s server, batch int) {
	const capacity, rounds = 1_000_000, 3
	table := newTable()
	direct := s.storeIn(t, s.open(t), table, nil)
	behind, proxy := s.through(t, 0)
	db := must(sql.Open(behind.driver, behind.dsn))(t)
	defer db.Close()
	store := must(agree.NewStore(db, s.dialect, sqlstore.Options{Table: table, Batch: batch}))(t)

	p := once("limit", capacity)
	p.Timeout = time.Second
	late := watchLateness()
	l := startLoad(p, []runtime.Store{store})
	count := &l.perNode[0]
	for range rounds {
		before := count.answers()
		l.await(t, "progress", func() bool { return count.answers() > before+100 })
		patience := 10 * time.Second
		if batch == 1 {
			// All sessions may have been in a transaction that waited for the row: the server gives it to one silent session
			// after the other, and each keeps it for a second.
			patience += time.Duration(db.Stats().OpenConnections) * time.Second
		}
		proxy.silence()
		silenced, answered := time.Now(), count.answers()
		// Calls that were in flight may return, at most one of each caller.
		l.await(t, "service by new connections", func() bool { return count.answers() > answered+callers })
		resumed := time.Since(silenced)
		t.Logf("service resumed after %v", resumed.Round(10*time.Millisecond))
		assert.Less(t, resumed, patience)
	}
	l.finish(t, direct)
	lag := late.stop()
	t.Logf("the slowest call took %v, timers were up to %v late", count.slowest, lag)
	assert.LessOrEqual(t, count.slowest, p.Timeout+100*time.Millisecond+lag)
	start := time.Now()
	err := store.Close()
	t.Logf("Close took %v: %v", time.Since(start).Round(time.Millisecond), err)
	assert.LessOrEqual(t, time.Since(start), sqlstore.Timeout+lag)
}

// The timeout is six round trips, fewer than are needed to connect and prepare, and two more than lib/pq needs for a call.
func TestShortTimeoutIsEnoughFarAway(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s server) {
		table := newTable()
		s.storeIn(t, s.open(t), table, nil)
		far, proxy := s.through(t, 0)
		// So long that the lag of a busy machine is small beside it.
		proxy.delay = 40 * time.Millisecond
		db := must(sql.Open(far.driver, far.dsn))(t)
		defer db.Close()
		store := s.storeWith(t, db, sqlstore.Options{Table: table})
		p := once("limit", 1000)
		p.Timeout = 12 * proxy.delay
		limit := limiter.New(store).Limit(p, runtime.Key{})
		start, calls := time.Now(), 1
		for limit.Require(context.Background()) != nil {
			calls++
			require.Less(t, calls, 100, "after %v", time.Since(start))
		}
		t.Logf("call %d was the first that was answered, after %v", calls, time.Since(start).Round(time.Millisecond))
	})
}

// A round trip takes so long that no preparation ends within the time after which a call begins another one.
func TestStoreBecomesReadyOverALongLine(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s server) {
		table, p := newTable(), once("limit", 1000)
		require.NoError(t, s.storeIn(t, s.open(t), table, nil).Migrate(t.Context(), p))
		far, proxy := s.through(t, 0)
		proxy.delay = 225 * time.Millisecond
		db := must(sql.Open(far.driver, far.dsn))(t)
		defer db.Close()
		store := s.storeWith(t, db, sqlstore.Options{Table: table})
		limit := limiter.New(store).Limit(p, runtime.Key{})
		start, calls := time.Now(), 0
		for {
			calls++
			err := limit.Require(t.Context())
			if err == nil {
				break
			}
			t.Log(err)
			require.Less(t, time.Since(start), 2*sqlstore.Timeout)
		}
		t.Logf("call %d was the first that was answered, after %v and %d requests", calls, time.Since(start).Round(time.Millisecond), proxy.requests.Load())
		ctx, cancel := context.WithTimeout(t.Context(), 3*sqlstore.Timeout)
		defer cancel()
		require.NoError(t, store.Ready(ctx, p))
	})
}

// proxy forwards connections to a server, and cuts them at random: before it forwards a request or, worse, an answer.
type proxy struct {
	listener net.Listener
	target   string
	// One read in odds ends the connection instead of being forwarded; 0 is none.
	odds int
	cuts atomic.Int64
	// requests counts what clients have sent, one for each round trip, and overrides those about a table of overrides.
	requests, overrides atomic.Int64
	// refused counts the statements that failed on Postgres, each of which is in its log.
	refused atomic.Int64
	// delay is the latency that each read gets.
	delay time.Duration
	// accepted counts the connections. The first ones, as many as silent, forward nothing any more, not even the end of
	// the other side, as if packets were dropped. They are closed after forgotten, as by a server that sends keepalives, or when the
	// test has ended.
	accepted, silent atomic.Int64
	forgotten        time.Duration
	ended            chan struct{}
	// late is the direction in which the first measurement of the clock on each connection is late, by measuredLate. now is the
	// statement that it sends.
	late direction
	now  []byte
}

// direction is where packets of a query go.
type direction int

const (
	request direction = 1 + iota
	answer
)

func (d direction) String() string { return [...]string{request: "request", answer: "answer"}[d] }

// measuredLate is how late a packet of a measurement is.
const measuredLate = 2 * time.Second

// lateClock returns the server with a proxy that delays the first measurement on each connection in one direction.
func (s server) lateClock(t *testing.T, d direction) (server, *proxy) {
	if s.driver == "pgx" {
		// In its other modes the packet with the text is not the one that executes it.
		s = s.with("default_query_exec_mode=exec")
	}
	now := []byte(strings.TrimSpace(s.dialect.Now))
	s, p := s.through(t, 0)
	p.late, p.now = d, now
	return s, p
}

// silence stops forwarding on open connections; new connections are forwarded.
func (p *proxy) silence() { p.silent.Store(p.accepted.Load()) }

// through returns the server behind a proxy, which is closed when the test ends.
func (s server) through(t *testing.T, odds int) (server, *proxy) {
	t.Helper()
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	p := &proxy{listener: listener, odds: odds, forgotten: time.Hour, ended: make(chan struct{})}
	s.dsn, p.target = redirect(t, s, listener.Addr().String())
	t.Cleanup(func() {
		listener.Close()
		close(p.ended)
	})
	go p.serve()
	return s, p
}

// counted returns a store with one connection, in a table of its own, and the proxy that counts its round trips.
func (s server) counted(t *testing.T) (*sqlstore.Store, *proxy) {
	t.Helper()
	through, p := s.through(t, 0)
	db, table := through.open(t), newTable()
	db.SetMaxOpenConns(1)
	s.storeIn(t, s.open(t), table, nil) // which drops it
	store := must(agree.NewCreatingStore(db, s.dialect, sqlstore.Options{Table: table}))(t)
	t.Cleanup(func() { store.Close() })
	return store, p
}

// redirect returns the server's data source name with another address, and its own address.
func redirect(t *testing.T, s server, address string) (dsn, oldAddress string) {
	t.Helper()
	if s.driver == "mysql" {
		c := must(mysql.ParseDSN(s.dsn))(t)
		oldAddress, c.Addr = c.Addr, address
		return c.FormatDSN(), oldAddress
	}
	u := must(url.Parse(s.dsn))(t)
	oldAddress, u.Host = u.Host, address
	if !strings.Contains(oldAddress, ":") {
		oldAddress += ":5432"
	}
	return u.String(), oldAddress
}

// serve accepts clients until the listener is closed.
func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.connect(client, p.accepted.Add(1))
	}
}

// connect forwards the connection of a client. number counts connections from 1.
func (p *proxy) connect(client net.Conn, number int64) {
	upstream, err := net.Dial("tcp", p.target)
	if err != nil {
		client.Close()
		return
	}
	measured := new(atomic.Int64)
	go p.pass(upstream, client, number, measured)
	p.pass(client, upstream, number, measured)
}

// pass forwards from one connection to the other, until either is closed or it cuts them. measured counts the packets of the measurement
// of the clock that is late.
func (p *proxy) pass(to, from net.Conn, number int64, measured *atomic.Int64) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		if to.RemoteAddr().String() == p.target {
			p.requests.Add(1)
			if bytes.Contains(buffer[:n], []byte("_overrides")) {
				p.overrides.Add(1)
			}
			if p.late > 0 && bytes.Contains(buffer[:n], p.now) && measured.CompareAndSwap(0, 1) && p.late == request {
				<-time.After(measuredLate)
			}
		} else if p.late == answer && measured.CompareAndSwap(1, 2) {
			<-time.After(measuredLate)
		} else if bytes.Contains(buffer[:n], []byte("\x00VERROR\x00")) {
			p.refused.Add(1)
		}
		if number <= p.silent.Load() {
			select {
			case <-p.ended:
			case <-time.After(p.forgotten):
			}
			return
		}
		if p.delay > 0 {
			<-time.After(p.delay)
		}
		if n > 0 && p.odds > 0 && rand.N(p.odds) == 0 {
			p.cuts.Add(1)
			return
		}
		if _, failed := to.Write(buffer[:n]); failed != nil || err != nil {
			return
		}
	}
}
