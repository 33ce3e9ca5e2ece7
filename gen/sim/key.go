package sim

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/folded"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/replay"
)

// accepts reports whether a part of a type may be a JSON value of a type. A JSON string may hold any of them.
func accepts(typ string, json trace.JSONType) bool {
	switch json {
	case trace.JSONNumber:
		return typ == "int" || typ == "int64" || typ == "uint64"
	case trace.JSONBool:
		return typ == "bool"
	}
	return true
}

// accepted names the JSON values that accepts allows.
func accepted(typ string) string {
	switch {
	case accepts(typ, trace.JSONNumber):
		return "a number or a string"
	case accepts(typ, trace.JSONBool):
		return "true or false, or a string"
	}
	return "a string, in quotes"
}

// partParser parses one part of a key. It is false if the text is not a value of the part's type.
type partParser func(text string) (part runtime.Part, ok bool)

// partParserOf returns the parser of a type. Different spellings of a value ("007" and "7") are the same key, as they
// are in the generated code. A trace has the MarshalText of a type of the user's own.
func partParserOf(of spec.KeyPart) partParser {
	if list := of.Alternatives(); len(list) > 0 {
		return alternativesParser(list)
	}
	typ := of.Type
	switch typ {
	case "bool":
		return func(text string) (runtime.Part, bool) {
			return runtime.Bool(text == "true"), text == "true" || text == "false"
		}
	case "int", "int64":
		return func(text string) (runtime.Part, bool) {
			n, err := strconv.ParseInt(text, 10, 64)
			return runtime.Int64(n), err == nil
		}
	case "uint64":
		return func(text string) (runtime.Part, bool) {
			n, err := strconv.ParseUint(text, 10, 64)
			return runtime.Uint64(n), err == nil
		}
	case spec.FoldedString:
		return func(text string) (runtime.Part, bool) { return runtime.String(folded.String(text)), true }
	case spec.HashedString:
		return func(text string) (runtime.Part, bool) { return runtime.Hashed(text), true }
	case spec.HashedFoldedString:
		return func(text string) (runtime.Part, bool) { return runtime.Hashed(folded.String(text)), true }
	case "netip.Addr":
		return func(text string) (runtime.Part, bool) {
			a, ok := parseAddr(text)
			return runtime.Addr(a), ok
		}
	}
	if bits, ok := strings.CutPrefix(typ, "netip.Addr/"); ok {
		n, _ := strconv.Atoi(bits)
		return func(text string) (runtime.Part, bool) {
			a, ok := parseAddr(text)
			return runtime.AddrPrefix(a, n), ok
		}
	}
	return func(text string) (runtime.Part, bool) { return runtime.String(text), true }
}

// alternativesParser returns the parser of a part that has one of several types: "userID:7". An address may come alone, as
// logs have it, if one alternative is an address.
func alternativesParser(list []spec.KeyPart) partParser {
	parsers := map[string]partParser{}
	for _, of := range list {
		parsers[of.Name] = partParserOf(of)
	}
	addr, hasAddr := addressOf(list)
	return func(text string) (part runtime.Part, ok bool) {
		name, rest, _ := strings.Cut(text, ":")
		if parser := parsers[name]; parser != nil {
			part, ok = parser(rest)
			return part.As(name), ok
		}
		if hasAddr {
			part, ok = parsers[addr](text)
		}
		return part.As(addr), ok
	}
}

// addressOf returns the name of the part that is an address, or false unless there is exactly one.
func addressOf(list []spec.KeyPart) (name string, ok bool) {
	for _, of := range list {
		if of.GoType() == spec.AddrType {
			if name != "" {
				return "", false
			}
			name = of.Name
		}
	}
	return name, name != ""
}

// parseAddr also parses an address with a port, which logs have.
func parseAddr(text string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(text)
	if err == nil {
		return a, true
	}
	withPort, err := netip.ParseAddrPort(text)
	return withPort.Addr(), err == nil
}

// Key is one key of a limit: the state that a store would hold of it, and those who hold its slots.
type Key struct {
	key    string
	policy *runtime.Policy // the plan of the last line has it
	rule   meter.Rule
	state  runtime.State
	// shards replaces state for sharded limits.
	shards []runtime.State
	// picks counts the decisions by shards.
	picks uint64
	// running are the holders of slots of a limit in flight that renew or release them later, in no order.
	running []holder
}

// keyState is a key with the tally of its requests.
type keyState struct {
	Key
	// plans counts the requests of each plan.
	plans []int64
	tally
}

// NewKey returns a key that is full. The key is as a store encodes it.
func NewKey(p *runtime.Policy, key string) Key {
	k := Key{key: key, policy: p, rule: meter.RuleOf(p, key)}
	if p.Shards > 1 {
		k.shards = make([]runtime.State, p.Shards)
	}
	return k
}

