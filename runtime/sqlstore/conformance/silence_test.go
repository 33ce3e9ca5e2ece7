package conformance

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
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// impatient returns the server with a setting that ends a session after a second, if it is silent while it holds locks.
// Without it, a lost client keeps its rows locked until the server notices.
func impatient(t *testing.T, s live.Server) live.Server {
	t.Helper()
	if s.Driver == "mysql" {
		c := live.Must(mysql.ParseDSN(s.DSN))(t)
		if c.Params == nil {
			c.Params = map[string]string{}
		}
		c.Params["wait_timeout"] = "1"
		s.DSN = c.FormatDSN()
		return s
	}
	u := live.Must(url.Parse(s.DSN))(t)
	q := u.Query()
	q.Set("idle_in_transaction_session_timeout", "1000")
	u.RawQuery = q.Encode()
	s.DSN = u.String()
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
	onEach(t, func(t *testing.T, s live.Server) {
		for _, batch := range []int{0, 1} {
			live.AtOnce(t, fmt.Sprintf("batch %d", batch), func(t *testing.T) { loadInSilence(t, impatient(t, s), batch) })
		}
	})
}

func loadInSilence(t *testing.T, s live.Server, batch int) {
	const capacity, rounds = 1_000_000, 3
	table := live.NewTable()
	direct := s.StoreIn(t, s.Open(t), table, nil)
	behind, proxy := through(t, s, 0)
	db := live.Must(sql.Open(behind.Driver, behind.DSN))(t)
	defer db.Close()
	store := live.Must(agree.NewStore(db, s.Dialect, sqlstore.Options{Table: table, Batch: batch}))(t)

	p := live.Once("limit", capacity)
	p.Timeout = time.Second
	late := watchLateness()
	l := live.StartLoad(p, []runtime.Store{store})
	count := &l.PerNode[0]
	for range rounds {
		before := count.Answers()
		l.Await(t, "progress", func() bool { return count.Answers() > before+100 })
		patience := 10 * time.Second
		if batch == 1 {
			// All sessions may have been in a transaction that waited for the row: the server gives it to one silent session
			// after the other, and each keeps it for a second.
			patience += time.Duration(db.Stats().OpenConnections) * time.Second
		}
		proxy.silence()
		silenced, answered := time.Now(), count.Answers()
		// Calls that were in flight may return, at most one of each caller.
		l.Await(t, "service by new connections", func() bool { return count.Answers() > answered+live.Callers })
		resumed := time.Since(silenced)
		t.Logf("service resumed after %v", resumed.Round(10*time.Millisecond))
		assert.Less(t, resumed, patience)
	}
	l.Finish(t, direct)
	lag := late.stop()
	slowest := l.Slowest()
	t.Logf("the slowest call took %v, timers were up to %v late", slowest, lag)
	assert.LessOrEqual(t, slowest, p.Timeout+100*time.Millisecond+lag)
	start := time.Now()
	err := store.Close()
	t.Logf("Close took %v: %v", time.Since(start).Round(time.Millisecond), err)
	assert.LessOrEqual(t, time.Since(start), sqlstore.Timeout+lag)
}

// The timeout is six round trips, fewer than are needed to connect and prepare, and two more than lib/pq needs for a call.
func TestShortTimeoutIsEnoughFarAway(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s live.Server) {
		table := live.NewTable()
		s.StoreIn(t, s.Open(t), table, nil)
		far, proxy := through(t, s, 0)
		// So long that the lag of a busy machine is small beside it.
		proxy.delay = 40 * time.Millisecond
		db := live.Must(sql.Open(far.Driver, far.DSN))(t)
		defer db.Close()
		store := s.StoreWith(t, db, sqlstore.Options{Table: table})
		p := live.Once("limit", 1000)
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
	onEach(t, func(t *testing.T, s live.Server) {
		table, p := live.NewTable(), live.Once("limit", 1000)
		require.NoError(t, s.StoreIn(t, s.Open(t), table, nil).Migrate(t.Context(), p))
		far, proxy := through(t, s, 0)
		proxy.delay = 225 * time.Millisecond
		db := live.Must(sql.Open(far.Driver, far.DSN))(t)
		defer db.Close()
		store := s.StoreWith(t, db, sqlstore.Options{Table: table})
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
	// the other side, as if packets were dropped. They are closed after forgotten, as by a server that sends keepalives, or
	// when the test has ended.
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
func lateClock(t *testing.T, s live.Server, d direction) (live.Server, *proxy) {
	if s.Driver == "pgx" {
		// In its other modes the packet with the text is not the one that executes it.
		s = s.With("default_query_exec_mode=exec")
	}
	text, _, _ := strings.Cut(strings.TrimSpace(s.Dialect.Now), "{schema.}")
	now := []byte(text)
	s, p := through(t, s, 0)
	p.late, p.now = d, now
	return s, p
}

// silence stops forwarding on open connections; new connections are forwarded.
func (p *proxy) silence() { p.silent.Store(p.accepted.Load()) }

// through returns the server behind a proxy, which is closed when the test ends.
func through(t *testing.T, s live.Server, odds int) (live.Server, *proxy) {
	t.Helper()
	listener := live.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	p := &proxy{listener: listener, odds: odds, forgotten: time.Hour, ended: make(chan struct{})}
	s.DSN, p.target = redirect(t, s, listener.Addr().String())
	t.Cleanup(func() {
		listener.Close()
		close(p.ended)
	})
	go p.serve()
	return s, p
}

// counted returns a store with one connection, in a table of its own, and the proxy that counts its round trips.
func counted(t *testing.T, s live.Server) (*sqlstore.Store, *proxy) {
	t.Helper()
	through, p := through(t, s, 0)
	db, table := through.Open(t), live.NewTable()
	db.SetMaxOpenConns(1)
	s.StoreIn(t, s.Open(t), table, nil) // which drops it
	store := live.Must(agree.NewCreatingStore(db, s.Dialect, sqlstore.Options{Table: table}))(t)
	t.Cleanup(func() { store.Close() })
	return store, p
}

// redirect returns the server's data source name with another address, and its own address.
func redirect(t *testing.T, s live.Server, address string) (dsn, oldAddress string) {
	t.Helper()
	if s.Driver == "mysql" {
		c := live.Must(mysql.ParseDSN(s.DSN))(t)
		oldAddress, c.Addr = c.Addr, address
		return c.FormatDSN(), oldAddress
	}
	u := live.Must(url.Parse(s.DSN))(t)
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

// pass forwards from one connection to the other, until either is closed or it cuts them. measured counts the packets of the
// measurement of the clock that is late.
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
