package main

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync/atomic"
	"time"
)

// tally is the counts of a contender, which are the same on every machine.
type tally struct {
	// Trips is the round trips to the server for a decision, or -1 without a server.
	Trips float64
	// Allocations is how many objects a decision allocates, and Bytes how large they are.
	Allocations, Bytes float64
}

// The first warmUpCalls open connections, prepare statements and measure clocks. The counts are those of countedCalls.
const (
	warmUpCalls  = 100
	countedCalls = 500
)

// measureCounts counts the round trips and allocations of every contender, with one caller and one key.
func (r *report) measureCounts(ctx context.Context, s *site, p plan) error {
	logf("round trips and allocations")
	for _, c := range contenders {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if r.NotRun[c.name] != "" || !p.only.MatchString(c.name) {
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
	small, trips := &site{servers: s.servers, dir: s.dir, rows: 1, oneConn: true}, new(atomic.Int64)
	if c.server != "" {
		behind, p, err := small.behindProxy(c.server)
		if err != nil {
			return nil, err
		}
		defer p.Close()
		small, trips = behind, &p.trips
	}
	o, err := c.open(ctx, small, plenty)
	if err != nil {
		return nil, err
	}
	defer o.close()
	if err := takeTimes(ctx, o.take, warmUpCalls); err != nil {
		return nil, err
	}
	before, start := trips.Load(), allocated()
	if err := takeTimes(ctx, o.take, countedCalls); err != nil {
		return nil, err
	}
	end := allocated()
	t := &tally{
		Trips: -1, Allocations: float64(end.Mallocs-start.Mallocs) / countedCalls,
		Bytes: float64(end.TotalAlloc-start.TotalAlloc) / countedCalls,
	}
	if c.server != "" {
		t.Trips = float64(trips.Load()-before) / countedCalls
	}
	return t, nil
}

// takeTimes makes n calls for one key.
func takeTimes(ctx context.Context, take takeFunc, n int) error {
	// As in a round.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	key := keyOf(0)
	for range n {
		if _, err := take(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// allocated returns how much the process has allocated.
func allocated() (m runtime.MemStats) {
	runtime.ReadMemStats(&m)
	return m
}

// behindProxy returns the site with a server moved behind a proxy. The error says that the server cannot be reached.
func (s *site) behindProxy(of server) (*site, *proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	p := &proxy{Listener: listener}
	moved := *s
	p.target, moved.servers, err = s.servers.through(of, listener.Addr().String())
	if err == nil {
		err = waitFor(p.target, 0)
	}
	if err != nil {
		return nil, nil, errors.Join(err, p.Close())
	}
	go p.serve()
	return &moved, p, nil
}

// proxy forwards the connections of a contender to its server, and counts round trips: how often a client begins to send
// after the server has sent. Close refuses new clients; the connections of others stay open.
type proxy struct {
	net.Listener
	target string
	trips  atomic.Int64
}

// serve accepts clients until the listener is closed.
func (p *proxy) serve() {
	for {
		client, err := p.Accept()
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
	go forward(client, server, func() { sending.Store(false) })
	forward(server, client, func() {
		if !sending.Swap(true) {
			p.trips.Add(1)
		}
	})
}

// forward copies from one connection to another, and calls before each time before it writes.
func forward(to, from net.Conn, before func()) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			// After the write, the answer could come before the request is counted.
			before()
		}
		if _, failed := to.Write(buffer[:n]); failed != nil || err != nil {
			return
		}
	}
}

// waitFor waits until a server accepts connections, for so long at most.
func waitFor(address string, most time.Duration) error {
	for end := time.Now().Add(most); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.DialTimeout("tcp", address, setupTimeout)
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(end) {
			return err
		}
	}
}
