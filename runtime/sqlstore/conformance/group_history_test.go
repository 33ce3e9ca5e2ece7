package conformance

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// groupHistory is the concurrent calls for one key of several limits: groups of takes, reservations and checks, and
// single requests between them.
type groupHistory struct {
	limits []*runtime.Policy
	key    string
	begun  time.Time
	// cluster means that the stores are nodes of one. They compare the rows that a transaction has written, so that a row
	// that it has only read may have been changed by another node a moment ago: one that a call checks, and, as calls share
	// transactions, one of a call that another limit denies. Checks are left out then, and denials may be late.
	cluster bool

	mu         sync.Mutex
	operations []porcupine.Operation
	errors     []error
}

// Groups are recorded while the clock stands still. Their results must be those of sequential calls, of which each takes
// from all of its limits or from none.
func TestGroupHistoriesAreLinearizable(t *testing.T) {
	onAll(t, func(t *testing.T, nodes []live.Server) {
		clock := storetest.NewClock()
		_, stores := live.Shared(t, upToDate(nodes), clock.Now)
		limits := historic()
		if len(nodes) > 1 {
			limits = withoutShardedDebt(limits)
		}
		checkGroupHistories(t, stores, clock, limits, len(nodes) > 1)
	})
	live.AtOnce(t, "sqlite", func(t *testing.T) {
		clock, path := storetest.NewClock(), filepath.Join(t.TempDir(), "limits.db")
		var stores []runtime.Store
		for range 2 {
			store := live.Must(sqlite.OpenWith(path, sqlstore.Options{Clock: clock.Now}))(t)
			t.Cleanup(func() { require.NoError(t, store.Close()) })
			stores = append(stores, store)
		}
		checkGroupHistories(t, stores, clock, historic(), false)
	})
	live.AtOnce(t, "memory", func(t *testing.T) {
		clock := storetest.NewClock()
		checkGroupHistories(t, []runtime.Store{&memstore.Store{Clock: clock.Now}}, clock, historic(), false)
	})
}

func checkGroupHistories(t *testing.T, stores []runtime.Store, clock *storetest.Clock, all []*runtime.Policy, cluster bool) {
	t.Helper()
	count := 40
	if *long {
		count = 400
	}
	calls, denied := 0, 0
	for i := range count {
		// Every three of the limits, one after the other.
		h := &groupHistory{key: live.KeyOf(i).String(), begun: time.Now(), cluster: cluster}
		for j := range 3 {
			h.limits = append(h.limits, all[(i+j)%len(all)])
		}
		h.record(stores, uint64(i))
		for _, p := range h.limits {
			h.do(context.Background(), stores[0], clients, []runtime.Request{{Policy: p, Op: runtime.Peek}})
		}
		calls, denied = calls+len(h.operations), denied+h.denied()
		assert.Empty(t, h.errors)
		h.check(t, clock.Now().UnixNano())
	}
	t.Logf("%d histories, %d calls: %d groups denied by a part of their limits", count, calls, denied)
	assert.NotZero(t, denied)
}

// record makes the calls of all clients, each by one of the stores.
func (h *groupHistory) record(stores []runtime.Store, seed uint64) {
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(client)+100))
			for range callsEach {
				h.do(context.Background(), stores[client%len(stores)], client, h.requests(random))
			}
		})
	}
	all.Wait()
}

// requests returns the requests of a random call: mostly a group.
func (h *groupHistory) requests(random *rand.Rand) []runtime.Request {
	if random.IntN(4) == 0 {
		p := h.limits[random.IntN(len(h.limits))]
		q := randomRequest(p, random)
		q.Policy = p
		return []runtime.Request{q}
	}
	requests := make([]runtime.Request, 2+random.IntN(2))
	first := random.IntN(len(h.limits))
	for i := range requests {
		p := h.limits[(first+i)%len(h.limits)]
		requests[i] = runtime.Request{Policy: p, Count: 1 + random.Int64N(3)}
		switch {
		case random.IntN(3) == 0 && !h.cluster:
			requests[i].Op = runtime.Check
		case random.IntN(2) == 0:
			requests[i].Reserve = p.Reserves()
		}
	}
	return requests
}

