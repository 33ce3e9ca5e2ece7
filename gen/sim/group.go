package sim

import (
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

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

// memberState is a member with the state of its limit.
type memberState struct {
	Member
	limit *limitState
	// line is the line of the trace as it is for this limit.
	line Line
	key  *keyState
	// policy is that of the line's plan.
	policy *runtime.Policy
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

// decideTogether decides a line by all members of a group, and takes from all of them if all allow it. The group itself
// has no state but the tally of its keys; the tallies of the members count the lines that name them.
func (s *limitState) decideTogether(l *Line) (runtime.Decision, error) {
	if l.Op != runtime.Take {
		return runtime.Decision{}, faultf("%s is a group, which has only the verb allow", s.Policy.Name)
	}
	if l.Count != 1 && !s.counted() {
		return runtime.Decision{}, faultf("%s has no count, because the file fixes how many tokens it takes", s.Policy.Name)
	}
	all := runtime.Decision{Limit: s.Policy.Name, Allowed: true}
	// Checks first: a fault or a denial of the last member must not take from the first.
	for _, check := range []bool{true, false} {
		for i, m := range s.members {
			d, err := m.decide(l, check)
			if err != nil {
				return runtime.Decision{}, err
			}
			all = together(all, d, i == 0)
		}
		if check {
			if !all.Allowed {
				return all, nil
			}
			all = runtime.Decision{Limit: s.Policy.Name, Allowed: true}
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

// decide checks a line, or takes its tokens.
func (m *memberState) decide(l *Line, check bool) (runtime.Decision, error) {
	if check {
		if err := m.find(l); err != nil {
			return runtime.Decision{}, err
		}
	}
	p := m.policy
	q := runtime.Request{Op: runtime.Check, Count: m.Count, Reserve: l.Reserve && !m.Check && p.Reserves()}
	if q.Count == 0 {
		q.Count = l.Count
	}
	if !check && !m.Check {
		q.Op = runtime.Take
	}
	if err := m.limit.completeCalendar(&q, l); err != nil {
		return runtime.Decision{}, err
	}
	d, err := m.key.decide(p, l.At, q)
	if err != nil {
		return d, &Fault{Reason: p.Name + ": " + err.Error(), cause: err}
	}
	return d, nil
}

// find sets the key of a line.
func (m *memberState) find(l *Line) error {
	m.line.Key, m.line.keyTypes = m.line.Key[:0], m.line.keyTypes[:0]
	for _, i := range m.Member.Key {
		m.line.Key = append(m.line.Key, l.Key[i])
		if i < len(l.keyTypes) {
			m.line.keyTypes = append(m.line.keyTypes, l.keyTypes[i])
		}
	}
	plan, err := m.limit.plan(l)
	if err != nil {
		return err
	}
	m.key, err = m.limit.find(&m.line)
	if err == nil {
		m.policy = m.limit.use(m.key, plan)
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
