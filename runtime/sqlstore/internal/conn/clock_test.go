package conn

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestClockFollowsADatabaseThatDrifts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead, queries, roundTrip := 10*time.Minute, 0, 2*time.Millisecond
		var c clock
		refresh := func() error {
			return c.refresh(func() (read reading, err error) {
				time.Sleep(time.Second) // until there is a connection
				queries++
				read.sent = time.Now()
				time.Sleep(roundTrip / 2)
				read.now = time.Now().Add(ahead)
				time.Sleep(roundTrip / 2)
				return read, nil
			})
		}
		off := func() time.Duration { return time.Until(time.Unix(0, c.now())) }

		require.NoError(t, refresh())
		assert.Equal(t, 10*time.Minute, off())
		time.Sleep(measureAfter - time.Second)
		require.NoError(t, refresh())
		assert.Equal(t, 1, queries, "not each time")

		ahead += time.Second
		time.Sleep(2 * time.Second)
		require.NoError(t, refresh())
		assert.Equal(t, 10*time.Minute+time.Second, off())
		assert.Equal(t, 2, queries)
	})
}

// anHourAhead queries a database whose clock is an hour ahead.
func anHourAhead() (reading, error) {
	return reading{time.Now(), time.Now().Add(time.Hour)}, nil
}

func TestClockKeepsAnOldMeasurementWhenTheDatabaseFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := errors.New("connection refused")
		fail := func() (reading, error) { return reading{}, failure }
		var c clock
		require.ErrorIs(t, c.refresh(fail), failure)
		require.NoError(t, c.refresh(anHourAhead))
		time.Sleep(10 * measureAfter)
		require.NoError(t, c.refresh(fail))
		assert.Equal(t, time.Hour, time.Until(time.Unix(0, c.now())))
	})
}

// The host's wall clock is set between a measurement and its use; its monotonic clock continues.
func TestClockIgnoresJumpsOfTheWallClock(t *testing.T) {
	var c clock
	require.NoError(t, c.refresh(anHourAhead))
	for _, by := range []time.Duration{10 * time.Minute, -10 * time.Minute, 365 * 24 * time.Hour} {
		measured := set(c.measured, by)
		require.Zero(t, measured.Sub(c.measured), "by the monotonic clock")
		require.Equal(t, by, measured.Round(0).Sub(c.measured.Round(0)), "by the wall clock")
		jumped := clock{measured: measured, zero: c.zero}
		earliest := c.now()
		now := jumped.now()
		assert.LessOrEqual(t, earliest, now)
		assert.LessOrEqual(t, now, c.now())
		assert.False(t, jumped.begin(), "it is not measured again")
	}
}

// set returns a time of a host whose wall clock was then set forward by whole seconds. The monotonic clock stays. In a
// [time.Time], the seconds of the wall clock are the bits from 30 on of the first word.
func set(t time.Time, by time.Duration) time.Time {
	*(*uint64)(unsafe.Pointer(&t)) += uint64(by/time.Second) << 30
	return t
}
