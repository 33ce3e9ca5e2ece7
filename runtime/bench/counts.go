package main

import (
	"context"
	"errors"
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

// tally is the counts of a contender, which are the same on every machine.
type tally struct {
	// Trips is the round trips to the server for a decision, or the statements of SQLite; -1 without a database.
	Trips float64
	// Allocations is how many objects a decision allocates.
	Allocations float64
}

// The first warmUpCalls open connections, prepare statements and measure clocks. The counts are those of countedCalls, or
// of as many as return in a second, but at least warmUpCalls.
const (
	warmUpCalls  = 100
	countedCalls = 1000
)

// measureCounts counts the round trips and allocations of every contender, with one caller and one key.
func (r *report) measureCounts(ctx context.Context, s *site, p plan) error {
	logf("round trips and allocations")
	r.Tallies = map[string]*tally{}
	for _, c := range contenders {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if r.NotRun[c.name] != "" || !p.runs(c.name) {
			continue
		}
		t, err := tallyOf(ctx, s, c)
		if err != nil {
			r.skip(c.name, err)
			continue
		}
		r.Tallies[c.name] = t
	}
	return nil
}

// tallyOf returns the counts of a decision of a contender.
func tallyOf(ctx context.Context, s *site, c contender) (*tally, error) {
	// One connection and one row: the setup of a second connection would be counted as round trips.
	small, trips, stop, err := (&site{servers: s.servers, dir: s.dir, rows: 1, conns: 1}).watch(c)
	if err != nil {
		return nil, err
	}
	defer stop.Close()
	o, err := c.open(ctx, small, plenty)
	if err != nil {
		return nil, err
	}
	defer o.close()
	if _, err := takeTimes(ctx, o.take, warmUpCalls); err != nil {
		return nil, err
	}
	before, objects := trips(), allocated()
	calls, err := takeTimes(ctx, o.take, countedCalls)
	if err != nil {
		return nil, err
	}
	t := &tally{Trips: -1, Allocations: float64(allocated()-objects) / calls}
	if c.kind != memory {
		t.Trips = float64(trips()-before) / calls
	}
	return t, nil
}

// watch returns the site with a counter of the round trips, or the statements, of a contender that is opened there.
func (s *site) watch(c contender) (watched *site, trips func() int64, stop io.Closer, err error) {
	if c.server == "" {
		statements.traced.Store(true)
		return s, statements.count.Load, closer(func() { statements.traced.Store(false) }), nil
	}
	watched, p, err := s.behindProxy(c.server, 0)
	if err != nil {
		return nil, nil, nil, err
	}
	return watched, p.trips.Load, p, nil
}

// behindProxy returns the site with a server moved behind a proxy, which delays each read.
func (s *site) behindProxy(of server, delay time.Duration) (*site, *proxy, error) {
	address, err := s.servers.address(of)
	if err != nil {
		return nil, nil, err
	}
	p, err := newProxy(address)
	if err != nil {
		return nil, nil, err
	}
	p.delay = delay
	moved := *s
	if moved.servers, err = s.servers.through(of, p.address()); err != nil {
		return nil, nil, errors.Join(err, p.Close())
	}
	return &moved, p, nil
}

// closer makes an io.Closer of a function.
type closer func()

func (c closer) Close() error { c(); return nil }

// takeTimes makes up to n calls for one key, and returns how many it made.
func takeTimes(ctx context.Context, take takeFunc, n int) (calls float64, err error) {
	// As in a round.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	key := keyOf(0)
	start := time.Now()
	for i := range n {
		if i >= warmUpCalls && time.Since(start) > time.Second {
			return float64(i), nil
		}
		if _, err := take(ctx, key); err != nil {
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

// proxy forwards the connections of a contender to its server, and counts round trips: how often a client begins to send
// after the server has sent.
type proxy struct {
	listener net.Listener
	target   string
	trips    atomic.Int64
	// delay is how long each read waits before it is forwarded.
	delay time.Duration
}

// newProxy returns a proxy for the server at an address. The error says that the server cannot be reached.
func newProxy(target string) (*proxy, error) {
	server, err := net.DialTimeout("tcp", target, setupTimeout)
	if err != nil {
		return nil, err
	}
	// The dial was only to learn whether there is a server.
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

// Close refuses new clients. The connections of others stay open.
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

// connect forwards in both directions until either side closes its connection.
func (p *proxy) connect(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		client.Close()
		return
	}
	var sending atomic.Bool
	// A request that arrives in several reads is one round trip, and so are pipelined requests.
	go p.forward(client, server, func() { sending.Store(false) })
	p.forward(server, client, func() {
		if !sending.Swap(true) {
			p.trips.Add(1)
		}
	})
}

// forward copies from one connection to another, and calls before each time before it writes.
func (p *proxy) forward(to, from net.Conn, before func()) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			// After the write, the answer could come before the request is counted.
			before()
			if p.delay > 0 {
				pause(p.delay)
			}
		}
		if _, failed := to.Write(buffer[:n]); failed != nil || err != nil {
			return
		}
	}
}

// statements counts the statements of SQLite, including BEGIN and COMMIT, on connections that are opened while traced is
// set. It uses sqlite3_trace_v2.
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

// trace makes SQLite call onStatement for every statement of a connection.
func trace(conn sqlite.ExecQuerierContext) error {
	// The driver has no function for it, so the handle of the connection is read from an unexported field.
	db := reflect.Indirect(reflect.ValueOf(conn)).FieldByName("db")
	if db.Kind() != reflect.Uintptr {
		return fmt.Errorf("%T has no field db with SQLite's handle: adapt trace to the driver", conn)
	}
	tls := libc.NewTLS()
	defer tls.Close()
	// The layout of a Go func value that libc calls through, as the driver makes its own callbacks.
	callback := *(*uintptr)(unsafe.Pointer(&struct{ f traceFunc }{onStatement}))
	if rc := sqlite3.Xsqlite3_trace_v2(tls, uintptr(db.Uint()), sqlite3.SQLITE_TRACE_STMT, callback, 0); rc != sqlite3.SQLITE_OK {
		return fmt.Errorf("sqlite3_trace_v2: code %d", rc)
	}
	return nil
}

// traceFunc is the callback of sqlite3_trace_v2.
type traceFunc = func(tls *libc.TLS, event uint32, context, statement, text uintptr) int32

func onStatement(_ *libc.TLS, _ uint32, _, _, text uintptr) int32 {
	// A text that begins with "--" is a trigger, which is part of the statement before.
	if !strings.HasPrefix(libc.GoString(text), "--") {
		statements.count.Add(1)
	}
	return 0
}
