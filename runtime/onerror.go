package runtime

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// errTimeout is the cause with which the context of withTimeout ends.
var errTimeout = errors.New("the store did not answer within the limit's timeout")

// withTimeout returns a context that ends after the shortest timeout of the limits of a call. The cause distinguishes the
// timeout from the caller's deadline.
func (c Call) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	shortest := time.Duration(0)
	for i := range c.Requests {
		q := &c.Requests[i]
		if t := q.Policy.Timeout; q.decides() && q.usesRows() && t > 0 && (shortest == 0 || t < shortest) {
			shortest = t
		}
	}
	if shortest == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, shortest, fmt.Errorf("%w of %v", errTimeout, shortest))
}

// failsClosed reports whether a call needs the store: one of its limits has FailClosed, or a request does not decide.
func (c Call) failsClosed() bool {
	for i := range c.Requests {
		if c.Requests[i].failsClosed() {
			return true
		}
	}
	return false
}

func (q *Request) failsClosed() bool {
	return !q.decides() || q.Policy.OnError == FailClosed && q.Policy.Mode != ModeShadow && q.usesRows()
}

// failOpen returns an answer to a call for which the store has failed with err. It allows the requests that need the
// store.
func (c Call) failOpen(err error) Answer {
	// A mistake in the call itself, such as a count beyond the capacity, remains an error: executing the call on empty
	// rows finds it.
	empty := NewBatch([]Call{c})
	for !empty.Run(0, make([]State, len(empty.Rows()))) {
	}
	answer := empty.Answers()[0]
	for i, q := range c.Requests[:len(answer.Decisions)] {
		if !q.usesRows() {
			continue
		}
		taken := answer.Decisions[i].Taken
		if q.Op == Take {
			taken = q.Count // also if it is a reservation that would have been due too late
		}
		answer.Decisions[i] = Decision{Limit: q.Policy.Name, Policy: q.Policy, Allowed: true, Taken: taken, FailedOpen: err}
	}
	return answer
}

// localMemory decides in place of a failing store, for limits with [FailLocal]: by the same rule, on counts of its own.
// A key that it does not have is full. The zero localMemory is empty.
//
// It has two generations of rows: when the young one is full, it replaces the old one. That bounds the memory without the
// bookkeeping of an LRU list.
type localMemory struct {
	mu         sync.Mutex
	young, old map[Row]State
}

// localRows is how many rows a generation holds. Each takes about 150 bytes and the length of its key.
const localRows = 32_768

// decide executes a call at the instant now, in nanoseconds since 1970 UTC.
func (m *localMemory) decide(c Call, now int64) Answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := NewBatch([]Call{c})
	for !b.Run(now, m.readLocked(b.Rows())) {
	}
	m.writeLocked(b.Changes())
	return b.Answers()[0]
}

func (m *localMemory) readLocked(rows []Row) []State {
	states := make([]State, len(rows))
	for i, row := range rows {
		s, ok := m.young[row]
		if !ok {
			s = m.old[row]
		}
		states[i] = s
	}
	return states
}

// writeLocked stores states that exist: no operation that is decided here deletes a row.
func (m *localMemory) writeLocked(changes []Change) {
	if m.young == nil || len(m.young)+len(changes) > localRows {
		m.old, m.young = m.young, map[Row]State{}
	}
	for _, c := range changes {
		// The caller's key may be a substring of a whole HTTP request, which the map would keep in memory.
		c.Row.Key = strings.Clone(c.Row.Key)
		m.young[c.Row] = c.State
	}
}

// decideWithout answers a call for which the store has failed with err. Requests of limits with FailOpen pass, and those
// of limits with FailLocal are decided from memory, all or none of them.
func (l *Limiter) decideWithout(c Call, err error) Answer {
	// Validates the whole call, too.
	answer := c.failOpen(err)
	if answer.Err != nil {
		return answer
	}
	var local Call
	var at []int
	for i, q := range c.Requests {
		// Those that need no store decide too: a blocked limit must not take tokens of the others.
		if !q.usesRows() || q.Policy.OnError == FailLocal && q.Policy.Mode != ModeShadow {
			local.Requests, at = append(local.Requests, q), append(at, i)
		}
	}
	var decided Answer
	if len(at) > 0 {
		decided = l.local.decide(local, time.Now().UnixNano())
	}
	if decided.Err != nil {
		return decided
	}
	for i, d := range decided.Decisions {
		if local.Requests[i].usesRows() {
			// The store has taken nothing, and a refund must not give it tokens.
			d.TakenAt, d.FailedLocal = time.Time{}, err
		}
		answer.Decisions[at[i]] = d
	}
	if !answer.Allowed() {
		for i := range answer.Decisions {
			answer.Decisions[i].Taken = 0
		}
	}
	return answer
}
