package middleware

import (
	"sync/atomic"
	"time"
)

// Pace is for what happens at most once a second, such as lines of a log. The zero Pace is ready to use, by several
// goroutines.
type Pace struct{ last atomic.Int64 }

// Due reports whether it may happen, and if so, counts it. A clock that goes back does not stop it.
func (p *Pace) Due(now time.Time) bool {
	at, last := now.UnixNano(), p.last.Load()
	since := at - last
	return (last == 0 || since < 0 || since >= int64(time.Second)) && p.last.CompareAndSwap(last, at)
}
