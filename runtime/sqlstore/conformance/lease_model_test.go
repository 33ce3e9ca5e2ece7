package conformance

import (
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
)

// leaseHosts is how many hosts call in a history of a leased limit.
const leaseHosts = 2

// machine is the sequential behaviour of hosts with leases: a row, and the rest of the block that each host has taken
// from it. It answers one call after the other, each at an instant between its call and its return, from the row or
// from the block of the host that is called. Between two calls hosts take blocks and refund them.
//
// So a denial is right while the tokens are in the block of another host, and a take from a block does not change the
// row. If the database fails, a block may be lost.
type machine struct {
	row  runtime.State
	left [leaseHosts]int64
	// void: the key was reset, or got tokens that belong to no request, since a host took its block. Its rest can be spent, but
	// is not refunded.
	void [leaseHosts]bool
	// closed: the hosts have refunded their blocks, and take no more.
	closed bool
	// undoable is how many lost reservations of 1, 2 and 3 tokens the store may still undo, because their callers have gone.
	undoable [3]uint8
}

// hostRequest is a request to one of the hosts.
type hostRequest struct {
	runtime.Request
	host int
	// close: all hosts refund their blocks. There is no request.
	close bool
}

// leased is the transitions of machines, and the machines that have been reached.
type leased struct {
	policy *runtime.Policy
	rule   meter.Rule
	now    int64
	// lossy: connections are cut.
	lossy bool

	numbers  map[machine]int
	machines []machine
	reaches  map[int][]int
}

// leasedModel returns the model of a key. Its state is a bit set of all machines that the calls so far permit, because
// the blocks of the hosts cannot be observed.
func leasedModel(p *runtime.Policy, key string, now int64, lossy bool) porcupine.Model {
	l := &leased{policy: p, rule: meter.RuleOf(p, key), now: now, lossy: lossy, numbers: map[machine]int{}, reaches: map[int][]int{}}
	return porcupine.Model{
		Init: func() any { return l.state(machine{}) },
		Step: func(state, input, output any) (bool, any) {
			var after []machine
			set := new(big.Int).SetBytes([]byte(state.(string)))
			for i, m := range l.machines {
				if set.Bit(i) == 1 {
					after = append(after, l.answer(m, input.(hostRequest), output.(reply))...)
				}
			}
			return len(after) > 0, l.state(after...)
		},
	}
}

// state returns the state of machines, and of those that they can become before the next call.
func (l *leased) state(all ...machine) string {
	set := new(big.Int)
	for _, m := range all {
		for _, i := range l.reach(l.number(m)) {
			set.SetBit(set, i, 1)
		}
	}
	return string(set.Bytes())
}

// number returns the bit of a machine.
func (l *leased) number(m machine) int {
	if l.policy.Kind.Linear() {
		m.row.Prev = 0 // the total: it only grows, so with it no state would occur twice
	}
	i, ok := l.numbers[m]
	if !ok {
		i = len(l.machines)
		l.numbers[m] = i
		l.machines = append(l.machines, m)
	}
	return i
}

// reach returns a machine and all that it can become before the next call.
func (l *leased) reach(from int) []int {
	if all := l.reaches[from]; all != nil {
		return all
	}
	all := []int{from}
	for i := 0; i < len(all); i++ {
		m := l.machines[all[i]]
		next := l.undo(m)
		for host := range leaseHosts {
			next = append(next, l.moves(m, host)...)
		}
		for _, next := range next {
			if n := l.number(next); !slices.Contains(all, n) {
				all = append(all, n)
			}
		}
	}
	l.reaches[from] = all
	return all
}

// moves returns the machines after a host has, without a call, refunded its block or taken the next one.
func (l *leased) moves(m machine, host int) (next []machine) {
	back := l.give(m, host)
	next = append(next, back)
	if taken, d, err := l.rule.Step(back.row, l.now, runtime.Request{Count: l.policy.Lease.Tokens}); err == nil && d.Allowed && !m.closed {
		block := back
		block.row, block.left[host], block.void[host] = taken, l.policy.Lease.Tokens, false
		next = append(next, block)
	}
	if l.lossy {
		for _, lost := range next {
			lost.left[host] = 0
			next = append(next, lost)
		}
		lost := m
		lost.left[host] = 0
		next = append(next, lost)
	}
	return next
}

// give returns a machine after a host has refunded its block.
func (l *leased) give(m machine, host int) machine {
	if n := m.left[host]; n > 0 && !m.void[host] {
		m.row, _, _ = l.rule.Step(m.row, l.now, runtime.Request{Op: runtime.Refund, Count: n})
	}
	m.left[host], m.void[host] = 0, false
	return m
}

// undo returns the machines after the store has undone a lost reservation.
func (l *leased) undo(m machine) (next []machine) {
	for i, n := range m.undoable {
		if n > 0 {
			undone := m
			undone.undoable[i]--
			undone.row, _, _ = l.rule.Step(m.row, l.now, runtime.Request{Op: runtime.Refund, Count: int64(i) + 1})
			next = append(next, undone)
		}
	}
	return next
}

