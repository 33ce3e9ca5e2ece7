package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// tally is what is counted of a contender, not timed: it is the same on every machine.
type tally struct {
	// Trips is round trips to the server for a decision, or statements of SQLite; -1 if there is neither.
	Trips float64 `json:"trips"`
	// Allocations is how many objects a decision allocates.
	Allocations float64 `json:"allocations"`
	// BytesPerKey is what a key that was asked for once leaves in the memory of the process; -1 if that
	// was not measured.
	BytesPerKey float64 `json:"bytesPerKey"`
}

// Before count counts, unhurried asks make connections, prepared statements and measured clocks. It counts
// those of counted asks, or of as many as are answered in a second, if they are more than the first.
const (
	unhurried = 100
	counted   = 1000
)

// count counts the round trips and allocations of every contender, by one caller for one key.
func (r *report) count(ctx context.Context, s *site, _ plan) error {
	say("round trips and allocations")
	r.Tallies = map[string]*tally{}
	for _, c := range contenders {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		t, err := countOne(ctx, s, c)
		if err != nil {
			r.skip(c.name, err)
			continue
		}
		r.Tallies[c.name] = t
	}
	return nil
}

// countOne counts what one decision of a contender takes.
func countOne(ctx context.Context, s *site, c contender) (*tally, error) {
	small := &site{servers: s.servers, dir: s.dir, rows: 1, conns: 1}
	trips, stop, err := small.watch(c)
	if err != nil {
		return nil, err
	}
	defer stop.Close()
	o, err := c.open(ctx, small, plenty)
	if err != nil {
		return nil, err
	}
	defer o.close()
	if _, err := askTimes(ctx, o.ask, unhurried); err != nil {
		return nil, err
	}
	before, objects := trips(), allocated()
	asked, err := askTimes(ctx, o.ask, counted)
	if err != nil {
		return nil, err
	}
	t := &tally{Trips: -1, BytesPerKey: -1, Allocations: float64(allocated()-objects) / asked}
	if c.kind != memory {
		t.Trips = float64(trips()-before) / asked
	}
	return t, nil
}

// watch returns how many round trips a contender has made, or statements, from when it is opened at the
// site.
func (s *site) watch(c contender) (trips func() int64, stop io.Closer, err error) {
	if c.server == "" {
		statements.traced.Store(true)
		return statements.count.Load, closer(func() { statements.traced.Store(false) }), nil
	}
	address, err := s.servers.address(c.server)
	if err != nil {
		return nil, nil, err
	}
	p, err := newProxy(address)
	if err != nil {
		return nil, nil, err
	}
	if s.servers, err = s.servers.through(c.server, p.address()); err != nil {
		return nil, nil, err
	}
	return p.trips.Load, p, nil
}

// closer is a function that is an io.Closer.
type closer func()

func (c closer) Close() error { c(); return nil }

// askTimes asks for one key, at most n times, and returns how often it did.
func askTimes(ctx context.Context, ask askFunc, n int) (asked float64, err error) {
	key := keyOf(0)
	start := time.Now()
	for i := range n {
		if i >= unhurried && time.Since(start) > time.Second {
			return float64(i), nil
		}
		if _, err := ask(ctx, key); err != nil {
			return 0, err
		}
	}
	return float64(n), nil
}

// allocated returns how many objects the process has allocated.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// proxy stands between a contender and its server, and counts round trips: how often a client begins to
// speak after the server has.
type proxy struct {
	listener net.Listener
	target   string
	trips    atomic.Int64
}

// newProxy returns a proxy before the server at an address, if there is one.
func newProxy(target string) (*proxy, error) {
	server, err := net.DialTimeout("tcp", target, patience)
	if err != nil {
		return nil, err
	}
	server.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: listener, target: target}
	go p.serve()
	return p, nil
}

func (p *proxy) address() string { return p.listener.Addr().String() }

// Close lets no more clients in. Those that are there go on.
func (p *proxy) Close() error { return p.listener.Close() }

// serve accepts clients until the listener is closed.
func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.connect(client)
	}
}

// connect connects a client with the server, until either ends the connection.
func (p *proxy) connect(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		client.Close()
		return
	}
	var asking atomic.Bool
	go pass(client, server, func() { asking.Store(false) })
	pass(server, client, func() {
		if !asking.Swap(true) {
			p.trips.Add(1)
		}
	})
}

// pass passes on what from sends. It tells each time before it does: an answer cannot come before that.
func pass(to, from net.Conn, tell func()) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			tell()
		}
		if _, failed := to.Write(buffer[:n]); failed != nil || err != nil {
			return
		}
	}
}

// statements counts the statements that SQLite begins to run in the databases that are opened while it is
// traced, BEGIN and COMMIT among them. SQLite itself tells, by sqlite3_trace_v2.
var statements struct {
	count  atomic.Int64
	traced atomic.Bool
}

func init() {
	sqlite.RegisterConnectionHook(func(conn sqlite.ExecQuerierContext, _ string) error {
		if !statements.traced.Load() {
			return nil
		}
		return trace(conn)
	})
}

// trace has SQLite tell of every statement of a connection. The driver has no function for it, so the
// handle of the connection is read from its field db.
func trace(conn sqlite.ExecQuerierContext) error {
	db := reflect.Indirect(reflect.ValueOf(conn)).FieldByName("db")
	if db.Kind() != reflect.Uintptr {
		return fmt.Errorf("%T has no field db with SQLite's handle", conn)
	}
	tls := libc.NewTLS()
	defer tls.Close()
	callback := *(*uintptr)(unsafe.Pointer(&struct{ f traceFunc }{onStatement}))
	if rc := sqlite3.Xsqlite3_trace_v2(tls, uintptr(db.Uint()), sqlite3.SQLITE_TRACE_STMT, callback, 0); rc != sqlite3.SQLITE_OK {
		return fmt.Errorf("sqlite3_trace_v2: code %d", rc)
	}
	return nil
}

// traceFunc is what SQLite calls: with the kind of event, a context, the statement and its text.
type traceFunc = func(tls *libc.TLS, event uint32, context, statement, text uintptr) int32

// onStatement counts a statement. What begins with "--" is a trigger, part of the statement before.
func onStatement(_ *libc.TLS, _ uint32, _, _, text uintptr) int32 {
	if !strings.HasPrefix(libc.GoString(text), "--") {
		statements.count.Add(1)
	}
	return 0
}
