package conn

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/bounds"
)

// refresh measures as a call does, and waits: if there is no measurement, or if the next one is due and no other is in
// flight.
func (c *clock) refresh(query func() (reading, error)) error {
	if known, due, _ := c.begin(); known && !due {
		return nil
	}
	return c.measure(query)
}

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
		time.Sleep(bounds.MeasureAfter - time.Second)
		require.NoError(t, refresh())
		assert.Equal(t, 1, queries, "not each time")

		ahead += time.Second
		time.Sleep(2 * time.Second)
		require.NoError(t, refresh())
		assert.Equal(t, 10*time.Minute+time.Second, off())
		assert.Equal(t, 3, queries, "a third one confirms that the database's clock was set")
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
		time.Sleep(10 * bounds.MeasureAfter)
		require.NoError(t, c.refresh(fail))
		assert.Equal(t, time.Hour, time.Until(time.Unix(0, c.now())))
	})
}

// The host's wall clock is set between a measurement and its use; its monotonic clock continues.
func TestClockIgnoresJumpsOfTheWallClock(t *testing.T) {
	for _, by := range []time.Duration{10 * time.Minute, -10 * time.Minute, 365 * 24 * time.Hour} {
		var c clock
		require.NoError(t, c.refresh(anHourAhead))
		at := set(c.best.at, by)
		require.Zero(t, at.Sub(c.best.at), "by the monotonic clock")
		require.Equal(t, by, at.Round(0).Sub(c.best.at.Round(0)), "by the wall clock")
		jumped := clock{best: c.best, tried: set(c.tried, by), due: c.due}
		jumped.best.at = at
		earliest := c.now()
		now := jumped.now()
		assert.LessOrEqual(t, earliest, now)
		assert.LessOrEqual(t, now, c.now())
	}
}

// To the host, the time for which it was suspended is a jump of its wall clock.
func TestClockIsMeasuredAgainWhenTheHostWasSuspended(t *testing.T) {
	var c clock
	require.NoError(t, c.refresh(anHourAhead))
	_, due, _ := c.begin()
	require.False(t, due)
	// Now is two hours later by the wall clock, and so is the database.
	c.best.at, c.tried, c.due = set(c.best.at, -2*time.Hour), set(c.tried, -2*time.Hour), set(c.due, -2*time.Hour)
	_, due, wait := c.begin()
	require.True(t, due)
	require.True(t, wait, "calls would be decided by a clock that is two hours behind")
	queries := 0
	require.NoError(t, c.measure(func() (reading, error) {
		queries++
		return reading{time.Now(), time.Now().Add(3 * time.Hour)}, nil
	}))
	require.InDelta(t, 3*time.Hour, time.Until(time.Unix(0, c.now())), float64(time.Second))
	require.Equal(t, 1, queries, "a jump explains the difference, so that it need not be confirmed")
	_, due, _ = c.begin()
	require.False(t, due)
}

// set returns a time of a host whose wall clock was then set forward by whole seconds. The monotonic clock stays. In a
// [time.Time], the seconds of the wall clock are the bits from 30 on of the first word.
func set(t time.Time, by time.Duration) time.Time {
	*(*uint64)(unsafe.Pointer(&t)) += uint64(by/time.Second) << 30
	return t
}

// fakeServer is a database behind a network, in a synctest bubble.
type fakeServer struct {
	began time.Time
	// ahead is by how much its clock is ahead of the host's at the beginning, and drift the parts per million by which it is
	// faster.
	ahead time.Duration
	drift int64
	// request and answer are how long the packets of the next queries take; later ones take 50 µs each.
	delays  []delay
	queries int
}

// delay is how long a request and its answer take.
type delay struct{ request, answer time.Duration }

// now returns the time by the server's clock.
func (f *fakeServer) now() time.Time {
	elapsed := time.Since(f.began)
	return time.Now().Add(f.ahead + time.Duration(int64(elapsed)/1_000_000*f.drift))
}

func (f *fakeServer) query() (read reading, err error) {
	f.queries++
	takes := delay{50 * time.Microsecond, 50 * time.Microsecond}
	if len(f.delays) > 0 {
		takes, f.delays = f.delays[0], f.delays[1:]
	}
	read.sent = time.Now()
	time.Sleep(takes.request)
	read.now = f.now().Truncate(time.Microsecond)
	time.Sleep(takes.answer)
	return read, nil
}

// off returns by how much a clock is off.
func (f *fakeServer) off(c *clock) time.Duration { return time.Duration(c.now() - f.now().UnixNano()) }

// follow refreshes a clock like calls that arrive so often, for a while, and calls each after each.
func follow(t *testing.T, c *clock, f *fakeServer, every, lasts time.Duration, each func()) {
	for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(every) {
		require.NoError(t, c.refresh(f.query))
		each()
	}
}

