package middleware

import (
	"sync/atomic"
	"time"
)

// Pace is for what happens at most once a second, such as lines of a log. The zero Pace is ready to use, by several
// goroutines.
type Pace struct{ next atomic.Int64 }

// Due reports whether it may happen, and if so, counts it.
func (p *Pace) Due(now time.Time) bool {
	at, next := now.UnixNano(), p.next.Load()
	return at >= next && p.next.CompareAndSwap(next, at+int64(time.Second))
}
