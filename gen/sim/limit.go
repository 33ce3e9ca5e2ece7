package sim

import (
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
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

// Plan is a plan of a limit, with the rule for it, or a plan of a group.
type Plan struct {
	Name string
	// Policy has the name of the limit: a key has one count, whatever its plan. That of a group has only the name.
	Policy *runtime.Policy
}

// Member is a limit of a group. A line that names the group takes from all of its members, or from none.
type Member struct {
	// Limit is the name of the limit.
	Limit string
	// Key has, for each part of the limit's key, the index of the part of the group's key.
	Key []int
	// Count is the number of tokens; 0 for the count of the line.
	Count int64
	// Check is set for a limit that must have a token and gives none up.
	Check bool
}

func (l *Limit) policies() []*runtime.Policy {
	list := []*runtime.Policy{l.Policy}
	for _, p := range l.Plans {
		list = append(list, p.Policy)
	}
	return list
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

// memberState is a member with the state of its limit.
type memberState struct {
	Member
	limit *limitState
	// line is the line of the trace as it is for this limit.
	line    trace.Line
	pending pending
}

// pending is a line without faults of its own: what it lacks was found before any limit gives tokens.
type pending struct {
	*trace.Line
	key     *keyState
	plan    int
	request runtime.Request
}

func newLimitState(l Limit) *limitState {
	s := &limitState{Limit: l, keys: map[string]*keyState{}, byPlan: make([]planTally, len(l.Plans))}
	for _, typ := range l.Key {
		s.parsers = append(s.parsers, partParserOf(typ))
	}
	return s
}

// find returns the state of the line's key.
func (s *limitState) find(l *trace.Line) (*keyState, error) {
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
func (s *limitState) completeCalendar(q *runtime.Request, l *trace.Line) (err error) {
	c, name := s.Policy.Calendar, s.Policy.Name
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
	name := s.Policy.Name
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
		if i < len(l.KeyTypes) && !accepts(s.Key[i], l.KeyTypes[i]) {
			return "", trace.Faultf("part %d of the key of %s has type %s; write it as %s", i+1, name, s.Key[i], accepted(s.Key[i]))
		}
		part, ok := s.parsers[i](text)
		if !ok {
			return "", trace.Faultf("part %d of the key of %s is not a valid %s", i+1, name, s.Key[i])
		}
		parts = append(parts, part)
	}
	key := runtime.KeyOf(parts...).String()
	if key == "" {
		return "", trace.Faultf("the key of %s is empty, which the generated code refuses", name)
	}
	return key, nil
}

// plan returns the index of the line's plan in Plans; 0 for a limit without plans. The error is a [*trace.Fault], which wraps
// [runtime.ErrInvalidPlan] if the limit lacks the plan.
func (s *limitState) plan(l *trace.Line) (int, error) {
	if len(s.Plans) == 0 {
		return 0, nil
	}
	for i, p := range s.Plans {
		if p.Name == l.Plan {
			return i, nil
		}
	}
	switch {
	case l.Plan != "":
		fault := trace.Faultf("unknown plan \"%s\"; the plans are %s", trace.Clip(l.Plan, 60), s.planNames())
		fault.Cause = runtime.ErrInvalidPlan
		return 0, fault
	case l.Raw != nil && l.Raw[trace.FieldPlan] != nil && l.Raw[trace.FieldPlan][0] != '"':
		return 0, trace.Faultf("plan must be a string; the plans of %s are %s", s.Policy.Name, s.planNames())
	}
	return 0, trace.Faultf("the line has no field plan, on which %s depends; add it, or name the plan of all such lines with -plan", s.Policy.Name)
}

func (s *limitState) planNames() string {
	names := make([]string, len(s.Plans))
	for i, p := range s.Plans {
		names[i] = p.Name
	}
	return words.List(names, "and")
}

// planTally counts the decisions of one plan, and the keys that had it.
type planTally struct {
	tally
	keys int
}

func (s *limitState) addToPlan(k *keyState, plan int, l *trace.Line, d runtime.Decision) {
	if len(s.Plans) == 0 {
		return
	}
	if k.plans == nil {
		k.plans = make([]int64, len(s.Plans))
	}
	if k.plans[plan]++; k.plans[plan] == 1 {
		s.byPlan[plan].keys++
	}
	s.byPlan[plan].add(l, d)
}

// planRows has a row for each plan with requests, to go below the row of the limit.
func (s *limitState) planRows(indent string, shadow bool) (rows [][]string) {
	for i := range s.byPlan {
		if t := &s.byPlan[i]; t.requests > 0 {
			rows = append(rows, append([]string{indent + s.Plans[i].Name}, t.row(t.keys, shadow)...))
		}
	}
	return rows
}