// One packet of the query that reads the clock is late: the request, or the answer, of the first measurement or of a later
// one.
func TestClockIsNotMovedByOneLatePacket(t *testing.T) {
	for _, late := range []time.Duration{100 * time.Millisecond, 2 * time.Second, 10 * time.Second} {
		for name, takes := range map[string]delay{"request": {late, 0}, "answer": {0, late}} {
			for _, after := range []time.Duration{0, time.Minute} {
				t.Run(fmt.Sprintf("%s %v late, after %v", name, late, after), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						f, c := &fakeServer{began: time.Now(), ahead: time.Hour}, new(clock)
						follow(t, c, f, time.Second, after, func() {})
						f.delays = []delay{takes}
						follow(t, c, f, time.Second, 2*time.Minute, func() {
							require.Less(t, f.off(c).Abs(), time.Millisecond)
						})
						require.Empty(t, f.delays, "the late packet was sent")
						assert.Less(t, f.queries, 20)
					})
				})
			}
		}
	}
}

// randomDelay is mostly short, and now and then up to 10 s in one direction.
func randomDelay(r *rand.Rand) (d delay) {
	short := func() time.Duration { return time.Duration(r.ExpFloat64() * float64(300*time.Microsecond)) }
	d = delay{short(), short()}
	if late := time.Duration(r.Float64() * r.Float64() * float64(10*time.Second)); r.IntN(3) == 0 {
		if r.IntN(2) == 0 {
			d.request += late
		} else {
			d.answer += late
		}
	}
	return d
}

// The clocks drift by up to 200 ppm, and a third of all packets are late. The clock is never off by more than its bound,
// which never grows but by the drift, and it is not measured more often than once a second on average.
func TestClockIsNeverOffByMoreThanItsBound(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			f, c := &fakeServer{began: time.Now(), ahead: time.Duration(r.Int64N(int64(time.Hour))), drift: r.Int64N(401) - 200}, new(clock)
			var last time.Time
			var bound time.Duration
			follow(t, c, f, time.Duration(1+r.Int64N(int64(5*time.Second))), 20*time.Minute, func() {
				now := time.Now()
				is := c.best.errorAt(now)
				require.LessOrEqual(t, f.off(c).Abs(), is, "seed %d, after %v", seed, time.Since(f.began))
				if !last.IsZero() {
					require.LessOrEqual(t, is, bound+now.Sub(last)/1_000_000*bounds.Drift+2*bounds.Drift, "seed %d", seed)
				}
				last, bound = now, is
				f.delays = []delay{randomDelay(r), randomDelay(r), randomDelay(r)}
			})
			require.Less(t, f.queries, 20*60, "seed %d", seed)
			require.Less(t, bound, time.Second, "seed %d", seed)
		})
	}
}

// The database's clock is set, or another server takes the place of the database, whose clock is another one.
func TestClockFindsAnotherClock(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 2))
			f, c := &fakeServer{began: time.Now(), ahead: time.Hour}, new(clock)
			// Late packets until shortly after the clock was set.
			late := func() { f.delays = []delay{randomDelay(r), randomDelay(r), randomDelay(r)} }
			follow(t, c, f, time.Second, 5*time.Minute, late)
			f.ahead += time.Duration(r.NormFloat64() * float64(time.Minute))
			follow(t, c, f, time.Second, time.Minute, late)
			f.delays = nil
			// Two that are due, each with its confirmation.
			follow(t, c, f, time.Second, 2*bounds.MeasureAfter+bounds.MaxMeasurements*time.Second, func() {})
			require.LessOrEqual(t, f.off(c).Abs(), 2*bounds.Stale, "seed %d", seed)
		})
	}
}

// An answer is read long after it has arrived, because the process was suspended, and no clock of the host shows it: the
// bound is wrong, and the measurement is contradicted.
func TestClockIsNotMovedByOneWrongBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := &fakeServer{began: time.Now(), ahead: time.Hour}, new(clock)
		follow(t, c, f, time.Second, time.Minute, func() {})
		wrong := true
		time.Sleep(bounds.MeasureAfter)
		require.NoError(t, c.refresh(func() (reading, error) {
			read, err := f.query()
			if wrong {
				wrong, read.now = false, read.now.Add(-time.Minute)
			}
			return read, err
		}))
		require.Less(t, f.off(c).Abs(), time.Millisecond)
		follow(t, c, f, time.Second, time.Minute, func() { require.Less(t, f.off(c).Abs(), time.Millisecond) })
	})
}

// A proxy sends each query to another of two servers. The clock is one of theirs, or between them, and there is no storm of
// queries.
func TestClockOfTwoServersIsMeasuredNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := &fakeServer{began: time.Now()}, new(clock)
		follow(t, c, f, time.Second, 10*time.Minute, func() {
			assert.Contains(t, []time.Duration{0, time.Second}, time.Until(time.Unix(0, c.now())).Round(100*time.Millisecond))
			f.ahead = time.Second - f.ahead
		})
		assert.Less(t, f.queries, 10*20)
	})
}

// The database does not respond for a while.
func TestClockIsMeasuredSoonAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c, tried := &fakeServer{began: time.Now(), ahead: time.Hour}, new(clock), 0
		require.NoError(t, c.refresh(f.query))
		for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
			require.NoError(t, c.refresh(func() (reading, error) { tried++; return reading{}, assert.AnError }))
		}
		assert.Less(t, tried, 100)
		assert.Greater(t, tried, 20)

		f.ahead = 2 * time.Hour
		c.hurry()
		require.NoError(t, c.refresh(f.query))
		assert.Less(t, f.off(c).Abs(), time.Millisecond, "another server has taken its place")
	})
}
