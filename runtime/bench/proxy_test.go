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

// client speaks to the echo through a proxy.
type client struct {
	t *testing.T
	net.Conn
	lines *bufio.Reader
}

func dial(t *testing.T, p *proxy) client {
	conn, err := net.Dial("tcp", p.address())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return client{t, conn, bufio.NewReader(conn)}
}

// say sends text.
func (c client) say(text string) {
	_, err := io.WriteString(c, text)
	require.NoError(c.t, err)
}

// hear waits for lines.
func (c client) hear(n int) {
	for range n {
		_, err := c.lines.ReadString('\n')
		require.NoError(c.t, err)
	}
}

func TestTheProxyCountsRoundTrips(t *testing.T) {
	p, err := newProxy(echo(t))
	require.NoError(t, err)
	defer p.Close()
	a, b := dial(t, p), dial(t, p)
	require.Zero(t, p.trips.Load(), "to connect is none")

	for _, step := range []struct {
		what string
		do   func()
		want int64
	}{
		{"a question and its answer", func() { a.say("one\n"); a.hear(1) }, 1},
		{"another", func() { a.say("two\n"); a.hear(1) }, 2},
		{"a question in pieces", func() { a.say("th"); a.say("ree"); a.say("\n"); a.hear(1) }, 3},
		{"several questions at once", func() { a.say("four\nfive\n"); a.hear(2) }, 4},
		{"another client", func() { b.say("six\n"); b.hear(1) }, 5},
		{"two clients at once", func() { a.say("seven\n"); b.say("eight\n"); a.hear(1); b.hear(1) }, 7},
	} {
		step.do()
		require.Equal(t, step.want, p.trips.Load(), step.what)
	}
}

func TestAProxyNeedsAServer(t *testing.T) {
	_, err := newProxy("127.0.0.1:1")
	require.ErrorContains(t, err, "refused")
}
