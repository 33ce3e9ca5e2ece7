package main

import (
	"bufio"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// echo is a server that answers each line with itself.
func echo(t *testing.T) (address string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for lines := bufio.NewReader(conn); ; {
					line, err := lines.ReadString('\n')
					if err != nil {
						return
					}
					io.WriteString(conn, line)
				}
			}()
		}
	}()
	return listener.Addr().String()
}

// client is a connection to the echo server through a proxy.
type client struct {
	t *testing.T
	net.Conn
	lines *bufio.Reader
}

func dial(t *testing.T, p *proxy) client {
	conn, err := net.Dial("tcp", p.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return client{t, conn, bufio.NewReader(conn)}
}

func (c client) send(text string) {
	_, err := io.WriteString(c, text)
	require.NoError(c.t, err)
}

// receive waits for n lines.
func (c client) receive(n int) {
	for range n {
		_, err := c.lines.ReadString('\n')
		require.NoError(c.t, err)
	}
}

func TestProxyCountsRoundTrips(t *testing.T) {
	_, p, err := (&site{servers: servers{redisDB: "redis://" + echo(t)}}).behindProxy(redisDB)
	require.NoError(t, err)
	defer p.Close()
	a, b := dial(t, p), dial(t, p)
	require.Zero(t, p.trips.Load(), "connecting is not a round trip")

	for _, step := range []struct {
		what string
		do   func()
		want int64
	}{
		{"a request and its answer", func() { a.send("one\n"); a.receive(1) }, 1},
		{"another", func() { a.send("two\n"); a.receive(1) }, 2},
		{"a request in pieces", func() { a.send("th"); a.send("ree"); a.send("\n"); a.receive(1) }, 3},
		{"several requests at once", func() { a.send("four\nfive\n"); a.receive(2) }, 4},
		{"another client", func() { b.send("six\n"); b.receive(1) }, 5},
		{"two clients at once", func() { a.send("seven\n"); b.send("eight\n"); a.receive(1); b.receive(1) }, 7},
	} {
		step.do()
		require.Equal(t, step.want, p.trips.Load(), step.what)
	}
}

func TestProxyWithoutServerIsAnError(t *testing.T) {
	_, _, err := (&site{servers: nowhere}).behindProxy(redisDB)
	require.ErrorContains(t, err, "refused")
}