// voids reports whether no block that was taken before the request can be refunded.
func (l *leased) voids(q runtime.Request) bool {
	return q.Op == runtime.Reset || q.Op == runtime.Refund && l.policy.Kind.Linear()
}

// answer returns the machines that a machine can become by a call with this result.
func (l *leased) answer(m machine, in hostRequest, got reply) (next []machine) {
	if in.close {
		for host := range leaseHosts {
			m = l.give(m, host)
		}
		m.closed = true
		return []machine{m}
	}
	if got.lost {
		next = append(next, m)
	}
	after := m
	row, d, err := l.rule.Step(m.row, l.now, in.Request)
	if err == nil && got.shows(l.policy, in.Request, d) {
		after.row = row
		if in.Op == runtime.Reset {
			after.left[in.host] = 0
		}
		for host, left := range after.left {
			after.void[host] = left > 0 && (m.void[host] || l.voids(in.Request))
		}
		if got.lost && in.Reserve && d.Allowed {
			after.undoable[in.Count-1]++
		}
		next = append(next, after)
	}
	if left := m.left[in.host] - in.Count; in.Op == runtime.Take && !in.Reserve && left >= 0 && !got.lost {
		// The model does not have the time at which the block was taken, nor when its window ends.
		spent := runtime.Decision{Allowed: true, Taken: in.Count, Remaining: left, Value: float64(left), TakenAt: got.decision.TakenAt,
			ResetAfter: got.decision.ResetAfter}
		if got.shows(l.policy, in.Request, spent) {
			m.left[in.host] = left
			next = append(next, m)
		}
	}
	return next
}

// The model accepts hosts that work, and detects a lost or an additional token.
func TestLeasedModelDetectsLostTokens(t *testing.T) {
	p := &runtime.Policy{
		Name: "bucket", Kind: runtime.TokenBucket, Rate: 6, Capacity: 6, Period: time.Minute,
		Lease: runtime.Lease{Tokens: 3, For: time.Hour},
	}
	const now = 1_000_000
	allowed := func(left int64) runtime.Decision {
		return runtime.Decision{Limit: "bucket", Allowed: true, Remaining: left, Value: float64(left)}
	}
	peek := func(left int64) runtime.Decision {
		d := allowed(left)
		d.FullAfter = time.Duration(6-left) * p.Period / 6
		return d
	}
	denied := runtime.Decision{Limit: "bucket", RetryAfter: p.Period / 6, FullAfter: p.Period}
	one, look := runtime.Request{Count: 1}, runtime.Request{Op: runtime.Peek}
	type step struct {
		hostRequest
		got runtime.Decision
	}
	closed := step{hostRequest{close: true}, runtime.Decision{}}
	for _, row := range []struct {
		name        string
		steps       []step
		right, lost porcupine.CheckResult
	}{
		{"each host spends from a block, and a third block would be too many",
			[]step{{hostRequest{one, 0, false}, allowed(2)}, {hostRequest{one, 1, false}, allowed(2)}, {hostRequest{one, 0, false}, allowed(1)},
				{hostRequest{one, 1, false}, allowed(1)}, {hostRequest{runtime.Request{Count: 3}, 0, false}, allowed(0)}}, porcupine.Illegal, porcupine.Illegal},
		{"a host is denied tokens in the block of the other",
			[]step{{hostRequest{one, 0, false}, allowed(2)}, {hostRequest{runtime.Request{Count: 3}, 1, false}, allowed(0)},
				{hostRequest{one, 1, false}, denied}, {hostRequest{one, 0, false}, allowed(1)}}, porcupine.Ok, porcupine.Ok},
		{"tokens that were not spent are refunded",
			[]step{{hostRequest{one, 0, false}, allowed(2)}, closed, {hostRequest{look, 1, false}, peek(5)}}, porcupine.Ok, porcupine.Ok},
		{"a token is lost",
			[]step{{hostRequest{one, 0, false}, allowed(2)}, closed, {hostRequest{look, 1, false}, peek(3)}}, porcupine.Illegal, porcupine.Ok},
		{"there is an additional token",
			[]step{{hostRequest{one, 0, false}, allowed(2)}, closed, {hostRequest{look, 1, false}, peek(6)}}, porcupine.Illegal, porcupine.Illegal},
	} {
		var operations []porcupine.Operation
		for i, s := range row.steps {
			at := int64(2 * i)
			if s.got.Allowed && s.Op == runtime.Take {
				s.got.Taken = s.Count
			}
			operations = append(operations, porcupine.Operation{Input: s.hostRequest, Output: reply{decision: s.got}, Call: at, Return: at + 1})
		}
		for lossy, want := range map[bool]porcupine.CheckResult{false: row.right, true: row.lost} {
			got := porcupine.CheckOperationsTimeout(leasedModel(p, "", now, lossy), operations, time.Minute)
			assert.Equal(t, want, got, "%s, lossy %v", row.name, lossy)
		}
	}
}
