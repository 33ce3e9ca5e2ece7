package runtime

import (
	"context"
	"encoding"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
)

// ForGood returns the end of an override that has none.
func ForGood() time.Time { return arith.Time(math.MaxInt64) }

// Override is what an operator gives a key in place of the numbers of its plan or of limits.yaml: a plan, numbers, or a
// Mode. For a number of 0, the plan's number applies. If the plan's capacity equals its rate, Rate without Capacity is
// both. An Override of nothing else, Override{Rate: 0} for example, gives the key 0: every request is denied, whatever its
// plan, with the RetryAfter [Never] or until it ends.
//
// Overrides give single keys, or all keys of a limit, other numbers or another plan while the program runs, lift the
// limit or block it. Each has an end, a reason and an author, and is an entry of a log. Entries are never changed,
// unless their key is erased (see [Eraser]), and those that ended long ago are deleted by a sweep.
//
// A limit has overrides if its policy has [Policy.Overrides]. The first of these is in force for a key:
//
//  1. a block of the whole limit or of the key, of both the one that ends last,
//  2. the override of the key,
//  3. the override of the whole limit,
//  4. the policy itself: from the key's [Exception], else the plan's if the limit has plans.
//
// A new block or override replaces the one before, of the same key. Tokens that were used stay used whatever the
// numbers are: see [State.Value].
//
// The process that has written an entry decides by it at once, and others when they have read it: within
// sqlstore.Options.OverridesEvery, 5 seconds by default, and the time of a read or, on a replica or a node of a cluster, of
// its arrival there. A denial that another process has cached is dropped together with the policy by which it was made. An
// entry ends by the store's clock, whether or not anything can be read then. The first request for a limit with overrides
// waits for the first read: if that fails, or takes longer than the request may, the error is [ErrOverridesUnread], subject
// to the limit's OnError. If a later read fails, the entries in force stay in force.
type Override struct {
	// Plan is the plan whose numbers the key gets, a constant of generated code; nil keeps the key's own.
	Plan encoding.TextMarshaler
	// Rate, Capacity and MaxReserved, in tokens, and Slots are at most the bounds in the policy's [OverrideBounds], or what
	// the key's [Exception] gives. They have no effect on a key whose plan has no numbers: it is unlimited, or its rate is 0.
	Rate, Capacity, MaxReserved, Slots int64
	// Mode is ModeOff or ModeUnlimited, which both lift the limit, or ModeShadow, without plan and numbers. Limits can be
	// lifted if their [OverrideBounds] have Unlimited. The zero Mode changes none. See [Block] to deny requests.
	Mode Mode
	// Until is when the override ends, at once and without a process that runs then; [ForGood] if it never does. Required.
	Until time.Time
	// Reason and Author are for the log: text without control characters, at most 1,000 and [MaxKey] bytes. Required.
	Reason, Author string
}

// Block denies all requests for a key. Its fields are the same as in an [Override], and required.
type Block struct {
	Until          time.Time
	Reason, Author string
}

// OverrideEnd says why overrides are ended before their time. Its fields are the same as in an [Override], and
// required.
type OverrideEnd struct {
	Reason, Author string
}

// maxReason is the longest reason of an override, in bytes.
const maxReason = 1000

// The values of [OverrideEntry.What].
const (
	// OverridePlan gives the key another plan, and possibly other numbers.
	OverridePlan = "plan"
	// OverrideNumbers gives it other numbers.
	OverrideNumbers = "numbers"
	// OverrideZero gives it 0: every request is denied.
	OverrideZero = "zero"
	// OverrideUnlimited, OverrideOff and OverrideShadow lift the limit, by the Mode with that name.
	OverrideUnlimited = "unlimited"
	OverrideOff       = "off"
	OverrideShadow    = "shadow"
	// OverrideBlock denies all requests, and OverrideUnblock ends that.
	OverrideBlock   = "block"
	OverrideUnblock = "unblock"
	// OverrideNone ends whatever is in force.
	OverrideNone = "none"
	// OverrideGranted, OverrideTaken and OverrideReset record that an operator has given tokens to the key, taken some, or
	// made it full: the Rate is how many. They put nothing in force.
	OverrideGranted = "granted"
	OverrideTaken   = "taken"
	OverrideReset   = "reset"
	// OverrideErased records that a key was erased: see [Eraser]. The entries of the key have its Key. It puts nothing
	// in force.
	OverrideErased = "erased"
)