// use makes the policy that of the plan of a line.
func (k *Key) use(p *runtime.Policy) {
	if k.policy != p { // keys seldom change their plan, and a rule takes a hash
		k.policy, k.rule = p, meter.RuleOf(p, k.key)
	}
}

// holder holds slots while a request runs.
type holder struct {
	fence int64
	// next is when it renews its slots or, at end, releases them.
	next, end int64
}

// Hold makes the holder of a decision renew its slots as limiter.Slot.Do does, and release them after a time. If that is 0,
// it does neither, so that the slots are held for the hold.
func (k *Key) Hold(now int64, d runtime.Decision, running time.Duration) {
	if d.Fence != 0 && running > 0 {
		h := holder{fence: d.Fence, end: now + int64(running)}
		h.next = k.nextOf(h, now)
		k.running = append(k.running, h)
	}
}

// nextOf returns when a holder renews next, or its end if that is earlier.
func (k *Key) nextOf(h holder, now int64) int64 {
	return min(h.end, now+max(1, int64(k.policy.Hold/3)))
}

// advance executes the renewals and releases that are due until an instant, in the order of time.
func (k *Key) advance(now int64) {
	for {
		first := -1
		for i, h := range k.running {
			if h.next <= now && (first < 0 || h.next < k.running[first].next) {
				first = i
			}
		}
		if first < 0 {
			return
		}
		h := &k.running[first]
		q := runtime.Request{Op: runtime.Renew, Fence: h.fence}
		if h.next >= h.end {
			q.Op = runtime.Release
		}
		next, _, err := k.rule.Step(k.state, h.next, q)
		if err != nil || q.Op == runtime.Release { // a lost slot is not held any more
			k.running = slices.Delete(k.running, first, first+1)
		} else {
			h.next = k.nextOf(*h, h.next)
		}
		if err == nil {
			k.state = next
		}
	}
}

// Decide decides a request at an instant, in nanoseconds since 1970 UTC, as the mode of the limit requires.
func (k *Key) Decide(now int64, q runtime.Request) (runtime.Decision, error) {
	q.Policy, q.Key = k.policy, k.key
	if !q.UsesRows() {
		ds, _, err := replay.Decide([]runtime.Request{q}, now, 0, nil)
		if err != nil {
			return runtime.Decision{}, err
		}
		return ds[0], nil
	}
	d, err := k.step(now, q)
	if k.policy.Mode == runtime.ModeShadow && errors.Is(err, runtime.ErrExceedsCapacity) && q.Op != runtime.Charge {
		d, err = k.step(now, runtime.Request{Op: runtime.Peek})
		d.Allowed = false
	}
	if err != nil {
		return d, err
	}
	return meter.Decided(&q, d, now), nil
}

// step executes a request by the rule alone.
func (k *Key) step(now int64, q runtime.Request) (runtime.Decision, error) {
	k.advance(now)
	if k.shards == nil {
		rule := k.rule.For(q)
		next, d, err := rule.Step(k.state, now, q)
		k.state = next
		return d, err
	}
	// The random number is that of a seed per request, so that a key's shards do not depend on other keys, and the
	// same trace gets the same decisions again.
	d, err := meter.StepShards(k.policy, k.shards, k.key, now, q, rand.NewPCG(0, k.picks+1).Uint64())
	if err == nil {
		k.picks++
	}
	return d, err
}

// entry is a request for a key.
type entry struct {
	key     *Key
	request runtime.Request
}

// decideTogether decides requests at an instant as a store does: all of them take their tokens, or none. An error is about
// the request with the index. Requests that come alone are decided by [Key.Decide], which gives the same answers without
// allocations.
func decideTogether(now int64, entries []entry, seed uint64) (ds []runtime.Decision, index int, err error) {
	requests := make([]runtime.Request, len(entries))
	for i, e := range entries {
		e.key.advance(now)
		requests[i] = e.request
		requests[i].Policy, requests[i].Key = e.key.policy, e.key.key
	}
	// The random number is that of a seed, so that the same trace gets the same decisions again.
	return replay.Decide(requests, now, rand.NewPCG(0, seed).Uint64(), func(row runtime.Row) *runtime.State {
		return stateOf(row, entries)
	})
}

// stateOf returns the state of a row of one of the keys.
func stateOf(row runtime.Row, entries []entry) *runtime.State {
	i := slices.IndexFunc(entries, func(e entry) bool { return e.key.policy.Name == row.Name && e.key.key == row.Key })
	k := entries[i].key
	if k.shards == nil {
		return &k.state
	}
	return &k.shards[row.Shard]
}
