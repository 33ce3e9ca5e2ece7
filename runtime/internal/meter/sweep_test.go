package meter

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each step is what passes on the host since the one before, and the store's clock then.
func TestSweepClockBelievesAJumpAheadAfterAnHour(t *testing.T) {
	const day = 24 * time.Hour
	for name, steps := range map[string][]struct{ passes, at, want time.Duration }{
		"no jump":               {{0, 0, 0}, {day, day, day}, {time.Hour, day + time.Hour, day + time.Hour}},
		"back":                  {{0, 0, 0}, {time.Hour, -day, -day}, {time.Hour, time.Hour - day, time.Hour - day}},
		"ahead, then back":      {{0, 0, 0}, {time.Minute, 400 * day, time.Minute}, {time.Hour, time.Hour + time.Minute, time.Hour + time.Minute}},
		"ahead for good":        {{0, 0, 0}, {1, day, 1}, {time.Hour, day + time.Hour, day + time.Hour}},
		"ahead for good, daily": {{0, 0, 0}, {day, 9 * day, day}, {day, 10 * day, 10 * day}},
		"less than an hour":     {{0, 0, 0}, {1, day, 1}, {time.Hour - 1, day + time.Hour - 1, time.Hour}},
		"twice":                 {{0, 0, 0}, {1, day, 1}, {time.Hour / 2, 9 * day, 1 + time.Hour/2}, {time.Hour, 9*day + time.Hour, day + 3*time.Hour/2}},
		"by seconds":            {{0, 0, 0}, {time.Hour, time.Hour + 59*time.Second, time.Hour + 59*time.Second}},
		"faster by 200 ppm":     {{0, 0, 0}, {100 * day, 100*day + 1728*time.Second, 100*day + 1728*time.Second}},
	} {
		var c SweepClock
		host, start := time.Now(), time.Now().UnixNano()
		for i, s := range steps {
			host = host.Add(s.passes)
			assert.Equal(t, s.want, time.Duration(c.At(start+int64(s.at), host)-start), "%s, step %d", name, i)
		}
	}
}

// A clock is set ahead at random, each time for less than an hour, or back. No instant to sweep by is ahead of the right
// clock.
func TestSweepClockDoesNotBelieveShortJumps(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		var c SweepClock
		host, right := time.Now(), int64(0)
		look := func(offset time.Duration) {
			passes := time.Duration(r.Int64N(int64(29 * time.Minute)))
			host, right = host.Add(passes), right+int64(passes)
			require.LessOrEqual(t, c.At(right+int64(offset), host), right, "seed %d", seed)
		}
		for range 200 {
			look(0)
			for range r.IntN(3) {
				look(time.Duration(r.ExpFloat64() * float64(time.Duration(100*24)*time.Hour)))
			}
			look(0)
			for range r.IntN(10) {
				look(-time.Duration(r.ExpFloat64() * float64(time.Hour)))
			}
		}
		for range 3 {
			host, right = host.Add(time.Hour), right+int64(time.Hour)
			c.At(right, host)
		}
		require.Equal(t, right, c.At(right, host), "seed %d: one that lasts is believed", seed)
	}
}
