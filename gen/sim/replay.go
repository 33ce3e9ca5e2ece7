// Package sim replays requests through the real limiter, without a database and without waiting. It computes what
// the limits of a file would have decided, or what an edit of them would change.
//
// # The model
//
// A [Trace] reads a [Line] per request, from JSON Lines or from the logs of programs and servers (see [Format] and
// [Mapping]). A [Replay] holds the state of every key of some limits, and decides each line at
// the line's own instant. A [Report] summarizes the decisions for people; [JSONL] writes each of them. A
// [Comparison] decides each line by the limits of two files. A [Traffic] generates a trace.
//
// # Guarantees
//
// Every decision is one of [runtime.Rule.Step] or, for sharded and precise limits, of [runtime.Policy.StepShards] and
// [runtime.Rule.StepLog], as the mode of the limit changes it, and keys are encoded by [runtime.KeyOf]. The same trace always
// gets the same decisions, whatever other keys and limits are in it.
// Nothing is rounded or guessed: a line that is not a valid request is a [Fault] with the line, the column and the
// reason, but never with the value of a key. Memory grows with the number of keys, and a [Trace] of a log holds all lines of the
// time by which they may be late.
//
// # Non-guarantees
//
// A store picks two shards of a sharded limit at random for each request, and estimates the remaining tokens from them.
// Sim picks them by the number of the request among those of its key, and sums up all shards: its decisions are one
// possible run. The settings that concern one process, a failing store or the times of retries (DenyCache, Lease, OnError,
// Timeout, Jitter) and Overrides have no effect; reports name the limits with DenyCache, Lease or Overrides.
package sim

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Limit is a limit, or a group of limits, to replay requests of.
type Limit struct {
	// Policy is the rule; it must be valid. A group has only a Name and, for [NewTraffic], the Capacity.
	Policy *runtime.Policy
	// Members are the limits of a group; a limit has none.
	Members []Member
	// Key has the type of each part of the key, written as in limits.yaml: "int64". It is empty for a limit with
	// one shared counter.
	Key []string
	// Words is the rule in words, for people.
	Words string
	// Plans has the policies of a limit that depends on the plan. Policy is then the first that is limited.
	Plans []Plan
}

// Replay is the state of limits during a replay.
type Replay struct {
	limits []*limitState
	byName map[string]*limitState
}

// NewReplay returns a Replay in which every key is full. It panics if a policy is not valid.
func NewReplay(limits []Limit) *Replay {
	r := &Replay{byName: map[string]*limitState{}}
	for _, l := range limits {
		// An unknown kind would otherwise have no algorithm, or that of another kind.
		for _, policy := range l.policies() {
			if err := policy.Validate(); err != nil && len(l.Members) == 0 {
				panic("sim: " + err.Error())
			}
		}
		state := newLimitState(l)
		r.limits = append(r.limits, state)
		r.byName[l.Policy.Name] = state
	}
	for _, state := range r.limits {
		state.connect(r)
	}
	return r
}

// Answer is the decision for a line.
type Answer struct {
	runtime.Decision
	// Key is the key as a store encodes it.
	Key string
}

// Decide decides a line at the line's instant, and takes the tokens if it is allowed. The error is a [*Fault].
func (r *Replay) Decide(l *Line) (Answer, error) {
	limit := r.byName[l.Limit]
	if limit == nil {
		return Answer{}, unknownLimit(l.Limit, r.limits)
	}
	plan, err := limit.plan(l)
	if err != nil {
		return Answer{}, err
	}
	k, d, err := limit.decide(l, plan)
	if err != nil {
		return Answer{}, err
	}
	// After the error check, so that reports count no line that is a fault.
	limit.add(l, d)
	k.add(l, d)
	limit.addToPlan(k, plan, l, d)
	return Answer{d, k.key}, nil
}

// maxListed is how many limits the fault of a line with an unknown limit lists.
const maxListed = 5

func unknownLimit(name string, limits []*limitState) error {
	var names []string
	for _, l := range limits[:min(len(limits), maxListed)] {
		names = append(names, l.Policy.Name)
	}
	known := strings.Join(names, ", ")
	if rest := len(limits) - maxListed; rest > 0 {
		known += " and " + words.Count(int64(rest), "other")
	}
	fault := faultf("unknown limit \"%s\"; the limits are %s", clip(name, 60), known)
	fault.Unknown = name // for a suggestion from more names than the fault lists
	return fault
}

