package runtime

import (
	"cmp"
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
)

// MaxTokens is the largest rate, capacity or maxReserved of a limit, in tokens. Whole numbers up to it, and sums of two
// of them, are exact in a float64.
const MaxTokens = 1_000_000_000_000_000

// Unbounded as a [Policy.MaxReserved] removes the bound on a key's debt. A single reservation is still at most the
// capacity plus Unbounded tokens, and debts beyond 2^53 tokens are rounded.
const Unbounded = MaxTokens

// MaxPeriod is the longest period of a limit: ten years of 365 days.
const MaxPeriod = 10 * 365 * 24 * time.Hour

// MaxShards is the largest number of shards of a limit.
const MaxShards = 1024

// MaxPreciseRate is the largest rate of a precise sliding window whose tokens come back exactly a period after they
// were taken.
const MaxPreciseRate = 1000

// MaxSlots is the largest [Policy.Slots].
const MaxSlots = 1000

// Policy is a limit: a rule that is applied to each key separately. Counts are stored under the policy's name, so two
// policies with the same name share them.
//
// A policy with a Name and a Kind, and with 0 as Rate, Period, Capacity, MaxReserved, Slots and Hold, gives nothing: it
// denies every request with the RetryAfter [Never] and the [Decision.Reason] zero. Stored rows stay as they are. It is the
// policy of a plan whose rate is 0.
//
// A [FixedWindow] with [MaxTokens] as Rate and Capacity only counts, such as for bills: no key reaches that many, and
// [Balance.Used] is the use in the window.
//
// The zero Policy is invalid, and every method of a limit with an invalid policy returns [ErrInvalidPolicy]. A policy must
// not change after its first use, when it is validated, and what it needs is kept: one that has changed goes by a mix of the
// old and the new fields. Change a copy, which is a policy of its own.
type Policy struct {
	// Name identifies the limit in the store, in errors and in decisions: at most 255 bytes of UTF-8 without control
	// characters.
	Name string
	// Kind is the algorithm by which tokens are granted.
	Kind Kind
	// Rate is how many tokens are granted per Period, 1 to [MaxTokens]. A limit of the kind [InFlight] has Slots and Hold
	// in place of Rate, Period and Capacity.
	Rate int64
	// Period is the time in which Rate tokens are granted, at most [MaxPeriod].
	Period time.Duration
	// Capacity is the most tokens that can accumulate, and so the largest count of a plain request. With 0, tokens can
	// only be reserved. For a [SlidingWindow] it equals Rate.
	Capacity int64
	// Slots is how many slots of an [InFlight] can be held at once, 1 to [MaxSlots]. For the other kinds it is 0.
	Slots int64
	// Hold is how long a slot is held after it was acquired or renewed, unless it is released earlier: at most [MaxPeriod].
	// For other kinds than [InFlight] it is 0.
	Hold time.Duration
	// MaxReserved is how many tokens may be reserved before they have accrued: 0 to allow no reservations, [Unbounded]
	// for no bound. For a [SlidingWindow] it is 0.
	MaxReserved int64
	// Precise makes a [SlidingWindow] exact: never more than Rate tokens in any period, wherever it begins. A token
	// that is taken at an instant t is available again exactly at t + Period, or if Rate is more than [MaxPreciseRate],
	// at most a thousandth of Period later. The row of a key has up to 1,002 instants, of some 7 bytes each.
	Precise bool
	// Start is where the windows begin. A [TokenBucket] has no windows, and a zero Start.
	Start Start
	// Calendar makes the windows of a [FixedWindow] days, weeks, months or years of a time zone. Period is then their mean
	// length, and Start is zero.
	Calendar Calendar
	// Shards is the number of rows among which the count of a key is split, so that they share the writes. 0 and 1 both
	// mean one row.
	Shards int
	// Timeout bounds the time of a decision; 0 leaves it to the caller's context. After the timeout the store counts as
	// failed, although it may have taken the tokens. Timeout does not apply to Charge, Peek, Refund, Reset, Settle and
	// Cancel, nor inside a transaction of the caller.
	Timeout time.Duration
	// OnError is the outcome of a request when the store fails; see [Decision.FailedOpen] and [Decision.FailedLocal].
	OnError OnError
	// Jitter is the most by which clients are told to wait longer than necessary, so that they do not all come back at
	// once: see [Decision.RetryIn] and limiter.Reservation.Delay; Wait sleeps for as long. It is a fixed part of Jitter
	// for each key and each instant at which tokens are due. So it spreads the keys of a limit, but not the callers of
	// one key.
	Jitter time.Duration
	// DenyCache is how long at most a denial is answered from this process's memory; 0 disables that. Tokens that
	// another process refunds may become available that much later, and with those that it takes RetryAfter is too
	// short. What this process itself does to a key ends the denial.
	DenyCache time.Duration
	// Lease lets a process take blocks of tokens and spend them from its memory. The zero Lease disables that.
	Lease Lease
	// Durability is how much of the counts a crash of the database may lose. Its effect depends on the database: see
	// package sqlstore.
	Durability Durability
	// Mode is what the limit does with its decisions. With [ModeUnlimited], only Name, Kind, Precise, Shards, AtMost and
	// Overrides are used.
	Mode Mode
	// Penalty denies all requests for a key for some time after a denial. A limit with one has no Shards, Lease or
	// MaxReserved.
	Penalty Penalty
	// Warn are the parts of the capacity whose use is reported, in percent, each by the take that crosses it: see
	// [Decision.Crossed]. A limit with thresholds has a capacity, or slots.
	Warn Thresholds
	// Priority is the class of the requests that the policy decides. All classes of a key have one count. The zero Priority is
	// that of a limit without classes, and leaves nothing.
	Priority Priority
	// AtMost is the most that callers can give in place of Rate, Capacity, MaxReserved and Slots, each request its own: see
	// [Numbers.For]. Those that callers give are the same in the policy itself, which decides requests without them,
	// such as those of operators; the others are 0. The zero AtMost means that the policy's numbers are those of all
	// requests. A row is not swept before it is full at the least rate.
	AtMost Numbers
	// Overrides is the most that operators can give single keys of the limit while the program runs: see [Override]. The
	// zero OverrideBounds disables overrides and blocks.
	Overrides OverrideBounds

	// identity is set by the catalog of the policy, and nil without one.
	identity *identity
	// plans are those that an override can give, nil without plans.
	plans *planSet
	// given is what a caller has given, if byCaller is set.
	given    Numbers
	byCaller bool
	// relaxed is the mode of limiter.Mode, which bounds the Mode; ModeEnforce without one.
	relaxed Mode
	// exceptions has the exceptions of the limit, nil without one. In the policy of a key with an exception, excepted is the
	// policy of the other keys.
	exceptions *Exceptions
	excepted   *Policy
	// override is set in a policy that is in force for some key because of an override.
	override override
}

