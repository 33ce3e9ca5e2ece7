// Package sim replays requests through the real limiter, without a database and without waiting. It computes what
// the limits of a file would have decided, or what an edit of them would change.
//
// # The model
//
// A [trace.Reader] reads a [trace.Line] per request, from JSON Lines or from the logs of programs and servers (see [trace.Format] and
// [trace.Mapping]). A [Replay] holds the state of every key of some limits, and decides each line at
// the line's own instant. A [Report] summarizes the decisions for people; [JSONL] writes each of them. A
// [Comparison] decides each line by the limits of two files. A [Traffic] generates a trace.
//
// # Guarantees
//
// Every decision is one of meter.Rule.Step or, for sharded and precise limits, of meter.StepShards and
// meter.Rule.StepLog, as the mode of the limit changes it, and keys are encoded by [runtime.KeyOf]. The same trace always
// gets the same decisions, whatever other keys and limits are in it.
// Nothing is rounded or guessed: a line that is not a valid request is a [trace.Fault] with the line, the column and the
// reason, but never with the value of a key. Memory grows with the number of keys, and a [trace.Reader] of a log holds all lines of the
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
	"cmp"
	"fmt"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

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

// Decide decides a line at the line's instant, and takes the tokens if it is allowed. The error is a [*trace.Fault].
func (r *Replay) Decide(l *trace.Line) (Answer, error) {
	limit := r.byName[l.Limit]
	if limit == nil {
		return Answer{}, unknownLimit(l.Limit, r.limits)
	}
	a, err := limit.accept(l)
	if err != nil {
		return Answer{}, err
	}
	return limit.decide(a)
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
	fault := trace.Faultf("unknown limit \"%s\"; the limits are %s", trace.Clip(name, 60), known)
	fault.Unknown = name // for a suggestion from more names than the fault lists
	return fault
}

// accept finds the key, the plan and the calendar of a line. The error is a [*trace.Fault].
func (s *limitState) accept(l *trace.Line) (a pending, err error) {
	a.Line, a.request = l, runtime.Request{Op: l.Op, Count: l.Count, Reserve: l.Reserve}
	if a.key, err = s.find(l); err != nil {
		return a, err
	}
	if a.plan, err = s.plan(l); err != nil {
		return a, err
	}
	if len(s.members) > 0 {
		return a, s.acceptTogether(l)
	}
	if len(s.Plans) > 0 {
		a.key.use(s.Plans[a.plan].Policy)
	}
	return a, s.completeCalendar(&a.request, l)
}

// decide decides an accepted line, and counts it unless it is impossible. The error is a [*trace.Fault].
func (s *limitState) decide(a pending) (Answer, error) {
	var d runtime.Decision
	var err error
	if len(s.members) > 0 {
		d, err = s.decideTogether()
	} else {
		d, err = a.decide()
	}
	if err != nil {
		return Answer{}, err
	}
	s.add(a.Line, d)
	a.key.add(a.Line, d)
	s.addToPlan(a.key, a.plan, a.Line, d)
	return Answer{d, a.key.key}, nil
}

// connect finds the limits of a group. It panics if the replay lacks one.
func (s *limitState) connect(r *Replay) {
	for _, m := range s.Members {
		limit := r.byName[m.Limit]
		if limit == nil || len(limit.Members) > 0 {
			panic(fmt.Sprintf("sim: the group %s has no limit %s", s.Policy.Name, m.Limit))
		}
		s.members = append(s.members, &memberState{Member: m, limit: limit})
	}
}

// acceptTogether accepts a line for all members of a group.
func (s *limitState) acceptTogether(l *trace.Line) error {
	if l.Op != runtime.Take {
		return trace.Faultf("%s is a group, which has only the verb allow", s.Policy.Name)
	}
	if l.Count != 1 && !s.counted() {
		return trace.Faultf("%s has no count, because the file fixes how many tokens it takes", s.Policy.Name)
	}
	for _, m := range s.members {
		if err := m.accept(l); err != nil {
			return err
		}
	}
	return nil
}

// decideTogether decides the accepted line by all members of a group, and takes from all of them if all allow it. The group
// itself has no state but the tally of its keys; the tallies of the members count the lines that name them.
func (s *limitState) decideTogether() (all runtime.Decision, err error) {
	// Checks first: an error or a denial of the last member must not take from the first.
	for _, check := range []bool{true, false} {
		all = runtime.Decision{Limit: s.Policy.Name, Allowed: true}
		for i, m := range s.members {
			if m.pending.request.Op = runtime.Take; check || m.Check {
				m.pending.request.Op = runtime.Check
			}
			d, err := m.pending.decide()
			if err != nil {
				return d, err
			}
			all = together(all, d, i == 0)
		}
		if !all.Allowed {
			break
		}
	}
	return all, nil
}

// counted reports whether a member takes the count of the line.
func (s *limitState) counted() bool {
	for _, m := range s.members {
		if m.Count == 0 {
			return true
		}
	}
	return false
}

// accept accepts a line for the limit of the member.
func (m *memberState) accept(l *trace.Line) (err error) {
	key, types := m.line.Key[:0], m.line.KeyTypes[:0]
	for _, i := range m.Member.Key {
		key = append(key, l.Key[i])
		if i < len(l.KeyTypes) {
			types = append(types, l.KeyTypes[i])
		}
	}
	m.line = *l
	m.line.Key, m.line.KeyTypes, m.line.Count = key, types, cmp.Or(m.Count, l.Count)
	if m.pending, err = m.limit.accept(&m.line); err == nil {
		m.pending.request.Reserve = l.Reserve && !m.Check && m.pending.key.policy.Reserves()
	}
	return err
}

// together adds the decision of a member: the group has as few tokens as the limit that has fewest.
func together(all, d runtime.Decision, first bool) runtime.Decision {
	all.Allowed = all.Allowed && d.Allowed
	all.RetryAfter = max(all.RetryAfter, d.RetryAfter)
	all.Delay = max(all.Delay, d.Delay)
	all.FullAfter = max(all.FullAfter, d.FullAfter)
	if first || d.Value < all.Value {
		all.Value, all.Remaining = d.Value, d.Remaining
	}
	return all
}
