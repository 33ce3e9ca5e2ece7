// Command app uses each verb of generated code, and prints the results.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"

	"example.com/app/groups"
	"example.com/app/kinds"
	"example.com/app/numbers"
	"example.com/app/plans"
	"example.com/app/prices"
)

func main() {
	now := time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC)
	store := &memstore.Store{Clock: func() time.Time { return now }}
	limits := kinds.New(store)
	ctx := context.Background()

	take(limits, ctx)
	reserve(limits, ctx)
	several(limits, ctx)
	withoutStore(ctx)
	inFlight(ctx)
	grouped(groups.New(&memstore.Store{Clock: func() time.Time { return now }}), ctx)
	byPlan(&memstore.Store{Clock: store.Clock}, ctx)
	fromCallers(numbers.New(&memstore.Store{Clock: store.Clock}), ctx)
	overridden(numbers.New(&memstore.Store{Clock: store.Clock}), ctx, now.Add(24*time.Hour))
	keyed(ctx)
	priced(prices.New(&memstore.Store{Clock: store.Clock}), ctx)

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

func inFlight(ctx context.Context) {
	now := time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC)
	store := &memstore.Store{Clock: func() time.Time { return now }}
	running := kinds.New(store).Running(7)
	first, err := running.Acquire(ctx)
	fmt.Println(first.Allowed, first.Fence > 0, err)
	second, err := running.Acquire(ctx)
	fmt.Println(second.Allowed, second.Fence > first.Fence, err)
	var third *kinds.Slot
	third, err = running.Acquire(ctx)
	fmt.Println(third.Allowed, third.RetryAfter, third.Fence, err)
	balance, err := running.Peek(ctx)
	fmt.Println(balance.Used, "of", balance.Capacity, err)
	fmt.Println(first.Release(ctx))
	fmt.Println(errors.Is(first.Release(ctx), kinds.ErrSlotLost))
	now = now.Add(time.Minute)
	fmt.Println(second.Renew(ctx))
	now = now.Add(2*time.Minute - 1)
	third, err = running.Acquire(ctx)
	fmt.Println(third.Allowed, err)
	fmt.Println(third.Do(ctx, func(ctx context.Context) error { fmt.Println("runs"); return ctx.Err() }))
	now = now.Add(1)
	fmt.Println(errors.Is(second.Renew(ctx), kinds.ErrSlotLost), errors.Is(second.Release(ctx), kinds.ErrSlotLost))
	_, err = running.AcquireN(ctx, 3)
	fmt.Println(errors.Is(err, kinds.ErrExceedsCapacity), err)

	store = &memstore.Store{Clock: store.Clock}
	of := groups.New(store)
	ds, err := of.Export("red", "large").Allow(ctx, 3)
	fmt.Println(ds.Allowed, ds.Exports.Remaining, ds.LLMRequests.Remaining, err)
	denied, err := of.Export("red", "large").Allow(ctx, 1)
	fmt.Println(denied.Allowed, denied.ExportsSlot, denied.LLMRequests.Remaining, denied.DeniedBy(), err)
	fmt.Println(ds.ExportsSlot.Release(ctx))
	rs, err := of.Reserved("red", "large").Reserve(ctx, 5)
	fmt.Println(rs.Allowed, rs.ExportsSlot.Fence > 0, rs.Cancel(ctx), err)
	balance, err = of.Exports("red").Peek(ctx)
	fmt.Println(balance.Used, "of", balance.Capacity, err)
	jobs, err := plans.New(store).Jobs(7, plans.PlanProYearly).Acquire(ctx)
	fmt.Println(jobs.Allowed, jobs.Remaining, err)
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

	rs, err = limits.Complete("initech", "large").WaitReserve(ctx, 600)
	fmt.Println(rs.Delay(), err, rs.LLMTokens.Settle(ctx, 100))
	fmt.Println(limits.LLMTokens("initech", "large").Peek(ctx))
	soon, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	rs, err = limits.Complete("initech", "large").WaitReserve(soon, 1000)
	fmt.Println(rs == nil, errors.Is(err, context.DeadlineExceeded))

	bulk, err := limits.Bulk("acme", "small").Reserve(ctx, 3)
	fmt.Println(bulk.Delay(), err, bulk.LLMRequests.Remaining, bulk.Crawl.Cancel(ctx))
	fmt.Println(limits.Everything("acme", "small").Wait(ctx))
	fmt.Println(limits.ReserveAll(ctx, limits.Crawl().N(2), limits.Shared().Checked()))

	// Two keys of one limit, which may be one key.
	transfer, err := limits.Transfer("ann", "bob").Allow(ctx, 60_000)
	fmt.Println(transfer, err, transfer.TransfersSender.Remaining, transfer.TransfersReceiver.Remaining, transfer.VolumeSender.Remaining, transfer.VolumeReceiver.Remaining)
	transfer, err = limits.Transfer("bob", "ann").Allow(ctx, 60_000)
	fmt.Println(transfer.Allowed, err, transfer.DeniedBy(), transfer.VolumeSender.Allowed, transfer.VolumeReceiver.Allowed)
	transfer, err = limits.Transfer("cid", "cid").Allow(ctx, 60_000)
	fmt.Println(transfer, err, transfer.TransfersReceiver.Remaining, transfer.VolumeSender.Remaining, transfer.VolumeReceiver.Remaining)
	_, err = limits.Transfer("dan", "eve").Check(ctx, 100_001)
	fmt.Println(errors.Is(err, groups.ErrExceedsCapacity), err)
	moved, err := limits.Transfer("dan", "eve").Reserve(ctx, 1)
	fmt.Println(moved.Delay(), err, moved.TransfersReceiver.Cancel(ctx), moved.VolumeSender.Settle(ctx, 0))
}

