package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// newYear is a fixed clock, so that the examples print the same every time. Without a Clock, a memstore.Store uses
// time.Now.
func newYear() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// A Policy can be written in Go, without limits.yaml and generated code.
func Example() {
	sendMessage := &runtime.Policy{
		Name:     "sendMessage",
		Kind:     runtime.TokenBucket,
		Rate:     10,
		Period:   time.Minute,
		Capacity: 2,
	}
	limits := limiter.New(&memstore.Store{Clock: newYear})
	ctx := context.Background()
	for _, user := range []int64{42, 42, 42, 43} {
		d, err := limits.Limit(sendMessage, runtime.KeyOf(runtime.Int64(user))).Allow(ctx)
		if err != nil {
			fmt.Println("no decision:", err)
			return
		}
		fmt.Printf("user %d: %v\n", user, d)
	}
	// Output:
	// user 42: allowed, 1 left
	// user 42: allowed, 0 left
	// user 42: denied, retry after 6s
	// user 43: allowed, 1 left
}

// perMinute returns a bucket of n tokens per minute, of which n more can be reserved.
func perMinute(name string, n int64) *runtime.Policy {
	return &runtime.Policy{Name: name, Kind: runtime.TokenBucket, Rate: n, Period: time.Minute, Capacity: n, MaxReserved: n}
}

// limit returns a limit of n tokens per minute in a new store.
func limit(n int64) limiter.ReservableLimit {
	limits := limiter.New(&memstore.Store{Clock: newYear})
	return limits.Reservable(perMinute("llmTokens", n), runtime.KeyOf(runtime.String("team")))
}

func ExampleLimit_AllowN() {
	l, ctx := limit(100), context.Background()
	fmt.Println(l.AllowN(ctx, 80))
	fmt.Println(l.AllowN(ctx, 80))
	fmt.Println(l.AllowN(ctx, 101))
	// Output:
	// allowed, 20 left <nil>
	// denied, retry after 36s <nil>
	// denied limit "llmTokens": count exceeds capacity: 101 is more than the capacity, 100
}

func ExampleLimit_Check() {
	l, ctx := limit(1), context.Background()
	fmt.Println(l.Check(ctx))
	fmt.Println(l.Allow(ctx))
	fmt.Println(l.Check(ctx))
	// Output:
	// allowed, 1 left <nil>
	// allowed, 0 left <nil>
	// denied, retry after 1m <nil>
}

func ExampleLimit_Require() {
	l, ctx := limit(1), context.Background()
	fmt.Println(l.Require(ctx))
	err := l.Require(ctx)
	fmt.Println(err)
	if limited, ok := errors.AsType[*runtime.LimitedError](err); ok {
		fmt.Println("Retry-After:", limited.RetryAfter.Seconds())
	}
	// Output:
	// <nil>
	// limit "llmTokens": rate limited, retry after 1m
	// Retry-After: 60
}

// Reserve an estimate, and settle when the real use is known.
func ExampleReservableLimit_ReserveN() {
	l, ctx := limit(1000), context.Background()
	first, _ := l.ReserveN(ctx, 800)
	second, _ := l.ReserveN(ctx, 800)
	third, _ := l.ReserveN(ctx, 500)
	fmt.Println(first.Delay(), second.Delay(), third.Allowed)

	_ = first.Settle(ctx, 300)
	_ = second.Cancel(ctx)
	b, _ := l.Peek(ctx)
	fmt.Println(b.Remaining)
	// Output:
	// 0s 36s false
	// 700
}

// With capacity 0 tokens never accumulate: callers pass one at a time, evenly spaced.
func ExampleReserveOnlyLimit_Reserve() {
	p := &runtime.Policy{Name: "crawl", Kind: runtime.TokenBucket, Rate: 2, Period: time.Second, MaxReserved: 10}
	l := limiter.New(&memstore.Store{Clock: newYear}).ReserveOnly(p, runtime.Key{})
	for range 3 {
		r, _ := l.Reserve(context.Background())
		fmt.Println(r.Delay())
	}
	// Output:
	// 500ms
	// 1s
	// 1.5s
}

func ExampleLimit_Wait() {
	l := limit(1)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	fmt.Println(l.Wait(ctx))
	fmt.Println(l.Wait(ctx) != nil) // the next token accrues after the deadline
	// Output:
	// <nil>
	// true
}

func ExampleLimit_Refund() {
	l, ctx := limit(5), context.Background()
	d, err := l.AllowN(ctx, 3)
	fmt.Println(d, err)
	fmt.Println(l.RefundN(ctx, d, 2)) // only one was used
	// Output:
	// allowed, 2 left <nil>
	// allowed, 4 left <nil>
}