// identity is what a [Catalog] tells its policies about themselves.
type identity struct {
	owner, key string
}

// override is how long an override has a policy in force.
type override struct {
	// entry is its entry in the log, and base the policy without it.
	entry int64
	base  *Policy
	// until is when it ends, in nanoseconds since 1970 UTC, or 0 if it never does. next is the policy that is then in
	// force, by the entries that were read; nil if this version does not understand it.
	until int64
	next  *Policy
	// unlimited means that it blocks a plan without numbers.
	unlimited bool
}

// hashedWith returns the policy of a program whose keys are [Key.HashedWith] the secret: the id of the secret is part of
// the types of its key, so that a store refuses programs with another secret or without one, for which every key is another
// one. It returns p itself if no part of its key is hashed, or p is not from a [Catalog].
func (p *Policy) hashedWith(secret []byte) *Policy {
	if len(secret) < MinKeySecret || p.identity == nil {
		return p
	}
	by := &identity{owner: p.identity.owner, key: hashedTypesBy(p.identity.key, secret)}
	if by.key == p.identity.key {
		return p
	}
	return p.changed(func(of *Policy) { of.identity = by })
}

// relaxedTo returns the policy of a program with limiter.Mode: no plan of it is stricter than the mode.
func (p *Policy) relaxedTo(m Mode) *Policy {
	if p == nil || m == ModeEnforce {
		return p
	}
	return p.changed(func(of *Policy) {
		of.relaxed = m
		of.relax()
	})
}

// relax replaces a Mode that is stricter than that of limiter.Mode.
func (p *Policy) relax() {
	if p.relaxed != ModeEnforce && strictness(p.Mode) > strictness(p.relaxed) {
		p.Mode = p.relaxed
	}
}

// strictness orders the modes: a higher one denies more.
func strictness(m Mode) int {
	switch m {
	case ModeOff, ModeUnlimited:
		return 0
	case ModeShadow:
		return 1
	case ModeBlock:
		return 3
	}
	return 2
}

