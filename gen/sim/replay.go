// Package sim replays requests through the real limiter, without a database and without waiting. It computes what
// the limits of a file would have decided, or what an edit of them would change.
//
// # The model
//
// A [trace.Reader] reads a [trace.Line] per request, from JSON Lines or from the logs of programs and servers (see
// [trace.Mapping]). A [Replay] holds the state of every key of some limits, and decides each line at
// the line's own instant. A [Report] summarizes the decisions for people; [JSONL] writes each of them. A
// [Comparison] decides each line by the limits of two files. A [Traffic] generates a trace.
//
// # Guarantees
//
// Every decision is one of meter.Rule.Step or, for sharded and precise limits, of meter.StepShards and
// meter.Rule.Step, as the mode of the limit changes it, and keys are encoded by [runtime.KeyOf]. The same trace always
// gets the same decisions, whatever other keys and limits are in it.
// Nothing is rounded or guessed: a line that is not a valid request is a [trace.Fault] with the line, the column and the
// reason, but never with the value of a key. Memory grows with the number of keys, and by about 50 bytes for each line of a
// log that a [trace.Reader] holds until no earlier one can follow.
//
// # Non-guarantees
//
// A store picks one or two shards of a sharded limit for each request, and estimates the remaining tokens from them.
// Sim picks two by the number of the request among those of its key, and sums up all shards: its decisions are one
// possible run. The settings that concern one process, a failing store or the times of retries (DenyCache, Lease, OnError,
// Timeout, Jitter) and Overrides have no effect; reports name the limits with DenyCache, Lease or Overrides.
package sim

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Replay is the state of limits during a replay.
type Replay struct {
	limits []*limitState
	byName map[string]*limitState
}

// NewReplay returns a Replay of the limits and groups of a file, in which every key is full.
func NewReplay(file *spec.File) *Replay { return newReplay(file, nil, nil) }

// newReplay is NewReplay for limits and plans that have other names in a newer version: the maps have them by the names
// of the file.
func newReplay(file *spec.File, renamed, renamedPlans map[string]string) *Replay {
	r := &Replay{byName: map[string]*limitState{}}
	nameOf := func(l *spec.Limit) string { return cmp.Or(renamed[l.Policy.Name], l.Policy.Name) }
	planOf := func(plan string) string { return cmp.Or(renamedPlans[plan], plan) }
	for _, l := range file.Limits {
		s := newLimitState(nameOf(l), l.Key)
		s.limit, s.policy, s.classes = l, named(l.Policy, s.name), l.Priorities
		for _, of := range l.Plans {
			s.plans = append(s.plans, planState{name: planOf(of.Plan), policy: named(of.Policy, s.name)})
		}
		s.except(l.GivenExceptions())
		r.add(s)
	}
	for _, g := range file.Groups {
		s := newLimitState(g.Name, g.Keys())
		s.group = g
		for _, plan := range g.Plans() {
			s.plans = append(s.plans, planState{name: planOf(plan)})
		}
		parameters := spec.PartNames(s.key)
		for i, m := range g.Members() {
			member := &memberState{limit: r.byName[nameOf(m.Limit)], count: m.Count, check: i >= len(g.Takes)}
			for _, arg := range m.Args {
				member.parts = append(member.parts, slices.Index(parameters, arg))
			}
			s.members = append(s.members, member)
		}
		r.add(s)
	}
	return r
}

func (r *Replay) add(s *limitState) {
	r.limits = append(r.limits, s)
	r.byName[s.name] = s
}

// named returns a policy with a name.
func named(p runtime.Policy, name string) runtime.Policy {
	p.Name = name
	return p
}

// Names returns the names of the limits and then those of the groups, in the order of the file.
func (r *Replay) Names() []string {
	return words.Of(r.limits, func(s *limitState) string { return s.name })
}

// Decide decides a line at the line's instant, and takes the tokens if it is allowed. The error is a [*trace.Fault].
func (r *Replay) Decide(l *trace.Line) (Answer, error) {
	limit := r.byName[l.Limit]
	if limit == nil {
		return Answer{}, unknownLimit(l.Limit, r.Names())
	}
	a, err := limit.accept(l)
	if err != nil {
		return Answer{}, err
	}
	return limit.decide(a)
}

// maxListed is how many limits the fault of a line with an unknown limit lists.
const maxListed = 5

func unknownLimit(name string, names []string) error {
	known := strings.Join(names[:min(len(names), maxListed)], ", ")
	if rest := len(names) - maxListed; rest > 0 {
		known += " and " + words.Count(int64(rest), "other")
	}
	fault := trace.Faultf("unknown limit \"%s\"; the limits are %s", trace.Clip(name, 60), known)
	fault.Unknown = name // for a suggestion from more names than the fault lists
	return fault
}

// Left returns the tokens that a key of a limit has at an instant, in nanoseconds since 1970 UTC, and changes nothing.
// The key is as in [Answer]. It is false for a key without requests, for a limit whose mode keeps no count, and for a
// calendar that differs from key to key.
func (r *Replay) Left(limit, key string, at int64) (tokens float64, ok bool) {
	s := r.byName[limit]
	if s == nil || s.group != nil {
		return 0, false
	}
	known, p := s.keys[key], &s.policy
	if known == nil || p.Calendar.PerKey() || !p.Mode.Counts() {
		return 0, false
	}
	k := known.Key // a copy: a peek must not change which shard decides the next request
	k.running = slices.Clone(k.running)
	d, err := k.step(at, runtime.Request{Op: runtime.Peek})
	return d.Value, err == nil
}

// HasGroup reports whether a name is that of a group.
func (r *Replay) HasGroup(name string) bool {
	s := r.byName[name]
	return s != nil && s.group != nil
}