func ExampleLimit_Peek() {
	l, ctx := limit(5), context.Background()
	_, _ = l.AllowN(ctx, 2)
	b, _ := l.Peek(ctx)
	fmt.Printf("%d of %d, full after %v\n", b.Remaining, b.Capacity, b.FullAfter)
	// Output:
	// 3 of 5, full after 24s
}

func ExampleLimit_Reset() {
	l, ctx := limit(5), context.Background()
	_, _ = l.AllowN(ctx, 5)
	fmt.Println(l.Reset(ctx))
	fmt.Println(l.Check(ctx))
	// Output:
	// <nil>
	// allowed, 5 left <nil>
}

func ExampleLimiter_All() {
	limits, ctx := limiter.New(&memstore.Store{Clock: newYear}), context.Background()
	requests := limits.Limit(perMinute("llmRequests", 2), runtime.Key{})
	tokens := limits.Limit(perMinute("llmTokens", 1000), runtime.Key{})
	for range 2 {
		ds, _ := limits.All(ctx, requests, tokens.N(800))
		fmt.Println(ds.Allowed, ds.RetryAfter)
		for _, d := range ds.Each {
			fmt.Printf("  %s: %v\n", d.Limit, d)
		}
	}
	b, _ := requests.Peek(ctx)
	fmt.Println(b.Remaining, "request left: the second call took none")
	// Output:
	// true 0s
	//   llmRequests: allowed, 1 left
	//   llmTokens: allowed, 200 left
	// false 36s
	//   llmRequests: allowed, 1 left
	//   llmTokens: denied, retry after 36s
	// 1 request left: the second call took none
}

// An estimate is reserved of two limits, provided that the team is not suspended, and settled when the use is known.
func ExampleLimiter_ReserveAll() {
	limits, ctx := limiter.New(&memstore.Store{Clock: newYear}), context.Background()
	p := perMinute("llmTokens", 1000)
	p.MaxReserved = 1000
	tokens := limits.Reservable(p, runtime.Key{})
	requests := limits.Limit(perMinute("llmRequests", 2), runtime.Key{})
	suspended := limits.Limit(perMinute("suspended", 1), runtime.Key{})

	rs, _ := limits.ReserveAll(ctx, requests, tokens.N(1500), suspended.Checked())
	fmt.Println(rs.Allowed, rs.Delay())
	fmt.Println(rs.At(1).Settle(ctx, 200)) // only 200 tokens were used
	fmt.Println(tokens.Peek(ctx))

	rs, _ = limits.ReserveAll(ctx, requests, tokens)
	fmt.Println(rs.Allowed, rs.Cancel(ctx)) // nothing was used
	fmt.Println(requests.Peek(ctx))
	// Output:
	// true 30s
	// <nil>
	// 800 of 1,000 left, full after 12s <nil>
	// true <nil>
	// 1 of 2 left, full after 30s <nil>
}

// A stream takes the cost of an estimate, and settles for its usage. Generated code has such a type for each limit with
// prices.
func ExamplePriced() {
	limits, ctx := limiter.New(&memstore.Store{Clock: newYear}), context.Background()
	budget := &runtime.Policy{Name: "llmSpend", Kind: runtime.FixedWindow, Rate: 50_000, Capacity: 50_000, Period: 24 * time.Hour}
	team := limiter.Priced[spent](limits.Limit(budget, runtime.KeyOf(runtime.String("blue"))))

	r, _ := team.Reserve(ctx, spent{Input: 1_000, Output: 2_000})
	fmt.Println(r.Taken, "of", budget.Capacity)
	fmt.Println(r.Settle(ctx, spent{Input: 200, Cached: 800, Output: 35}))
	b, _ := team.Peek(ctx)
	fmt.Println(b.Used, "used")
	// Output:
	// 33000 of 50000
	// <nil>
	// 1365 used
}

func ExampleOnWarn() {
	monthly := &runtime.Policy{
		Name: "monthlyReports", Kind: runtime.FixedWindow, Rate: 100, Capacity: 100,
		Period: runtime.Calendar{Unit: runtime.Month}.Period(), Calendar: runtime.Calendar{Unit: runtime.Month, Zone: "UTC"},
		Warn: runtime.Thresholds{80, 100},
	}
	limits := limiter.New(&memstore.Store{Clock: newYear}, limiter.OnWarn(func(_ context.Context, w runtime.Warning) {
		fmt.Printf("%v, until %v\n", w, w.ResetAt.UTC().Format(time.DateOnly))
	}))
	partner := limits.Limit(monthly, runtime.KeyOf(runtime.String("acme")))
	for range 110 {
		if _, err := partner.Allow(context.Background()); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// monthlyReports: 80% of 100 used, until 2026-02-01
	// monthlyReports: 100% of 100 used, until 2026-02-01
}