// do makes a call and records it.
func (h *groupHistory) do(ctx context.Context, store runtime.Store, client int, requests []runtime.Request) {
	for i := range requests {
		requests[i].Key = h.key
	}
	call := time.Since(h.begun).Nanoseconds()
	answers, err := store.Do(ctx, []runtime.Call{{Requests: requests}})
	o := porcupine.Operation{ClientId: client, Input: requests, Call: call, Return: time.Since(h.begun).Nanoseconds()}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.errors = append(h.errors, err)
		return
	}
	o.Output = answers[0].Decisions
	h.operations = append(h.operations, o)
}

// denied returns how many groups were denied although one of their limits would have allowed them.
func (h *groupHistory) denied() (n int) {
	for _, o := range h.operations {
		allowed, all := 0, o.Output.([]runtime.Decision)
		for _, d := range all {
			if d.Allowed {
				allowed++
			}
		}
		if 0 < allowed && allowed < len(all) {
			n++
		}
	}
	return n
}

// check requires that sequential calls, in an order that the times of the calls permit, have the same results.
func (h *groupHistory) check(t *testing.T, now int64) {
	t.Helper()
	requireOrder(t, porcupine.CheckOperationsTimeout(h.model(now), h.operations, time.Minute), h)
}

// String returns a line for each call.
func (h *groupHistory) String() (lines string) {
	for _, o := range h.operations {
		lines += fmt.Sprintf("client %d, %d to %d:\n", o.ClientId, o.Call, o.Return)
		for i, q := range o.Input.([]runtime.Request) {
			lines += fmt.Sprintf("\t%s %v %d, reserve %v", q.Policy.Name, q.Op, q.Count, q.Reserve)
			lines += fmt.Sprintf(" -> %+v\n", o.Output.([]runtime.Decision)[i])
		}
	}
	return lines
}

// groupState is the rows of the limits, and those that they were before, the latest first.
type groupState struct {
	rows [3]runtime.State
	past [3]*pastState
}

type pastState struct {
	row    runtime.State
	before *pastState
}

func (s groupState) equal(o groupState) bool {
	for i := range s.past {
		a, b := s.past[i], o.past[i]
		for ; a != b && a != nil && b != nil && a.row == b.row; a, b = a.before, b.before {
		}
		if a != b {
			return false
		}
	}
	return s.rows == o.rows
}

// model returns the sequential behaviour: the state is that of one row for each limit.
func (h *groupHistory) model(now int64) porcupine.Model {
	index, rules := map[string]int{}, make([]meter.Rule, len(h.limits))
	for i, p := range h.limits {
		index[p.Name], rules[i] = i, meter.RuleOf(p, h.key)
	}
	// late reports whether a decision is that on a row as it was before.
	late := func(at int, past *pastState, q runtime.Request, got runtime.Decision) bool {
		for ; past != nil; past = past.before {
			if _, d, err := rules[at].Step(past.row, now, q); err == nil && agreesTogether(got, q, d) {
				return true
			}
		}
		return false
	}
	return porcupine.Model{
		Init:  func() any { return groupState{} },
		Equal: func(a, b any) bool { return a.(groupState).equal(b.(groupState)) },
		Step: func(state, input, output any) (bool, any) {
			before := state.(groupState)
			next, allowed, agree := before, true, true
			requests, got := input.([]runtime.Request), output.([]runtime.Decision)
			mayBeLate := h.cluster && len(requests) > 1 && slices.ContainsFunc(got, func(d runtime.Decision) bool { return !d.Allowed })
			for i, q := range requests {
				at := index[q.Policy.Name]
				// The limits of a call differ, so that each step is independent of the others.
				s, d, err := rules[at].Step(before.rows[at], now, q)
				if err != nil {
					return false, state
				}
				if s != before.rows[at] {
					next.rows[at], next.past[at] = s, &pastState{before.rows[at], before.past[at]}
				}
				allowed = allowed && d.Allowed
				agree = agree && (agreesTogether(got[i], q, d) || mayBeLate && late(at, before.past[at], q, got[i]))
			}
			if !allowed || mayBeLate {
				next = before
			}
			return agree, next
		},
	}
}