// Relaxed returns the mode of limiter.Mode, if the program has one: Mode is then no stricter than that, whatever the file
// and operators say.
func (p *Policy) Relaxed() (Mode, bool) {
	if p == nil {
		return ModeEnforce, false
	}
	return p.relaxed, p.relaxed != ModeEnforce
}

// changed returns a copy of a policy after a change, which is made to the plans that an override can give a key too.
func (p *Policy) changed(change func(*Policy)) *Policy {
	of := *p
	change(&of)
	if p.plans != nil {
		of.plans = &planSet{p.plans.names, slices.Clone(p.plans.policies)}
		for i := range of.plans.policies {
			plan := &of.plans.policies[i]
			change(plan)
			plan.plans = of.plans
		}
	}
	return &of
}

// Reserves reports whether callers may take tokens before they have accrued.
func (p *Policy) Reserves() bool { return p != nil && p.MaxReserved > 0 }

// Full returns the tokens, or the slots, of a key of which none are taken: the Capacity, or the Slots, less what the
// Priority leaves to others.
func (p *Policy) Full() int64 { return max(p.Capacity, p.Slots) - p.left() }

// Penalizes reports whether denials have a penalty.
func (p *Policy) Penalizes() bool { return p != nil && p.Penalty.Steps[0] != 0 }

// OverrideBounds is the most that overrides can give the keys of a limit. The zero OverrideBounds means that the limit
// has no overrides.
type OverrideBounds struct {
	// Rate, Capacity, MaxReserved and Slots are at least the policy's numbers, and 0 if the policy's are: a limit that
	// can only be reserved always is one.
	Rate, Capacity, MaxReserved, Slots int64
	// Unlimited allows overrides that lift the limit: those with a Mode.
	Unlimited bool
}

// String returns the bounds in words.
func (b OverrideBounds) String() string {
	switch {
	case b == OverrideBounds{}:
		return "no overrides"
	case b.Unlimited && b.Slots > 0:
		return fmt.Sprintf("any, or %d slots", b.Slots)
	case b.Unlimited:
		return fmt.Sprintf("any, or capacity %d, maxReserved %d", b.Capacity, b.MaxReserved)
	case b.Slots > 0:
		return fmt.Sprintf("at most %d slots", b.Slots)
	}
	return fmt.Sprintf("at most rate %d, capacity %d, maxReserved %d", b.Rate, b.Capacity, b.MaxReserved)
}

// most returns the most that the numbers of an override can be.
func (b *OverrideBounds) most() Numbers {
	return Numbers{Rate: b.Rate, Capacity: b.Capacity, MaxReserved: b.MaxReserved, Slots: b.Slots}
}

// Overridable reports whether keys of the limit can have overrides.
func (p *Policy) Overridable() bool { return p != nil && p.Overrides != OverrideBounds{} }

// written returns the policy without the override that has put p in force; p itself if none has.
func (p *Policy) written() *Policy {
	if p.override.base != nil {
		return p.override.base
	}
	return p
}

// unlimited reports whether the policy is that of a plan without numbers, also if the key is blocked.
func (p *Policy) unlimited() bool { return p.Mode == ModeUnlimited || p.override.unlimited }

// zero reports whether the policy has nothing to give, so that it denies every request unless its Mode lets them pass: it
// has no numbers, or a caller has given a 0.
func (p *Policy) zero() bool {
	return p != nil && !p.unlimited() &&
		(p.Rate+p.Slots == 0 || p.Capacity+p.Slots+p.MaxReserved == 0 || p.AtMost.Capacity > 0 && p.Capacity == 0)
}

// numberless reports whether the policy has no numbers by which the tokens of a key could be counted.
func (p *Policy) numberless() bool { return p.unlimited() || p.zero() }

// bare reports whether the policy has no numbers that an override could replace. It could replace those of a caller, even if
// they are 0.
func (p *Policy) bare() bool { return p.unlimited() || p.zero() && !p.byCaller }

// countsOnly reports whether the policy counts, and denies nothing. In limits.yaml, that is the rate unlimited with count:
// true. It is a fixed window of the most tokens, so that a store decides it as any other.
func (p *Policy) countsOnly() bool {
	return p != nil && p.Kind == FixedWindow && p.Rate == MaxTokens && p.Capacity == MaxTokens && !p.Most()
}

// uncounted reports whether the tokens of keys with the policy are not counted: the limit is off, or the policy is without
// numbers.
func (p *Policy) uncounted() bool { return p.Mode.Passes() || p.numberless() }