func byPlan(store runtime.Store, ctx context.Context) {
	limits := plans.New(store)
	// One key has one count, whatever its plan.
	fmt.Println(limits.Monthly("ann", "", "", plans.PlanFree).AllowN(ctx, 100))
	fmt.Println(limits.Monthly("ann", "", "", plans.PlanFree).Allow(ctx))
	fmt.Println(limits.APICalls(7, plans.PlanEnterprise).AllowN(ctx, 1_000_000))
	r, err := limits.APICalls(7, plans.PlanFree).ReserveN(ctx, 25)
	fmt.Println(r.Decision, err, r.Cancel(ctx))
	fmt.Println(limits.All(ctx, limits.APICalls(7, plans.PlanEnterprise).N(1_000_000), limits.APICalls(8, plans.PlanFree), limits.APICalls(9, plans.PlanProYearly)))
	fmt.Println(limits.All(ctx, limits.APICalls(8, plans.PlanFree), limits.APICalls(8, plans.PlanProYearly)))

	// Exceptions of single keys come before the plan, in groups too.
	fmt.Println(limits.APICalls(1007, plans.PlanFree).AllowN(ctx, 1_000))
	fmt.Println(limits.APICalls(1042, plans.PlanFree).AllowN(ctx, 1_000_000))
	fmt.Println(limits.APICalls(1013, plans.PlanEnterprise).Allow(ctx))
	// Without a bound, and counted: for a plan, and for the key 1042.
	fmt.Println(limits.Builds(7, plans.PlanEnterprise).AllowN(ctx, 1_000_000))
	fmt.Println(limits.Builds(7, plans.PlanEnterprise).ReserveN(ctx, 5))
	fmt.Println(limits.Builds(7, plans.PlanFree).Allow(ctx))
	fmt.Println(limits.Builds(1042, plans.PlanFree).AllowN(ctx, 2_000))
	for _, org := range []int64{7, 1042} {
		b, err := limits.Builds(org, plans.PlanEnterprise).Peek(ctx)
		fmt.Println(b, b.Used, err)
	}
	exported, err := limits.Export(1013, "name", plans.PlanFree).Allow(ctx, 1)
	fmt.Println(exported.Allowed, err)

	// No request of an invalid plan is allowed.
	var zero plans.Plan
	_, err = limits.APICalls(7, zero).Allow(ctx)
	fmt.Println(errors.Is(err, plans.ErrInvalidPlan), err)
	_, err = limits.APICalls(7, zero).Reserve(ctx)
	fmt.Println(errors.Is(err, plans.ErrInvalidPlan), errors.Is(limits.Search(9).Wait(ctx), plans.ErrInvalidPlan))
	_, err = limits.All(ctx, limits.SignUp("ann"), limits.APICalls(7, zero))
	fmt.Println(errors.Is(err, plans.ErrInvalidPlan), err)
	_, err = plans.New(nil).WithTx(nil).Monthly("ann", "", "", 9).Check(ctx)
	fmt.Println(errors.Is(err, plans.ErrInvalidPlan), err)

	byPlanTogether(limits, ctx)
	prioritized(limits, ctx)

	// Text and back.
	for _, plan := range plans.Plans() {
		parsed, err := plans.ParsePlan(plan.String())
		text, textErr := json.Marshal(map[plans.Plan]plans.Plan{plan: plan})
		var again map[plans.Plan]plans.Plan
		stored, valueErr := plan.Value()
		var scanned plans.Plan
		fmt.Println(plan, parsed == plan, string(text), json.Unmarshal(text, &again), again[plan] == plan, stored, scanned.Scan(stored), scanned == plan, errors.Join(err, textErr, valueErr))
	}
	fmt.Println(plans.ParsePlan("gold"))
	_, err = json.Marshal(zero)
	fmt.Println(errors.Is(err, plans.ErrInvalidPlan), zero, plans.Plan(9))
	kept := plans.PlanFree
	fmt.Println(json.Unmarshal([]byte(`"Free"`), &kept), kept.Scan(nil), kept.Scan(int64(2)), kept)
}

