package main

import (
	"context"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// call is a way to use a limit, whose cost is compared with that of the first one.
type call struct {
	name string
	// as is the policy, without its name.
	as runtime.Policy
	// denied means that the key of one call in denied has no tokens; 0 means none.
	denied int
	// held is how many slots of a key are held during the run, if it is not 0. There are ten keys then.
	held int
	// exceptions is how many keys have one, each with numbers of its own: half of those of the calls, and others.
	exceptions int
	// by makes the call; nil means Allow. It returns whether the call was allowed.
	by func(ctx context.Context, of handles, key runtime.Key) (allowed bool, err error)
}

// handles is a limiter, the limit, and a second one with the same numbers.
type handles struct {
	*limiter.Limiter
	p, second  *runtime.Policy
	exceptions *runtime.Exceptions
}

// many is more tokens than a run takes.
const many = 1e9

// tokens is a token bucket whose taken tokens do not accrue again during a run. A shard needs a rate of at least 1.
var tokens = runtime.Policy{Kind: runtime.TokenBucket, Rate: 8, Period: 24 * time.Hour, Capacity: many}

// windows is a fixed window.
var windows = runtime.Policy{Kind: runtime.FixedWindow, Rate: many, Period: 24 * time.Hour, Capacity: many}

// slotsBeside are those that the callers use while some are held.
func slotsBeside(held int64) runtime.Policy {
	return runtime.Policy{Kind: runtime.InFlight, Slots: held + 64, Hold: time.Hour}
}

func useSlot(ctx context.Context, of handles, key runtime.Key) (bool, error) {
	slot, err := of.Slots(of.p, key).Acquire(ctx)
	if err != nil || !slot.Allowed {
		return false, err
	}
	return true, slot.Release(ctx)
}

// usage is that of a request with prices, as generated code has it.
type usage struct{ input, cached, output int64 }

var prices = runtime.Prices{{Name: "input", Millionths: 300_000}, {Name: "cached", Millionths: 30_000},
	{Name: "output", Millionths: 600_000}}

func (u usage) Cost() (int64, error) { return prices.Cost(u.input, u.cached, u.output) }

// classes are those of the requests with priorities.
var classes = runtime.Priorities{1: {Name: "interactive"}, 2: {Name: "batch", Leaves: 30}}

// with returns a changed policy.
func with(p runtime.Policy, change func(p *runtime.Policy)) runtime.Policy {
	change(&p)
	return p
}

// calls are in the order of the table.
var calls = []call{
	{name: "token bucket, Allow", as: tokens},
	{name: "one in ten denied", as: tokens, denied: 10},
	{name: "all denied", as: tokens, denied: 1},
	{name: "all denied, denyCache", as: with(tokens, func(p *runtime.Policy) { p.DenyCache = time.Minute }), denied: 1},
	{name: "Check", as: tokens, by: func(ctx context.Context, of handles, key runtime.Key) (bool, error) {
		d, err := of.Limit(of.p, key).Check(ctx)
		return d.Allowed, err
	}},
	{name: "Peek", as: tokens, by: func(ctx context.Context, of handles, key runtime.Key) (bool, error) {
		b, err := of.Limit(of.p, key).Peek(ctx)
		return b.Remaining > 0, err
	}},
	{name: "AllowUpTo", as: tokens, by: func(ctx context.Context, of handles, key runtime.Key) (bool, error) {
		d, err := of.Limit(of.p, key).AllowUpTo(ctx, 2)
		return d.Taken == 2, err
	}},
	{name: "overridden", as: with(tokens, func(p *runtime.Policy) { p.Overrides = runtime.OverrideBounds{Rate: 9, Capacity: many} })},
	{name: "warn", as: with(tokens, func(p *runtime.Policy) { p.Warn = runtime.Thresholds{80, 100} })},
	{name: "prices", as: tokens, by: func(ctx context.Context, of handles, key runtime.Key) (bool, error) {
		d, err := limiter.Priced[usage](of.Limit(of.p, key)).Allow(ctx, usage{1, 1, 1})
		return d.Allowed, err
	}},
	{name: "priorities", as: tokens, by: func(ctx context.Context, of handles, key runtime.Key) (bool, error) {
		d, err := of.Limit(classes.Of(2).For(of.p, key)).Allow(ctx)
		return d.Allowed, err
	}},
	{name: "10,000 exceptions", as: tokens, exceptions: 10_000, by: func(ctx context.Context, of handles, key runtime.Key) (bool, error) {
		d, err := of.Limit(of.exceptions.For(of.p, key)).Allow(ctx)
		return d.Allowed, err
	}},
	{name: "fixed window", as: windows},
	{name: "fixed window from first use", as: with(windows, func(p *runtime.Policy) { p.Start = runtime.StartFirstUse() })},
	{name: "calendar month", as: with(windows, func(p *runtime.Policy) {
		p.Calendar = runtime.Calendar{Unit: runtime.Month, Zone: "UTC"}
		p.Period = p.Calendar.Period()
	})},
	{name: "sliding window", as: with(windows, func(p *runtime.Policy) { p.Kind = runtime.SlidingWindow })},
	{name: "sliding window, precise", as: with(windows, func(p *runtime.Policy) {
		p.Kind, p.Precise, p.Period = runtime.SlidingWindow, true, time.Second
	})},
	{name: "All of two limits", as: tokens, by: func(ctx context.Context, of handles, key runtime.Key) (bool, error) {
		ds, err := of.All(ctx, of.Limit(of.p, key), of.Limit(of.second, key))
		return ds.Allowed, err
	}},
	{name: "8 shards", as: with(tokens, func(p *runtime.Policy) { p.Shards = 8 })},
	{name: "slot, 10 held", as: slotsBeside(10), held: 10, by: useSlot},
	{name: "slot, 930 held", as: slotsBeside(930), held: 930, by: useSlot},
}

// callKeys is how many keys the calls are for, and callLoads how many callers make them.
const callKeys = 1000

var callLoads = []int{1, 64}

// databases are compared by their calls.
var databases = []struct {
	name   string
	server server
}{{oursSQLite, ""}, {oursPostgres, postgres}, {oursMariaDB, mariadb}, {oursMySQL, mysqlDB}}

// callName returns the name of a call on a database in reports.
func callName(database, call string) string { return database + ": " + call }

// measureCalls measures the calls on each database.
func (r *report) measureCalls(ctx context.Context, s *site, p plan) error {
	for _, db := range databases {
		var names []string
		for _, c := range calls {
			if name := callName(db.name, c.name); p.only.MatchString(name) {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			continue
		}
		logf("%s: calls", db.name)
		opened, err := s.openStore(ctx, db.server, limit{})
		if err != nil {
			r.skip(callName(db.name, "calls"), err)
			continue
		}
		open := field{}
		for i, c := range calls {
			name := callName(db.name, c.name)
			if !slices.Contains(names, name) {
				continue
			}
			take, err := c.open(ctx, opened.store, string('a'+rune(i)))
			if err != nil {
				r.skip(name, err)
				continue
			}
			open[name] = &instance{take: take, meter: s.meterOf(db.server)}
		}
		for _, callers := range callLoads {
			r.race(ctx, heat{callers, callKeys, names}, open, p)
		}
		opened.close()
	}
	return ctx.Err()
}

// open prepares the limits of a call under a name.
func (c *call) open(ctx context.Context, store closingStore, name string) (takeFunc, error) {
	p := c.as
	p.Name = name
	second := p
	second.Name += "2"
	of := handles{limiter.New(store), &p, &second, nil}
	if c.exceptions > 0 {
		var list []runtime.Exception
		for i, key := range keysOf(2*c.exceptions, 2*c.exceptions) {
			if i%2 == 0 {
				list = append(list, runtime.Exception{Key: runtime.KeyOf(runtime.String(key)).String(),
					Numbers: runtime.Numbers{Capacity: many + int64(i)}})
			}
		}
		of.exceptions = p.Except(list)
	}
	if err := store.Migrate(ctx, &p, &second); err != nil {
		return nil, err
	}
	if p.Overrides != (runtime.OverrideBounds{}) {
		if _, err := of.OverridesForAll(&p).Set(ctx, runtime.Override{
			Rate: 9, Until: runtime.ForGood(), Reason: "a benchmark", Author: "bench",
		}); err != nil {
			return nil, err
		}
	}
	by := c.by
	if by == nil {
		by = func(ctx context.Context, of handles, key runtime.Key) (bool, error) {
			d, err := of.Limit(of.p, key).Allow(ctx)
			return d.Allowed, err
		}
	}
	if c.held > 0 {
		ofTen := func(key string) runtime.Key { return runtime.KeyOf(runtime.String(key[len(key)-1:])) }
		hold := func(ctx context.Context, key string) (bool, error) {
			slot, err := of.Slots(&p, ofTen(key)).Acquire(ctx)
			return slot != nil && slot.Allowed, err
		}
		return func(ctx context.Context, key string) (bool, error) {
			return by(ctx, of, ofTen(key))
		}, takeEach(ctx, hold, keysOf(10*c.held, 10*c.held))
	}
	if c.denied == 0 {
		return func(ctx context.Context, key string) (bool, error) {
			return by(ctx, of, runtime.KeyOf(runtime.String(key)))
		}, nil
	}
	drain := func(ctx context.Context, key string) (bool, error) {
		d, err := of.Limit(&p, runtime.KeyOf(runtime.String(key))).AllowN(ctx, many)
		return d.Allowed, err
	}
	var drained []string
	for _, key := range keysOf(callKeys, callKeys) {
		if c.denies(key) {
			drained = append(drained, key)
		}
	}
	return func(ctx context.Context, key string) (bool, error) {
		allowed, err := by(ctx, of, runtime.KeyOf(runtime.String(key)))
		return allowed != c.denies(key), err
	}, takeEach(ctx, drain, drained)
}

// denies reports whether a key has no tokens.
func (c *call) denies(key string) bool {
	return c.denied == 1 || c.denied == 10 && key[len(key)-1] == '0'
}