// agreesTogether reports whether a decision of a call equals the one expected of its request alone. The rest of the
// decision depends on the other requests of the call.
func agreesTogether(got runtime.Decision, q runtime.Request, want runtime.Decision) bool {
	if q.Op == runtime.Peek {
		return math.Abs(got.Value-want.Value) < 1e-9
	}
	return got.Allowed == want.Allowed && (got.RetryAfter == 0) == (want.RetryAfter == 0)
}

// The model accepts a store that works, and detects one that takes from a part of the limits of a denied call.
func TestGroupModelDetectsPartialCalls(t *testing.T) {
	clock := storetest.NewClock()
	h := &groupHistory{limits: historic()[:3], key: "k", begun: time.Now()}
	store := &memstore.Store{Clock: clock.Now}
	h.record([]runtime.Store{store}, 1)
	assert.NotZero(t, h.denied())
	for _, p := range h.limits {
		h.do(t.Context(), store, clients, []runtime.Request{{Policy: p, Op: runtime.Peek}})
	}
	m := h.model(clock.Now().UnixNano())
	assert.Equal(t, porcupine.Ok, porcupine.CheckOperationsTimeout(m, h.operations, time.Minute))

	// The bucket lacks a token that a denied call has taken.
	last := &h.operations[len(h.operations)-3]
	wrong := append([]runtime.Decision(nil), last.Output.([]runtime.Decision)...)
	wrong[0].Value--
	last.Output = wrong
	assert.Equal(t, porcupine.Illegal, porcupine.CheckOperationsTimeout(m, h.operations, time.Minute))
}

// On a cluster, a denied call may have seen a row as it was a moment ago, and never as it has not been. A call that is
// allowed may not.
func TestGroupModelOfACluster(t *testing.T) {
	now := storetest.NewClock().Now()
	bucket := historic()[0]
	limits := make([]*runtime.Policy, 3)
	for i := range limits {
		p := *bucket
		p.Name = fmt.Sprint("bucket ", i)
		limits[i] = &p
	}
	take := func(of int, n int64) runtime.Request { return runtime.Request{Policy: limits[of], Count: n} }
	for name, row := range map[string]struct {
		// last is a call after all of limits 0 and 1 was taken, with the decisions Allowed.
		last    []runtime.Request
		allowed []bool
		single  porcupine.CheckResult
		cluster porcupine.CheckResult
	}{
		"denied by both":       {[]runtime.Request{take(0, 1), take(1, 1)}, []bool{false, false}, porcupine.Ok, porcupine.Ok},
		"one is late":          {[]runtime.Request{take(0, 1), take(1, 1)}, []bool{false, true}, porcupine.Illegal, porcupine.Ok},
		"never denied":         {[]runtime.Request{take(0, 1), take(2, 1)}, []bool{false, false}, porcupine.Illegal, porcupine.Illegal},
		"allowed, but late":    {[]runtime.Request{take(0, 1), take(2, 1)}, []bool{true, true}, porcupine.Illegal, porcupine.Illegal},
		"a single one is late": {[]runtime.Request{take(0, 1)}, []bool{true}, porcupine.Illegal, porcupine.Illegal},
	} {
		t.Run(name, func(t *testing.T) {
			h := &groupHistory{limits: limits, key: "k", begun: time.Now()}
			store := &memstore.Store{Clock: func() time.Time { return now }}
			for i := range 2 {
				h.do(t.Context(), store, 0, []runtime.Request{take(i, 6)})
			}
			h.do(t.Context(), store, 0, row.last)
			require.Empty(t, h.errors)
			last := h.operations[2].Output.([]runtime.Decision)
			for i, allowed := range row.allowed {
				last[i].Allowed, last[i].RetryAfter = allowed, 0
				if !allowed {
					last[i].RetryAfter = time.Second
				}
			}
			for _, cluster := range []bool{false, true} {
				h.cluster = cluster
				want := row.single
				if cluster {
					want = row.cluster
				}
				assert.Equal(t, want, porcupine.CheckOperationsTimeout(h.model(now.UnixNano()), h.operations, time.Minute), "cluster: %v", cluster)
			}
		})
	}
}
