package limiter

import (
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/batch"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/recent"
)

// localMemory decides in place of a failing store, for limits with [runtime.FailLocal]: by the same rule, on counts of
// its own. A key begins with the tokens that the store has last reported for it, and is full without a report. The zero
// localMemory is empty.
type localMemory struct {
	mu      sync.Mutex
	rows    recent.Map[runtime.Row, runtime.State]
	reports recent.Map[runtime.Row, report]
}

// localRows is how many rows are kept at least, and twice as many at most. Each takes about 150 bytes and the length of
// its key.
const localRows = 32_768

// report is the count of a key as a decision of the store has it. Instants are by this process's clock, except for
// decided.
type report struct {
	// missing is how many tokens the key lacked of a full one at an instant. full is when it is full again, and
	// windowEnd when its window ends.
	missing             float64
	at, full, windowEnd int64
	// decided is the instant of the decision by the store's clock.
	decided int64
	// penalty is when the penalty ends, or 0.
	penalty int64
}

// state returns a row with the tokens of the report. If the decision does not have how long ago they were taken, they
// count as taken in the current window, or at the last take of a precise limit.
func (p *report) state(r *meter.Rule) runtime.State {
	at := p.at
	switch {
	case r.Kind == runtime.InFlight:
		// The report does not say who holds the slots: they are all free when the last of them is.
		s, _, _ := r.Step(runtime.State{}, p.full-r.Hold, runtime.Request{Op: runtime.Take, Count: int64(min(p.missing, r.Capacity))})
		return s
	case r.Precise:
		at = p.full - r.Period
	case r.FirstUse && p.windowEnd > p.at:
		at = p.windowEnd - r.Period
	}
	s, _, err := r.Step(runtime.State{}, at, runtime.Request{Op: runtime.Charge, Count: int64(math.Ceil(p.missing))})
	if err == nil && !r.Precise {
		s.Value = -p.missing
	}
	return s
}

// forget forgets the count of a key that was reset, or the penalty only.
func (m *localMemory) forget(q *runtime.Request) {
	row := runtime.Row{Name: q.Policy.Name, Key: q.Key}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !q.PenaltyOnly {
		m.rows.Delete(row)
		m.reports.Delete(row)
		return
	}
	if s := m.rows.Find(row); s != nil {
		*s = meter.KeepPenalty(*s, runtime.State{})
	}
	if p := m.reports.Find(row); p != nil {
		p.penalty = 0
	}
}

func (m *localMemory) learn(q *runtime.Request, d *runtime.Decision, decided int64) {
	row, missing, now := runtime.Row{Name: q.Policy.Name, Key: q.Key}, float64(d.Policy.Full())-d.Value, time.Now().UnixNano()
	penalty := int64(0)
	if d.PenaltyFor > 0 {
		penalty = arith.Add(now, int64(d.PenaltyFor))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.reports.Find(row)
	switch {
	case known == nil && missing <= 0 && d.PenaltyFor == 0:
		return // a key without a report is full
	case known == nil:
		// The caller's key may be a part of a whole HTTP request, which the map would keep in memory.
		row.Key = strings.Clone(row.Key)
	case known != nil && decided <= known.decided && missing <= known.missing && q.Op != runtime.Refund &&
		q.Op != runtime.Release:
		// Two decisions were made at once: this was the earlier one, or the denial after the last token was taken.
		known.penalty = max(known.penalty, penalty)
		return
	}
	m.reports.Set(row, report{
		penalty: penalty, missing: max(0, missing), at: now, full: arith.Add(now, int64(d.FullAfter)),
		windowEnd: arith.Add(now, int64(d.ResetAfter)), decided: decided,
	}, localRows)
}

// decide executes a call at the instant now, in nanoseconds since 1970 UTC. A key has one row: shards share the writes
// of a database.
func (m *localMemory) decide(c runtime.Call, now int64) runtime.Answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := batch.NewUnsharded([]runtime.Call{c})
	for !b.Run(now, m.readLocked(c, b.Rows(), now)) {
	}
	for _, change := range b.Changes() {
		if m.rows.Find(change.Row) == nil {
			change.Row.Key = strings.Clone(change.Row.Key)
		}
		m.rows.Set(change.Row, change.State, localRows)
	}
	return b.Answers()[0]
}

func (m *localMemory) readLocked(c runtime.Call, rows []runtime.Row, now int64) []runtime.State {
	states := make([]runtime.State, len(rows))
	for i, row := range rows {
		if s := m.rows.Find(row); s != nil {
			states[i] = *s
		}
		if p := m.reports.Find(row); p != nil {
			rule := ruleOf(c, row)
			states[i] = rule.Penalized(fewer(rule, states[i], p, now), p.penalty)
		}
	}
	return states
}

// ruleOf returns the rule for the row of a request.
func ruleOf(c runtime.Call, row runtime.Row) meter.Rule {
	i := slices.IndexFunc(c.Requests, func(q runtime.Request) bool { return q.Key == row.Key && q.Policy.Name == row.Name })
	return meter.RuleFor(&c.Requests[i])
}

// fewer returns the one of a state and the state of a report that has fewer tokens: what was taken from memory, the
// store does not know.
func fewer(r meter.Rule, s runtime.State, p *report, now int64) runtime.State {
	reported := p.state(&r)
	peek := runtime.Request{Op: runtime.Peek}
	_, own, _ := r.Step(s, now, peek)
	if _, other, _ := r.Step(reported, now, peek); other.Value < own.Value {
		return reported
	}
	return s
}