func fromCallers(limits *numbers.Limits, ctx context.Context) {
	small, large := numbers.APICallsNumbers{Rate: 5, Capacity: 5}, numbers.APICallsNumbers{Rate: 500, Capacity: 1_000}
	fmt.Println(limits.APICalls(7, small).AllowN(ctx, 5))
	fmt.Println(limits.APICalls(7, small).Allow(ctx))
	fmt.Println(limits.APICalls(7, large).AllowN(ctx, 995))
	fmt.Println(limits.APICalls(7, large).Allow(ctx))
	_, err := limits.APICalls(7, numbers.APICallsNumbers{Rate: 500, Capacity: 20_001}).Allow(ctx)
	fmt.Println(errors.Is(err, numbers.ErrInvalidNumbers), err)
	fmt.Println(limits.Seats(7, numbers.SeatsNumbers{}).Allow(ctx))
	fmt.Println(limits.Contract(7, numbers.ContractNumbers{Unlimited: true}).AllowN(ctx, 1_000_000))
	fmt.Println(limits.Seats(7, numbers.SeatsNumbers{Rate: 3}).AllowN(ctx, 3))
	fmt.Println(limits.Sliding("ann", "", numbers.SlidingNumbers{Rate: 2}).AllowUpTo(ctx, 9))
	exports := numbers.ExportsNumbers{Capacity: 2, MaxReserved: 2}
	r, err := limits.Exports(exports, numbers.PlanFree).ReserveN(ctx, 4)
	fmt.Println(r, err)
	fmt.Println(limits.Exports(exports, numbers.PlanPro).AllowN(ctx, 1_000))
	ds, err := limits.Call(7, large, exports, numbers.SeatsNumbers{Rate: 4}, numbers.PlanPro).Allow(ctx, 1)
	fmt.Println(ds, err)
	ds, err = limits.Call(8, large, exports, numbers.SeatsNumbers{Rate: 4}, numbers.PlanPro).Allow(ctx, 1)
	fmt.Println(ds, err)
	_, err = limits.Call(8, large, numbers.ExportsNumbers{Capacity: 1, MaxReserved: 2}, numbers.SeatsNumbers{Rate: 4}, numbers.PlanPro).Allow(ctx, 1)
	fmt.Println(errors.Is(err, numbers.ErrInvalidNumbers), err)
}

