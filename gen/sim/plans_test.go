package sim

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// limitWithPlans returns a limit whose plan max is unlimited.
func limitWithPlans() *spec.Limit {
	l := limitOf(callsPerMinute(10), "string")
	l.Plans = []*spec.Limit{planOf("free", callsPerMinute(10)), planOf("pro", callsPerMinute(60)),
		planOf("max", runtime.Policy{Name: "calls", Kind: runtime.TokenBucket, Mode: runtime.ModeUnlimited})}
	return l
}

func callsPerMinute(rate int64) runtime.Policy {
	return runtime.Policy{Name: "calls", Kind: runtime.TokenBucket, Rate: rate, Period: time.Minute, Capacity: rate, MaxReserved: rate}
}

// planOf returns a limit as it is for a plan.
func planOf(plan string, p runtime.Policy) *spec.Limit {
	l := limitOf(p, "string")
	l.Plan = plan
	return l
}

// A key has one count whatever its plan, as in a store.
func TestReplayOfPlansAgreesWithAStore(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	limit := limitWithPlans()
	now := time.Unix(1e9, 0)
	store := &memstore.Store{Clock: func() time.Time { return now }}
	replay := NewReplay(fileOf(limit))
	allowed := 0
	for range 3000 {
		now = now.Add(time.Duration(random.Int64N(int64(3 * time.Second))))
		plan := limit.Plans[random.IntN(3)]
		q := runtime.Request{Policy: &plan.Policy, Key: "ann", Count: 1 + random.Int64N(12), Reserve: random.IntN(2) == 0}
		answers, err := store.Do(t.Context(), []runtime.Call{{Requests: []runtime.Request{q}}})
		require.NoError(t, err)
		got, err := replay.Decide(&trace.Line{At: now.UnixNano(), Limit: "calls", Key: []string{"ann"}, Count: q.Count, Reserve: q.Reserve, Plan: plan.Plan})
		if want := answers[0]; want.Err != nil {
			require.Error(t, err)
		} else {
			require.NoError(t, err)
			want.Decisions[0].Limit, got.Limit = "", ""
			want.Decisions[0].Policy, got.Policy = nil, nil
			require.Equal(t, want.Decisions[0], got.Decision, "%s: %+v", plan.Plan, q)
		}
		if got.Allowed {
			allowed++
		}
	}
	assert.Greater(t, allowed, 500)
	assert.Less(t, allowed, 2500)
}

func TestFaultsOfPlans(t *testing.T) {
	limits := fileOf(limitWithPlans(), limitOf(runtime.Policy{Name: "plain", Kind: runtime.TokenBucket, Rate: 1, Period: time.Minute, Capacity: 1}))
	for line, want := range map[string]string{
		`{"at":0,"limit":"calls","key":"a"}`:                 "1: the line has no field plan, on which calls depends; add it, or name the plan of all such lines with -plan",
		`{"at":0,"limit":"calls","key":"a","plan":""}`:       "1: the line has no field plan, on which calls depends; add it, or name the plan of all such lines with -plan",
		`{"at":0,"limit":"calls","key":"a","plan":"gold"}`:   `1: unknown plan "gold"; the plans are free, pro and max`,
		`{"at":0,"limit":"calls","key":"a","plan":["free"]}`: "1: plan must be a string; the plans of calls are free, pro and max",
		`{"at":0,"limit":"calls","key":"a","plan":7}`:        "1: plan must be a string; the plans of calls are free, pro and max",
		`{"at":0,"limit":"calls","key":"a","plan":"free"}`:   "",
		`{"at":0,"limit":"plain","plan":["x",{"y":"z"}]}`:    "", // a log may say anything about other limits
		`{"at":0,"limit":"plain","plan":"gold"}`:             "",
	} {
		_, faults := replayText(t, limits, traceOf(line))
		if want == "" {
			assert.Empty(t, faults, line)
			continue
		}
		require.Len(t, faults, 1, line)
		assert.Equal(t, want, faults[0], line)
	}
	trace := traceOf(`{"at":0,"limit":"calls","key":"a"}`, `{"at":0,"limit":"calls","key":"b","count":11,"plan":"pro"}`)
	trace.DefaultPlan = "free"
	text, faults := replayText(t, limits, trace)
	assert.Empty(t, faults)
	assert.Equal(t, 2, strings.Count(text, `"allowed":true`), text)
}

