package runtime

import (
	"cmp"
	"fmt"
	"time"
)

// Validate returns nil for a valid policy, and otherwise an error that wraps [ErrInvalidPolicy] and says what to
// change.
func (p *Policy) Validate() error {
	if problem := p.problem(); problem != "" {
		return fmt.Errorf("%w: %s", ErrInvalidPolicy, problem)
	}
	return nil
}

// problem returns what the policy must change, or "".
func (p *Policy) problem() string {
	switch {
	case p == nil:
		return "the policy is nil"
	case p.Name == "":
		return "the name is empty"
	case len(p.Name) > MaxKey || !printable(p.Name):
		return "the name must be at most 255 bytes of UTF-8 without control characters"
	case !p.Kind.Known():
		return fmt.Sprintf("%v is not one of the kinds %s", p.Kind, kindList())
	case !p.Mode.Known():
		return fmt.Sprintf("%v is not a Mode, such as ModeEnforce", p.Mode)
	case p.relaxed != ModeEnforce && p.relaxed != ModeShadow && p.relaxed != ModeOff:
		return fmt.Sprintf("limiter.Mode is %v: give it ModeShadow or ModeOff, or ModeEnforce for the modes of the file", p.relaxed)
	case p.Priority.Leaves < 0 || p.Priority.Leaves > 99:
		return fmt.Sprintf("the priority %s leaves %d%%, which is not between 0 and 99", p.Priority.Name, p.Priority.Leaves)
	// One with a period, a hold or a lease has rather lost its numbers.
	case p.unlimited(), p.zero() && (p.byCaller || p.override.entry != 0 || p.own() == Numbers{} && p.Period+p.Hold == 0 && p.Lease == Lease{}):
		return between("shards", p.Shards, 0, MaxShards)
	}
	return cmp.Or(
		p.amountProblem(),
		between("timeout", p.Timeout, 0, MaxPeriod),
		between("jitter", p.Jitter, 0, MaxPeriod),
		between("denyCache", p.DenyCache, 0, MaxPeriod),
		p.constantProblem(),
		// The kind comes before the general rules, because those suggest changes that the kind may refuse.
		p.kindProblem(),
		p.Calendar.problem(p),
		p.preciseProblem(),
		p.capacityProblem(),
		p.shardProblem(),
		p.Overrides.problem(p),
		p.Penalty.problem(p),
		p.Warn.problem(p),
		p.AtMost.problem(p),
		p.leaseProblem(),
		p.Priority.problem(p),
	)
}

// between returns what is wrong with a number of a policy that is not between two others, or "".
func between[N int | int64 | time.Duration](name string, n, least, most N) string {
	if least <= n && n <= most {
		return ""
	}
	return fmt.Sprintf("%s %v is not between %v and %v", name, n, least, most)
}

// amountProblem is about how much the limit has: tokens, or slots.
func (p *Policy) amountProblem() string {
	if p.Kind == InFlight {
		return cmp.Or(
			between("slots", p.Slots, 1, MaxSlots),
			between("hold", p.Hold, 1, MaxPeriod),
			without(p.Kind, "Rate", p.Rate),
			without(p.Kind, "Period", p.Period),
			without(p.Kind, "Capacity", p.Capacity),
		)
	}
	return cmp.Or(
		between("rate", p.Rate, 1, MaxTokens),
		between("period", p.Period, 1, MaxPeriod),
		between("capacity", p.Capacity, 0, MaxTokens),
		between("maxReserved", p.MaxReserved, 0, MaxTokens),
		without(p.Kind, "Slots", p.Slots),
		without(p.Kind, "Hold", p.Hold),
	)
}

// without returns what is wrong with a number that policies of the kind do not have, or "".
func without[N int64 | time.Duration](k Kind, name string, n N) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("a limit of the kind %v has no %s: leave %s out", k, name, name)
}

func (p *Policy) constantProblem() string {
	switch {
	case p.OnError >= endOfOnErrors:
		return fmt.Sprintf("%v is not FailClosed, FailOpen or FailLocal", p.OnError)
	case p.Durability >= endOfDurabilities:
		return fmt.Sprintf("%v is not DurabilityDefault, DurabilityRelaxed or DurabilityFull", p.Durability)
	}
	return ""
}