// equal reports whether two policies decide requests alike: they have the same values, and have been put in force by
// the same override.
func (p *Policy) equal(o *Policy) bool {
	switch {
	case p == o:
		return true
	case p == nil || o == nil:
		return false
	case *p == *o:
		return true
	case p.override.entry != o.override.entry || p.override.entry == 0 && p.Priority == Priority{}:
		return false
	}
	// The policies that they refer to may be equal and not the same: see Numbers.For and Priority.For.
	a, b := *p, *o
	a.override.base, a.override.next, b.override.base, b.override.next = nil, nil, nil, nil
	if p.Priority != (Priority{}) {
		a.excepted, a.plans, b.excepted, b.plans = nil, nil, nil, nil // the plans are those of the limit, for the class
	}
	return a == b && p.override.base.equal(o.override.base) && p.override.next.equal(o.override.next) &&
		(p.excepted == o.excepted || p.excepted.equal(o.excepted))
}

// Override returns the number of the entry in the log of overrides that has put the policy in force, or false if none
// has.
func (p *Policy) Override() (entry int64, ok bool) {
	if p == nil {
		return 0, false
	}
	return p.override.entry, p.override.entry != 0
}

// Start says where the windows of a limit begin. The zero Start gives every key a fixed offset derived from the limit's
// name and the key, so that not all keys start a window at the same instant.
type Start struct {
	mode   startMode
	offset time.Duration
}

type startMode uint8

const (
	startByKey startMode = iota
	startAligned
	startFirstUse
	// startOutOfRange is refused by Validate.
	startOutOfRange
)

// StartAt returns a Start with a window that begins at t, and others every period before and after. A policy with an instant
// before the year 1678 or after 2262, such as the zero Time, is not valid.
func StartAt(t time.Time) Start {
	offset := time.Duration(t.UnixNano())
	if !arith.Time(int64(offset)).Equal(t) {
		return Start{mode: startOutOfRange}
	}
	return StartOffset(offset)
}

// StartOffset returns a Start with a window that begins at offset after 0:00 UTC on 1 January 1970, and others every
// period before and after: with a period of a day, offset is a time of day in UTC.
func StartOffset(offset time.Duration) Start { return Start{mode: startAligned, offset: offset} }

// StartFirstUse returns a Start with which a key's window begins at the key's first request, and the next one at the
// first request after it ended. For the time between two such requests, a key that lacks more than the rate gets
// rate/period tokens, in fractions and not in whole windows.
func StartFirstUse() Start { return Start{mode: startFirstUse} }

// Offset returns the offset of a [StartOffset] or [StartAt], and whether s is one of them.
func (s Start) Offset() (time.Duration, bool) { return s.offset, s.mode == startAligned }

// FirstUse reports whether s is [StartFirstUse].
func (s Start) FirstUse() bool { return s.mode == startFirstUse }

// Lease is a block of tokens that a process takes at once and spends without a request to the store. The block is taken
// in advance, so that no more is granted in total than without leases, but a token may be spent up to For after it was
// taken: in any interval of length t, at most
//
//	max(capacity + rate*(t+For)/period, capacity + maxReserved + rate*t/period)
//
// tokens of a leased token bucket can be used. A reserved token counts when its delay has passed.
type Lease struct {
	// Tokens is the size of a block, at most the capacity: best the number of tokens that a process uses within For.
	Tokens int64
	// For is how long a block may be spent. The rest of the block is then refunded, for a token bucket less the tokens
	// that have accrued since the block was taken. A block of a windowed limit ends with the window at the latest.
	For time.Duration
}

// MaxPenaltySteps is how many steps a [Penalty] has at most.
const MaxPenaltySteps = 8

// Penalty denies all requests for a key for some time after one was denied for lack of tokens. The zero Penalty is
// none.
//
// A Take or TakeUpTo starts it, also in a call of which another limit denies, but not the retries of a Wait, a Check, a
// count that can never fit, or a request that only another limit of its call has denied. While it lasts, requests are
// denied without writing anything, whatever the tokens are, and it does not grow. A Reset ends it, and forgets those
// before it. In [ModeShadow] it is counted, and requests pass.
type Penalty struct {
	// Steps are how long the first penalty of a key lasts, the second one, and so on, up to the first 0. After the last
	// step, the last one is repeated.
	Steps [MaxPenaltySteps]time.Duration
	// Forgive is how long after the end of a penalty the next one is a first one again. 0 means 10 times the last step.
	Forgive time.Duration
}

