package conformance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// history is the concurrent calls for one key of a limit, with their times and results.
type history struct {
	policy *runtime.Policy
	key    string
	begun  time.Time

	mu         sync.Mutex
	operations []porcupine.Operation
	lost       int
}

// A history has this number of clients, and each of them makes callsEach calls.
const (
	clients   = 4
	callsEach = 8
)

// historic returns the limits of histories: small ones, so that denials are frequent.
func historic() []*runtime.Policy {
	all := []*runtime.Policy{
		{Name: "bucket", Kind: runtime.TokenBucket, MaxReserved: 4},
		{Name: "window", Kind: runtime.FixedWindow, MaxReserved: 4, Start: runtime.StartOffset(0)},
		{Name: "sliding", Kind: runtime.SlidingWindow},
		{Name: "first use", Kind: runtime.FixedWindow, Start: runtime.StartFirstUse()},
		{Name: "sharded", Kind: runtime.TokenBucket, MaxReserved: 4, Shards: 3},
	}
	for _, p := range all {
		p.Rate, p.Capacity, p.Period = 6, 6, time.Minute
	}
	return all
}

// withoutShardedDebt sets MaxReserved of sharded limits to 0. The nodes of a cluster compare the rows that were
// written, not those that were only read. A refund on one node and a reservation on another, which write different
// shards, can both commit, and leave a debt in one shard and tokens in another. No more than capacity and maxReserved
// is granted then, but a plain call may be allowed into debt.
func withoutShardedDebt(limits []*runtime.Policy) []*runtime.Policy {
	for _, p := range limits {
		if p.Shards > 1 {
			p.MaxReserved = 0
		}
	}
	return limits
}

// Clients call concurrently while the clock stands still. Their results must be those of sequential calls, in an order
// that the times of the calls permit.
func TestHistoriesAreLinearizable(t *testing.T) {
	onAll(t, func(t *testing.T, nodes []live.Server) {
		checkHistories(t, upToDate(nodes), nil)
	})
}

// The same while connections are cut and calls time out. A call with an error has happened once, or not at all.
func TestHistoriesWithFaultsAreLinearizable(t *testing.T) {
	onAll(t, func(t *testing.T, nodes []live.Server) {
		checkHistories(t, upToDate(nodes), &faults{odds: 80, hurried: 10, patience: 3 * time.Millisecond})
	})
}

// checkHistories records and checks histories on a database.
func checkHistories(t *testing.T, nodes []live.Server, f *faults) {
	t.Helper()
	count := 100
	if *long {
		count = 1000
	}
	clock := storetest.NewClock()
	table, healthy := live.Shared(t, nodes, clock.Now)
	stores, cuts := healthy, func() int64 { return 0 }
	if f != nil {
		stores, cuts = faulty(t, nodes, table, clock.Now, f.odds)
	}
	limits := append(historic(), slotsOfHistory())
	if len(nodes) > 1 {
		limits = withoutShardedDebt(limits)
	}
	calls, lost := 0, 0
	for i := range count {
		h := &history{policy: limits[i%len(limits)], key: live.KeyOf(i).String(), begun: time.Now()}
		h.record(stores, f, uint64(i))
		h.do(context.Background(), healthy[0], clients, runtime.Request{Op: runtime.Peek})
		calls, lost = calls+len(h.operations), lost+h.lost
		h.check(t, clock.Now().UnixNano())
	}
	t.Logf("%d histories, %d calls: %d lost, %d connections cut", count, calls, lost, cuts())
	if f == nil {
		assert.Zero(t, lost)
	} else {
		assert.NotZero(t, lost, "there were no faults")
		assert.Less(t, lost, calls/2, "there were only faults")
	}
}

// record makes the calls of all clients, each by one of the stores.
func (h *history) record(stores []runtime.Store, f *faults, seed uint64) {
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(client)))
			fences := []int64{0}
			for range callsEach {
				ctx, cancel := f.timeout(random)
				q := randomRequest(h.policy, random)
				if h.policy.Kind == runtime.InFlight {
					q = randomOfSlots(fences[max(0, len(fences)-1-random.IntN(2))], random)
				}
				if d := h.do(ctx, stores[client%len(stores)], client, q); d.Fence != 0 {
					fences = append(fences, d.Fence)
				}
				cancel()
			}
		})
	}
	all.Wait()
}

// randomRequest returns a random request.
func randomRequest(p *runtime.Policy, random *rand.Rand) runtime.Request {
	switch n := random.IntN(20); {
	case n < 10:
		return runtime.Request{Count: 1 + random.Int64N(3)}
	case n < 14:
		return runtime.Request{Count: 1 + random.Int64N(3), Reserve: p.Reserves()}
	case n < 17:
		return runtime.Request{Op: runtime.Refund, Count: 1 + random.Int64N(2)}
	case n < 19:
		return runtime.Request{Op: runtime.Peek}
	}
	return runtime.Request{Op: runtime.Reset}
}

