package sqlstore

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/limithttp"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/group"
)

// slow is a backend that executes each batch after a while, and returns after another one, whatever the context.
type slow struct {
	memstore.Store
	before, after time.Duration
}

func (s *slow) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	time.Sleep(s.before)
	answers, err := s.Store.Do(context.WithoutCancel(ctx), calls)
	time.Sleep(s.after)
	return answers, err
}

var (
	goneSlots   = runtime.Policy{Name: "slots", Kind: runtime.InFlight, Slots: 10, Hold: time.Hour}
	goneHasty   = runtime.Policy{Name: "hasty", Kind: runtime.InFlight, Slots: 10, Hold: time.Hour, Timeout: 100 * time.Millisecond, OnError: runtime.FailOpen}
	goneReserve = runtime.Policy{Name: "reserved", Kind: runtime.TokenBucket, Rate: 10, Period: 1000 * time.Hour, Capacity: 10, MaxReserved: 100}
	goneWindow  = runtime.Policy{Name: "window", Kind: runtime.SlidingWindow, Rate: 10, Period: 1000 * time.Hour, Capacity: 10}
)

// goneCaller is a caller of a verb, who may be gone before the answer. If it gets an answer, it gives back the tokens or
// slots itself.
type goneCaller struct {
	*testing.T
	*limiter.Limiter
	key runtime.Key
}

// acquired releases a slot that a caller has got.
func (c goneCaller) acquired(s *limiter.Slot, err error) error {
	if err == nil {
		require.NoError(c, s.Release(context.Background()))
	}
	return err
}

// reserved cancels a reservation that a caller has got.
func (c goneCaller) reserved(r interface{ Cancel(context.Context) error }, err error) error {
	if err == nil {
		require.NoError(c, r.Cancel(context.Background()))
	}
	return err
}

// together releases what a caller has got by All.
func (c goneCaller) together(ds limiter.Decisions, err error) error {
	for i := range ds.Each {
		if s, ok := ds.Slot(i); ok {
			require.NoError(c, s.Release(context.Background()))
		}
		if r, ok := ds.Settlement(i); ok {
			require.NoError(c, r.Cancel(context.Background()))
		}
	}
	return err
}

// Every way to hold something.
var goneVerbs = map[string]func(c goneCaller, ctx context.Context) error{
	"Acquire": func(c goneCaller, ctx context.Context) error {
		return c.acquired(c.Slots(&goneSlots, c.key).AcquireN(ctx, 2))
	},
	"WaitAcquire": func(c goneCaller, ctx context.Context) error {
		return c.acquired(c.Slots(&goneSlots, c.key).WaitAcquire(ctx))
	},
	"Slot.Do": func(c goneCaller, ctx context.Context) error {
		s, err := c.Slots(&goneSlots, c.key).Acquire(ctx)
		if err != nil {
			return err
		}
		return s.Do(ctx, func(context.Context) error { return nil })
	},
	"All": func(c goneCaller, ctx context.Context) error {
		return c.together(c.All(ctx, c.Limit(&goneWindow, c.key).N(3), c.Slots(&goneSlots, c.key)))
	},
	"Decisions.Do": func(c goneCaller, ctx context.Context) error {
		ds, err := c.All(ctx, c.Slots(&goneSlots, c.key), c.Slots(&goneHasty, c.key).Checked())
		if err != nil {
			return err
		}
		return ds.Do(ctx, func(context.Context) error { return nil })
	},
	"Group.Allow": func(c goneCaller, ctx context.Context) error {
		return c.together(c.Group(c.Slots(&goneSlots, c.key).ItemN(3), c.Limit(&goneWindow, c.key)).Allow(ctx))
	},
	"Reserve": func(c goneCaller, ctx context.Context) error {
		return c.reserved(c.Reservable(&goneReserve, c.key).ReserveN(ctx, 15))
	},
	"ReserveAll": func(c goneCaller, ctx context.Context) error {
		return c.reserved(c.ReserveAll(ctx, c.Reservable(&goneReserve, c.key).N(15), c.Limit(&goneWindow, c.key), c.Slots(&goneSlots, c.key)))
	},
	"Wait": func(c goneCaller, ctx context.Context) error {
		err := c.Reservable(&goneReserve, c.key).WaitN(ctx, 5)
		if err == nil {
			require.NoError(c, c.Limit(&goneReserve, c.key).Reset(context.Background())) // they were used
		}
		return err
	},
	"onError: open": func(c goneCaller, ctx context.Context) error {
		s, err := c.Slots(&goneHasty, c.key).Acquire(ctx)
		if err == nil && s.FailedOpen != nil {
			return s.FailedOpen // it passes, and holds nothing
		}
		return c.acquired(s, err)
	},
	"limithttp.InFlight": func(c goneCaller, ctx context.Context) error {
		served := false
		limithttp.New(c.Limiter, limithttp.Options{}).
			InFlight(func(*http.Request) (limiter.SlotLimit, error) { return c.Slots(&goneSlots, c.key), nil }).
			Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true })).
			ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/", nil))
		if !served {
			return context.Cause(ctx)
		}
		return nil
	},
}

// Whatever a caller holds, by whatever verb, and whenever its context ends before the answer, is given back, and so it is
// when the backend answers a batch that was given up.
func TestNothingIsHeldForACallerThatHasGone(t *testing.T) {
	for name, takes := range map[string]struct{ before, after time.Duration }{
		"before execution": {200 * time.Millisecond, 0},
		"after execution":  {0, 200 * time.Millisecond},
		"abandoned":        {0, 7 * time.Second},
	} {
		for options, o := range map[string]group.Options{"batches": {}, "one writer": {OneWriter: true}, "no batches": {Batch: 1}} {
			for verb, call := range goneVerbs {
				t.Run(name+"/"+options+"/"+verb, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { testGone(t, &slow{before: takes.before, after: takes.after}, o, call) })
				})
			}
		}
	}
}

func testGone(t *testing.T, backend *slow, o group.Options, call func(goneCaller, context.Context) error) {
	u := newUndoer(nil)
	o.Undelivered = u.undelivered
	s := group.New(backend, o)
	u.store = s
	l := limiter.New(s)
	var all sync.WaitGroup
	var gone atomic.Int64
	// Two keys, so that callers share batches and wait for one another.
	for i := range 6 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond+time.Duration(i)*30*time.Millisecond)
			defer cancel()
			if call(goneCaller{t, l, runtime.KeyOf(runtime.Int(i % 2))}, ctx) != nil {
				gone.Add(1)
			}
		})
	}
	all.Wait()
	require.NotZero(t, gone.Load(), "a caller has gone")
	time.Sleep(time.Minute) // the backend returns from abandoned batches
	require.NoError(t, s.Shutdown(t.Context()))
	require.NoError(t, u.shutdown(t.Context()))
	for key := range 2 {
		for _, p := range []*runtime.Policy{&goneSlots, &goneHasty, &goneReserve, &goneWindow} {
			b, err := limiter.New(&backend.Store).Limit(p, runtime.KeyOf(runtime.Int(key))).Peek(t.Context())
			require.NoError(t, err)
			require.Zero(t, b.Used, "%s: %v", p.Name, b)
		}
	}
}
