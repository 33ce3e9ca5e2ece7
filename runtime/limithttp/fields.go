package limithttp

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"math"
	"math/bits"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// This file is all that depends on the draft draft-ietf-httpapi-ratelimit-headers-11 of 23 May 2026.

// The names of the fields, and where the types of problems are.
const (
	policyField  = "RateLimit-Policy"
	limitField   = "RateLimit"
	problemTypes = "https://iana.org/assignments/http-problem-types#"
)

// problemOf returns the type of the problem that a denial is, and its title. The draft recommends the status 503 for a
// reduced capacity, but the status is 429 for all of them: it is one client that is limited.
func problemOf(d runtime.Decision) (id, title string) {
	switch d.Reason() {
	case "block", "penalty":
		return problemTypes + "abnormal-usage-detected", "Abnormal Usage Detected"
	case "rate", "quota", "concurrency":
		if reduced(d.Policy) {
			return problemTypes + "temporary-reduced-capacity", "Temporary Reduced Capacity"
		}
	}
	return problemTypes + "quota-exceeded", "Quota Exceeded"
}

// reduced reports whether an override has put fewer tokens in force than the limit has without it.
func reduced(p *runtime.Policy) bool {
	if p == nil {
		return false
	}
	base := p.Inside().Base()
	return p.Rate < base.Rate || p.Full() < base.Full()
}

// The names as keys of an [http.Header], which would otherwise be made for each response.
var policyKey, limitKey = http.CanonicalHeaderKey(policyField), http.CanonicalHeaderKey(limitField)

// maxInteger is the largest Integer of RFC 9651.
const maxInteger = 999_999_999_999_999

// quota is one item of both fields. Its numbers are Integers of RFC 9651; window and reset are in seconds, and missing if 0.
type quota struct {
	name string
	// partition is the parameter pk, missing if nil.
	partition                       []byte
	capacity, window, remain, reset int64
	// leased means that remain is not known, because the process has taken the tokens from a lease.
	leased bool
	// slots means that the unit is not requests, but those that run at once.
	slots bool
}

// quotas appends the items for the decisions of a call to all, in their order. If several items of the call have the same
// name and partition, the fields have the one with the least left.
func (b *Binder) quotas(all []quota, ds limiter.Decisions) []quota {
	for i := range ds.Each {
		d := &ds.Each[i]
		if !b.advertises(ds, i) || unlimited(d.Policy) || strings.IndexFunc(d.Limit, notInString) >= 0 {
			continue
		}
		q := quotaOf(d)
		q.partition = b.partition(d.Limit, ds.Key(i))
		same := slices.IndexFunc(all, func(o quota) bool { return o.name == q.name && string(o.partition) == string(q.partition) })
		switch {
		case same < 0:
			all = append(all, q)
		case q.scarcerThan(&all[same]):
			all[same] = q
		}
	}
	return all
}

// scarcerThan reports whether an item has less left than another one, or as much, and has to wait longer for more.
func (q *quota) scarcerThan(o *quota) bool {
	wait := func(reset int64) uint64 { return uint64(reset) - 1 } // a missing reset is the longest
	return cmp.Or(cmp.Compare(q.remain, o.remain), cmp.Compare(wait(o.reset), wait(q.reset))) < 0
}

// advertises reports whether the fields have a decision: one of a limit that counts or blocks, by a store that has answered,
// and on a key of its own.
func (b *Binder) advertises(ds limiter.Decisions, i int) bool {
	d := &ds.Each[i]
	switch {
	case d.Policy == nil || d.FailedOpen != nil:
		return false
	case d.Policy.Mode != runtime.ModeEnforce && d.Policy.Mode != runtime.ModeBlock:
		return false
	}
	return b.options.AdvertiseShared || ds.Key(i).String() != ""
}

// unlimited reports whether a policy only counts, and is not blocked: clients have nothing to heed.
func unlimited(p *runtime.Policy) bool {
	return p.Mode == runtime.ModeEnforce && p.Inside().CountsOnly()
}

// notInString reports whether a rune cannot be in a String of RFC 9651. A limit with such a name has no fields.
func notInString(c rune) bool { return c < ' ' || c > '~' }