// prioritized takes from one count in the names of several classes.
func prioritized(limits *plans.Limits, ctx context.Context) {
	completions := func(org int64, plan plans.Plan, priority plans.CompletionsPriority) plans.Limit {
		return limits.Completions(org, "high", plan, priority)
	}
	fmt.Println(completions(7, plans.PlanFree, plans.CompletionsBatch).AllowN(ctx, 7))
	fmt.Println(completions(7, plans.PlanFree, plans.CompletionsBatch).Allow(ctx))
	fmt.Println(completions(7, plans.PlanFree, plans.CompletionsInteractive).AllowN(ctx, 2))
	fmt.Println(completions(7, plans.PlanFree, plans.CompletionsBatch).Peek(ctx))
	fmt.Println(completions(7, plans.PlanFree, plans.CompletionsInteractive).Peek(ctx))
	_, err := completions(8, plans.PlanFree, plans.CompletionsBatch).AllowN(ctx, 8)
	fmt.Println(errors.Is(err, plans.ErrExceedsCapacity), err)
	fmt.Println(completions(8, plans.PlanProYearly, plans.CompletionsBatchAPI).AllowUpTo(ctx, 60))
	fmt.Println(completions(1042, plans.PlanFree, plans.CompletionsBatch).AllowN(ctx, 70))
	fmt.Println(completions(9, plans.PlanEnterprise, plans.CompletionsBatch).AllowN(ctx, 1_000_000))
	ds, err := limits.Complete(1042, "high", "ann", plans.PlanFree, plans.CompletionsBatch).Allow(ctx, 1)
	fmt.Println(ds, err)
	_, err = completions(7, plans.PlanFree, 0).Allow(ctx)
	fmt.Println(errors.Is(err, plans.ErrInvalidPriority), err, plans.CompletionsBatch)
}

func byPlanTogether(limits *plans.Limits, ctx context.Context) {
	ds, err := limits.Export(1, "ann", plans.PlanFree).Allow(ctx, 20)
	fmt.Println(ds, err, ds.APICalls.Remaining, ds.SignUp.Remaining, ds.Search.Remaining)
	ds, err = limits.Export(1, "ann", plans.PlanFree).Allow(ctx, 1)
	fmt.Println(ds, err)
	// The unlimited limits of a plan pass, and the others decide.
	ds, err = limits.Export(1, "ann", plans.PlanEnterprise).Allow(ctx, 1_000_000)
	fmt.Println(ds, err, ds.APICalls, ds.SignUp.Remaining, ds.Search)
	rs, err := limits.Export(1, "ann", plans.PlanFree).Reserve(ctx, 1)
	fmt.Println(rs.Delay(), err, rs.APICalls.Settle(ctx, 0), rs.SignUp.Settle(ctx, 1))
	rs, err = limits.Export(1, "ann", plans.PlanEnterprise).Reserve(ctx, 5)
	fmt.Println(rs.Delay(), err, rs.APICalls.Settle(ctx, 900), rs.Cancel(ctx))
	fmt.Println(limits.SignUp("ann").Peek(ctx))

	born := time.Date(2024, time.January, 31, 0, 0, 0, 0, time.UTC)
	fmt.Println(limits.Renewed(1, born, time.UTC, plans.PlanFree).AllowN(ctx, 3))
	fmt.Println(limits.Renew("ann", 1, born, time.UTC, plans.PlanFree).Require(ctx))
	fmt.Println(limits.Renew("ann", 1, born, time.UTC, plans.PlanProYearly).Require(ctx))
	fmt.Println(limits.Renew("ann", 1, born, time.UTC, plans.PlanEnterprise).Require(ctx))
	fmt.Println(limits.Register("bob").Require(ctx))
	all, err := limits.ExportAll(2, plans.PlanProYearly).Reserve(ctx, 3)
	fmt.Println(all.Delay(), err, all.Cancel(ctx))

	// No verb of a group passes without a plan, whatever the other limits allow.
	var zero plans.Plan
	before, _ := limits.SignUp("zoe").Peek(ctx)
	none := limits.Export(1, "zoe", zero)
	_, allowErr := none.Allow(ctx, 1)
	_, checkErr := none.Check(ctx, 0)
	_, reserveErr := none.Reserve(ctx, 1)
	_, reserveAllErr := limits.ExportAll(2, 9).Reserve(ctx, 1)
	for _, err := range []error{allowErr, checkErr, reserveErr, reserveAllErr, none.Require(ctx, 1), none.Wait(ctx, 1), limits.Renew("zoe", 1, born, time.UTC, zero).Require(ctx)} {
		fmt.Print(errors.Is(err, plans.ErrInvalidPlan), " ")
	}
	after, _ := limits.SignUp("zoe").Peek(ctx)
	fmt.Println(before == after, none.Require(ctx, 1))
}