// OverrideEntry is an entry of the log of overrides.
type OverrideEntry struct {
	// ID numbers the entries of a store from 1, in the order in which they were committed.
	ID int64
	// Limit is the name of the limit.
	Limit string
	// Key is the key as it is stored; see [Key.String]. It is empty for the whole limit.
	Key string
	// What the entry does: one of the constants above, or a word of a later version.
	What string
	// Plan is the name of a plan, or empty.
	Plan string
	// Rate, Capacity and MaxReserved are copied from the Override. The log has the slots of a limit in flight as both Rate
	// and Capacity.
	Rate, Capacity, MaxReserved int64
	// Most is the most that the limit declared when the Override was written, with slots as both Rate and Capacity; zero
	// for other entries. A store refuses an entry that exceeds it.
	Most OverrideBounds
	// Until is when the entry ends; [ForGood] if it never does. An entry that ends another one has At in it.
	Until time.Time
	// Reason and Author are copied from the Override.
	Reason, Author string
	// At is when the entry was written, by the clock of the store.
	At time.Time
}

// within reports whether the entry stays within its Most.
func (e *OverrideEntry) within() bool {
	m := &e.Most
	return min(e.Rate, e.Capacity, e.MaxReserved) >= 0 && e.Rate <= m.Rate && e.Capacity <= m.Capacity &&
		e.MaxReserved <= m.MaxReserved && (!e.lifts() || m.Unlimited)
}

// Validate returns nil for an entry that a store may append, and otherwise an error that wraps [ErrInvalidOverride].
func (e *OverrideEntry) Validate() error {
	switch {
	case !e.within():
		return fmt.Errorf("%w: it exceeds the most that the limit declares", ErrInvalidOverride)
	case e.Limit == "" || e.What == "":
		return fmt.Errorf("%w: the entry has no limit, or does nothing", ErrInvalidOverride)
	case strings.TrimSpace(e.Reason) == "" || len(e.Reason) > maxReason || !printable(e.Reason):
		return fmt.Errorf("%w: it needs a reason, of at most %d bytes of UTF-8 without control characters",
			ErrInvalidOverride, maxReason)
	case strings.TrimSpace(e.Author) == "" || len(e.Author) > MaxKey || !printable(e.Author):
		return fmt.Errorf("%w: it needs an author, of at most %d bytes of UTF-8 without control characters",
			ErrInvalidOverride, MaxKey)
	case e.Until.IsZero():
		return fmt.Errorf("%w: Until is not set: say when it ends, or ForGood", ErrInvalidOverride)
	case e.Until.After(ForGood()) || e.Until.Before(time.Unix(0, 0)):
		return fmt.Errorf("%w: its end, %v, is out of range: for an override without an end, set ForGood",
			ErrInvalidOverride, e.Until)
	}
	return nil
}

// numbers returns the numbers that the override gives.
func (v *Override) numbers() Numbers {
	return Numbers{Rate: v.Rate, Capacity: v.Capacity, MaxReserved: v.MaxReserved, Slots: v.Slots}
}

// logged returns the numbers as the log has them, which is older than Slots and has none.
func (n Numbers) logged() Numbers {
	return Numbers{Rate: max(n.Rate, n.Slots), Capacity: max(n.Capacity, n.Slots), MaxReserved: n.MaxReserved}
}

// numbers returns the numbers that an entry of the log gives a limit of a kind.
func (e *OverrideEntry) numbers(k Kind) Numbers {
	if k == InFlight {
		return Numbers{Slots: e.Rate}
	}
	return Numbers{Rate: e.Rate, Capacity: e.Capacity, MaxReserved: e.MaxReserved}
}

