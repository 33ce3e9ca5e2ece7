package conn

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/bounds"
)

// clock is the database's clock, computed from the host's: hosts disagree, and a count that several of them share needs one
// time. The offset between the two is measured every [bounds.MeasureAfter].
//
// Each measurement has a bound of its error: half of its round trip, and more as it gets older. The one with the smallest
// bound counts, so that a late packet does not move the clock. Two measurements whose bounds exclude each other show that a
// clock was set, or that another server answers: then the newest counts, once a third one is nearer to the second than to
// the first.
type clock struct {
	mu sync.Mutex
	// best is the measurement that counts. Its time is zero before the first one.
	best measurement
	// other contradicts best, and no third one has confirmed it yet. Its time is zero without one.
	other measurement
	// tried is when the last measurement ended, and due when the next one is.
	tried, due time.Time
	// pause is the time between the two.
	pause time.Duration
	// poor means that the last measurement was much worse than the best one, or contradicted it.
	poor bool
	// measuring is set while a measurement is in flight.
	measuring bool
}

// reading is the database's clock, and when the query for it was sent.
type reading struct{ sent, now time.Time }

// resolution is the unit of the database's clock.
const resolution = time.Microsecond

// Querier is a database, or a transaction in it.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// measurement is the database's clock at a time of the host, which has both the wall clock and the monotonic one.
type measurement struct {
	at, zero time.Time
	// bound is how far zero can be off.
	bound time.Duration
}

// measured returns the measurement of a reading that has arrived just now.
func measured(read reading) measurement {
	received := time.Now()
	half := received.Sub(read.sent) / 2
	// The database read its clock at some point of the round trip, so half way is off by half of it at most.
	return measurement{received, read.now.Add(half), half + resolution + jump(read.sent, received)}
}

// now returns the database's clock at a time of the host, by the monotonic clock, so that jumps of the wall clock cancel
// out.
func (m measurement) now(at time.Time) time.Time { return m.zero.Add(at.Sub(m.at)) }

// errorAt returns how far now can be off.
func (m measurement) errorAt(at time.Time) time.Duration {
	return m.bound + at.Sub(m.at)/1_000_000*bounds.Drift + jump(m.at, at)
}

// jump returns how far the host's wall clock has moved against its monotonic clock. That is a correction of the wall clock,
// or the time for which the host was suspended: its monotonic clock stops then, and the database's does not.
func jump(from, to time.Time) time.Duration {
	moved := (to.Round(0).Sub(from.Round(0)) - to.Sub(from)).Abs()
	if moved < bounds.LeastJump {
		return 0
	}
	// So that bounds can be added.
	return min(moved, 1<<61)
}

// apart returns how far two measurements differ at a time.
func (m measurement) apart(from measurement, at time.Time) time.Duration {
	return m.now(at).Sub(from.now(at)).Abs()
}

// agrees reports whether both measurements can be right at a time.
func (m measurement) agrees(with measurement, at time.Time) bool {
	return m.apart(with, at) <= m.errorAt(at)+with.errorAt(at)
}

// better returns the one of two measurements that is less far off at a time.
func (m measurement) better(than measurement, at time.Time) measurement {
	if m.errorAt(at) <= than.errorAt(at) {
		return m
	}
	return than
}

// measure measures, after begin has returned true, or if there is no measurement.
func (c *clock) measure(query func() (reading, error)) error {
	for n := 1; ; n++ {
		read, err := query()
		if err != nil || !c.add(measured(read)) || n == bounds.MaxMeasurements {
			return c.end(err)
		}
	}
}

// add adds a measurement, and reports whether to measure again at once.
func (c *clock) add(m measurement) (again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.best.at.IsZero():
		// All calls would be decided by a slow one until the next.
		c.best, c.poor = m, m.bound > bounds.Fine
		return c.poor
	case m.agrees(c.best, m.at):
		c.poor = m.bound > max(bounds.Fine, 2*c.best.bound)
		c.best, c.other = m.better(c.best, m.at), measurement{}
		// Before the first measurement has ended.
		return c.pause == 0 && c.best.bound > bounds.Fine
	case !c.other.at.IsZero() && m.apart(c.other, m.at) < m.apart(c.best, m.at):
		c.poor = true
		c.best, c.other = m, measurement{}
		return false
	}
	c.other, c.poor = m, true
	return true
}

// end ends measure, with the error of the last query.
func (c *clock) end(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.pause > 0 && c.pause < bounds.MeasureAfter:
		c.pause = min(2*c.pause, bounds.MeasureAfter)
	case c.poor || err != nil:
		c.pause = bounds.MeasureSoon
	default:
		c.pause = bounds.MeasureAfter
	}
	c.measuring, c.tried = false, time.Now()
	c.due = c.tried.Add(c.pause)
	if c.best.at.IsZero() {
		return err
	}
	return nil
}

// known reports whether there is a measurement.
func (c *clock) known() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.best.at.IsZero()
}

// begin reports whether there is a measurement, whether the caller is to measure again, and whether it should wait for the
// result, because the clock is stale.
func (c *clock) begin() (known, due, wait bool) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	known = !c.best.at.IsZero()
	if !known || c.measuring || now.Before(c.due) && jump(c.tried, now) == 0 {
		return known, false, false
	}
	c.measuring = true
	return true, true, c.best.errorAt(now)-c.best.bound > bounds.Stale
}

// hurry makes the next measurement due at once, after one second at the earliest: another server may have taken the place of
// the one that was measured.
func (c *clock) hurry() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if soon := c.tried.Add(bounds.MeasureSoon); soon.Before(c.due) {
		c.due = soon
	}
}

// now returns the database's time, in nanoseconds since 1970 UTC.
func (c *clock) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	// time.Since uses the monotonic clock only.
	return c.best.zero.Add(time.Since(c.best.at)).UnixNano()
}
