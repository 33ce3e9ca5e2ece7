package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"
)

// clock is the database's clock, computed from the host's: hosts disagree, and a count that several of them share
// needs one time. The offset between the two is measured every [measureAfter].
type clock struct {
	mu sync.Mutex
	// measured is the time of the last measurement, by the host's monotonic clock, and zero is the database's clock
	// then. A jump of the host's wall clock between two measurements has no effect.
	measured time.Time
	zero     time.Time
	// measuring is set while a measurement is in flight.
	measuring bool
}

// measureAfter is how old a measurement may become. In that time, two good clocks drift apart by a
// fraction of a millisecond.
const measureAfter = 30 * time.Second

// now returns the clock of the store. It is called before a transaction begins, because it may have to query the
// database; the clock is read when the rows are locked. Calls wait for the first measurement only, which is part of the
// store's preparation unless db is a transaction of the caller.
func (s *Store) now(ctx context.Context, db querier) (func() int64, error) {
	if s.clock != nil {
		return func() int64 { return s.clock().UnixNano() }, nil
	}
	if s.dialect.Now == "" {
		return func() int64 { return time.Now().UnixNano() }, nil
	}
	if s.offset.known() {
		s.renewOffset(ctx)
		return s.offsetNow, nil
	}
	err := s.offset.refresh(func() (sent, now time.Time, err error) { return s.queryNow(ctx, db) })
	if err != nil {
		return nil, err
	}
	return s.offsetNow, nil
}

// renewOffset measures again if the measurement is old. The call that finds it old waits.
func (s *Store) renewOffset(ctx context.Context) {
	if !s.offset.begin() {
		return
	}
	type times struct{ sent, now time.Time }
	done := make(chan struct{})
	if !s.inBackground(func() {
		defer close(done)
		// The measurement serves all calls, so it does not end with the context of this one.
		s.offset.measure(func() (sent, now time.Time, err error) {
			t, err := bounded(context.WithoutCancel(ctx), func(ctx context.Context) (t times, err error) {
				t.sent, t.now, err = s.queryNow(ctx, s.db)
				return t, err
			})
			return t.sent, t.now, err
		})
	}) {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// queryNow returns the database's clock, and when the query was sent. It uses another connection if the server has closed
// an idle one.
func (s *Store) queryNow(ctx context.Context, db querier) (sent, now time.Time, err error) {
	err = reconnecting(ctx, s.db, func() error {
		sent, now, err = s.queryNowOnce(ctx, db)
		return unbegun(err)
	})
	return sent, now, err
}

func (s *Store) queryNowOnce(ctx context.Context, db querier) (sent, now time.Time, err error) {
	if pool, ok := db.(*sql.DB); ok {
		// The wait for a connection must not count as part of the round trip.
		conn, err := pool.Conn(ctx)
		if err != nil {
			return sent, now, err
		}
		defer conn.Close()
		db = conn
	}
	sent = time.Now()
	var micros int64
	err = db.QueryRowContext(ctx, s.dialect.Now).Scan(&micros)
	return sent, time.UnixMicro(micros), err
}

// querier is a database, or a transaction in it.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// refresh measures if there is no measurement, or if it is old and no other is in flight. An old one is
// better than none: if the database does not respond, it stays.
func (c *clock) refresh(query func() (sent, now time.Time, err error)) error {
	if !c.begin() {
		return nil
	}
	return c.measure(query)
}

// measure measures, after begin has returned true.
func (c *clock) measure(query func() (sent, now time.Time, err error)) error {
	sent, now, err := query()
	received := time.Now()

	c.mu.Lock()
	defer c.mu.Unlock()
	c.measuring = false
	if err == nil {
		// The database read its clock at some point of the round trip: half way is the best estimate.
		c.measured, c.zero = received, now.Add(received.Sub(sent)/2)
	}
	if c.measured.IsZero() {
		return err
	}
	return nil
}

// known reports whether there is a measurement.
func (c *clock) known() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.measured.IsZero()
}

// begin reports whether the caller is to measure.
func (c *clock) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.measured.IsZero():
		// Until the first measurement succeeds, every call measures, because it cannot be decided without the time.
		return true
	case c.measuring || time.Since(c.measured) < measureAfter:
		return false
	}
	c.measuring = true
	return true
}

// now returns the database's time, in nanoseconds since 1970 UTC.
func (c *clock) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	// time.Since uses the monotonic clock, so jumps of the wall clock cancel out.
	return c.zero.Add(time.Since(c.measured)).UnixNano()
}

// clockLead is how far a row may be ahead of a node's clock: more than the error of a measurement, and more than
// the difference between synchronized nodes.
const clockLead = 10 * time.Second

// checkClocks returns an error if rows were written by a node whose clock is ahead of this one's: that node grants tokens
// early, and this node does not grant any until its clock catches up.
func (s *Store) checkClocks(ctx context.Context, x *executor) error {
	if s.clock != nil || s.dialect.Latest == "" || !x.resends {
		return nil
	}
	now, err := s.now(ctx, s.db)
	if err != nil {
		return err
	}
	// NULL if the table is empty.
	var ts sql.NullInt64
	if err := s.db.QueryRowContext(ctx, s.dialect.Latest).Scan(&ts); err != nil {
		return err
	}
	if at := now(); ts.Int64 > at+int64(clockLead) {
		ahead := time.Duration(ts.Int64 - at).Round(time.Second)
		return &hintedError{fmt.Sprintf(s.fillIn(clocksDiffer), ahead), nil}
	}
	return nil
}

// clocksDiffer is the hint if the clocks of nodes differ. %v is by how much.
const clocksDiffer = "table {table} has rows that are %v ahead of this node's clock, as if the clocks of the cluster's nodes " +
	"differed: synchronize them by NTP"
