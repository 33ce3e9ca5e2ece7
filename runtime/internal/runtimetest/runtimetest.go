// Package runtimetest has what the tests of several packages under runtime share: limits, requests, the memory store on
// a clock that stands still, and random policies and requests.
package runtimetest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/ability"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/receipt"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/sweep"
)

// Epoch is the instant at which most tests begin: the start of a day in UTC.
var Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Bucket returns a token bucket of n tokens, which refills by one per second.
func Bucket(name string, n int64) *runtime.Policy {
	return &runtime.Policy{Name: name, Kind: runtime.TokenBucket, Rate: 1, Period: time.Second, Capacity: n}
}

// Reservable returns a bucket of n tokens, which refills by one per second, with n more to reserve.
func Reservable(n int64) *runtime.Policy {
	p := Bucket("limit", n)
	p.MaxReserved = n
	return p
}

// Overridable returns a bucket of 10 tokens an hour, of which operators can make 100 or none at all.
func Overridable() *runtime.Policy {
	return &runtime.Policy{
		Name: "calls", Kind: runtime.TokenBucket, Rate: 10, Period: time.Hour, Capacity: 10,
		Overrides: runtime.OverrideBounds{Rate: 100, Capacity: 100, Unlimited: true},
	}
}

// Once returns a limit of one token for each window of a calendar.
func Once(c runtime.Calendar) runtime.Policy {
	return runtime.Policy{Name: "limit", Kind: runtime.FixedWindow, Rate: 1, Capacity: 1, Period: c.Period(), Calendar: c}
}

// Take returns a request for n tokens.
func Take(n int64) runtime.Request { return runtime.Request{Op: runtime.Take, Count: n} }

// Reserve returns a request for n tokens that may be due later.
func Reserve(n int64) runtime.Request {
	return runtime.Request{Op: runtime.Take, Count: n, Reserve: true}
}

// UpTo returns a request for at most n tokens.
func UpTo(n int64) runtime.Request { return runtime.Request{Op: runtime.TakeUpTo, Count: n} }

// Check returns a check of n tokens.
func Check(n int64) runtime.Request { return runtime.Request{Op: runtime.Check, Count: n} }

// Charge returns a charge of n tokens.
func Charge(n int64) runtime.Request { return runtime.Request{Op: runtime.Charge, Count: n} }

// Refund returns a refund of n tokens.
func Refund(n int64) runtime.Request { return runtime.Request{Op: runtime.Refund, Count: n} }

// Peek returns a request that reads the tokens left.
func Peek() runtime.Request { return runtime.Request{Op: runtime.Peek} }

// Reset returns a request that makes a key full.
func Reset() runtime.Request { return runtime.Request{Op: runtime.Reset} }

// Call returns a call of requests.
func Call(requests ...runtime.Request) runtime.Call { return runtime.Call{Requests: requests} }

// Of returns q as a request for the key "k" of a limit.
func Of(p *runtime.Policy, q runtime.Request) runtime.Request {
	q.Policy, q.Key = p, "k"
	return q
}

// Do executes calls, and returns one answer per call.
func Do(t testing.TB, s runtime.Store, calls ...runtime.Call) []runtime.Answer {
	t.Helper()
	answers, err := s.Do(context.Background(), calls)
	require.NoError(t, err)
	require.Len(t, answers, len(calls))
	return answers
}

// Decide executes one request for the key "k", which is not an error.
func Decide(t testing.TB, s runtime.Store, p *runtime.Policy, q runtime.Request) runtime.Decision {
	t.Helper()
	answer := Do(t, s, Call(Of(p, q)))[0]
	require.NoError(t, answer.Err)
	return answer.Decisions[0]
}

// Left returns the number of tokens left for the key "k".
func Left(t testing.TB, s runtime.Store, p *runtime.Policy) float64 {
	t.Helper()
	return Decide(t, s, p, Peek()).Value
}

// WithoutReceipt returns a decision without what only refunds need.
func WithoutReceipt(d runtime.Decision) runtime.Decision {
	d.Receipt = receipt.Receipt{}
	return d
}

// Traced decorates a store and counts the calls of Do, as a user's decorator does.
type Traced struct {
	runtime.Store
	Calls *atomic.Int64
}

// Trace returns a decorated store.
func Trace(s runtime.Store) Traced { return Traced{s, new(atomic.Int64)} }

// TraceAll returns a store that is decorated twice, and fails a test in which one of its abilities is not found then.
func TraceAll(t testing.TB, s runtime.Store) Traced {
	t.Helper()
	traced := Trace(Trace(s))
	same := func(name string, had, has bool) {
		require.Equal(t, had, has, "a decorated %T is a %s as the store itself is", s, name)
	}
	type leases interface {
		TakeLocal(p *runtime.Policy, key string, n int64) (runtime.Decision, bool)
	}
	same("store with leases", can[leases](s), found[leases](traced))
	same("TxStore", can[runtime.TxStore](s), found[runtime.TxStore](traced))
	same("RowLister", can[runtime.RowLister](s), found[runtime.RowLister](traced))
	same("Eraser", can[runtime.Eraser](s), found[runtime.Eraser](traced))
	same("override.Store", can[override.Store](s), found[override.Store](traced))
	same("Sweeper", can[sweep.Sweeper](s), found[sweep.Sweeper](traced))
	return traced
}

func can[A any](s runtime.Store) bool { _, ok := s.(A); return ok }

func found[A any](s runtime.Store) bool { _, ok := ability.Of[A](s); return ok }

// Do implements [runtime.Store].
func (t Traced) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	t.Calls.Add(int64(len(calls)))
	return t.Store.Do(ctx, calls)
}

// Unwrap gives the store the abilities of the decorated one.
func (t Traced) Unwrap() runtime.Store { return t.Store }
