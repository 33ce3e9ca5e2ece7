package runtime

import (
	"fmt"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime/internal/trait"
)

// Op is the operation of a [Request]. The zero Op takes tokens.
type Op uint8

const (
	// Take takes Count tokens if they are available, or if Reserve may take them before they have accrued.
	Take Op = iota
	// Check returns the decision that Take would return, and takes nothing.
	Check
	// Peek returns the number of tokens left. It ignores Count.
	Peek
	// Refund gives back Count of the tokens that a request took, as if it had not taken them. See [Request.TakenAt].
	Refund
	// Charge takes Count tokens whether they are available or not.
	Charge
	// Reset makes the key full again, as if it were new. It ignores Count.
	Reset
	// TakeUpTo takes as many tokens as are available, at most Count. It is denied if there are none, and ignores Reserve.
	TakeUpTo
	// Renew holds the slots of the holder with the Fence for another hold from now on. It ignores Count.
	Renew
	// Release frees the slots of the holder with the Fence. It ignores Count.
	Release

	endOfOps // every operation before it has an entry in the table ops
)

// ops has an entry for every [Op]. If one is missing, the array is too short for its type and does not compile.
var ops [endOfOps]opTraits = [...]opTraits{
	Take:     {name: "Take", counts: true, decides: true, takes: true, together: true},
	TakeUpTo: {name: "TakeUpTo", counts: true, decides: true, takes: true, upTo: true},
	Check:    {name: "Check", counts: true, decides: true, reads: true, together: true},
	Peek:     {name: "Peek", reads: true},
	Charge:   {name: "Charge", counts: true},
	Refund:   {name: "Refund", counts: true},
	Reset:    {name: "Reset", alwaysUsesRows: true},
	Renew:    {name: "Renew", alwaysUsesRows: true},
	Release:  {name: "Release", alwaysUsesRows: true},
}

// opTraits are the properties of an operation, by which all code distinguishes it that does not execute it.
type opTraits struct {
	name string
	// counts: it has a count. decides: it allows or denies. takes: it takes tokens if it allows.
	counts, decides, takes bool
	// upTo: the count is the most that it takes, and one token is enough.
	upTo bool
	// reads: it changes nothing.
	reads bool
	// together: a call may have several of them.
	together bool
	// alwaysUsesRows: it needs the rows of a key even if nothing is counted, because they may be left from another mode or
	// plan.
	alwaysUsesRows bool
}

// traits returns the properties of an operation; those of an unknown one are zero.
func (o Op) traits() opTraits {
	if !o.Known() {
		return opTraits{}
	}
	return ops[o]
}

// Ops returns every Op.
func Ops() []Op { return constants(Take, endOfOps) }

// Known reports whether o is one of the constants.
func (o Op) Known() bool { return o < endOfOps }

// String returns the name of the constant.
func (o Op) String() string { return nameOf(entryOf(ops[:], o).name, o) }

// Counts reports whether the operation has a count.
func (o Op) Counts() bool { return o.traits().counts }

// Takes reports whether the operation takes tokens if it is allowed.
func (o Op) Takes() bool { return o.traits().takes }

// UpTo reports whether the operation takes what is available, and its count is a bound.
func (o Op) UpTo() bool { return o.traits().upTo }

// Reads reports whether the operation changes nothing.
func (o Op) Reads() bool { return o.traits().reads }

// Together reports whether the operation may be one of several of a call.
func (o Op) Together() bool { return o.traits().together }

// MaxFenceStep is the most that a Take may add to the number of its holder.
const MaxFenceStep = 1<<16 - 1

// Request is an operation on one key of one limit.
type Request struct {
	// Policy is the limit. It must be valid.
	Policy *Policy
	// Key is the key as it is stored; see [Key.String].
	Key string
	// Op is the operation.
	Op Op
	// Count is the number of tokens to take, check, charge or refund. A request for 0 is allowed and changes nothing.
	Count int64
	// Reserve lets Take and Check go into debt, up to the policy's MaxReserved.
	Reserve bool
	// MaxDelay denies a reservation whose tokens are due later than that from now; 0 means no bound. RetryAfter is then
	// the time until the request passes without any delay. A count beyond the capacity always has a delay: then
	// RetryAfter is that delay, and the retry may be denied too.
	MaxDelay time.Duration
	// TakenAt is when the tokens of a Refund were taken, in nanoseconds since 1970 UTC. The refund leaves the key as if
	// they had not been taken then: see limiter.Limit.RefundN. 0 means that the tokens belong to no request: all of
	// them are added, up to the capacity, and earlier requests for the key can no longer be refunded, except for a
	// sliding window. Make the refund of a request by [Decision.RefundRequest].
	//
	// For a Release, it means that the Take at that instant may have had no effect, or may have it yet, because its answer
	// is unknown, or that the slots may be free already. The Release is then no error, and the Take has no effect later.
	TakenAt int64
	// Total is how many tokens had been taken from the row of the key when those of a Refund had been, or 0 if that is
	// unknown. Without it, nothing is given back once tokens have accrued, or after an hour.
	Total float64
	// Shard counts from 1, if the tokens of a Refund were taken from one shard; otherwise it is 0.
	Shard int
	// Leased says that a Take is for a lease, or that the tokens of a Refund are a part of those that a lease has
	// taken. Of a token bucket, at least those that have not accrued since at the policy's rate are then given back.
	Leased bool
	// Fence is the holder of the slots that a Renew, a Release or a Refund is about, for a limit of the kind
	// [InFlight]: the [Decision.Fence] of the Take. If the holder is gone or its hold has ended, the error is
	// [ErrSlotLost], or the Refund changes nothing.
	//
	// For a Take of slots, it is added to the number that the holder would get, and is at most [MaxFenceStep]. A caller chooses
	// it at random, so that a Release after an answer that was lost does not free the slots of another holder: one who has got
	// the number that the Take was to have.
	Fence int64
	// Retry means that the request repeats one that was denied, as a Wait does: its denial starts no [Penalty].
	Retry bool
	// PenaltyOnly means that a Reset ends the penalty of the key, and forgets those before it, and leaves the tokens.
	PenaltyOnly bool
	// Zone is the time zone of the key, at most 16 hours from UTC, if the policy's Calendar has ZonePerKey; otherwise nil.
	Zone *time.Location
	// Anniversary is the first day of some window of the key, if the policy's Calendar has Anniversary; otherwise zero.
	Anniversary Date
}

