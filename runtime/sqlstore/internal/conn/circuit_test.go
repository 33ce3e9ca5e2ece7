package conn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
)

// mute is a server that takes a time to respond to a ping or to accept a connection, or never responds.
type mute struct {
	latency time.Duration
	silent  atomic.Bool
	// opened and pings count what clients have tried.
	opened, pings atomic.Int64
}

func (m *mute) Connect(ctx context.Context) (driver.Conn, error) {
	m.opened.Add(1)
	return muteConn{of: m}, m.respond(ctx)
}

func (m *mute) Driver() driver.Driver { return nil }

func (m *mute) respond(ctx context.Context) error {
	answer := time.After(m.latency)
	if m.silent.Load() {
		answer = nil
	}
	select {
	case <-answer:
		return nil
	case <-ctx.Done():
		return driver.ErrBadConn
	}
}

type muteConn struct {
	driver.Conn
	of *mute
}

func (muteConn) Close() error { return nil }

func (c muteConn) Ping(ctx context.Context) error {
	c.of.pings.Add(1)
	return c.of.respond(ctx)
}

// onMute runs a test of the circuit of a mute server.
func onMute(t *testing.T, latency time.Duration, test func(t *testing.T, m *mute, db *sql.DB, c *Circuit)) {
	synctest.Test(t, func(t *testing.T) {
		m := &mute{latency: latency}
		db := sql.OpenDB(m)
		defer db.Close()
		test(t, m, db, newCircuit(db))
		// The last probe ends.
		time.Sleep(bounds.ProbeTimeout + bounds.Grace + bounds.ProbePause)
	})
}

// passes requires that a call may be sent at once.
func passes(t *testing.T, c *Circuit, db *sql.DB) (sent time.Time) {
	t.Helper()
	sent, changed := c.TrySend(db)
	require.Nil(t, changed, "the call waits")
	return sent
}

func TestCircuitIgnoresOneSlowCall(t *testing.T) {
	onMute(t, time.Millisecond, func(t *testing.T, m *mute, db *sql.DB, c *Circuit) {
		passes(t, c, db) // and is never answered
		for range 100 {
			sent := passes(t, c, db)
			time.Sleep(100 * time.Millisecond)
			c.Received(t.Context(), sent, nil)
		}
		assert.Zero(t, m.pings.Load())
	})
}

// The only calls are given up before the database answers, which takes nearly a second.
func TestCircuitIgnoresShortTimeouts(t *testing.T) {
	onMute(t, 450*time.Millisecond, func(t *testing.T, m *mute, db *sql.DB, c *Circuit) {
		for range 1000 {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			sent := passes(t, c, db)
			<-ctx.Done()
			c.Received(ctx, sent, ctx.Err())
			cancel()
		}
		assert.NotZero(t, m.pings.Load())
	})
}

func TestCircuitIgnoresErrorsOfTheDatabase(t *testing.T) {
	for name, err := range map[string]error{
		"coded": sqlState("57014"), "at once": errors.New("connection refused"), "number": errors.New("Error 1205 (HY000): Lock wait timeout exceeded"),
	} {
		t.Run(name, func(t *testing.T) {
			onMute(t, 0, func(t *testing.T, m *mute, db *sql.DB, c *Circuit) {
				for range 100 {
					sent := passes(t, c, db)
					time.Sleep(200 * time.Millisecond)
					c.Received(t.Context(), sent, err)
				}
				assert.Zero(t, m.pings.Load())
			})
		})
	}
}

func TestCircuitOfASilentDatabaseHasOneProbe(t *testing.T) {
	onMute(t, time.Millisecond, func(t *testing.T, m *mute, db *sql.DB, c *Circuit) {
		// Connections that are idle when the silence begins.
		db.SetMaxIdleConns(4)
		var idle []*sql.Conn
		for range 4 {
			conn, err := db.Conn(t.Context())
			require.NoError(t, err)
			idle = append(idle, conn)
		}
		for _, conn := range idle {
			require.NoError(t, conn.Close())
		}
		m.silent.Store(true)
		sent := passes(t, c, db)
		time.Sleep(bounds.Suspicious)
		passes(t, c, db)
		time.Sleep(bounds.Silent - time.Millisecond)
		passes(t, c, db)
		require.EqualValues(t, 1, m.pings.Load(), "a probe")
		time.Sleep(time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c.Received(ctx, sent, errors.New("invalid connection"))
		begun := time.Now()
		for range 100 {
			go c.Send(ctx, db)
		}
		_, err := c.Send(ctx, db)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "the database has not answered for 1m1s: ")
		assert.Equal(t, time.Minute, time.Since(begun))
		assert.LessOrEqual(t, m.opened.Load(), 4+int64(time.Minute/(bounds.ProbeTimeout+bounds.ProbePause))+1, "a new connection for each probe")
	})
}

// Afterwards, waiting calls are sent as soon as the next probe has an answer.
func TestCircuitClosesWhenTheDatabaseAnswers(t *testing.T) {
	for name, repair := range map[string]func(m *mute, c *Circuit, sent time.Time){
		"a probe": func(m *mute, c *Circuit, _ time.Time) { m.silent.Store(false) },
		"a call":  func(m *mute, c *Circuit, sent time.Time) { c.Received(context.Background(), sent, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			onMute(t, time.Millisecond, func(t *testing.T, m *mute, db *sql.DB, c *Circuit) {
				m.silent.Store(true)
				sent := passes(t, c, db)
				time.Sleep(bounds.Suspicious)
				passes(t, c, db)
				time.Sleep(bounds.Silent)
				go func() {
					time.Sleep(9 * time.Second)
					repair(m, c, sent)
				}()
				begun := time.Now()
				_, err := c.Send(t.Context(), db)
				require.NoError(t, err)
				assert.LessOrEqual(t, time.Since(begun), 9*time.Second+bounds.ProbeTimeout+bounds.Grace+bounds.ProbePause+time.Millisecond)
				passes(t, c, db)
			})
		})
	}
}

func TestStoresOfAPoolShareACircuit(t *testing.T) {
	db := sql.OpenDB(new(mute))
	defer db.Close()
	assert.Nil(t, circuitOf(db))
	first, err := NewServer(db, dialect.Postgres, "", nil, nil)
	require.NoError(t, err)
	second, err := NewServer(db, dialect.Postgres, "other", nil, nil)
	require.NoError(t, err)
	assert.Same(t, first.Circuit, second.Circuit)
	assert.Same(t, first.Circuit, circuitOf(db))
	embedded := sql.OpenDB(new(mute))
	defer embedded.Close()
	third, err := NewServer(embedded, dialect.SQLite, "", nil, nil)
	require.NoError(t, err)
	assert.Nil(t, third.Circuit)
	assert.Nil(t, circuitOf(embedded))
}