func overridden(limits *numbers.Limits, ctx context.Context, until time.Time) {
	message, operator := limits.SendMessage(42), limits.SendMessageOverrides(42)
	fmt.Println(message.AllowN(ctx, 20))
	e, err := operator.Set(ctx, numbers.Override{Capacity: 100, Until: until, Reason: "a large import", Author: "ops"})
	fmt.Println(e.ID, e.What, e.Key, err)
	fmt.Println(message.AllowN(ctx, 50))
	_, err = operator.Set(ctx, numbers.Override{Rate: 5001, Until: until, Reason: "more", Author: "ops"})
	fmt.Println(errors.Is(err, numbers.ErrInvalidOverride), err)

	// All keys together.
	_, err = limits.SendMessageOverridesForAll().Block(ctx, numbers.Block{Until: numbers.ForGood(), Reason: "maintenance", Author: "ops"})
	fmt.Println(message.Require(ctx), err)
	_, err = limits.SendMessageOverridesForAll().Unblock(ctx, numbers.OverrideEnd{Reason: "done", Author: "ops"})
	fmt.Println(message.Require(ctx), err)

	login := limits.Login("ann@example.com")
	e, err = limits.LoginOverrides("ann@example.com").Block(ctx, numbers.Block{Until: until, Reason: "abuse", Author: "ops"})
	fmt.Println(strings.Contains(e.Key, "ann"), err)
	fmt.Println(login.Allow(ctx))
	_, err = limits.SignUpOverrides().Set(ctx, numbers.Override{Mode: runtime.ModeOff, Until: until, Reason: "a fair", Author: "ops"})
	fmt.Println(err)
	fmt.Println(limits.SignUp().AllowN(ctx, 1_000_000))

	_, err = limits.Reports().ReserveN(ctx, 10)
	fmt.Println(errors.Is(err, numbers.ErrExceedsCapacity))
	_, err = limits.ReportsOverrides().Set(ctx, numbers.Override{MaxReserved: 100, Until: until, Reason: "a migration", Author: "ops"})
	r, reserveErr := limits.Reports().ReserveN(ctx, 10)
	fmt.Println(r.Decision, errors.Join(err, reserveErr))

	_, err = limits.TeamCallsOverrides(7).Set(ctx, numbers.Override{Plan: numbers.PlanPro, Until: until, Reason: "a trial", Author: "ops"})
	fmt.Println(err)
	fmt.Println(limits.TeamCalls(7, numbers.PlanFree).AllowN(ctx, 60))
	var zero numbers.Plan
	_, err = limits.TeamCallsOverrides(7).Set(ctx, numbers.Override{Plan: zero, Until: until, Reason: "a trial", Author: "ops"})
	fmt.Println(errors.Is(err, numbers.ErrInvalidPlan), err)

	fmt.Println(limits.Publish(42).Allow(ctx))
	history, err := operator.History(ctx)
	fmt.Println(len(history), history[0].Reason, err)
	_, err = operator.End(ctx, numbers.OverrideEnd{Reason: "imported", Author: "ops"})
	fmt.Println(err)
	fmt.Println(message.Allow(ctx))
	_, err = operator.End(ctx, numbers.OverrideEnd{Reason: "imported", Author: "ops"})
	fmt.Println(errors.Is(err, numbers.ErrNoOverride), err)
}

