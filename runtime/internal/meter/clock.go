package meter

import (
	"fmt"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// ReadClock returns the present by the clock of a store, in nanoseconds since 1970 UTC. The error is
// [runtime.ErrInvalidCall] if the clock shows an instant that cannot be calculated with, as one does that was never set.
func ReadClock(clock func() time.Time) (int64, error) {
	const first, last = 1700, 2240 // an int64 has the years 1678 to 2262, and a period is at most 10 years
	now := clock()
	if year := now.UTC().Year(); year < first || year > last {
		return 0, fmt.Errorf("%w: the clock of the store shows %v, and must show an instant of the years %d to %d",
			runtime.ErrInvalidCall, now, first, last)
	}
	return now.UnixNano(), nil
}