// limitState is a limit with the state of its keys.
type limitState struct {
	Limit
	// members replace the rule of a group.
	members []*memberState
	parsers []partParser
	keys    map[string]*keyState
	// zones are the time zones of lines, by name.
	zones map[string]*time.Location
	tally
	// byPlan has the tally of each plan.
	byPlan []planTally
}

func newLimitState(l Limit) *limitState {
	s := &limitState{Limit: l, keys: map[string]*keyState{}, byPlan: make([]planTally, len(l.Plans))}
	for _, typ := range l.Key {
		s.parsers = append(s.parsers, partParserOf(typ))
	}
	return s
}

// decide also returns the state of the line's key. The plan is that of [limitState.plan]. The error is a [*Fault].
func (s *limitState) decide(l *Line, plan int) (*keyState, runtime.Decision, error) {
	k, err := s.find(l)
	if err != nil {
		return nil, runtime.Decision{}, err
	}
	if len(s.members) > 0 {
		d, err := s.decideTogether(l)
		return k, d, err
	}
	policy := s.use(k, plan)
	q := runtime.Request{Op: l.Op, Count: l.Count, Reserve: l.Reserve}
	if err := s.completeCalendar(&q, l); err != nil {
		return nil, runtime.Decision{}, err
	}
	d, err := k.decide(policy, l.At, q)
	if err != nil {
		return k, d, &Fault{Reason: s.Policy.Name + ": " + err.Error(), cause: err}
	}
	return k, d, nil
}

// find returns the state of the line's key.
func (s *limitState) find(l *Line) (*keyState, error) {
	key, err := s.encodeKey(l)
	if err != nil {
		return nil, err
	}
	k := s.keys[key]
	if k == nil {
		k = newKeyState(s.Policy, key)
		s.keys[key] = k
	}
	return k, nil
}

// requestedKeys is the number of keys with a line. Groups have states of other keys too.
func (s *limitState) requestedKeys() (n int) {
	for _, k := range s.keys {
		if k.requests > 0 {
			n++
		}
	}
	return n
}

// completeCalendar sets the zone and the anniversary of a line's key, if the limit's calendar has them per key.
func (s *limitState) completeCalendar(q *runtime.Request, l *Line) (err error) {
	c, name := s.Policy.Calendar, s.Policy.Name
	if c.ZonePerKey {
		if l.Zone == "" || l.Zone == "Local" {
			return faultf("%s has a time zone per key: add \"zone\", the name of one, such as \"Europe/Berlin\"", name)
		}
		if s.zones == nil {
			s.zones = map[string]*time.Location{}
		}
		if q.Zone = s.zones[l.Zone]; q.Zone == nil {
			if q.Zone, err = time.LoadLocation(l.Zone); err != nil {
				return faultf("unknown time zone \"%s\"", clip(l.Zone, 60))
			}
			s.zones[l.Zone] = q.Zone
		}
	}
	if q.Anniversary = l.Anniversary; c.Anniversary && !l.Anniversary.Valid() {
		return faultf("%s has an anniversary per key: add \"anniversary\", a day such as \"2024-01-31\"", name)
	}
	return nil
}

// encodeKey encodes the key of a line as the generated code does. No fault repeats a part of the key, which may be an
// e-mail address.
func (s *limitState) encodeKey(l *Line) (string, error) {
	name := s.Policy.Name
	if len(l.Key) == 0 && len(s.parsers) > 0 {
		return "", faultf("the line has no key; %s needs one of %s: add the field key, or name that of a log with -map key=NAME",
			name, words.Count(int64(len(s.parsers)), "part"))
	}
	if len(l.Key) != len(s.parsers) {
		return "", faultf("the key has %s; %s needs %d", words.Count(int64(len(l.Key)), "part"), name, len(s.parsers))
	}
	if len(l.Key) == 0 {
		return "", nil
	}
	var buffer [8]runtime.Part // on the stack, because a replay encodes millions of keys
	parts := buffer[:0]
	for i, text := range l.Key {
		if i < len(l.keyTypes) && !accepts(s.Key[i], l.keyTypes[i]) {
			return "", faultf("part %d of the key of %s has type %s; write it as %s", i+1, name, s.Key[i], accepted(s.Key[i]))
		}
		part, ok := s.parsers[i](text)
		if !ok {
			return "", faultf("part %d of the key of %s is not a valid %s", i+1, name, s.Key[i])
		}
		parts = append(parts, part)
	}
	key := runtime.KeyOf(parts...).String()
	if key == "" {
		return "", faultf("the key of %s is empty, which the generated code refuses", name)
	}
	return key, nil
}

