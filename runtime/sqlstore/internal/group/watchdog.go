package group

import (
	"time"
)

// check runs when the watchdog fires. It ends the flights that have exceeded their time.
func (q *queue) check() { q.expire(time.Now()) }

// expire fails the batches that have exceeded their time, and sets the watchdog for the others.
func (q *queue) expire(now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.watched = time.Time{}
	for i := len(q.flights) - 1; i >= 0; i-- {
		q.expireFlightLocked(q.flights[i], now)
	}
	q.removeLocked(func(b *batch) bool {
		return !now.Before(b.created.Add(Timeout)) && b.end(nil, errTimeout)
	})
	q.goOnLocked()
	for _, f := range q.flights {
		for _, b := range f.after {
			q.watchLocked(b.created.Add(Timeout))
		}
	}
	for _, b := range q.waiting {
		q.watchLocked(b.created.Add(Timeout))
	}
}

// expireFlightLocked cancels or abandons a flight that has exceeded its time. After it was abandoned, the queue goes on
// while the backend still runs it, unless there is one writer.
func (q *queue) expireFlightLocked(f *flight, now time.Time) {
	if f.lone != nil && !f.late && f.lone.Err() != nil {
		f.late = true
		f.deadline = earlier(f.deadline, now.Add(glance))
	}
	if f.keys != nil && !f.lost && !now.Before(f.patience) {
		// Its connection is probably silent. Then its rows are free, or the database makes the next statement wait.
		f.lost = true
		q.releaseLocked(f)
	}
	switch {
	case now.Before(f.deadline):
	case f.ctx.Err() == nil:
		// Most drivers return soon after their context has ended, with an error that says more than a timeout.
		f.cancel()
		f.deadline = now.Add(grace)
	default:
		f.end(nil, errTimeout)
		if !q.oneWriter {
			q.endLocked(f)
		}
		return
	}
	next := f.deadline
	if f.lone != nil && !f.late && f.lone.Done() != nil {
		next = earlier(next, now.Add(glance))
	}
	if len(f.after) > 0 {
		next = earlier(next, f.patience)
	}
	q.watchLocked(next)
}
