package runtime

import (
	"fmt"
	"time"
)

// MaxTokens is the largest rate, capacity or maxReserved of a limit, in tokens. Whole numbers up to it,
// and sums of two of them, are exact in a float64.
const MaxTokens = 1_000_000_000_000_000

// Unbounded as a [Policy.MaxReserved] lets callers reserve as far ahead as they like: a key's debt has no bound. One
// reservation is still at most of the capacity and Unbounded tokens, and debts beyond 2^53 tokens are rounded.
const Unbounded = MaxTokens

// MaxPeriod is the longest period of a limit: ten years of 365 days.
const MaxPeriod = 10 * 365 * 24 * time.Hour

// MaxShards is the largest number of shards of a limit.
const MaxShards = 1024

// Kind is the way in which a limit grants its tokens. The zero Kind grants none: it is invalid.
type Kind uint8

const (
	// TokenBucket grants tokens continuously, rate per period, and keeps up to capacity of them.
	TokenBucket Kind = iota + 1
	// FixedWindow grants rate tokens at the start of each period and keeps up to capacity of them.
	FixedWindow
	// SlidingWindow allows rate tokens in any period, as estimated from the use of this window and of
	// the one before.
	SlidingWindow
)

// Kinds lists every kind.
func Kinds() []Kind { return []Kind{TokenBucket, FixedWindow, SlidingWindow} }

// String returns the kind as it is written in limits.yaml: "token bucket".
func (k Kind) String() string {
	switch k {
	case TokenBucket:
		return "token bucket"
	case FixedWindow:
		return "fixed window"
	case SlidingWindow:
		return "sliding window"
	}
	return fmt.Sprintf("Kind(%d)", k)
}

// Policy is a limit: the rule that each of its keys is held to, on its own count. Counts are kept under
// the policy's name, so two policies of one name share them.
//
// The zero Policy is invalid, and every question asked of it is answered with [ErrInvalidPolicy]. Do not
// change a policy once it is in use.
type Policy struct {
	// Name is how the limit is called in the store, in errors and in decisions: at most 255 bytes of UTF-8
	// without control characters.
	Name string
	// Kind is the way in which tokens are granted.
	Kind Kind
	// Rate is how many tokens are granted per Period, 1 to [MaxTokens].
	Rate int64
	// Period is the time in which Rate tokens are granted, at most [MaxPeriod].
	Period time.Duration
	// Capacity is the most tokens that can pile up, and so the largest count that a plain call can take.
	// With 0 nothing can be taken at once, only reserved. For a [SlidingWindow] it equals Rate.
	Capacity int64
	// MaxReserved is how many tokens may be reserved ahead of their time: 0 for none, [Unbounded] for as
	// many as callers like. A [SlidingWindow] has none.
	MaxReserved int64
	// Start says where the windows begin. A [TokenBucket] has none.
	Start Start
	// Shards is into how many rows the count of one key is split, so that they share the writes.
	// 0 and 1 both mean one row.
	Shards int
	// Timeout is how long a decision may take; 0 is as long as its context allows. Then the store counts
	// as failed, though it may have taken the tokens. It does not bound Peek, Refund, Reset, Settle and
	// Cancel, nor what is asked in a transaction of the caller.
	Timeout time.Duration
	// OnError says what is decided when the store fails; see [Decision.FailedOpen].
	OnError OnError
	// DenyCache is how long at most a denial is answered from this process's memory; 0 is not at all. What
	// another process gives back may be there that much later.
	DenyCache time.Duration
	// Lease lets a process take blocks of tokens and spend them from its memory. The zero Lease does not.
	Lease Lease
	// Durability is what a crash of the database may lose of the counts. What it means on each database is
	// said by its store: see package sqlstore.
	Durability Durability
}

// Lease is a block of tokens that a process takes at once, and spends without asking the store. It has been
// taken, so that no more is granted than the limit's own; but it may be spent a moment later. In any time t, a
// leased token bucket grants at most capacity + maxReserved + rate*(t+For)/period.
type Lease struct {
	// Tokens is how many tokens a block has, at most the capacity: best what a process uses within For.
	Tokens int64
	// For is how long a block may be spent. What is left then is given back, of a token bucket without what
	// has accrued since the block was taken. A block of a windowed limit ends with the window at the latest.
	For time.Duration
}

