package runtime_test

import (
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// epoch is the instant at which most tests begin: the start of a day in UTC.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func take(n int64) runtime.Request   { return runtime.Request{Op: runtime.Take, Count: n} }
func check(n int64) runtime.Request  { return runtime.Request{Op: runtime.Check, Count: n} }
func refund(n int64) runtime.Request { return runtime.Request{Op: runtime.Refund, Count: n} }
func charge(n int64) runtime.Request { return runtime.Request{Op: runtime.Charge, Count: n} }
func reserve(n int64) runtime.Request {
	return runtime.Request{Op: runtime.Take, Count: n, Reserve: true}
}
func peek() runtime.Request  { return runtime.Request{Op: runtime.Peek} }
func reset() runtime.Request { return runtime.Request{Op: runtime.Reset} }

// within returns q as a question that refuses a delay of more than d.
func within(d time.Duration, q runtime.Request) runtime.Request {
	q.MaxDelay = d
	return q
}
