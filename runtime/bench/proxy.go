package main

import (
	"net"
	"sync/atomic"
)

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