// Complete sets what an entry of a key does, and reports a problem of the override with the policy of the limit.
func (v *Override) Complete(e *OverrideEntry, p *Policy) error {
	// The numbers are for whatever plan the key has: an unlimited plan has none.
	p = p.counted().Inside().Except(e.Key).numbered()
	logged, most := v.numbers().logged(), p.Overrides.most().logged()
	e.Rate, e.Capacity, e.MaxReserved = logged.Rate, logged.Capacity, logged.MaxReserved
	e.Most = OverrideBounds{Rate: most.Rate, Capacity: most.Capacity, MaxReserved: most.MaxReserved,
		Unlimited: p.Overrides.Unlimited}
	e.Until, e.Reason, e.Author = v.Until, v.Reason, v.Author
	if v.Plan != nil {
		name, err := v.Plan.MarshalText()
		if err == nil {
			e.Plan = string(name)
			p, err = p.plans.policyOf(e.Plan)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrInvalidOverride, err)
		}
	}
	numbers := v.numbers() != Numbers{}
	switch {
	case v.Mode != ModeEnforce && (numbers || v.Plan != nil):
		return fmt.Errorf("%w: with a Mode it can have neither a plan nor numbers", ErrInvalidOverride)
	case v.Mode == ModeShadow || v.Mode == ModeOff || v.Mode == ModeUnlimited:
		if !p.Overrides.Unlimited {
			return fmt.Errorf("%w: the limit cannot be lifted: declare overrides with rate: unlimited in limits.yaml",
				ErrInvalidOverride)
		}
		e.What = v.Mode.String()
	case v.Mode == ModeBlock:
		return fmt.Errorf("%w: ModeBlock is not a Mode of it: use the method Block", ErrInvalidOverride)
	case v.Mode != ModeEnforce:
		return fmt.Errorf("%w: %v is not a Mode", ErrInvalidOverride, v.Mode)
	case v.Plan != nil:
		e.What = OverridePlan
	case numbers:
		e.What = OverrideNumbers
	default:
		e.What = OverrideZero
	}
	if !numbers {
		return nil
	}
	return v.checkNumbers(p)
}

// checkNumbers returns an error for numbers that the limit cannot have.
func (v *Override) checkNumbers(p *Policy) error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrInvalidOverride}, args...)...)
	}
	own, most := p.own().each(), p.Overrides.most().each()
	for i, n := range v.numbers().each() {
		switch name := numberNames[i]; {
		case n < 0:
			return invalid("%s %d is negative", name, n)
		case p.bare() && v.Plan != nil:
			return invalid("its plan has no numbers, because it is unlimited or its rate is 0")
		case p.bare():
			return invalid("the plan of the key has no numbers, because it is unlimited or its rate is 0: give it another plan, too")
		case n > 0 && own[i] == 0 && p.Kind == InFlight:
			return invalid("a limit in flight has slots and no %s: set Slots", name)
		case n > 0 && own[i] == 0:
			return invalid("the limit has %s 0, which overrides cannot change", name)
		case n > most[i]:
			return invalid("%s %d is more than %d, the most that limits.yaml declares", name, n, most[i])
		case n > 0 && n < int64(p.Shards):
			return invalid("%s %d over %d shards leaves a shard without a token", name, n, p.Shards)
		}
	}
	if !p.Kind.Linear() && v.Capacity != 0 && v.Capacity != v.Rate {
		return invalid("the capacity of a %v is its rate: leave Capacity out", p.Kind)
	}
	return nil
}

// Known returns an error for an entry that a later version has put in force.
func (e *OverrideEntry) Known() error {
	if e.lifts() || e.What == OverrideBlock || e.What == OverridePlan || e.What == OverrideNumbers || e.What == OverrideZero {
		return nil
	}
	return fmt.Errorf("%w: entry %d of the log of overrides has the kind %q, which this version does not have: update the program",
		ErrUnknownOverride, e.ID, e.What)
}

// Replaces reports whether the entry replaces the block and the override of its key: by itself, or by nothing if it
// [OverrideEntry.Ends]. A record of a change of the count, or of an erasure, replaces neither.
func (e *OverrideEntry) Replaces() (block, override bool) {
	switch e.What {
	case OverrideGranted, OverrideTaken, OverrideReset, OverrideErased:
		return false, false
	case OverrideNone:
		return true, true
	case OverrideBlock, OverrideUnblock:
		return true, false
	}
	return false, true
}

// Ends reports whether the entry puts nothing in force in place of what it replaces.
func (e *OverrideEntry) Ends() bool { return e.What == OverrideNone || e.What == OverrideUnblock }

// lifts reports whether the entry lifts the limit.
func (e *OverrideEntry) lifts() bool {
	return e.What == OverrideUnlimited || e.What == OverrideOff || e.What == OverrideShadow
}

