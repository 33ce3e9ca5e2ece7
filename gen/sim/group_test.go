package sim

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// completion returns two limits of different keys, one to check, and a group of all three.
func completion() *spec.File { return completionOf(limitOf(perMinute("requests", 3), "string")) }

// completionOf is completion with another limit for requests.
func completionOf(requests *spec.Limit) *spec.File {
	p := perMinute("tokens", 1000)
	p.MaxReserved = 1000
	tokens, suspended := limitOf(p, "int64", "string"), limitOf(perMinute("suspended", 1), "string")
	file := fileOf(requests, tokens, suspended)
	file.Groups = []*spec.Group{{Name: "complete", Takes: []spec.Member{
		{Limit: requests, Args: []string{"team"}, Count: 1}, {Limit: tokens, Args: []string{"user", "team"}, CountArg: "n"},
	}, Checks: []spec.Member{{Limit: suspended, Args: []string{"team"}, Count: 1}}}}
	return file
}

func perMinute(name string, n int64) runtime.Policy {
	return runtime.Policy{Name: name, Kind: runtime.TokenBucket, Rate: n, Period: time.Minute, Capacity: n}
}

func TestLinesOfGroupsTakeFromAllOrNone(t *testing.T) {
	type step struct {
		line      string
		allowed   bool
		remaining int64
		retry     time.Duration
	}
	r := NewReplay(completion())
	steps := []step{
		{`"limit": "complete", "key": ["acme", 7], "count": 600`, true, 1, 0},
		{`"limit": "complete", "key": ["acme", 7], "count": 600`, false, 1, 12 * time.Second},
		{`"limit": "requests", "key": "acme", "count": 2`, true, 0, 0},
		{`"limit": "tokens", "key": [7, "acme"], "count": 400`, true, 0, 0},
		{`"limit": "requests", "key": "acme"`, false, 0, 20 * time.Second},
		{`"limit": "complete", "key": ["umbrella", 7], "count": 1500, "reserve": true`, true, 0, 0},
		{`"limit": "suspended", "key": "umbrella"`, true, 0, 0},
		{`"limit": "complete", "key": ["umbrella", 8], "count": 1`, false, 0, time.Minute},
		{`"limit": "tokens", "key": [8, "umbrella"], "count": 1000`, true, 0, 0},
	}
	var text strings.Builder
	for _, s := range steps {
		text.WriteString(`{"at": 1893596645000, ` + s.line + "}\n")
	}
	i := 0
	err := trace.NewReader(strings.NewReader(text.String())).Replay(func(l *trace.Line) error {
		a, err := r.Decide(l)
		s := steps[i]
		require.NoError(t, err, s.line)
		assert.Equal(t, s.allowed, a.Allowed, s.line)
		assert.Equal(t, s.remaining, a.Remaining, s.line)
		assert.Equal(t, s.retry, a.RetryAfter, s.line)
		i++
		return nil
	}, func(f *trace.Fault) error { return f })
	require.NoError(t, err)
	require.Equal(t, len(steps), i)
	assert.EqualValues(t, 4, r.byName["complete"].requests)
	assert.EqualValues(t, 2, r.byName["requests"].requests, "a line of the group is not one of its limits")
	assert.Equal(t, 1, r.byName["requests"].requestedKeys())
}

// The counts of members for one key add up, and a check is decided by the tokens before the line.
func TestMembersOfGroupsForOneKeyAreDecidedTogether(t *testing.T) {
	transfers := limitOf(perMinute("transfers", 3), "string")
	file := fileOf(transfers)
	file.Groups = []*spec.Group{{Name: "transfer", Takes: []spec.Member{
		{Limit: transfers, Args: []string{"from"}, Count: 1}, {Limit: transfers, Args: []string{"to"}, Count: 1},
	}, Checks: []spec.Member{{Limit: transfers, Args: []string{"to"}, Count: 2}}}}
	r := NewReplay(file)
	for i, s := range []struct {
		key       []string
		allowed   bool
		remaining int64
	}{
		{[]string{"ann", "ann"}, true, 1},
		{[]string{"ann", "bob"}, true, 0},
		{[]string{"bob", "bob"}, true, 0},
		{[]string{"bob", "cid"}, false, 0},
		{[]string{"cid", "dan"}, true, 2},
		{[]string{"dan", "cid"}, true, 1},
		{[]string{"dan", "cid"}, false, 1},
	} {
		a, err := r.Decide(&trace.Line{Limit: "transfer", Key: s.key, Count: 1})
		require.NoError(t, err)
		assert.Equal(t, s.allowed, a.Allowed, "line %d", i)
		assert.Equal(t, s.remaining, a.Remaining, "line %d", i)
	}
}

