// Command app uses each verb of generated code, and prints the results.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"

	"example.com/app/groups"
	"example.com/app/kinds"
)

func main() {
	now := time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC)
	store := &runtime.MemStore{Clock: func() time.Time { return now }}
	limits := kinds.New(store)
	ctx := context.Background()

	take(limits, ctx)
	reserve(limits, ctx)
	several(limits, ctx)
	withoutStore(ctx)
	grouped(groups.New(&runtime.MemStore{Clock: func() time.Time { return now }}), ctx)

	now = now.Add(15 * 24 * time.Hour)
	swept, err := store.Sweep(ctx, kinds.Policies()...)
	fmt.Println("sweep:", swept, "of", swept+store.Len(), err)
}

func take(limits *kinds.Limits, ctx context.Context) {
	plain := limits.Plain("ann")
	fmt.Println(plain.Allow(ctx))
	taken, err := plain.AllowN(ctx, 9)
	fmt.Println(taken, err)
	fmt.Println(plain.Check(ctx))
	fmt.Println(limits.Plain("bob").Check(ctx))

	err = plain.Require(ctx)
	var limited *kinds.LimitedError
	fmt.Println(errors.As(err, &limited), errors.Is(err, kinds.ErrLimited), err)
	_, err = plain.AllowN(ctx, 11)
	fmt.Println(errors.Is(err, kinds.ErrExceedsCapacity), err)

	fmt.Println(plain.RefundN(ctx, taken, 2))
	balance, err := plain.Peek(ctx)
	fmt.Println(balance.Limit, balance.Remaining, "of", balance.Capacity, err)
	fmt.Println(plain.Wait(ctx), plain.Reset(ctx))
	fmt.Println(limits.Sliding("ann").AllowN(ctx, 100))
	fmt.Println(limits.Sharded().AllowN(ctx, 1_000_000))
}

func reserve(limits *kinds.Limits, ctx context.Context) {
	r, err := limits.Reservable("ann").ReserveN(ctx, 20)
	fmt.Println(r.Decision, err, r.Delay(), r.Settle(ctx, 10))
	fmt.Println(errors.Is(r.Cancel(ctx), kinds.ErrNotReserved))

	r, err = limits.ReserveOnly().Reserve(ctx)
	fmt.Println(r.Decision, err, r.Cancel(ctx))
}

func several(limits *kinds.Limits, ctx context.Context) {
	items := []kinds.Item{limits.EveryMorning(), limits.FirstUse().N(4)}
	fmt.Println(limits.All(ctx, items...))
	ds, err := limits.All(ctx, items...)
	fmt.Println(ds.Allowed, len(ds.Each), err)
}

func withoutStore(ctx context.Context) {
	_, err := new(kinds.Limits).OwnPhase().Allow(ctx)
	fmt.Println(err)
	var none *kinds.Limits
	_, err = none.OwnPhase().Allow(ctx)
	fmt.Println(err)
	_, err = none.All(ctx, none.OwnPhase())
	fmt.Println(err)
}

func grouped(limits *groups.Limits, ctx context.Context) {
	complete := limits.Complete("acme", "large")
	ds, err := complete.Allow(ctx, 900)
	fmt.Println(ds, err, ds.LLMRequests.Remaining, ds.LLMTokens.Remaining, ds.Suspended.Remaining)
	ds, err = complete.Check(ctx, 900)
	fmt.Println(ds, err, ds.DeniedBy(), ds.LLMTokens.RetryAfter == ds.RetryAfter)

	rs, err := complete.Reserve(ctx, 600)
	fmt.Println(rs.Delay(), err, rs.LLMRequests.Delay(), rs.LLMTokens.Settle(ctx, 100), rs.Cancel(ctx))
	fmt.Println(limits.LLMTokens("acme", "large").Peek(ctx))

	fmt.Println(limits.Suspended("acme").Require(ctx))
	err = complete.Require(ctx, 1)
	var limited *groups.LimitedError
	fmt.Println(errors.As(err, &limited), err)
	ds, err = complete.Allow(ctx, 1001)
	fmt.Println(errors.Is(err, groups.ErrExceedsCapacity), err, ds.Allowed, ds.LLMTokens.Allowed)

	bulk, err := limits.Bulk("acme", "small").Reserve(ctx, 3)
	fmt.Println(bulk.Delay(), err, bulk.LLMRequests.Remaining, bulk.Crawl.Cancel(ctx))
	fmt.Println(limits.Everything("acme", "small").Wait(ctx))
	fmt.Println(limits.ReserveAll(ctx, limits.Crawl().N(2), limits.Shared().Checked()))
}
