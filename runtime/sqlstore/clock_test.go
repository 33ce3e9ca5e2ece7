package sqlstore

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestClock tells the time of a database that is ten minutes ahead, and follows it when it drifts.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead, asked, roundTrip := 10*time.Minute, 0, 2*time.Millisecond
		var c clock
		refresh := func() error {
			return c.refresh(func() (time.Time, error) {
				asked++
				time.Sleep(roundTrip / 2)
				now := time.Now().Add(ahead)
				time.Sleep(roundTrip / 2)
				return now, nil
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

// TestClockOfNoAnswer keeps an old measurement when the database does not answer, and has none to begin
// with.
func TestClockOfNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := errors.New("connection refused")
		fail := func() (time.Time, error) { return time.Time{}, failure }
		var c clock
		require.ErrorIs(t, c.refresh(fail), failure)
		require.NoError(t, c.refresh(func() (time.Time, error) { return time.Now().Add(time.Hour), nil }))
		time.Sleep(10 * measureAfter)
		require.NoError(t, c.refresh(fail))
		assert.Equal(t, time.Hour, time.Until(time.Unix(0, c.now())))
	})
}