// PenaltyOf returns a Penalty with some steps, at most [MaxPenaltySteps].
func PenaltyOf(forgive time.Duration, steps ...time.Duration) Penalty {
	p := Penalty{Forgive: forgive}
	copy(p.Steps[:], steps)
	return p
}

// Len returns the number of steps.
func (p *Penalty) Len() int {
	n := 0
	for n < MaxPenaltySteps && p.Steps[n] != 0 {
		n++
	}
	return n
}

// Step returns how long the penalty with a number lasts, counted from 1; 0 without one.
func (p *Penalty) Step(number int) time.Duration {
	n := p.Len()
	if n == 0 || number < 1 {
		return 0
	}
	return p.Steps[min(number, n)-1]
}

// Forgiveness returns how long after its end a penalty counts: Forgive, or its default.
func (p *Penalty) Forgiveness() time.Duration {
	if p.Forgive != 0 {
		return p.Forgive
	}
	return 10 * p.Step(MaxPenaltySteps)
}

// OnError is the outcome of a request when the store fails. The zero OnError is FailClosed.
type OnError uint8

const (
	// FailClosed returns the store's error: no request passes.
	FailClosed OnError = iota
	// FailOpen lets the request pass, uncounted, and sets [Decision.FailedOpen]. A store also fails if it has not
	// answered within the limit's timeout. The end of the caller's context is no failure of the store, and the call
	// returns its error: otherwise clients that set short deadlines could open the limit. Require and Wait cannot
	// report a request that passed this way, so check at the start of the program that the store is ready. A mistake of
	// the program is no failure of the store either, and lets no request pass: see [OriginProgram].
	FailOpen
	// FailLocal decides by the same rule from this process's memory, and sets [Decision.FailedLocal]. Each
	// limiter.Limiter has a memory of its own, in which a key begins with the tokens that the last decision of the
	// store for this limiter has left, and is full if there was none: n processes together may allow n times as much as
	// the limit, in addition to what the store has allowed. For a [SlidingWindow], the tokens used count as used in the
	// current window, or at the last take of a precise one. Leased tokens are not reported. The store never counts what
	// was taken from memory. When it is back, it decides again, and the memory keeps its own counts for the next
	// failure, as long as they have fewer tokens and this process does not reset or erase the key. A store fails in the
	// same cases as with FailOpen, and for the same methods: Charge, Peek, Refund and Reset return the error.
	//
	// The memory holds up to 65,536 rows and as many reports of the store, in about 20 MB. If more keys are used, those
	// not used for the longest time are full again.
	FailLocal

	endOfOnErrors // every OnError before it has an entry in the table onErrors
)

var onErrors [endOfOnErrors]string = [...]string{FailClosed: "closed", FailOpen: "open", FailLocal: "local"}

// OnErrors returns every OnError.
func OnErrors() []OnError { return constants(FailClosed, endOfOnErrors) }

// String returns the word used in limits.yaml: "closed".
func (o OnError) String() string { return nameOf(entryOf(onErrors[:], o), o) }

// Durability is how much of the counts a power cut or a crash of the database's machine may lose. When only this
// process ends, tokens reported as taken remain taken, whatever the Durability.
type Durability uint8

const (
	// DurabilityDefault is the database's own setting, which is full on most servers.
	DurabilityDefault Durability = iota
	// DurabilityRelaxed does not wait until the counts are on disk. A crash may lose the counts of the last moments, so
	// that those tokens can be taken again; it loses no other data.
	DurabilityRelaxed
	// DurabilityFull waits until the counts are on disk.
	DurabilityFull

	endOfDurabilities // every Durability before it has an entry in the table durabilities
)

var durabilities [endOfDurabilities]string = [...]string{
	DurabilityDefault: "default", DurabilityRelaxed: "relaxed", DurabilityFull: "full",
}

// Durabilities returns every Durability that a limit can choose.
func Durabilities() []Durability { return constants(DurabilityRelaxed, endOfDurabilities) }

// String returns the word used in limits.yaml, "relaxed" or "full", or "default".
func (d Durability) String() string { return nameOf(entryOf(durabilities[:], d), d) }

// PlanNames has the name of each plan of limits.yaml at the plan's number. Numbers begin with 1, so that the zero Plan
// of generated code is no plan.
type PlanNames []string

