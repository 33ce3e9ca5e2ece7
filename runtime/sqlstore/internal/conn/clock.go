package conn

import (
	"context"
	"database/sql"
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

// reading is the database's clock, and when the query for it was sent.
type reading struct{ sent, now time.Time }

// measureAfter is how old a measurement may become. In that time, two good clocks drift apart by a
// fraction of a millisecond.
const measureAfter = 30 * time.Second

// Querier is a database, or a transaction in it.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// refresh measures if there is no measurement, or if it is old and no other is in flight. An old one is
// better than none: if the database does not respond, it stays.
func (c *clock) refresh(query func() (reading, error)) error {
	if !c.begin() {
		return nil
	}
	return c.measure(query)
}

// measure measures, after begin has returned true.
func (c *clock) measure(query func() (reading, error)) error {
	read, err := query()
	received := time.Now()

	c.mu.Lock()
	defer c.mu.Unlock()
	c.measuring = false
	if err == nil {
		// The database read its clock at some point of the round trip: half way is the best estimate.
		c.measured, c.zero = received, read.now.Add(received.Sub(read.sent)/2)
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