// Validate returns nil for a request with a valid policy and key, and otherwise [ErrInvalidKey] or [ErrInvalidPolicy].
func (q Request) Validate() error {
	if len(q.Key) > MaxKey || !printable(q.Key) {
		return fmt.Errorf("%w: it must be in the form that Key.String returns", ErrInvalidKey)
	}
	traits, err := q.Policy.seen()
	if err != nil || !traits.Have(trait.Calendar) {
		return err
	}
	if problem := q.calendarProblem(); problem != "" {
		return fmt.Errorf("%w: %s", ErrInvalidKey, problem)
	}
	return nil
}

// calendarProblem returns what the request lacks for the policy's calendar, or "".
func (q *Request) calendarProblem() string {
	switch c := &q.Policy.Calendar; {
	case c.ZonePerKey && q.Zone == nil:
		return "the time zone of the key is missing or nil: pass a *time.Location"
	case c.ZonePerKey && zoneProblem(q.Zone) != "":
		return "the time zone of the key is " + zoneProblem(q.Zone)
	case c.Anniversary && !q.Anniversary.Valid():
		return "the anniversary of the key is missing, zero, or not in the years 1 to 9999: pass a time.Time"
	}
	return ""
}

// SameWindows reports whether two requests for one key have the same zone and anniversary.
func (q *Request) SameWindows(o *Request) bool {
	// Every LoadLocation of a name returns another pointer.
	return q.Anniversary == o.Anniversary && (q.Zone == o.Zone || sameZone(q.Zone, o.Zone))
}

// AsKey returns the key of a valid request, with its zone and anniversary.
func (q *Request) AsKey() Key {
	k := Key{text: q.Key}
	calendar := &q.Policy.counted().Calendar
	if !calendar.PerKey() {
		return k
	}
	c := keyCalendar{zone: q.Zone}
	if a := q.Anniversary; a.Valid() {
		zone := c.zone
		if zone == nil {
			zone, _ = calendar.Location()
		}
		// Noon is on the same day even where the clock skips midnight.
		c.since = time.Date(a.Year, a.Month, a.Day, 12, 0, 0, 0, zone)
	}
	k.calendar = &c
	return k
}

// Complete sets the key of a request, whose policy is valid, with its zone and anniversary. The error is
// [ErrInvalidKey], that of Err or because the key lacks one of them.
func (k Key) Complete(q *Request) error {
	if k.err != nil {
		return k.err
	}
	q.Key = k.text
	c := &q.Policy.counted().Calendar
	if !c.PerKey() {
		return nil
	}
	own := k.ownCalendar()
	if c.ZonePerKey {
		q.Zone = own.zone
	}
	if c.Anniversary && !own.since.IsZero() {
		zone := own.zone
		if !c.ZonePerKey {
			zone, _ = c.Location()
		}
		if zone != nil {
			q.Anniversary = DateOf(own.since.In(zone))
		}
	}
	if problem := q.calendarProblem(); problem != "" {
		return fmt.Errorf("%w: %s", ErrInvalidKey, problem)
	}
	return nil
}

// Counts reports whether the request has a count.
func (q *Request) Counts() bool { return q.Op.Counts() }

// Empty reports whether the request has a count of 0: it is allowed whatever the key has, and changes nothing.
func (q *Request) Empty() bool { return q.Counts() && q.Count == 0 }

// Decides reports whether the request is allowed or denied: a Take, a Check or a TakeUpTo.
func (q *Request) Decides() bool { return q.Op.traits().decides }

// Takes reports whether the request takes tokens if it is allowed.
func (q *Request) Takes() bool { return q.Op.Takes() }

// Acquires reports whether the request acquires slots if it is allowed.
func (q *Request) Acquires() bool {
	return q.Op == Take && q.Count != 0 && q.Policy != nil && q.Policy.Kind == InFlight
}

// Least returns how many tokens must be available for a request that decides to be allowed, if it does not go into debt.
func (q *Request) Least() int64 {
	if q.Op.UpTo() {
		return min(q.Count, 1)
	}
	return q.Count
}

// AsCheck returns the Check that is allowed if and only if the request, which decides, is.
func (q Request) AsCheck() Request {
	q.Count, q.Reserve, q.Op = q.Least(), q.Reserve && !q.Op.UpTo(), Check
	return q
}

// Late reports whether a delay is longer than the request accepts.
func (q *Request) Late(delay time.Duration) bool { return q.MaxDelay > 0 && delay > q.MaxDelay }

// UsesRows reports whether a request needs the rows of its key, and so the store. The policy must be valid.
func (q *Request) UsesRows() bool {
	switch {
	case q.Policy.uncounted():
		return q.Op.traits().alwaysUsesRows || q.Op == Refund && q.Policy.Kind == InFlight
	case q.Policy.Mode.Counts():
		return true
	}
	return !q.Decides()
}