func (p *Policy) kindProblem() string {
	switch {
	case p.Start.mode == startOutOfRange:
		return "the start is not of the years 1678 to 2262"
	case p.Kind == TokenBucket && p.Start != (Start{}):
		return "a token bucket has no windows: leave Start out"
	case p.Kind == InFlight:
		return p.slotsProblem()
	case p.Kind != SlidingWindow:
		return ""
	case p.Capacity != p.Rate:
		return fmt.Sprintf("the capacity of a sliding window must equal its rate, %d, but is %d", p.Rate, p.Capacity)
	case p.MaxReserved != 0:
		return "a sliding window cannot be reserved ahead: leave MaxReserved at 0"
	case p.Start.FirstUse():
		return "a sliding window cannot start at first use: give an offset, or leave Start out"
	}
	return ""
}

// slotsProblem is kindProblem for [InFlight].
func (p *Policy) slotsProblem() string {
	switch {
	case p.Overrides.Slots > MaxSlots:
		return fmt.Sprintf("overrides can give at most %d slots, not %d", int64(MaxSlots), p.Overrides.Slots)
	case p.MaxReserved != 0:
		return "slots cannot be reserved ahead, because it is not known when they are free: leave MaxReserved at 0"
	case p.Start != Start{}:
		return "a limit in flight has no windows: leave Start out"
	case p.Shards > 1:
		return "a limit in flight cannot have shards: its slots are in one row"
	case p.Lease != Lease{}:
		return "a limit in flight cannot be leased: a slot is held by what runs, not by a process"
	}
	return ""
}

func (p *Policy) capacityProblem() string {
	if p.Capacity+p.Slots+p.MaxReserved == 0 {
		return "no request can pass with capacity 0 and maxReserved 0: raise one of them"
	}
	return ""
}

func (p *Policy) shardProblem() string {
	if problem := between("shards", p.Shards, 0, MaxShards); problem != "" {
		return problem
	}
	switch {
	case p.Shards < 2:
		return ""
	case p.Start.FirstUse():
		return "windows that start at first use cannot have shards: each shard would start its own window"
	}
	for i, n := range p.own().each() {
		if 0 < n && n < int64(p.Shards) {
			return fmt.Sprintf("%s %d over %d shards leaves a shard without a token", numberNames[i], n, p.Shards)
		}
	}
	return ""
}

func (p *Policy) leaseProblem() string {
	switch {
	case p.Lease == Lease{}:
		return ""
	case p.Lease.Tokens < 1 || p.Lease.Tokens > p.Capacity:
		return fmt.Sprintf("a lease of %d tokens is not between 1 and the capacity, %d", p.Lease.Tokens, p.Capacity)
	case p.Lease.For < 1 || p.Lease.For > MaxPeriod:
		return fmt.Sprintf("a lease for %v is not between 1ns and %v", p.Lease.For, MaxPeriod)
	case p.Start.FirstUse():
		return "windows that start at first use cannot be leased: their end is not known in advance"
	}
	return ""
}

func (p *Policy) preciseProblem() string {
	switch {
	case !p.Precise:
		return ""
	case !kinds[p.Kind].precise:
		return fmt.Sprintf("a %v cannot be precise: leave Precise out, or use a sliding window", p.Kind)
	case p.Shards > 1:
		return "a precise sliding window cannot have shards: each would count only its own tokens"
	case p.Start != Start{}:
		return "a precise sliding window has no aligned windows: leave Start out"
	case p.Lease != Lease{}:
		return "a precise sliding window cannot be leased: its tokens count from when they are taken, not from when they are used"
	}
	return ""
}