// Reserves reports whether callers may take tokens ahead of their time.
func (p *Policy) Reserves() bool { return p != nil && p.MaxReserved > 0 }

// Validate returns nil for a policy that can be asked, and otherwise an error that wraps
// [ErrInvalidPolicy] and says what to change.
func (p *Policy) Validate() error {
	if problem := p.problem(); problem != "" {
		return fmt.Errorf("%w: %s", ErrInvalidPolicy, problem)
	}
	return nil
}

func (p *Policy) problem() string {
	switch {
	case p == nil:
		return "there is none"
	case p.Name == "":
		return "it has no name"
	case len(p.Name) > MaxKey || !legible(p.Name):
		return "its name is not at most 255 bytes of UTF-8 without control characters"
	case p.Kind < TokenBucket || p.Kind > SlidingWindow:
		return "its kind must be TokenBucket, FixedWindow or SlidingWindow"
	case p.Rate < 1 || p.Rate > MaxTokens:
		return fmt.Sprintf("rate %d is not between 1 and %d", p.Rate, int64(MaxTokens))
	case p.Period < 1 || p.Period > MaxPeriod:
		return fmt.Sprintf("period %v is not between 1ns and %v", p.Period, MaxPeriod)
	case p.Capacity < 0 || p.Capacity > MaxTokens:
		return fmt.Sprintf("capacity %d is not between 0 and %d", p.Capacity, int64(MaxTokens))
	case p.MaxReserved < 0 || p.MaxReserved > MaxTokens:
		return fmt.Sprintf("maxReserved %d is not between 0 and %d", p.MaxReserved, int64(MaxTokens))
	case p.Timeout < 0 || p.Timeout > MaxPeriod:
		return fmt.Sprintf("timeout %v is not between 0s and %v", p.Timeout, MaxPeriod)
	case p.DenyCache < 0 || p.DenyCache > MaxPeriod:
		return fmt.Sprintf("denyCache %v is not between 0s and %v", p.DenyCache, MaxPeriod)
	case p.OnError > FailOpen:
		return "its onError must be FailClosed or FailOpen"
	case p.Durability > DurabilityFull:
		return "its durability must be DurabilityDefault, DurabilityRelaxed or DurabilityFull"
	case p.Kind == SlidingWindow && p.Capacity != p.Rate:
		return fmt.Sprintf("a sliding window's capacity is its rate, %d, not %d", p.Rate, p.Capacity)
	case p.Kind == SlidingWindow && p.MaxReserved != 0:
		return "a sliding window cannot be reserved ahead"
	case p.Capacity == 0 && p.MaxReserved == 0:
		return "with capacity 0 and maxReserved 0 nothing can ever pass"
	case p.Kind == TokenBucket && p.Start != Start{}:
		return "a token bucket has no windows to start"
	case p.Kind == SlidingWindow && p.Start.mode == startFirstUse:
		return "a sliding window cannot start at first use"
	}
	if problem := p.shardProblem(); problem != "" {
		return problem
	}
	return p.leaseProblem()
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
		return "windows that start at first use have no lease: nobody knows when they end"
	}
	return ""
}

func (p *Policy) shardProblem() string {
	n := int64(p.Shards)
	switch {
	case n < 0 || n > MaxShards:
		return fmt.Sprintf("shards %d is not between 0 and %d", n, MaxShards)
	case n > 1 && p.Start.FirstUse():
		return "windows that start at first use cannot be split: each shard would start its own"
	case p.Rate < n:
		return fmt.Sprintf("rate %d over %d shards leaves a shard without a token", p.Rate, n)
	case p.Capacity > 0 && p.Capacity < n:
		return fmt.Sprintf("capacity %d over %d shards leaves a shard without a token", p.Capacity, n)
	case p.MaxReserved > 0 && p.MaxReserved < n:
		return fmt.Sprintf("maxReserved %d over %d shards leaves a shard without a token", p.MaxReserved, n)
	}
	return ""
}
