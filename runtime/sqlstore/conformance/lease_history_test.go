package conformance

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// keptHistory is a history of hosts with blocks of tokens, cached denials, or both.
type keptHistory struct {
	history
	// closing is when the hosts are closed, after which all unspent tokens are refunded.
	closing porcupine.Operation
}

// keeping returns the limits of such histories.
func keeping() (all []*runtime.Policy) {
	for i, p := range historic() {
		leased := *p
		leased.Lease = runtime.Lease{Tokens: 3, For: []time.Duration{time.Hour, time.Millisecond}[i%2]}
		remembered, both := *p, leased
		remembered.DenyCache, both.DenyCache = time.Hour, time.Hour
		all = append(all, &remembered)
		if !p.Start.FirstUse() {
			all = append(all, &leased, &both)
		}
	}
	return all
}

// Clients call hosts with leases and deny caches while the clock stands still. Their results must be possible for a
// [machine]; see [keptHistory.observed].
func TestHistoriesOfHostsFitTheModel(t *testing.T) {
	onHosts(t, func(t *testing.T, at []address) { checkKept(t, at, nil) })
}

// The same while connections are cut and calls time out. Hosts may then lose blocks, so that less is granted, never
// more.
func TestHistoriesOfHostsWithFaultsFitTheModel(t *testing.T) {
	onHosts(t, func(t *testing.T, at []address) {
		if at[0].Driver == onFile {
			checkKept(t, at, &faults{hurried: 10, patience: 100 * time.Microsecond})
			return
		}
		checkKept(t, at, &faults{odds: 80, hurried: 10, patience: 3 * time.Millisecond})
	})
}

// checkKept records and checks histories on a database. On a cluster, limits with both shards and reservations are not
// linearizable: see [withoutShardedDebt].
func checkKept(t *testing.T, at []address, f *faults) {
	t.Helper()
	rounds := 3
	if *long {
		rounds = 30
	}
	clock := storetest.NewClock()
	limits := keeping()
	if len(at) > 1 {
		limits = withoutShardedDebt(limits)
	}
	calls, lost := 0, 0
	for round := range rounds {
		all := recordKept(t, at, limits, sqlstore.Options{Clock: clock.Now, Batch: []int{0, 1, 3}[round%3]}, f, round)
		for _, h := range all {
			calls, lost = calls+len(h.operations), lost+h.lost
			h.check(t, clock.Now().UnixNano(), f != nil)
		}
	}
	t.Logf("%d histories, %d calls: %d lost", rounds*len(limits), calls, lost)
	if f == nil {
		assert.Zero(t, lost)
	} else {
		assert.NotZero(t, lost, "there were no faults")
		assert.Less(t, lost, calls/2, "there were only faults")
	}
}

// recordKept records a history of each limit. Then it closes the hosts, and adds a Peek.
func recordKept(t *testing.T, at []address, limits []*runtime.Policy, o sqlstore.Options, f *faults, round int) (all []*keptHistory) {
	t.Helper()
	opened := hosts(t, cut(t, at, f), leaseHosts, o)
	for i, p := range limits {
		number := round*len(limits) + i
		h := &keptHistory{history: history{policy: p, key: live.KeyOf(number).String(), begun: time.Now()}}
		h.record(opened, f, uint64(number))
		all = append(all, h)
	}
	h := live.Must(at[0].open(o))(t)
	closing := closeHosts(t, opened, f == nil)
	for _, kept := range all {
		kept.closing = closing.since(kept.begun)
		kept.do(context.Background(), h, clients, runtime.Request{Op: runtime.Peek})
	}
	require.NoError(t, h.Close())
	return all
}

// interval is when the hosts were closed.
type interval struct {
	begun, done time.Time
	failed      bool
}

// closeHosts closes hosts, and returns when.
func closeHosts(t *testing.T, all []host, healthy bool) interval {
	t.Helper()
	when := interval{begun: time.Now()}
	for _, h := range all {
		err := h.Close()
		when.failed = when.failed || err != nil
	}
	if healthy {
		require.False(t, when.failed)
	}
	when.done = time.Now()
	return when
}

// since returns the closing as an operation of a history.
func (i interval) since(begun time.Time) porcupine.Operation {
	o := porcupine.Operation{ClientId: clients + 1, Input: hostRequest{close: true}, Output: reply{}, Call: i.begun.Sub(begun).Nanoseconds(), Return: i.done.Sub(begun).Nanoseconds()}
	if i.failed {
		o.Return = never
	}
	return o
}

// cut returns addresses of proxies that cut connections, or the addresses themselves without faults.
func cut(t *testing.T, at []address, f *faults) []address {
	if f == nil || f.odds == 0 {
		return at
	}
	all := make([]address, len(at))
	for i, a := range at {
		s, _ := through(t, live.Server{Driver: a.Driver, DSN: a.DSN}, f.odds)
		all[i] = a
		all[i].DSN = s.DSN
	}
	return all
}

// keptCalls is how many calls each client makes. They are few, because an old denial can be in many places of an order,
// which makes the search long.
const keptCalls = 5

// record makes the calls of all clients, each by one of the hosts.
func (h *keptHistory) record(hosts []host, f *faults, seed uint64) {
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(client)))
			for range keptCalls {
				ctx, cancel := f.timeout(random)
				h.do(ctx, hosts[client%leaseHosts], client, randomRequest(h.policy, random))
				cancel()
			}
		})
	}
	all.Wait()
}

// observed returns the operations for the model. A cached denial may have been decided at any time since the host last saw
// a refund or a reset, because the clock stands still. So the calls of denials are moved back to that time.
func (h *keptHistory) observed() []porcupine.Operation {
	all := []porcupine.Operation{h.closing}
	for _, o := range h.operations {
		host := o.ClientId % leaseHosts
		if h.remembered(o) {
			o.Call = h.givenBefore(host, o.Call)
		}
		o.Input = hostRequest{Request: o.Input.(runtime.Request), host: host}
		all = append(all, o)
	}
	return all
}

// remembered reports whether a call may have been denied by the cache.
func (h *keptHistory) remembered(o porcupine.Operation) bool {
	got := o.Output.(reply)
	return h.policy.DenyCache > 0 && !got.lost && !got.decision.Allowed && !o.Input.(runtime.Request).Reserve
}

// givenBefore returns when the host last saw a refund or a reset before a call.
func (h *keptHistory) givenBefore(host int, call int64) (at int64) {
	for _, o := range h.operations {
		op := o.Input.(runtime.Request).Op
		if (op == runtime.Refund || op == runtime.Reset) && o.ClientId%leaseHosts == host && o.Return <= call {
			at = max(at, o.Return)
		}
	}
	return at
}

// check requires that the results are possible for the model.
func (h *keptHistory) check(t *testing.T, now int64, lossy bool) {
	t.Helper()
	m := leasedModel(h.policy, h.key, now, lossy)
	if got := porcupine.CheckOperationsTimeout(m, h.observed(), time.Minute); got != porcupine.Ok {
		assert.Fail(t, "no order explains this history", "%s: %+v, key %s\n%s", got, *h.policy, h.key, &h.history)
	}
}
