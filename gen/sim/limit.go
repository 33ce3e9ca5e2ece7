package sim

import (
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// limitState is a limit, or a group of limits, with the state of its keys.
type limitState struct {
	// name is that in the new version, if the limit was renamed.
	name string
	// limit is nil for a group, and group for a limit.
	limit *spec.Limit
	group *spec.Group
	// policy is the rule under the name; that of a group is empty, and members replace it.
	policy  runtime.Policy
	members []*memberState
	plans   []planState
	key     []spec.KeyPart
	parsers []partParser
	keys    map[string]*keyState
	// zones are the time zones of lines, by name.
	zones map[string]*time.Location
	// excepted are the policies of the plans, which know the exceptions of single keys; nil for a limit without any.
	excepted []*runtime.Policy
	// classes are those of the requests of a limit.
	classes []spec.Priority
	tally
}

// planState is a plan with its decisions and the number of keys that had it.
type planState struct {
	name string
	// policy has the name of the limit: a key has one count, whatever its plan. That of a group is empty.
	policy runtime.Policy
	tally
	keys int
}

// memberState is a member of a group with the state of its limit. A line that names the group takes from all of its
// members, or from none.
type memberState struct {
	limit *limitState
	// parts has, for each part of the limit's key, the index of the part of the group's key.
	parts []int
	// count is the number of tokens; 0 for the count of the line.
	count int64
	// check is set for a limit that must have a token and gives none up.
	check bool
	// line is the line of the trace as it is for this limit.
	line    trace.Line
	pending pending
}

// pending is a line without faults of its own: a missing field was found before any limit gives tokens.
type pending struct {
	*trace.Line
	key     *keyState
	plan    int
	request runtime.Request
}

func newLimitState(name string, key []spec.KeyPart) *limitState {
	s := &limitState{name: name, key: key, keys: map[string]*keyState{}}
	for _, part := range key {
		s.parsers = append(s.parsers, partParserOf(part))
	}
	return s
}

// words is the rule in words. Those of a limit are the sentences that of returns.
func (s *limitState) words(of func(*spec.Limit) []string) string {
	if s.group != nil {
		return strings.Join(s.group.Words(), " ")
	}
	return strings.Join(of(s.limit), " ")
}

// reserveOnly reports whether no request passes without reserving.
func (s *limitState) reserveOnly() bool {
	if s.group != nil {
		return !s.group.Allows()
	}
	return s.policy.Full() == 0
}

// calendars returns the calendar of a limit, or those of the limits of a group.
func (s *limitState) calendars() (list []runtime.Calendar) {
	if s.group == nil {
		return []runtime.Calendar{s.policy.Calendar}
	}
	for _, m := range s.group.Members() {
		list = append(list, m.Limit.Policy.Calendar)
	}
	return list
}

// find returns the state of the line's key.
func (s *limitState) find(l *trace.Line) (*keyState, error) {
	key, err := s.encodeKey(l)
	if err != nil {
		return nil, err
	}
	k := s.keys[key]
	if k == nil {
		k = &keyState{Key: NewKey(&s.policy, key)}
		s.keys[key] = k
	}
	return k, nil
}

// except makes the policies of a limit know its exceptions.
func (s *limitState) except(list []runtime.Exception) {
	if len(list) == 0 {
		return
	}
	if len(s.plans) == 0 {
		s.policy.Except(list)
		s.excepted = []*runtime.Policy{&s.policy}
		return
	}
	all := make(runtime.PlanPolicies, len(s.plans)+1)
	for i := range s.plans {
		all[i+1] = s.plans[i].policy
	}
	all.Except(list)
	for i := range s.plans {
		s.excepted = append(s.excepted, &all[i+1])
	}
}

// policyOf returns the policy of a key with a plan.
func (s *limitState) policyOf(key string, plan int) *runtime.Policy {
	if s.excepted != nil {
		return s.excepted[plan].Inside().Except(key)
	}
	if len(s.plans) > 0 {
		return &s.plans[plan].policy
	}
	return &s.policy
}

// classified returns a policy as it is for the class of a line. One without a class may take all tokens.
func (s *limitState) classified(p *runtime.Policy, l *trace.Line) (*runtime.Policy, error) {
	for _, class := range s.classes {
		if class.Name == l.Priority || l.Priority == "" && class.Leaves == 0 {
			p, _ = class.For(p, runtime.Key{})
			return p, nil
		}
	}
	if len(s.classes) == 0 {
		return p, nil
	}
	known := words.List(words.Of(s.classes, func(c spec.Priority) string { return c.Name }), "and")
	return nil, trace.Faultf("unknown priority \"%s\"; those of %s are %s", trace.Clip(l.Priority, 60), s.name, known)
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
func (s *limitState) completeCalendar(q *runtime.Request, l *trace.Line) (err error) {
	c, name := s.policy.Calendar, s.name
	if c.ZonePerKey {
		if l.Zone == "" || l.Zone == "Local" {
			return trace.Faultf("%s has a time zone per key: add \"zone\", the name of one, such as \"Europe/Berlin\"", name)
		}
		if s.zones == nil {
			s.zones = map[string]*time.Location{}
		}
		if q.Zone = s.zones[l.Zone]; q.Zone == nil {
			if q.Zone, err = time.LoadLocation(l.Zone); err != nil {
				return trace.Faultf("unknown time zone \"%s\"", trace.Clip(l.Zone, 60))
			}
			s.zones[l.Zone] = q.Zone
		}
	}
	if q.Anniversary = l.Anniversary; c.Anniversary && !l.Anniversary.Valid() {
		return trace.Faultf("%s has an anniversary per key: add \"anniversary\", a day such as \"2024-01-31\"", name)
	}
	return nil
}

// encodeKey encodes the key of a line as the generated code does. No fault repeats a part of the key, which may be an
// e-mail address.
func (s *limitState) encodeKey(l *trace.Line) (string, error) {
	name := s.name
	if len(l.Key) == 0 && len(s.parsers) > 0 {
		return "", trace.Faultf("the line has no key; %s needs one of %s: add the field key, or name that of a log with -map key=NAME",
			name, words.Count(int64(len(s.parsers)), "part"))
	}
	if len(l.Key) != len(s.parsers) {
		return "", trace.Faultf("the key has %s; %s needs %d", words.Count(int64(len(l.Key)), "part"), name, len(s.parsers))
	}
	if len(l.Key) == 0 {
		return "", nil
	}
	var buffer [8]runtime.Part // on the stack, because a replay encodes millions of keys
	parts := buffer[:0]
	for i, text := range l.Key {
		typ := s.key[i].Type
		if i < len(l.KeyTypes) && !accepts(typ, l.KeyTypes[i]) {
			return "", trace.Faultf("part %d of the key of %s has type %s; write it as %s", i+1, name, typ, accepted(typ))
		}
		part, ok := s.parsers[i](text)
		if !ok {
			return "", trace.Faultf("part %d of the key of %s is not a valid %s", i+1, name, typ)
		}
		parts = append(parts, part)
	}
	key := runtime.KeyOf(parts...).String()
	if key == "" {
		return "", trace.Faultf("the key of %s is empty, which the generated code refuses", name)
	}
	return key, nil
}

// plan returns the index of the line's plan; 0 for a limit without plans. The error is a [*trace.Fault], which wraps
// [runtime.ErrInvalidPlan] if the limit lacks the plan.
func (s *limitState) plan(l *trace.Line) (int, error) {
	if len(s.plans) == 0 {
		return 0, nil
	}
	for i := range s.plans {
		if s.plans[i].name == l.Plan {
			return i, nil
		}
	}
	known := words.List(s.planNames(), "and")
	switch {
	case l.Plan != "":
		fault := trace.Faultf("unknown plan \"%s\"; the plans are %s", trace.Clip(l.Plan, 60), known)
		fault.Cause = runtime.ErrInvalidPlan
		return 0, fault
	case l.Raw != nil && l.Raw[trace.FieldPlan] != nil && l.Raw[trace.FieldPlan][0] != '"':
		return 0, trace.Faultf("plan must be a string; the plans of %s are %s", s.name, known)
	}
	return 0, trace.Faultf("the line has no field plan, on which %s depends; add it, or name the plan of all such lines with -plan", s.name)
}

func (s *limitState) planNames() []string {
	return words.Of(s.plans, func(p planState) string { return p.name })
}

func (s *limitState) addToPlan(k *keyState, plan int, l *trace.Line, a Answer) {
	if len(s.plans) == 0 {
		return
	}
	if k.plans == nil {
		k.plans = make([]int64, len(s.plans))
	}
	of := &s.plans[plan]
	if k.plans[plan]++; k.plans[plan] == 1 {
		of.keys++
	}
	of.add(l, a)
}

// planRows has a row for each plan with requests, to go below the row of the limit.
func (s *limitState) planRows(indent string, shadow bool) (rows [][]string) {
	for i := range s.plans {
		if p := &s.plans[i]; p.requests > 0 {
			rows = append(rows, append([]string{indent + p.name}, p.row(p.keys, shadow)...))
		}
	}
	return rows
}
