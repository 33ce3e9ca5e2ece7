package main

import (
	"bufio"
	"context"
	"database/sql"
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
	conn, err := net.Dial("tcp", p.address())
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
	p, err := newProxy(echo(t))
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
	_, err := newProxy("127.0.0.1:1")
	require.ErrorContains(t, err, "refused")
}

func TestStatementsOfSQLiteAreCounted(t *testing.T) {
	s := &site{dir: t.TempDir()}
	statements.traced.Store(true)
	defer statements.traced.Store(false)
	db := openSQLite(t, s)
	insert, err := db.Prepare("INSERT INTO numbers VALUES (?)")
	require.NoError(t, err)

	for _, step := range []struct {
		what string
		do   func() error
		want int64
	}{
		{"a statement", func() error { _, err := db.Exec("DELETE FROM numbers"); return err }, 1},
		{"a prepared statement", func() error { _, err := insert.Exec(1); return err }, 1},
		{"again", func() error { _, err := insert.Exec(2); return err }, 1},
		{"a query", func() error { var sum int; return db.QueryRow("SELECT sum(n) FROM numbers").Scan(&sum) }, 1},
		{"a transaction", func() error { return inTx(db, insert) }, 3},
	} {
		before := statements.count.Load()
		require.NoError(t, step.do(), step.what)
		require.Equal(t, step.want, statements.count.Load()-before, step.what)
	}
}

func TestOnlyTracedConnectionsAreCounted(t *testing.T) {
	db := openSQLite(t, &site{dir: t.TempDir()})
	before := statements.count.Load()
	_, err := db.Exec("DELETE FROM numbers")
	require.NoError(t, err)
	require.Equal(t, before, statements.count.Load())
}

// openSQLite opens a database with a table numbers.
func openSQLite(t *testing.T, s *site) *sql.DB {
	db, err := sql.Open("sqlite", s.newFile())
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	_, err = db.Exec("CREATE TABLE numbers (n INTEGER)")
	require.NoError(t, err)
	return db
}

// inTx runs a statement in a transaction.
func inTx(db *sql.DB, insert *sql.Stmt) error {
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	if _, err := tx.Stmt(insert).Exec(3); err != nil {
		return err
	}
	return tx.Commit()
}