// partition returns the first 9 bytes of an HMAC of a key: enough to tell keys apart, and 12 characters in base64.
func (b *Binder) partition(limit string, key runtime.Key) []byte {
	if len(b.options.PartitionSecret) == 0 {
		return nil
	}
	mac := hmac.New(sha256.New, b.options.PartitionSecret)
	// No name of a limit contains the separator.
	mac.Write([]byte(limit + "\x00" + key.String()))
	return mac.Sum(nil)[:9]
}

// quotaOf returns the numbers of a decision.
func quotaOf(d *runtime.Decision) quota {
	p := d.Policy
	if p.Mode == runtime.ModeBlock {
		q := quota{name: d.Limit, slots: p.Kind == runtime.InFlight}
		if wait := deniedFor(d); wait != runtime.Never {
			q.reset = seconds(wait)
		}
		return q
	}
	if p.Inside().Zero() {
		q := quota{name: d.Limit, slots: p.Kind == runtime.InFlight}
		if wait := d.RetryIn(); wait != 0 && wait != runtime.Never {
			q.reset = seconds(wait)
		}
		return q
	}
	q := quota{name: d.Limit, capacity: min(p.Full(), maxInteger), window: windowOf(p), leased: leased(d),
		slots: p.Kind == runtime.InFlight}
	q.remain = max(0, min(d.Remaining, q.capacity))
	switch wait := d.RetryIn(); {
	case wait == runtime.Never:
	case q.slots:
		// Only a penalty has a time: slots are free when they are released, and holds can be renewed.
		if wait := deniedFor(d); wait > 0 {
			q.reset = seconds(wait)
		}
	case !d.Allowed:
		q.reset = seconds(wait)
	default:
		q.reset = resetOf(d, q.remain)
		if wait := deniedFor(d); wait > 0 {
			q.reset = max(q.reset, seconds(wait))
		}
	}
	return q
}

// deniedFor returns how long a block or a penalty denies all requests for the key that need a token, with the jitter; a
// request of no tokens is allowed meanwhile. It is 0 without either, and [runtime.Never] if it has no end.
func deniedFor(d *runtime.Decision) time.Duration {
	switch wait := max(d.BlockedFor, d.PenaltyFor); wait {
	case 0, runtime.Never:
		return wait
	default:
		return wait + d.Jitter
	}
}

// leased reports whether a decision may be answered from a lease, and has the rest of the lease as the tokens left.
func leased(d *runtime.Decision) bool { return d.Policy.Lease.Tokens > 0 && d.Allowed }

// windowOf returns the time in which a quota of the capacity is granted, or 0 if it is not a whole number of seconds, or for
// slots. A token bucket has no window: it is the time in which an empty one fills up, so that quota and window have the
// ratio of rate and period.
func windowOf(p *runtime.Policy) int64 {
	switch {
	case p.Kind.Linear() && !p.Kind.Windowed():
		return secondsFor(p.Capacity, p)
	case p.Calendar != runtime.Calendar{} || p.Period%time.Second != 0:
		return 0
	}
	return int64(p.Period / time.Second)
}

// resetOf returns the time until the window ends or in which remain tokens accrue, and if remain is 0, the time until there
// is a token.
func resetOf(d *runtime.Decision, remain int64) int64 {
	p := d.Policy
	switch {
	case p.Kind.Linear() && p.Kind.Windowed():
		return windowReset(d, remain)
	case remain > 0:
		// Not the time until more is granted, which would invite to use all of them at once.
		return secondsFor(remain, p)
	case p.Kind.Linear():
		return seconds(perToken(p, 1-d.Value))
	}
	return seconds(slidingReset(d))
}

// windowReset returns the time until the window ends, or until the end of that in which the key has a token again.
func windowReset(d *runtime.Decision, remain int64) int64 {
	p := d.Policy
	if d.ResetAfter == 0 {
		return 0
	}
	more := 0.0
	if remain == 0 {
		more = max(0, math.Ceil((1-d.Value)/float64(p.Rate))-1)
	}
	if more > 0 && p.Calendar.Unit > 0 {
		// The lengths of its windows differ. Then the key is full, which may be a window later than necessary.
		return seconds(d.FullAfter)
	}
	return seconds(saturated(float64(d.ResetAfter) + more*float64(p.Period)))
}