// Parse returns the number of the plan with a name: it must be written as in limits.yaml. The error wraps
// [ErrInvalidPlan] and lists the plans.
func (n PlanNames) Parse(name string) (plan int, err error) {
	for i := 1; i < len(n); i++ {
		if n[i] == name {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%w %q: the plans are %s", ErrInvalidPlan, name, strings.Join(n[min(1, len(n)):], ", "))
}

// Name returns the name of the plan with a number, or "Plan(7)" for one that does not exist.
func (n PlanNames) Name(plan int) string {
	if plan < 1 || plan >= len(n) {
		return fmt.Sprintf("Plan(%d)", plan)
	}
	return n[plan]
}

// Text returns the name of the plan with a number. If no plan has it, the error wraps [ErrInvalidPlan]: text that Parse
// would not accept must not be stored.
func (n PlanNames) Text(plan int) ([]byte, error) {
	if plan < 1 || plan >= len(n) {
		return nil, noPlan(plan)
	}
	return []byte(n[plan]), nil
}

// Value returns the name of the plan with a number, as [driver.Valuer] does. The errors are the same as for Text.
func (n PlanNames) Value(plan int) (driver.Value, error) {
	text, err := n.Text(plan)
	if err != nil {
		return nil, err
	}
	return string(text), nil
}

// Scan returns the number of the plan with a name from a database: a string or bytes. The error wraps [ErrInvalidPlan].
func (n PlanNames) Scan(from any) (plan int, err error) {
	switch from := from.(type) {
	case string:
		return n.Parse(from)
	case []byte:
		return n.Parse(string(from))
	case nil:
		return 0, fmt.Errorf("%w: the value is NULL", ErrInvalidPlan)
	}
	return 0, fmt.Errorf("%w: a value of type %T is not the name of a plan", ErrInvalidPlan, from)
}

// PlanPolicies has the policy of one limit for each plan, at the plan's number as in [PlanNames]. They have the same
// name, so that a key has one count whatever its plan: its use is kept when the plan changes.
type PlanPolicies []Policy

// For returns the policy of a plan, and the key. If there is no plan with that number, every method of the limit
// returns an error that wraps [ErrInvalidPlan]. The results are the arguments of limiter.Limiter.Limit,
// limiter.Limiter.Reservable and limiter.Limiter.ReserveOnly.
func (p PlanPolicies) For(plan int, key Key) (*Policy, Key) {
	switch {
	case 1 <= plan && plan < len(p):
		return &p[plan], key
	case len(p) < 2:
		return nil, Key{err: noPlan(plan)}
	}
	// Any of the policies has the name of the limit, which the error needs.
	return &p[1], Key{err: noPlan(plan)}
}

// planSet is the plans of a limit.
type planSet struct {
	names    PlanNames
	policies PlanPolicies
}

// policyOf returns the policy of a plan.
func (s *planSet) policyOf(name string) (*Policy, error) {
	if s == nil {
		return nil, fmt.Errorf("%w: the limit has no plans", ErrInvalidPlan)
	}
	plan, err := s.names.Parse(name)
	if err != nil {
		return nil, err
	}
	if plan >= len(s.policies) {
		return nil, noPlan(plan)
	}
	return &s.policies[plan], nil
}

// plan returns p if it is as wanted, and otherwise the first plan of its limit that is; nil without one. The other plans
// are known if the limit has overrides, which can give them to a key.
func (p *Policy) plan(wanted func(*Policy) bool) *Policy {
	switch {
	case p == nil:
		return nil
	case wanted(p):
		return p
	case p.plans != nil:
		for i := range p.plans.policies {
			if of := &p.plans.policies[i]; i > 0 && wanted(of) {
				return of
			}
		}
	case p.excepted != nil:
		return p.excepted.plan(wanted)
	}
	return nil
}

// counted returns p, or for a plan without numbers one that has some, if one is known: fields that are the same for all
// plans are those of the limit there.
func (p *Policy) counted() *Policy {
	return cmp.Or(p.plan(func(of *Policy) bool { return !of.numberless() }), p)
}

// Overridable returns p after naming its plans, so that overrides can give them to keys.
func (p PlanPolicies) Overridable(names PlanNames) PlanPolicies {
	set := &planSet{names, p}
	for i := range p {
		p[i].plans = set
	}
	return p
}

func noPlan(plan int) error {
	const remedy = "pass one of the generated constants, or the result of ParsePlan"
	if plan == 0 {
		return fmt.Errorf("%w: the zero Plan is not a plan: %s", ErrInvalidPlan, remedy)
	}
	return fmt.Errorf("%w: there is no plan with the number %d: %s", ErrInvalidPlan, plan, remedy)
}
