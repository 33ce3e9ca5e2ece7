package sim

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// exceptionsText has a limit with plans, one without, and a group of both.
const exceptionsText = `version: 1
plans: [free, pro, max]
limits:
  calls:
    key: {org: int64}
    kind: token bucket
    rate: {free: 10, pro: 60, max: unlimited}
    period: 1m
    exceptions:
      - {org: 1, plan: max, reason: a}
      - {org: 2, rate: 30, reason: b}
      - {org: 3, rate: 5, capacity: 8, reason: c}
      - {org: 4, mode: block, reason: d}
      - {org: 5, mode: shadow, reason: e}
      - {org: 6, mode: off, reason: f}
      - {org: 7, rate: unlimited, reason: g}
  tokens: {key: {org: int64}, kind: token bucket, rate: 40, period: 1m, exceptions: [{org: 2, rate: 400, reason: b}, {org: 3, rate: 4, reason: c}]}
groups:
  complete: {takes: {calls: {org: org}, tokens: {org: org, n: count}}}
`

// A key has its exception in replays as in the generated code, by itself and in groups.
func TestReplayOfExceptionsAgreesWithAStore(t *testing.T) {
	file, ds := fields.Parse("limits.yaml", []byte(exceptionsText))
	require.Empty(t, ds)
	now := time.Unix(1e9, 0)
	store := &memstore.Store{Clock: func() time.Time { return now }}
	calls, tokens := file.Limits[0], file.Limits[1]
	plans := make(runtime.PlanPolicies, 1)
	for _, plan := range calls.Plans {
		plans = append(plans, plan.Policy)
	}
	callsFor, tokensFor := plans.Except(calls.GivenExceptions()), tokens.Policy.Except(tokens.GivenExceptions())
	replay := NewReplay(file)
	r := rand.New(rand.NewPCG(2, 3))
	type outcome struct {
		org     int
		limit   string
		allowed bool
	}
	seen := map[outcome]int{}
	for range 20_000 {
		now = now.Add(time.Duration(r.Int64N(int64(100 * time.Millisecond))))
		org, plan, count := r.IntN(9), r.IntN(3), 1+r.Int64N(4)
		p, key := callsFor.For(plans.For(plan+1, runtime.KeyOf(runtime.Int(org))))
		call, token := runtime.Request{Policy: p, Key: key.String(), Count: count}, runtime.Request{Key: key.String(), Count: count}
		token.Policy, _ = tokensFor.For(&tokens.Policy, key)
		limit := []string{"calls", "tokens", "complete"}[r.IntN(3)]
		requests := []runtime.Request{call}
		switch limit {
		case "tokens":
			requests[0] = token
		case "complete":
			requests[0].Count = 1
			requests = append(requests, token)
		}
		answers, err := store.Do(t.Context(), []runtime.Call{{Requests: requests}})
		require.NoError(t, err)
		require.NoError(t, answers[0].Err)
		want := answers[0].Decisions
		got, err := replay.Decide(&trace.Line{At: now.UnixNano(), Limit: limit, Key: []string{strconv.Itoa(org)}, Count: count, Plan: calls.Plans[plan].Plan})
		require.NoError(t, err)
		if limit == "calls" {
			got.Limit, want[0].Limit, got.Policy, want[0].Policy = "", "", nil, nil
			require.Equal(t, want[0], got.Decision, "%d by %s", org, calls.Plans[plan].Plan)
		}
		allowed := true
		for _, d := range want {
			allowed = allowed && d.Allowed
		}
		require.Equal(t, allowed, got.Allowed, "%s of %d by %s", limit, org, calls.Plans[plan].Plan)
		seen[outcome{org, limit, allowed}]++
	}
	for _, org := range []int{1, 5, 6} {
		assert.Zero(t, seen[outcome{org, "calls", false}], "%d is never denied", org)
		assert.Positive(t, seen[outcome{org, "calls", true}])
	}
	for _, org := range []int{0, 2, 3, 7, 8} {
		assert.Positive(t, seen[outcome{org, "complete", true}], org)
		assert.Positive(t, seen[outcome{org, "complete", false}], org)
	}
	assert.Zero(t, seen[outcome{4, "calls", true}], "it is blocked")
}
