package limiter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// firstPause and longestPause bound the time between two tries of [Retry.Do].
const firstPause, longestPause = 100 * time.Millisecond, 10 * time.Second

// Retry repeats calls while the store fails, for workers that nobody restarts. The zero Retry is ready for use,
// and goroutines share one, so that an outage is reported once:
//
//	retry := limiter.Retry{Report: observe.LogOutage}
//	for job := range jobs {
//		if err := retry.Do(ctx, limit.SendMessage(job.UserID).Wait); err != nil {
//			return fmt.Errorf("job %d was not run: %w", job.ID, err)
//		}
//		job.Run(ctx)
//	}
type Retry struct {
	// Report, if it is not nil, is called with the first error of an outage, and with nil when the store is back:
	// observe.LogOutage logs both.
	Report func(error)
	// since is when the outage began, in nanoseconds; 0 without one.
	since atomic.Int64
}

// Do calls f until the store does not fail, such as Wait of a limit, or a function that keeps the result of WaitReserve. The
// pauses between the calls grow from a tenth of a second to ten seconds.
//
// The error is that of the context if it ends. What another call would not mend is returned at once: a denial as a
// [*runtime.LimitedError], as of a key that is blocked, and an error whose [runtime.OriginOf] is not [runtime.OriginStore].
// After an error there are no tokens for the work: put it back.
func (r *Retry) Do(ctx context.Context, f func(context.Context) error) error {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		begun := time.Now().UnixNano()
		err := f(ctx)
		switch {
		case err == nil || errors.Is(err, runtime.ErrLimited) || runtime.OriginOf(err) != runtime.OriginStore:
			// A call that began before the outage may have slept through it.
			if since := r.since.Load(); since != 0 && since <= begun && r.since.CompareAndSwap(since, 0) {
				r.report(nil)
			}
			return err
		case ended(ctx) != nil:
			return err
		case r.since.CompareAndSwap(0, time.Now().UnixNano()):
			r.report(err)
		}
		if ended := sleep(ctx, pause/2+rand.N(pause/2), nil); ended != nil {
			return fmt.Errorf("%w: %w", ended, err)
		}
	}
}

func (r *Retry) report(err error) {
	if r.Report != nil {
		r.Report(err)
	}
}
