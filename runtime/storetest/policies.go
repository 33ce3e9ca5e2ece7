package storetest

import (
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// basic returns a policy of any kind: ten tokens a minute, of which 5 can be reserved if the kind allows it, or ten slots
// with a hold of a minute.
func basic(kind runtime.Kind) *runtime.Policy {
	if kind == runtime.InFlight {
		return &runtime.Policy{Name: kind.String(), Kind: kind, Slots: 10, Hold: time.Minute}
	}
	p := &runtime.Policy{Name: kind.String(), Kind: kind, Rate: 10, Period: time.Minute, Capacity: 10}
	if kind.Linear() {
		p.MaxReserved = 5
	}
	if kind.Windowed() {
		p.Start = runtime.StartOffset(0)
	}
	return p
}

// shards returns a policy of any kind whose three shards have 4, 3 and 3 tokens, if the kind can have shards.
func shards(kind runtime.Kind) *runtime.Policy {
	p := basic(kind)
	p.Name, p.Start = "sharded "+p.Name, runtime.Start{}
	if kind != runtime.InFlight {
		p.Shards = 3
	}
	return p
}

func bucket() *runtime.Policy { return named("bucket", basic(runtime.TokenBucket)) }

func window() *runtime.Policy {
	p := named("window", basic(runtime.FixedWindow))
	p.MaxReserved = 20
	return p
}

func named(name string, p *runtime.Policy) *runtime.Policy {
	p.Name = name
	return p
}

// tokenKinds returns the kinds whose tokens come back with time, or are given back by whoever has any request: all but
// those of slots, which belong to their holders.
func tokenKinds() []runtime.Kind {
	return slices.DeleteFunc(runtime.Kinds(), func(k runtime.Kind) bool { return k == runtime.InFlight })
}

// inFlight returns a limit of ten slots with a hold of a minute.
func inFlight() *runtime.Policy { return named("inFlight", basic(runtime.InFlight)) }

// sized gives a policy n tokens, all at once, of which none can be reserved, or n slots.
func sized(n int64, p *runtime.Policy) *runtime.Policy {
	p.MaxReserved = 0
	to(n)(p)
	return p
}

// to edits the numbers of a policy.
func to(n int64) func(*runtime.Policy) {
	return func(p *runtime.Policy) {
		numbers := numbersOf(p, n)
		p.Rate, p.Capacity, p.Slots = numbers.Rate, numbers.Capacity, numbers.Slots
	}
}

// numbersOf returns the number n, of tokens as rate and as capacity, or of slots.
func numbersOf(p *runtime.Policy, n int64) runtime.Numbers {
	if p.Kind == runtime.InFlight {
		return runtime.Numbers{Slots: n}
	}
	return runtime.Numbers{Rate: n, Capacity: n}
}

// precise returns a sliding window that never grants more than 10 tokens in any minute.
func precise() *runtime.Policy {
	for _, kind := range tokenKinds() {
		p := basic(kind)
		p.Name, p.Start, p.MaxReserved, p.Precise = "precise", runtime.Start{}, 0, true
		if p.Validate() == nil {
			return p
		}
	}
	panic("storetest: no kind can be precise")
}

// kinds returns policies of every kind and every Start.
func kinds() []*runtime.Policy {
	byKey, firstUse := named("byKey", window()), named("firstUse", window())
	byKey.Start, firstUse.Start = runtime.Start{}, runtime.StartFirstUse()
	all := []*runtime.Policy{bucket(), window(), byKey, firstUse, precise()}
	for _, kind := range tokenKinds() {
		// A new kind takes part in every clause without a change here.
		if !slices.ContainsFunc(all, func(p *runtime.Policy) bool { return p.Kind == kind && !p.Precise }) {
			all = append(all, basic(kind))
		}
	}
	return all
}

// sharded returns policies of every kind with shards.
func sharded() (all []*runtime.Policy) {
	for _, kind := range tokenKinds() {
		all = append(all, shards(kind))
	}
	return all
}

// leased returns policies of every kind with a lease: blocks of four tokens, for an hour.
func leased() (all []*runtime.Policy) {
	for _, p := range append(kinds(), shards(runtime.TokenBucket)) {
		// The end of such a window is not known in advance, so that it cannot be leased. Nor can a log.
		if !p.Start.FirstUse() && !p.Precise {
			all = append(all, withLease(named("leased "+p.Name, p)))
		}
	}
	return all
}

func withLease(p *runtime.Policy) *runtime.Policy {
	p.Lease = runtime.Lease{Tokens: 4, For: time.Hour}
	return p
}

// denyCached returns a bucket whose denials may be cached for an hour.
func denyCached() *runtime.Policy {
	p := named("denyCached", bucket())
	p.DenyCache = time.Hour
	return p
}

// numbered gives a policy numbers of its callers, at most 20.
func numbered(p *runtime.Policy) *runtime.Policy {
	sized(20, p)
	p.AtMost = numbersOf(p, 20)
	return named("numbered "+p.Name, p)
}

// given returns a policy with the number n of a caller.
func given(p *runtime.Policy, n int64) *runtime.Policy {
	p, key := numbersOf(p, n).For(p, runtime.Key{})
	if key.Err() != nil {
		panic(key.Err())
	}
	return p
}

// every returns policies of all kinds, with and without shards, leases and a deny cache.
func every() []*runtime.Policy { return slices.Concat(kinds(), sharded(), leased(), one(denyCached())) }

func one(p *runtime.Policy) []*runtime.Policy { return []*runtime.Policy{p} }