func TestFaultsOfGroupLinesTakeNothing(t *testing.T) {
	for _, line := range []string{
		`"key": ["acme", 7], "count": 1001`,
		`"key": ["acme", "x"]`,
		`"key": "acme"`,
		`"key": ["acme", 7], "count": -1`,
	} {
		r := NewReplay(completion())
		in := `{"at": 1893596645000, "limit": "complete", ` + line + "}\n" +
			`{"at": 1893596645000, "limit": "requests", "key": "acme", "count": 3}`
		faults, allowed := 0, 0
		require.NoError(t, trace.NewReader(strings.NewReader(in)).Replay(func(l *trace.Line) error {
			a, err := r.Decide(l)
			if a.Allowed {
				allowed++
			}
			return err
		}, func(f *trace.Fault) error { faults++; return nil }), line)
		assert.Equal(t, [2]int{1, 1}, [2]int{faults, allowed}, line)
	}
	fixed := completion()
	fixed.Groups = []*spec.Group{{Name: "pair", Takes: []spec.Member{{Limit: fixed.Limits[0], Args: []string{"team"}, Count: 2}}}}
	r := NewReplay(fixed)
	_, err := r.Decide(&trace.Line{Limit: "pair", Key: []string{"acme"}, Count: 2})
	fault := new(trace.Fault)
	require.True(t, errors.As(err, &fault))
	assert.Contains(t, fault.Reason, "pair has no count")
}

// All limits of a group are decided by the plan of the line, and those that are unlimited for it pass.
func TestLinesOfGroupsHaveOnePlan(t *testing.T) {
	calls := limitWithPlans()
	r := NewReplay(completionOf(calls))
	line := func(plan string, count int64) *trace.Line {
		return &trace.Line{At: 1e18, Limit: "complete", Key: []string{"acme", "7"}, Count: count, Plan: plan}
	}
	for _, step := range []struct {
		plan      string
		count     int64
		allowed   bool
		remaining int64 // of the limit with plans, for the plan free
	}{
		{"free", 100, true, 9},
		{"max", 100, true, 9},
		{"pro", 700, true, 8},
		{"max", 200, false, 8},
	} {
		a, err := r.Decide(line(step.plan, step.count))
		require.NoError(t, err)
		assert.Equal(t, step.allowed, a.Allowed, "%+v", step)
		k := r.byName["calls"].keys[runtime.KeyOf(runtime.String("acme")).String()]
		k.use(&calls.Plans[0].Policy)
		_, d, err := k.rule.Step(k.state, 1e18, runtime.Request{Op: runtime.Peek})
		require.NoError(t, err)
		assert.Equal(t, step.remaining, d.Remaining, "%+v", step)
	}
	for plan, want := range map[string]string{
		"":     "the line has no field plan, on which complete depends; add it, or name the plan of all such lines with -plan",
		"gold": `unknown plan "gold"; the plans are free, pro and max`,
	} {
		_, err := r.Decide(line(plan, 1))
		assert.EqualError(t, err, "0: "+want)
	}
	assert.EqualValues(t, 2, r.byName["complete"].plans[2].requests)
}

// A member whose own tokens run out starts its penalty although the group takes nothing, as the runtime does.
func TestDeniedGroupLinesStartPenaltiesOfMembers(t *testing.T) {
	p := perMinute("codes", 1)
	p.Penalty.Steps[0] = time.Hour
	codes := limitOf(p, "string")
	file := fileOf(codes)
	file.Groups = []*spec.Group{{Name: "login", Takes: []spec.Member{{Limit: codes, Args: []string{"user"}, Count: 1}}}}
	r := NewReplay(file)
	for _, step := range []struct {
		after   time.Duration
		allowed bool
		retry   time.Duration
	}{{0, true, 0}, {time.Second, false, time.Hour}, {2 * time.Minute, false, time.Hour - 2*time.Minute + time.Second}, {2 * time.Hour, true, 0}} {
		a, err := r.Decide(&trace.Line{Limit: "login", At: 1e18 + int64(step.after), Key: []string{"ann"}, Count: 1})
		require.NoError(t, err)
		assert.Equal(t, step.allowed, a.Allowed, step.after)
		assert.Equal(t, step.retry, a.RetryAfter, step.after)
	}
}