// problem returns what the policy must change, or "".
func (c Calendar) problem(p *Policy) string {
	switch {
	case c == Calendar{}:
		return ""
	case p.Kind != FixedWindow:
		return fmt.Sprintf("only a fixed window can have a Calendar, not a %v", p.Kind)
	case c.Unit == 0 || c.Unit >= endOfUnits:
		return fmt.Sprintf("the calendar's unit %v is not Day, Week, Month or Year", c.Unit)
	case c.Count < 0 || c.Period() == 0 || c.Period() > MaxPeriod:
		return fmt.Sprintf("a window of %d times a %v is not between 1 of them and %v", c.Count, c.Unit, MaxPeriod)
	case p.Period != c.Period():
		return fmt.Sprintf("with this calendar, the period must be the mean length of a window, %v, not %v", c.Period(), p.Period)
	case p.Start != Start{}:
		return "a calendar has From and At: leave Start out"
	case c.From != Date{} && !c.From.Valid():
		return fmt.Sprintf("the day %v does not exist in the years 1 to 9999", c.From)
	case c.Anniversary && c.From != Date{}:
		return "a calendar with an Anniversary has no From: each key has its own"
	case c.Anniversary && c.Unit == Day && c.Count <= 1:
		return "a calendar of single days has no Anniversary: every day begins alike"
	case c.At < 0 || c.At >= 24*time.Hour || c.At%time.Second != 0:
		return fmt.Sprintf("the time of day %v is not a number of whole seconds below 24h", c.At)
	case c.ZonePerKey && c.Zone != "":
		return "a calendar with ZonePerKey has no Zone: each key has its own"
	case c.ZonePerKey:
		return ""
	}
	if _, err := c.Location(); err != nil {
		return err.Error()
	}
	return ""
}

// problem returns what the bounds of a policy must change, or "".
func (b *OverrideBounds) problem(p *Policy) string {
	if *b == (OverrideBounds{}) {
		return ""
	}
	own := p.own().each()
	for i, most := range b.most().each() {
		switch name := numberNames[i]; {
		case most < own[i]:
			return fmt.Sprintf("the bounds of overrides have the %s %d, which is less than the limit's own, %d", name, most, own[i])
		case most > MaxTokens:
			return fmt.Sprintf("the bounds of overrides have the %s %d, which is more than %d", name, most, int64(MaxTokens))
		case most != 0 && own[i] == 0 && !p.byCaller:
			return fmt.Sprintf("overrides cannot give %s to a limit with %s 0", name, name)
		}
	}
	if !p.Kind.Linear() && b.Capacity != b.Rate {
		return fmt.Sprintf("the bounds of overrides of a %v must have equal rate and capacity", p.Kind)
	}
	return ""
}

// problem returns what the penalty of a policy must change, or "".
func (n *Penalty) problem(p *Policy) string {
	if *n == (Penalty{}) {
		return ""
	}
	steps := n.Len()
	for i, d := range n.Steps {
		switch {
		case steps == 0:
			return "the penalty has a Forgive and no steps: leave it out, or say how long a key is denied"
		case i >= steps && d != 0:
			return fmt.Sprintf("step %d of the penalty is after one of 0s, so it is never used", i+1)
		case d < 0 || d > MaxPeriod:
			return fmt.Sprintf("step %d of the penalty, %v, is not between 1ns and %v", i+1, d, MaxPeriod)
		}
	}
	switch {
	case n.Forgive < 0 || n.Forgive > MaxPeriod:
		return fmt.Sprintf("penalties are forgiven after %v, which is not between 1ns and %v", n.Forgive, MaxPeriod)
	case p.Shards > 1:
		return "a limit with a penalty cannot have shards: a denied key is only read, so that its row has few writes"
	case p.Lease != Lease{}:
		return "a limit with a penalty cannot be leased: a process would spend its block while another one denies the key"
	case p.MaxReserved > 0:
		return "a limit with a penalty cannot be reserved ahead: leave MaxReserved at 0"
	}
	return ""
}

// problem returns what the thresholds of a policy must change, or "".
func (t *Thresholds) problem(p *Policy) string {
	if *t == (Thresholds{}) {
		return ""
	}
	n, last := t.Len(), uint8(0)
	for i, percent := range t {
		switch {
		case i >= n && percent != 0:
			return fmt.Sprintf("the threshold %d%% of Warn is after a 0, so it is never used", percent)
		case percent > 100:
			return fmt.Sprintf("the threshold %d%% of Warn is more than 100%%", percent)
		case i < n && percent <= last:
			return fmt.Sprintf("the thresholds of Warn must ascend: %d%% is after %d%%", percent, last)
		}
		last = percent
	}
	if p.Capacity+p.Slots == 0 {
		return "a limit with capacity 0 cannot warn: no part of nothing is used"
	}
	return ""
}
