package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"
)

// clock tells the time of the database, by the host's: hosts disagree, and a count that many of them share
// needs one time. How far they are apart is measured now and then.
type clock struct {
	mu sync.Mutex
	// measured is when it was measured, by the host's monotonic clock, and zero is the database's clock
	// then. A jump of the host's clock between two measurements does not matter.
	measured time.Time
	zero     time.Time
	// measuring says that somebody is at it.
	measuring bool
}

// measureAfter is how old a measurement may become. In that time, two good clocks drift apart by a
// fraction of a millisecond.
const measureAfter = 30 * time.Second

// now returns a function that tells the time. It is called before a transaction begins, so that the
// database's clock can be asked if need be; the function is called when the rows are locked. Only the first measurement
// is waited for, and that is part of what the store prepares unless db is a transaction of the caller.
func (s *Store) now(ctx context.Context, db querier) (func() int64, error) {
	if s.clock != nil {
		return func() int64 { return s.clock().UnixNano() }, nil
	}
	if s.dialect.Now == "" {
		return func() int64 { return time.Now().UnixNano() }, nil
	}
	if s.offset.known() {
		s.renewOffset(ctx)
		return s.offset.now, nil
	}
	err := s.offset.refresh(func() (asked, now time.Time, err error) { return s.askNow(ctx, db) })
	if err != nil {
		return nil, err
	}
	return s.offset.now, nil
}

// renewOffset measures again if the measurement is old. The call that finds it so waits, but does not end the measurement
// when its context ends.
func (s *Store) renewOffset(ctx context.Context) {
	if !s.offset.begin() {
		return
	}
	type answer struct{ asked, now time.Time }
	done := make(chan struct{})
	if !s.inBackground(func() {
		defer close(done)
		s.offset.measure(func() (asked, now time.Time, err error) {
			a, err := bounded(context.WithoutCancel(ctx), func(ctx context.Context) (a answer, err error) {
				a.asked, a.now, err = s.askNow(ctx, s.db)
				return a, err
			})
			return a.asked, a.now, err
		})
	}) {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// askNow asks the database what time it is, on another connection if the server has closed one while it was idle.
func (s *Store) askNow(ctx context.Context, db querier) (asked, now time.Time, err error) {
	err = s.again(ctx, func() error {
		asked, now, err = s.askNowOnce(ctx, db)
		return unbegun(err)
	})
	return asked, now, err
}

// askNowOnce asks the database what time it is, and returns when it has: the wait for a connection came before.
func (s *Store) askNowOnce(ctx context.Context, db querier) (asked, now time.Time, err error) {
	if pool, ok := db.(*sql.DB); ok {
		conn, err := pool.Conn(ctx)
		if err != nil {
			return asked, now, err
		}
		defer conn.Close()
		db = conn
	}
	asked = time.Now()
	var micros int64
	err = db.QueryRowContext(ctx, s.dialect.Now).Scan(&micros)
	return asked, time.UnixMicro(micros), err
}

// querier is a database, or a transaction in it.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// refresh measures if there is no measurement, or if it is old and nobody else is at it. An old one is
// better than none: if it cannot be renewed, it stays.
func (c *clock) refresh(ask func() (asked, now time.Time, err error)) error {
	if !c.begin() {
		return nil
	}
	return c.measure(ask)
}

// measure measures, once begin has returned true.
func (c *clock) measure(ask func() (asked, now time.Time, err error)) error {
	asked, now, err := ask()
	answered := time.Now()

	c.mu.Lock()
	defer c.mu.Unlock()
	c.measuring = false
	if err == nil {
		// The answer was given somewhere between: half way, for all that is known.
		c.measured, c.zero = answered, now.Add(answered.Sub(asked)/2)
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
	return c.zero.Add(time.Since(c.measured)).UnixNano()
}

// clockLead is how far the clock of one node may be ahead of another's: more than a measurement is off, and more than
// nodes differ whose clocks are synchronized.
const clockLead = 10 * time.Second

// checkClocks returns an error if rows were written by a node whose clock is ahead of this one's: it grants tokens early,
// and this node none until its clock gets there.
func (s *Store) checkClocks(ctx context.Context, p *prepared) error {
	if s.clock != nil || s.dialect.Latest == "" || !p.resends {
		return nil
	}
	latest, err := s.dialect.Text(s.dialect.Latest, s.table)
	if err != nil {
		return err
	}
	now, err := s.now(ctx, s.db)
	if err != nil {
		return err
	}
	var ts sql.NullInt64
	if err := s.db.QueryRowContext(ctx, latest).Scan(&ts); err != nil {
		return err
	}
	if at := now(); ts.Int64 > at+int64(clockLead) {
		ahead := time.Duration(ts.Int64 - at).Round(time.Second)
		return &advised{fmt.Sprintf(s.say(clocksDiffer), ahead), nil}
	}
	return nil
}

// clocksDiffer is what to do about nodes whose clocks differ.
const clocksDiffer = "table {table} has rows that are %v ahead of this node's clock, as if the clocks of the cluster's nodes " +
	"differed: synchronize them by NTP"
