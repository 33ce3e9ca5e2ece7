package conn

import (
	"context"
	"database/sql"
	"fmt"
	goruntime "runtime"
	"sync"
	"time"
	"weak"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

// Circuit keeps this process from opening one connection after another to a database that does not respond. A statement
// that is given up closes its connection, so without it each call that times out would open another, and a pooler keeps
// the dead ones for long.
//
// The timeouts of calls do not decide whether the database is silent, because they may be short, and their statements slow
// or waiting for a lock. If there was no answer for [bounds.Suspicious], a probe begins, and calls go on. If that has no
// answer for [bounds.Silent] either, and nothing else has, calls wait until something has: a probe, of which there is one at
// a time, or a call that was sent before.
//
// The stores and transactions of a pool share a circuit. A nil circuit never waits: it is for a database in this process.
type Circuit struct {
	mu sync.Mutex
	// unanswered is when the first call since the last answer was sent, and suspected when the first probe since then
	// began. They are zero if there was none.
	unanswered, suspected time.Time
	// probing means that a probe is in flight, or pauses. failures counts those without an answer.
	probing  bool
	failures int
	// changed is closed after an answer, and when a probe has ended. It is nil if no call waits.
	changed chan struct{}
}

// circuits are the circuits of databases that are servers, as long as these are in use.
var circuits sync.Map // weak.Pointer[sql.DB] to *Circuit

// newCircuit returns the circuit of a pool.
func newCircuit(db *sql.DB) *Circuit {
	key := weak.Make(db)
	c, loaded := circuits.LoadOrStore(key, new(Circuit))
	if !loaded {
		goruntime.AddCleanup(db, func(key weak.Pointer[sql.DB]) { circuits.Delete(key) }, key)
	}
	return c.(*Circuit)
}

// circuitOf returns the circuit of a pool, or nil if no store has made one.
func circuitOf(db *sql.DB) *Circuit {
	c, _ := circuits.Load(weak.Make(db))
	found, _ := c.(*Circuit)
	return found
}

// through calls f when the database is not silent, and takes its result for an answer of the database or for none.
func through[T any](ctx context.Context, c *Circuit, db *sql.DB, f func() (T, error)) (value T, err error) {
	sent, err := c.Send(ctx, db)
	if err != nil {
		return value, err
	}
	value, err = f()
	c.Received(ctx, sent, err)
	return value, err
}

// Send waits until the database is not silent, and returns the time. The error is that of ctx.
func (c *Circuit) Send(ctx context.Context, db *sql.DB) (sent time.Time, err error) {
	for {
		sent, changed := c.TrySend(db)
		if changed == nil {
			return sent, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return sent, fmt.Errorf("the database has not answered for %v: %w", c.Silence().Round(time.Second), ctx.Err())
		}
	}
}

// TrySend returns the time, or what to wait for if the database is silent.
func (c *Circuit) TrySend(db *sql.DB) (now time.Time, changed <-chan struct{}) {
	if c == nil {
		return now, nil
	}
	now = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.unanswered.IsZero():
		c.unanswered = now
		return now, nil
	case now.Sub(c.unanswered) < bounds.Suspicious:
		return now, nil
	}
	if c.suspected.IsZero() {
		c.suspected = now
	}
	if !c.probing {
		c.probing = true
		go c.probe(db, c.failures)
	}
	if now.Sub(c.suspected) < bounds.Silent {
		return now, nil
	}
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return now, c.changed
}

// Received ends what Send or TrySend has begun, with the error of the statement.
func (c *Circuit) Received(ctx context.Context, sent time.Time, err error) {
	if c != nil && answers(ctx, sent, err) {
		c.answered()
	}
}

// answers reports whether the result of a statement shows that the database, or its host, responds. A driver may have a
// timeout of its own, and hide it in another error.
func answers(ctx context.Context, sent time.Time, err error) bool {
	return err == nil || fault.CodeOf(err).Text != "" || ctx.Err() == nil && time.Since(sent) < bounds.Silent
}

func (c *Circuit) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unanswered, c.suspected, c.failures = time.Time{}, time.Time{}, 0
	c.changeLocked()
}

func (c *Circuit) changeLocked() {
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// Silence returns for how long the database has not answered, or 0 if calls do not wait for it.
func (c *Circuit) Silence() time.Duration {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.suspected.IsZero() || time.Since(c.suspected) < bounds.Silent {
		return 0
	}
	return time.Since(c.unanswered)
}

// probe pings the database, and pauses if there is no answer.
func (c *Circuit) probe(db *sql.DB, failures int) {
	pings, timeout := 1, bounds.Silent
	if failures > 0 {
		// Idle connections may be lost although the server can be reached. One ping more needs a new connection.
		pings, timeout = 1+db.Stats().Idle, bounds.ProbeTimeout
	}
	if c.ping(db, pings, timeout) {
		c.answered()
	} else if failures > 0 {
		time.Sleep(bounds.ProbePause)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probing = false
	if !c.unanswered.IsZero() {
		c.failures++
	}
	c.changeLocked()
}

// ping reports whether one of so many pings was answered. Not all drivers return when their context ends.
func (c *Circuit) ping(db *sql.DB, pings int, timeout time.Duration) bool {
	answered := make(chan bool, pings)
	for range pings {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			sent := time.Now()
			answered <- answers(ctx, sent, db.PingContext(ctx))
		}()
	}
	late := time.After(timeout + bounds.Grace)
	for range pings {
		select {
		case ok := <-answered:
			if ok {
				return true
			}
		case <-late:
			return false
		}
	}
	return false
}