func TestReportHasARowForEachPlan(t *testing.T) {
	lines := []string{
		`{"at":0,"limit":"calls","key":"ann","count":10,"plan":"free"}`,
		`{"at":0,"limit":"calls","key":"ann","plan":"free"}`,
		`{"at":0,"limit":"calls","key":"bob","plan":"max","count":1000}`,
		`{"at":0,"limit":"calls","key":"ann","plan":"max"}`,
	}
	assert.Contains(t, reportOf(t, fileOf(limitWithPlans()), false, lines...),
		"limit   requests  allowed  denied         delayed  keys  max wait\n"+
			"calls          4        3       1  25.0%        0     2        6s\n"+
			"  free         2        1       1  50.0%        0     1        6s\n"+
			"  max          2        2       0     0%        0     2        0s\n")
}

func TestComparisonOfPlans(t *testing.T) {
	old, new := limitWithPlans(), limitWithPlans()
	new.Plans[1].Plan = "team"
	plain := limitOf(callsPerMinute(10), "string")
	compare := func(old, new *spec.Limit, lines ...string) (string, []string) {
		c := NewComparison(fileOf(old), fileOf(new))
		var faults []string
		require.NoError(t, traceOf(lines...).Replay(c.Decide, func(f *trace.Fault) error { faults = append(faults, f.Error()); return nil }))
		var out strings.Builder
		require.NoError(t, c.WriteText(&out, false, 0))
		return strings.Join(strings.Fields(out.String()), " "), faults
	}
	out, faults := compare(old, new,
		`{"at":0,"limit":"calls","key":"ann","plan":"pro"}`,
		`{"at":0,"limit":"calls","key":"bob","plan":"team"}`,
		`{"at":0,"limit":"calls","key":"bob","plan":"gold"}`,
		`{"at":0,"limit":"calls","key":"bob"}`)
	assert.Len(t, faults, 2)
	assert.Contains(t, out, "1 of 2 requests (1 key) would change from allowed to an error (no such plan)")
	assert.Contains(t, out, "1 of 2 requests (1 key) would change from an error (no such plan) to allowed")

	// A limit gets plans: lines that name one are replayed on both sides.
	out, faults = compare(plain, new,
		`{"at":0,"limit":"calls","key":"ann","count":11,"plan":"team"}`,
		`{"at":0,"limit":"calls","key":"ann"}`)
	require.Len(t, faults, 1)
	assert.Contains(t, faults[0], "the line has no field plan")
	assert.Contains(t, out, "would change from impossible (count exceeds capacity) to allowed")
}

func TestTrafficOfPlans(t *testing.T) {
	replay := NewReplay(fileOf(limitWithPlans()))
	traffic, err := NewTraffic("burst 2 plan pro; burst 1 at 1s plan max taking 7; burst 1 at 2s", replay, "calls", "free", 1)
	require.NoError(t, err)
	assert.Equal(t, `{"at":"2030-01-01T00:00:00Z","limit":"calls","key":"1","plan":"pro"}
{"at":"2030-01-01T00:00:00Z","limit":"calls","key":"1","plan":"pro"}
{"at":"2030-01-01T00:00:01Z","limit":"calls","key":"1","count":7,"plan":"max"}
{"at":"2030-01-01T00:00:02Z","limit":"calls","key":"1","plan":"free"}
`, textOf(t, traffic))
	_, err = NewTraffic("burst 2 plan gold", replay, "calls", "", 1)
	assert.EqualError(t, err, "expected one of the plans free, pro and max\n  burst 2 plan gold\n               ^")
	plain := NewReplay(fileOf(limitOf(callsPerMinute(10))))
	_, err = NewTraffic("burst 2 plan free", plain, "calls", "", 1)
	assert.EqualError(t, err, "the limit is the same for all plans; remove plan\n  burst 2 plan free\n               ^")
}