// slidingReset returns a time after which an allowed decision that left no token of a sliding window has one again. If the
// whole rate was used in the current window, the first token accrues in the next one.
func slidingReset(d *runtime.Decision) time.Duration {
	p := d.Policy
	if p.Precise || d.Value < 0 {
		return d.FullAfter
	}
	return min(d.FullAfter, saturated(float64(d.ResetAfter)+float64(perToken(p, 1))))
}

// perToken returns the time in which a policy grants some tokens.
func perToken(p *runtime.Policy, tokens float64) time.Duration {
	return saturated(math.Ceil(tokens * float64(p.Period) / float64(p.Rate)))
}

func saturated(nanoseconds float64) time.Duration {
	if nanoseconds >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(nanoseconds)
}

// seconds rounds up, and is at least 1.
func seconds(d time.Duration) int64 {
	return max(1, int64(d/time.Second)+min(1, int64(d%time.Second)))
}

// secondsFor returns the time in which a policy grants a number of tokens, rounded up to whole seconds: at least 1, and at
// most maxInteger.
func secondsFor(tokens int64, p *runtime.Policy) int64 {
	// The product may exceed 64 bits. Rounding up after each of the two divisions is the same as once after both.
	high, low := bits.Mul64(uint64(tokens), uint64(p.Period))
	for _, by := range [...]uint64{uint64(p.Rate), uint64(time.Second)} {
		var rest, carry uint64
		high, rest = high/by, high%by
		low, rest = bits.Div64(rest, low, by)
		low, carry = bits.Add64(low, min(1, rest), 0)
		high += carry
	}
	if high > 0 || low > maxInteger {
		return maxInteger
	}
	return max(1, int64(low))
}

// addFields adds the fields of a call to those that other middleware has set.
func addFields(h http.Header, all []quota) {
	// On the stack for the usual one or two limits.
	var policies, limits [192]byte
	policy, limit := appendFields(policies[:0], limits[:0], all)
	if len(policy) > 0 {
		h.Add(policyKey, string(policy))
	}
	if len(limit) > 0 {
		h.Add(limitKey, string(limit))
	}
}

// removeFields removes what addFields has added, so that the fields of a route inside of another one have no name twice.
func removeFields(h http.Header, all []quota) {
	if len(all) == 0 {
		return
	}
	policy, limit := appendFields(nil, nil, all)
	remove := func(key string, line []byte) {
		if lines := h[key]; slices.Contains(lines, string(line)) {
			h[key] = slices.DeleteFunc(lines, func(l string) bool { return l == string(line) })
		}
	}
	remove(policyKey, policy)
	remove(limitKey, limit)
}

// appendFields appends the items to the two fields.
func appendFields(policy, limit []byte, all []quota) (_, _ []byte) {
	for i := range all {
		policy = all[i].appendPolicy(appendComma(policy))
		if !all[i].leased {
			limit = all[i].appendLimit(appendComma(limit))
		}
	}
	return policy, limit
}

func appendComma(list []byte) []byte {
	if len(list) == 0 {
		return list
	}
	return append(list, ", "...)
}

// appendPolicy appends the item of RateLimit-Policy: "sendMessage";q=20;w=120.
func (q *quota) appendPolicy(b []byte) []byte {
	b = strconv.AppendInt(append(q.appendItem(b), ";q="...), q.capacity, 10)
	if q.window > 0 {
		b = strconv.AppendInt(append(b, ";w="...), q.window, 10)
	}
	if q.slots {
		b = append(b, `;qu="concurrent-requests"`...)
	}
	return q.appendPartition(b)
}

// appendLimit appends the item of RateLimit: "sendMessage";r=19;t=114.
func (q *quota) appendLimit(b []byte) []byte {
	b = strconv.AppendInt(append(q.appendItem(b), ";r="...), q.remain, 10)
	if q.reset > 0 {
		b = strconv.AppendInt(append(b, ";t="...), q.reset, 10)
	}
	return q.appendPartition(b)
}

// appendItem appends the name as a String of RFC 9651.
func (q *quota) appendItem(b []byte) []byte {
	return append(append(append(b, '"'), escapes.Replace(q.name)...), '"')
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

func (q *quota) appendPartition(b []byte) []byte {
	if q.partition == nil {
		return b
	}
	return append(base64.StdEncoding.AppendEncode(append(b, ";pk=:"...), q.partition), ':')
}