func priced(limits *prices.Limits, ctx context.Context) {
	team := limits.LLMSpend("blue")
	fmt.Println(prices.LLMSpendUsage{Input: 1_200, Cached: 1, Output: 300}.Cost())
	fmt.Println(team.Allow(ctx, prices.LLMSpendUsage{Input: 1_000_000, Output: 1_000_000}))
	fmt.Println(team.Allow(ctx, prices.LLMSpendUsage{Output: 3_000_000}))
	_, err := team.Allow(ctx, prices.LLMSpendUsage{Output: 4_000_000})
	fmt.Println(errors.Is(err, prices.ErrExceedsCapacity), err)
	_, err = team.Charge(ctx, prices.LLMSpendUsage{Cached: -1})
	fmt.Println(errors.Is(err, prices.ErrInvalidCount), err)

	// A stream reserves an estimate, and settles for its usage.
	var r *prices.PricedReservation[prices.LLMSpendUsage]
	r, err = team.Reserve(ctx, prices.LLMSpendUsage{Input: 2_000, Output: 4_096})
	fmt.Println(r.Taken, r.Delay(), err)
	fmt.Println(r.Settle(ctx, prices.LLMSpendUsage{Input: 1_000, Cached: 1_001, Output: 7}))
	b, err := team.Peek(ctx)
	fmt.Println(b.Used, "of", b.Capacity, err)

	rs, err := limits.Complete("blue").Reserve(ctx, 2, prices.LLMSpendUsage{Output: 1_000})
	fmt.Println(rs.Allowed, rs.Requests.Taken, rs.LLMSpend.Taken, err)
	fmt.Println(rs.LLMSpend.Settle(ctx, prices.LLMSpendUsage{Output: 1}), rs.Cancel(ctx))
	b, err = team.Peek(ctx)
	fmt.Println(b.Used, "of", b.Capacity, err)

	// Each limit takes what the usage costs by its own prices.
	ds, err := limits.Image(1, "from", "to", prices.PlanFree).Allow(ctx, prices.ImageUsage{Output: 10, ImageURL: 1, Input: 100, Runtime: 1})
	fmt.Println(ds.Allowed, ds.OrgSpend.Taken, ds.LLMSpendFrom.Taken, ds.LLMSpendTo.Taken, ds.Open.Remaining, err)
	ds, err = limits.Image(1, "from", "to", prices.PlanFree).Allow(ctx, prices.ImageUsage{ImageURL: 1})
	fmt.Println(ds.Allowed, ds.DeniedBy(), ds.LLMSpendFrom.Remaining, err)
	fmt.Println(limits.OrgSpend(42, prices.PlanFree).Allow(ctx, prices.OrgSpendUsage{ImageURL: 1_000_000}))
	fmt.Println(limits.OrgSpend(7, prices.PlanPro).Allow(ctx, prices.OrgSpendUsage{Output: 1}))
	fmt.Println(limits.Contract(7, prices.ContractNumbers{Rate: 5}).Allow(ctx, prices.ContractUsage{N: 4_000_001}))
	fmt.Println(limits.WithTx(nil).LLMSpend("blue").Require(ctx, prices.LLMSpendUsage{Input: 1}))
	all, err := limits.All(ctx, limits.Requests("blue"), team.Of(prices.LLMSpendUsage{Input: 1}), limits.Open().CheckedOf(prices.OpenUsage{Runtime: 3}))
	fmt.Println(all, err)
}
