package sim

import (
	"cmp"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// accept finds the key, the plan and the calendar of a line. The error is a [*trace.Fault].
func (s *limitState) accept(l *trace.Line) (a pending, err error) {
	a.Line, a.request = l, runtime.Request{Op: l.Op, Count: l.Count, Reserve: l.Reserve}
	if a.key, err = s.find(l); err != nil {
		return a, err
	}
	if a.plan, err = s.plan(l); err != nil {
		return a, err
	}
	if s.group != nil {
		return a, s.acceptTogether(l)
	}
	if s.priced() {
		if a.request.Count, err = s.cost(l); err != nil {
			return a, err
		}
	}
	if len(s.plans) > 0 || s.excepted != nil || len(s.classes) > 0 {
		p, err := s.classified(s.policyOf(a.key.key, a.plan), l)
		if err != nil {
			return a, err
		}
		a.key.use(p)
	}
	return a, s.completeCalendar(&a.request, l)
}

// decide decides an accepted line, and counts it unless it is impossible. The error is a [*trace.Fault].
func (s *limitState) decide(a pending) (Answer, error) {
	var d runtime.Decision
	var err error
	if s.group != nil {
		d, err = s.decideTogether()
	} else {
		d, err = a.decide()
	}
	if err != nil {
		return Answer{}, err
	}
	answer := Answer{d, a.key.key, true, outcomeOf(a.Line, d)}
	s.add(a.Line, answer)
	a.key.add(a.Line, answer)
	s.addToPlan(a.key, a.plan, a.Line, answer)
	return answer, nil
}

// decide decides the request by the limit's rule, and counts nothing.
func (a *pending) decide() (runtime.Decision, error) {
	d, err := a.key.Decide(a.At, a.request)
	if err != nil {
		return d, &trace.Fault{Reason: a.key.policy.Name + ": " + err.Error(), Cause: err}
	}
	a.key.Hold(a.At, d, a.Running)
	return d, nil
}

// acceptTogether accepts a line for all members of a group.
func (s *limitState) acceptTogether(l *trace.Line) error {
	if l.Op != runtime.Take {
		return trace.Faultf("%s is a group, which has only the verb allow", s.name)
	}
	if l.Count != 1 && !s.counted() {
		return trace.Faultf("%s has no count, because the file fixes how many tokens it takes", s.name)
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
func (s *limitState) decideTogether() (runtime.Decision, error) {
	entries := make([]entry, len(s.members))
	for i, m := range s.members {
		entries[i] = entry{&m.pending.key.Key, m.pending.request}
	}
	decisions, index, err := decideTogether(s.members[0].line.At, entries, uint64(s.requests+1))
	if err != nil {
		return runtime.Decision{}, &trace.Fault{Reason: entries[index].key.policy.Name + ": " + err.Error(), Cause: err}
	}
	all := together(s.name, decisions)
	if all.Allowed {
		for i, m := range s.members {
			m.pending.key.Hold(m.line.At, decisions[i], m.line.Running)
		}
	}
	return all, nil
}

// counted reports whether a member takes the count of the line, or the cost of its units.
func (s *limitState) counted() bool {
	return slices.ContainsFunc(s.members, func(m *memberState) bool { return m.count == 0 })
}

// accept accepts a line for the limit of the member.
func (m *memberState) accept(l *trace.Line) (err error) {
	key, types := m.line.Key[:0], m.line.KeyTypes[:0]
	for _, i := range m.parts {
		key = append(key, l.Key[i])
		if i < len(l.KeyTypes) {
			types = append(types, l.KeyTypes[i])
		}
	}
	m.line = *l
	m.line.Key, m.line.KeyTypes, m.line.Count = key, types, cmp.Or(m.count, l.Count)
	if m.pending, err = m.limit.accept(&m.line); err == nil {
		q := &m.pending.request
		if q.Reserve = l.Reserve && !m.check && m.pending.key.policy.Reserves(); m.check {
			q.Op = runtime.Check
		}
	}
	return err
}

// together returns the decision of a group: it has as few tokens as the limit that has fewest.
func together(name string, decisions []runtime.Decision) runtime.Decision {
	all := runtime.Decision{Limit: name, Allowed: true}
	for i, d := range decisions {
		all.Allowed = all.Allowed && d.Allowed
		all.RetryAfter = max(all.RetryAfter, d.RetryAfter)
		all.UsableAfter = max(all.UsableAfter, d.UsableAfter)
		all.FullAfter = max(all.FullAfter, d.FullAfter)
		if i == 0 || d.Value < all.Value {
			all.Value, all.Remaining = d.Value, d.Remaining
		}
	}
	return all
}
