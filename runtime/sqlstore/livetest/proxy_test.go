package livetest

import (
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

// proxy stands between clients and a server, and cuts connections at random: before it passes on what a
// client asks, or, worse, what the server answers.
type proxy struct {
	listener net.Listener
	target   string
	// odds are one in how many pieces of the traffic is cut off instead of being passed on, 0 for none.
	odds int
	cuts atomic.Int64
	// delay is how long each piece of the traffic takes.
	delay time.Duration
	// accepted counts the connections, of which the first silent ones pass nothing on any more, as if packets were dropped:
	// neither side hears of the end of the other. They are closed when the test has ended.
	accepted, silent atomic.Int64
	ended            chan struct{}
}

// silence has the connections that there are pass nothing on any more. New ones do.
func (p *proxy) silence() { p.silent.Store(p.accepted.Load()) }

// through returns the server as it is reached through a proxy, which is closed when the test ends.
func (s server) through(t *testing.T, odds int) (server, *proxy) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: listener, odds: odds, ended: make(chan struct{})}
	s.dsn, p.target = redirect(t, s, listener.Addr().String())
	t.Cleanup(func() {
		listener.Close()
		close(p.ended)
	})
	go p.serve()
	return s, p
}

// redirect returns the server's DSN with another address, and the address that it had.
func redirect(t *testing.T, s server, address string) (dsn, was string) {
	t.Helper()
	if s.driver == "mysql" {
		c, err := mysql.ParseDSN(s.dsn)
		require.NoError(t, err)
		was, c.Addr = c.Addr, address
		return c.FormatDSN(), was
	}
	u, err := url.Parse(s.dsn)
	require.NoError(t, err)
	was, u.Host = u.Host, address
	if !strings.Contains(was, ":") {
		was += ":5432"
	}
	return u.String(), was
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

// connect connects a client with the server. It is the client with a number, counted from 1.
func (p *proxy) connect(client net.Conn, number int64) {
	upstream, err := net.Dial("tcp", p.target)
	if err != nil {
		client.Close()
		return
	}
	go p.pass(upstream, client, number)
	p.pass(client, upstream, number)
}

// pass passes on what from sends, until either side ends the connection or it is cut.
func (p *proxy) pass(to, from net.Conn, number int64) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		if number <= p.silent.Load() {
			<-p.ended
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