// accepts reports whether a part of a type may be a JSON value of a type. A JSON string may hold any of them.
func accepts(typ string, json jsonType) bool {
	switch json {
	case jsonNumber:
		return typ == "int" || typ == "int64" || typ == "uint64"
	case jsonBool:
		return typ == "bool"
	}
	return true
}

// accepted names the JSON values that accepts allows.
func accepted(typ string) string {
	switch {
	case accepts(typ, jsonNumber):
		return "a number or a string"
	case accepts(typ, jsonBool):
		return "true or false, or a string"
	}
	return "a string, in quotes"
}

// partParser parses one part of a key. It is false if the text is not a value of the part's type.
type partParser func(text string) (part runtime.Part, ok bool)

// partParserOf returns the parser of a type. Different spellings of a value ("007" and "7") are the same key, as they
// are in the generated code. A trace has the MarshalText of a type of the user's own.
func partParserOf(typ string) partParser {
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
	case "hashed string":
		return func(text string) (runtime.Part, bool) { return runtime.Hashed(text), true }
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

// parseAddr also parses an address with a port, which logs have.
func parseAddr(text string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(text)
	if err == nil {
		return a, true
	}
	withPort, err := netip.ParseAddrPort(text)
	return withPort.Addr(), err == nil
}

// keyState is the state that a store would hold of one key, and the tally of its requests.
type keyState struct {
	key   string
	rule  runtime.Rule
	state runtime.State
	// shards replaces state for sharded limits, and log for precise ones.
	shards, log []runtime.State
	// picks counts the decisions by shards.
	picks uint64
	// plan is the plan of rule, and plans counts the requests of each plan.
	plan  int
	plans []int64
	tally
}

func newKeyState(p *runtime.Policy, key string) *keyState {
	k := &keyState{key: key, rule: p.Rule(key)}
	if p.Shards > 1 {
		k.shards = make([]runtime.State, p.Shards)
	}
	return k
}

// decide decides a request at an instant, in nanoseconds since 1970 UTC, as the mode of the limit requires.
func (k *keyState) decide(p *runtime.Policy, now int64, q runtime.Request) (runtime.Decision, error) {
	switch {
	case p.Mode == runtime.ModeEnforce:
		return k.step(p, now, q)
	case p.Mode == runtime.ModeBlock && q.Op == runtime.Charge:
		d, err := k.step(p, now, q)
		d.BlockedFor = runtime.Never
		return d, err
	case p.Mode == runtime.ModeShadow:
		d, err := k.step(p, now, q)
		if errors.Is(err, runtime.ErrExceedsCapacity) && q.Op != runtime.Charge {
			d, err = k.step(p, now, runtime.Request{Op: runtime.Peek})
			d.Allowed = false
		}
		if err != nil {
			return d, err
		}
		return p.Mode.Applied(d, q.Op, q.Count), nil
	}
	// The other modes decide without the state of the key.
	q.Policy, q.Key = p, k.key
	b := runtime.NewBatch([]runtime.Call{{Requests: []runtime.Request{q}}})
	b.Run(now, nil)
	a := b.Answers()[0]
	if a.Err != nil {
		return runtime.Decision{}, a.Err
	}
	return a.Decisions[0], nil
}

// step executes a request by the rule alone.
func (k *keyState) step(p *runtime.Policy, now int64, q runtime.Request) (runtime.Decision, error) {
	if k.rule.Precise {
		rows, d, err := k.rule.StepLog(k.log, now, q)
		k.log = rows
		return d, err
	}
	if k.shards == nil {
		rule := k.rule.For(q)
		next, d, err := rule.Step(k.state, now, q)
		k.state = next
		return d, err
	}
	// The random number is that of a seed per request, so that a key's shards do not depend on other keys, and the
	// same trace gets the same decisions again.
	d, err := p.StepShards(k.shards, k.key, now, q, rand.NewPCG(0, k.picks+1).Uint64())
	if err == nil {
		k.picks++
	}
	return d, err
}
