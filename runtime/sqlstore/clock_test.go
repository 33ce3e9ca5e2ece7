package sqlstore

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestClock tells the time of a database that is ten minutes ahead, and follows it when it drifts.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead, asked, roundTrip := 10*time.Minute, 0, 2*time.Millisecond
		var c clock
		refresh := func() error {
			return c.refresh(func() (at, now time.Time, err error) {
				time.Sleep(time.Second) // until there is a connection
				asked++
				at = time.Now()
				time.Sleep(roundTrip / 2)
				now = time.Now().Add(ahead)
				time.Sleep(roundTrip / 2)
				return at, now, nil
			})
		}
		off := func() time.Duration { return time.Until(time.Unix(0, c.now())) }

		require.NoError(t, refresh())
		assert.Equal(t, 10*time.Minute, off())
		time.Sleep(measureAfter - time.Second)
		require.NoError(t, refresh())
		assert.Equal(t, 1, asked, "not each time")

		ahead += time.Second
		time.Sleep(2 * time.Second)
		require.NoError(t, refresh())
		assert.Equal(t, 10*time.Minute+time.Second, off())
		assert.Equal(t, 2, asked)
	})
}

// anHourAhead is a database whose clock is.
func anHourAhead() (asked, now time.Time, err error) {
	return time.Now(), time.Now().Add(time.Hour), nil
}

// TestClockOfNoAnswer keeps an old measurement when the database does not answer, and has none to begin
// with.
func TestClockOfNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := errors.New("connection refused")
		fail := func() (_, _ time.Time, err error) { return time.Time{}, time.Time{}, failure }
		var c clock
		require.ErrorIs(t, c.refresh(fail), failure)
		require.NoError(t, c.refresh(anHourAhead))
		time.Sleep(10 * measureAfter)
		require.NoError(t, c.refresh(fail))
		assert.Equal(t, time.Hour, time.Until(time.Unix(0, c.now())))
	})
}

// TestClockOfJumps has the host's clock be set to and fro between a measurement and its use: the time that it
// tells by its monotonic clock goes on.
func TestClockOfJumps(t *testing.T) {
	var c clock
	require.NoError(t, c.refresh(anHourAhead))
	for _, by := range []time.Duration{10 * time.Minute, -10 * time.Minute, 365 * 24 * time.Hour} {
		measured := set(c.measured, by)
		require.Zero(t, measured.Sub(c.measured), "by the monotonic clock")
		require.Equal(t, by, measured.Round(0).Sub(c.measured.Round(0)), "by the clock on the wall")
		jumped := clock{measured: measured, zero: c.zero}
		earliest := c.now()
		now := jumped.now()
		assert.LessOrEqual(t, earliest, now)
		assert.LessOrEqual(t, now, c.now())
		assert.False(t, jumped.begin(), "nor is it measured again")
	}
}

// set returns a time as a host tells it whose clock on the wall has been set forward by whole seconds, which
// leaves its monotonic clock alone. In a [time.Time], that is the bits from 30 on of the first word.
func set(t time.Time, by time.Duration) time.Time {
	*(*uint64)(unsafe.Pointer(&t)) += uint64(by/time.Second) << 30
	return t
}