// Apply returns the policy that an entry puts in force for keys of a policy, until next is. Numbers beyond the bounds
// of the policy, as after an edit of limits.yaml, are reduced to them: the file has the last word. The result is valid
// if p is.
func (e *OverrideEntry) Apply(p, next *Policy) (*Policy, error) {
	base := p.written()
	if e.What == OverrideNumbers {
		p = p.numbered()
	}
	of, unlimited := *p, p.Mode == ModeUnlimited
	switch {
	case e.Known() != nil:
		return nil, e.Known()
	case e.What == OverrideBlock && p.relaxed != ModeEnforce:
		return p, nil
	case e.What == OverrideBlock:
		of.Mode = ModeBlock
	case e.What == OverridePlan:
		plan, err := p.plans.policyOf(e.Plan)
		if err != nil {
			return nil, fmt.Errorf("%w: entry %d of the log of overrides: %w", ErrUnknownOverride, e.ID, err)
		}
		if p.byCaller {
			plan = plan.with(p.given)
		}
		of = *plan
		e.applyNumbers(&of)
	case e.What == OverrideNumbers && p.bare(), e.lifts() && !p.Overrides.Unlimited:
		return p, nil
	case e.What == OverrideNumbers:
		e.applyNumbers(&of)
	case e.What == OverrideZero:
		if unlimited && p.counted().Mode.Counts() {
			of.Mode = p.counted().Mode
		} else if unlimited {
			of.Mode = ModeEnforce
		}
		of.change(func(int, int64) int64 { return 0 })
		of.Lease = Lease{}
	case unlimited: // lifted already
	case e.What == OverrideShadow:
		of.Mode = ModeShadow
	default:
		of.Mode = ModeOff
	}
	of.relax()
	of.override = override{entry: e.ID, base: base, next: next, unlimited: unlimited && e.What == OverrideBlock}
	if !e.Until.Equal(ForGood()) {
		of.override.until = e.Until.UnixNano()
	}
	return &of, of.Validate()
}

// applyNumbers changes the numbers of a policy within its bounds.
func (e *OverrideEntry) applyNumbers(p *Policy) {
	if p.bare() {
		return
	}
	numbers := e.numbers(p.Kind)
	// Those that a caller gives may be equal by chance.
	if numbers.Capacity == 0 && p.Capacity == p.Rate && p.AtMost.Capacity == p.AtMost.Rate || !p.Kind.Linear() {
		numbers.Capacity = numbers.Rate
	}
	given, most, shards := numbers.each(), p.Overrides.most().each(), int64(max(1, p.Shards))
	p.change(func(i int, own int64) int64 {
		if given[i] == 0 || most[i] == 0 {
			return own
		}
		return min(max(given[i], shards), most[i])
	})
	p.Lease.Tokens = min(p.Lease.Tokens, p.Capacity)
}

// Eraser is a [Store] that can erase a key, for a person who has the right to be forgotten.
//
// An erasure deletes all rows of the key, also those of shards that the limit no longer has. The entries of the key
// stay in the log of overrides, with their IDs, instants and numbers, but their key, reason and author are replaced:
// the key by "%erased:" and a random number, which no key is stored as and which cannot be calculated from one. Another
// entry, [OverrideErased], with the same number makes every process read the log again, so that the key leaves its
// memory.
//
// What the store cannot reach is the operator's to delete: backups, the write-ahead, binary and slow-query logs of the
// database, pages that it has not written over, logs and traces of the program, and other keys of the same person, such
// as an address. Leases, cached denials and the counts of FailLocal hold the key in the memory of other processes until
// they expire. A later request makes a new row.
type Eraser interface {
	Store
	// Erase erases a key of a limit, all of it or nothing. If an operator has a reason for it, with an author, they are
	// those of the entry that records it, also if the log has no other entry of the key. The error is
	// [ErrOverrideInForce] if a block or an override of the key itself is in force, or [ErrInvalidKey] for the key "",
	// that of a limit without one.
	Erase(ctx context.Context, limit, key string, why OverrideEnd) (Erased, error)
}

// Erased is what an [Eraser] has erased.
type Erased struct {
	// Rows were deleted, and Entries of the log no longer have the key.
	Rows, Entries int
	// Entry records the erasure. It is zero if the log had no entry of the key, and there was no reason.
	Entry OverrideEntry
}

func (n noTx) Erase(context.Context, string, string, OverrideEnd) (Erased, error) {
	return Erased{}, n.err
}