// slotsOfHistory returns the limit in flight of histories.
func slotsOfHistory() *runtime.Policy {
	return &runtime.Policy{Name: "slots", Kind: runtime.InFlight, Slots: 6, Hold: time.Minute}
}

// randomOfSlots returns a random request of a holder.
func randomOfSlots(fence int64, random *rand.Rand) runtime.Request {
	switch n := random.IntN(20); {
	case n < 9:
		return runtime.Request{Count: 1 + random.Int64N(3), Fence: random.Int64N(runtime.MaxFenceStep + 1)}
	case n < 12:
		return runtime.Request{Op: runtime.Renew, Fence: fence}
	case n < 18:
		return runtime.Request{Op: runtime.Release, Fence: fence}
	case n < 19:
		return runtime.Request{Op: runtime.Peek}
	}
	return runtime.Request{Op: runtime.Reset}
}

// do makes a call and records it. It returns the decision, if there is one.
func (h *history) do(ctx context.Context, store runtime.Store, client int, q runtime.Request) (d runtime.Decision) {
	call := time.Since(h.begun).Nanoseconds()
	q.Policy, q.Key = h.policy, h.key
	answers, err := store.Do(ctx, []runtime.Call{{Requests: []runtime.Request{q}}})
	o := porcupine.Operation{ClientId: client, Input: q, Call: call, Return: time.Since(h.begun).Nanoseconds()}
	switch {
	case err != nil:
		o.Output, o.Return = reply{lost: true}, never
	case errors.Is(answers[0].Err, runtime.ErrSlotLost):
		o.Output = reply{slotLost: true}
	default:
		d = answers[0].Decisions[0]
		o.Output = reply{decision: d}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations = append(h.operations, o)
	if err != nil {
		h.lost++
	}
	return d
}

// check requires that such an order exists.
func (h *history) check(t *testing.T, now int64) {
	t.Helper()
	requireOrder(t, h.order(now), h)
}

// requireOrder requires that a search for an order of the calls of a history has found one.
func requireOrder(t *testing.T, found porcupine.CheckResult, h fmt.Stringer) {
	t.Helper()
	switch found {
	case porcupine.Illegal:
		assert.Fail(t, "no order explains this history", "%v", h)
	case porcupine.Unknown:
		assert.Fail(t, "the search for an order took too long", "%v", h)
	}
}

// String returns a line for each call.
func (h *history) String() string {
	lines := fmt.Sprintf("%s, key %s\n", h.policy.Name, h.key)
	for _, o := range h.operations {
		lines += fmt.Sprintf("client %d, from %d", o.ClientId, o.Call)
		if o.Return != never {
			lines += fmt.Sprintf(" to %d", o.Return)
		}
		q := o.Input.(runtime.Request)
		lines += fmt.Sprintf(": %v %d, reserve %v, fence %d -> %v\n", q.Op, q.Count, q.Reserve, q.Fence, o.Output)
	}
	return lines
}

// never is the return time of a call whose answer was lost. It may have happened at any later time, which includes not
// at all.
const never = math.MaxInt64

// reply is the result of a call.
type reply struct {
	decision runtime.Decision
	// lost: the call returned an error.
	lost bool
	// slotLost: the answer is that the slot was lost.
	slotLost bool
}

func (r reply) String() string {
	switch {
	case r.lost:
		return "lost"
	case r.slotLost:
		return "slot lost"
	}
	return fmt.Sprintf("%v, fence %d, value %v", r.decision, r.decision.Fence, r.decision.Value)
}

// shows reports whether it is the result of a request to which a caller would see the same answer.
func (r reply) shows(p *runtime.Policy, q runtime.Request, want runtime.Decision) bool {
	want.Limit = p.Name
	switch {
	case r.lost:
		return true
	case p.Shards > 1 && q.Op == runtime.Peek:
		return r.decision.Value == want.Value
	case p.Shards > 1:
		return r.decision.Allowed == want.Allowed
	}
	return storetest.Shown(r.decision) == storetest.Shown(want)
}

// The model accepts a store that works, and detects a lost or an additional token.
func TestModelDetectsLostTokens(t *testing.T) {
	clock := storetest.NewClock()
	for _, p := range append(historic(), slotsOfHistory()) {
		h := &history{policy: p, key: "k", begun: time.Now()}
		store := &memstore.Store{Clock: clock.Now}
		h.record([]runtime.Store{store}, nil, 1)
		h.do(t.Context(), store, clients, runtime.Request{Op: runtime.Peek})
		assert.Equal(t, porcupine.Ok, h.order(clock.Now().UnixNano()), p.Name)

		last := &h.operations[len(h.operations)-1]
		right := last.Output.(reply)
		for _, wrong := range []float64{-1, 1} {
			changed := right
			changed.decision.Value += wrong
			last.Output = changed
			assert.Equal(t, porcupine.Illegal, h.order(clock.Now().UnixNano()), "%s, %+v tokens", p.Name, wrong)
		}
	}
}
