package page

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// jsCase is a trace of one key for testdata/run.js. Instants are relative to base.
type jsCase struct {
	Rule  jsRule   `json:"rule"`
	Steps []jsStep `json:"steps"`
}

type jsStep struct {
	Now     int64  `json:"now"`
	Op      string `json:"op"`
	Count   int64  `json:"count"`
	Reserve bool   `json:"reserve,omitempty"`
	Leaves  int    `json:"leaves,omitempty"`
	// Fence is relative to base too.
	Fence *int64 `json:"fence,omitempty"`

	want runtime.Decision
	err  error
}

// jsDecision is a line that run.js prints.
type jsDecision struct {
	allowed                                  bool
	remaining                                int64
	retryAfter, delay, fullAfter, resetAfter float64
	value, penaltyFor, crossed               float64
	err                                      bool
}

// runJS returns the decisions of step.js.
func runJS(t *testing.T, cases []jsCase) (list []jsDecision) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("CI") != "" {
			require.NoError(t, err, "install node")
		}
		t.Skip("node is not installed")
	}
	path := filepath.Join(t.TempDir(), "cases.jsonl")
	file, err := os.Create(path)
	require.NoError(t, err)
	w := bufio.NewWriter(file)
	for i := range cases {
		require.NoError(t, json.NewEncoder(w).Encode(&cases[i]))
	}
	require.NoError(t, errors.Join(w.Flush(), file.Close()))
	var stderr bytes.Buffer
	command := exec.Command(node, "testdata/run.js", "step.js", path)
	command.Stderr = &stderr
	out, err := command.Output()
	require.NoError(t, err, stderr.String())
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		require.Len(t, f, 10, line)
		d := jsDecision{allowed: f[0] == "true", err: f[9] == "error"}
		if !d.err {
			d.remaining, err = strconv.ParseInt(f[1], 10, 64)
			require.NoError(t, err, line)
			for i, to := range []*float64{&d.retryAfter, &d.delay, &d.fullAfter, &d.resetAfter, &d.value, &d.penaltyFor, &d.crossed} {
				*to, err = strconv.ParseFloat(f[2+i], 64)
				require.NoError(t, err, line)
			}
		}
		list = append(list, d)
	}
	return list
}

// The requests that package runtime is compared with, by another implementation of the same formula.
func TestJavaScriptAgreesWithConvex(t *testing.T) {
	data, err := os.ReadFile("../../testdata/convex.jsonl")
	require.NoError(t, err)
	type step struct {
		Now, Count int64
		Reserve    bool
		OK         bool
		RetryAfter float64
		Value      float64
	}
	var cases []jsCase
	var steps []step
	for d := json.NewDecoder(bytes.NewReader(data)); ; {
		var v struct {
			Config struct {
				Kind                  string
				Rate, Period          int64
				Capacity, MaxReserved *int64
				Start                 int64
			}
			Steps []step
		}
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		const ms = int64(time.Millisecond)
		p := runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: v.Config.Rate, Period: time.Duration(v.Config.Period * ms),
			Capacity: v.Config.Rate, MaxReserved: runtime.Unbounded}
		if v.Config.Kind == runtime.FixedWindow.String() {
			p.Kind, p.Start = runtime.FixedWindow, runtime.StartOffset(time.Duration(v.Config.Start*ms))
		}
		if v.Config.Capacity != nil {
			p.Capacity = *v.Config.Capacity
		}
		if v.Config.MaxReserved != nil {
			p.MaxReserved = *v.Config.MaxReserved
		}
		rule := meter.RuleOf(&p, "")
		base := v.Steps[0].Now * ms
		c := jsCase{Rule: ruleFor(&p, &rule, base, 1)}
		for _, s := range v.Steps {
			c.Steps = append(c.Steps, jsStep{Now: s.Now*ms - base, Op: "take", Count: s.Count, Reserve: s.Reserve})
		}
		cases, steps = append(cases, c), append(steps, v.Steps...)
	}
	require.Len(t, steps, 4800)
	got := runJS(t, cases)
	require.Len(t, got, len(steps))
	for i, s := range steps {
		require.Equal(t, s.OK, got[i].allowed, "step %d: %+v", i, s)
		wait := got[i].retryAfter
		if s.Reserve {
			wait = got[i].delay
		}
		require.InDelta(t, s.RetryAfter*1e6, wait, float64(time.Millisecond), "step %d: %+v", i, s)
		if s.OK {
			require.GreaterOrEqual(t, s.Value+1e-6, got[i].value-1, "step %d: %+v", i, s)
		}
	}
}

// jsOps are the operations of step.js.
var jsOps = map[string]runtime.Op{"take": runtime.Take, "check": runtime.Check, "peek": runtime.Peek, "refund": runtime.Refund,
	"charge": runtime.Charge, "reset": runtime.Reset, "takeUpTo": runtime.TakeUpTo, "renew": runtime.Renew, "release": runtime.Release}

// Random requests on random policies of every kind get the decisions of package runtime.
func TestJavaScriptAgreesWithRuntime(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	steps := 100_000
	var cases []jsCase
	kinds := map[string]int{}
	denied, delayed, penalized, crossed, leave, errs := 0, 0, 0, 0, 0, 0
	for n := 0; n < steps; {
		p := randomPolicy(r)
		require.NoError(t, p.Validate(), "%+v", p)
		c := randomCase(t, r, &p)
		if n += len(c.Steps); len(c.Steps) == 0 {
			continue
		}
		cases = append(cases, c)
		for _, s := range c.Steps {
			kinds[kindName(&p)]++
			if s.want.Crossed > 0 {
				crossed++
			}
			if s.Leaves > 0 {
				leave++
			}
			switch {
			case s.err != nil:
				errs++
			case s.want.PenaltyFor > 0:
				penalized++
			case !s.want.Allowed:
				denied++
			case s.want.UsableAfter > 0:
				delayed++
			}
		}
	}
	got := runJS(t, cases)
	i := 0
	for _, c := range cases {
		for _, s := range c.Steps {
			at := func(t *testing.T, field string) []any {
				return []any{"%s of step %d, %+v, of %+v", field, i, s, c.Rule}
			}
			require.Equal(t, s.err != nil, got[i].err, at(t, "error")...)
			if s.err == nil {
				require.Equal(t, s.want.Allowed, got[i].allowed, at(t, "allowed")...)
				require.Equal(t, s.want.Remaining, got[i].remaining, at(t, "remaining")...)
				require.InDelta(t, float64(s.want.RetryAfter), got[i].retryAfter, 1e6, at(t, "retryAfter")...)
				require.InDelta(t, float64(s.want.UsableAfter), got[i].delay, 1e6, at(t, "delay")...)
				require.InDelta(t, float64(s.want.FullAfter), got[i].fullAfter, 1e6, at(t, "fullAfter")...)
				require.InDelta(t, float64(s.want.ResetAfter), got[i].resetAfter, 1e6, at(t, "resetAfter")...)
				require.Equal(t, s.want.Value, got[i].value, at(t, "value")...)
				require.Equal(t, float64(s.want.PenaltyFor), got[i].penaltyFor, at(t, "penaltyFor")...)
				require.Equal(t, float64(s.want.Crossed), got[i].crossed, at(t, "crossed")...)
			}
			i++
		}
	}
	require.Len(t, got, i)
	t.Logf("%d steps agree: %v; %d denied, %d during penalties, %d delayed, %d crossed a threshold, %d of classes, %d errors", i, kinds, denied, penalized,
		delayed, crossed, leave, errs)
	require.Greater(t, denied, steps/10)
	require.Greater(t, penalized, steps/20)
	require.Greater(t, delayed, steps/50)
	require.Greater(t, crossed, steps/50)
	require.Greater(t, leave, steps/10)
	require.Greater(t, errs, steps/200)
	require.Len(t, kinds, len(runtime.Kinds())+2, "each kind, precise windows and calendars")
	for kind, n := range kinds {
		require.Greater(t, n, steps/20, kind)
	}
}

func kindName(p *runtime.Policy) string {
	switch {
	case p.Precise:
		return "precise"
	case p.Calendar.Unit != 0:
		return "calendar"
	}
	return p.Kind.String()
}

func choose[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }

func randomPolicy(r *rand.Rand) runtime.Policy {
	p := randomKind(r)
	if p.Full() > 0 && r.IntN(2) == 0 {
		p.Warn = runtime.Thresholds{10, 50, 80, 100}
	}
	if r.IntN(3) == 0 {
		period := asTokens(&p).Period
		lasts := func() time.Duration { return choose(r, period/3+1, period, 2*period) }
		if p.Penalty, p.MaxReserved = runtime.PenaltyOf(choose(r, 0, period), lasts(), lasts(), lasts()), 0; p.Capacity == 0 {
			p.Capacity = p.Rate
		}
	}
	return p
}

func randomKind(r *rand.Rand) runtime.Policy {
	rate := choose[int64](r, 1, 2, 3, 5, 7, 10, 97, 100, 1000, 40_000)
	p := runtime.Policy{Name: "limit", Kind: choose(r, runtime.Kinds()...), Rate: rate, Capacity: rate,
		Period: choose(r, time.Microsecond, time.Millisecond, time.Second, 2500*time.Millisecond, time.Minute, 90*time.Second, time.Hour,
			24*time.Hour, 1+time.Duration(r.Int64N(int64(time.Hour))))}
	switch {
	case p.Kind == runtime.SlidingWindow && r.IntN(2) == 0:
		p.Precise = true
		return p
	case p.Kind.Windowed():
		p.Start = choose(r, runtime.Start{}, runtime.StartOffset(0), runtime.StartOffset(90*time.Minute))
	}
	if p.Kind == runtime.InFlight {
		p.Slots, p.Hold = choose[int64](r, 1, 2, 3, 5, 10, runtime.MaxSlots), p.Period
		p.Rate, p.Capacity, p.Period = 0, 0, 0
	}
	if p.Kind.Linear() {
		p.Capacity = choose(r, 0, (rate+1)/2, rate, rate, 2*rate, 3*rate)
		p.MaxReserved = choose(r, 0, 1, rate, 2*rate+1, runtime.Unbounded)
		if p.Capacity == 0 {
			p.MaxReserved = max(1, p.MaxReserved)
		}
	}
	if p.Kind == runtime.FixedWindow {
		switch r.IntN(5) {
		case 0:
			p.Start = runtime.StartFirstUse()
		case 1, 2:
			p.Start = runtime.Start{}
			p.Calendar = runtime.Calendar{Unit: choose(r, runtime.Day, runtime.Week, runtime.Month), Zone: choose(r, "UTC", "Europe/Berlin", "America/New_York")}
			p.Period = p.Calendar.Period()
		}
	}
	return p
}

// randomCase returns a trace of some requests, with the decisions of package runtime. It ends before the instants are
// no longer exact in JavaScript.
func randomCase(t *testing.T, r *rand.Rand, p *runtime.Policy) jsCase {
	base := time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC).UnixNano() + r.Int64N(int64(24*time.Hour))
	rule := meter.RuleOf(p, "key")
	c := jsCase{Rule: ruleFor(p, &rule, base, 100)}
	classes := map[int]*meter.Rule{0: &rule}
	for _, leaves := range []int{10, 50, 99} {
		of := *p
		if of.Priority = (runtime.Priority{Name: "class", Leaves: leaves}); of.Validate() == nil {
			r := meter.RuleOf(&of, "key")
			classes[leaves] = &r
		}
	}
	state, now := runtime.State{}, int64(0)
	retry := int64(0)
	var fences []int64
	rate, period := asTokens(p).Rate, int64(asTokens(p).Period)
	for range 60 {
		jump := choose(r, 0, 0, 1, period/rate, r.Int64N(period/4+1), r.Int64N(period+1), period, r.Int64N(5*period))
		switch {
		case retry > 0 && r.IntN(2) == 0:
			jump = choose(r, retry, retry, retry-1, retry+1)
		case r.IntN(10) == 0:
			jump = -jump
		}
		if now+jump < 0 || now+jump > 1<<52 {
			continue
		}
		now += jump
		s := jsStep{}
		if p.Kind == runtime.InFlight {
			s = randomSlotStep(r, p, fences)
		} else {
			s = randomStep(r, p)
		}
		s.Now = now
		q := runtime.Request{Op: jsOps[s.Op], Count: s.Count, Reserve: s.Reserve}
		if s.Fence != nil {
			q.Fence = base + *s.Fence
			if s.Op == "refund" {
				q.TakenAt = base
			}
		}
		if s.Leaves = choose(r, 0, 0, 10, 50, 99); classes[s.Leaves] == nil {
			s.Leaves = 0
		}
		state, s.want, s.err = classes[s.Leaves].Step(state, base+now, q)
		if s.Op == "take" && s.want.Fence != 0 {
			fences = append(fences, s.want.Fence-base)
		}
		// Instants beyond 2^53 are not exact.
		if longest := max(s.want.RetryAfter, s.want.UsableAfter, s.want.FullAfter); longest > 1<<52 && s.err == nil {
			break
		}
		retry = int64(s.want.RetryAfter)
		c.Steps = append(c.Steps, s)
	}
	return c
}

// randomSlotStep returns a request of a limit in flight. The last holders are the most likely to hold their slots.
func randomSlotStep(r *rand.Rand, p *runtime.Policy, fences []int64) jsStep {
	ops := []string{"take", "take", "take", "take", "check", "peek", "renew", "release", "release", "refund"}
	s := jsStep{Op: choose(r, ops...), Count: choose(r, 0, 1, 1, 1, 1+r.Int64N(p.Slots), p.Slots, p.Slots+1)}
	switch {
	case r.IntN(60) == 0:
		s.Op = choose(r, "takeUpTo", "charge", "reset")
	case len(fences) == 0:
	default:
		switch fence := fences[max(0, len(fences)-1-r.IntN(4))]; s.Op {
		case "renew", "release", "refund":
			s.Fence = &fence
		}
	}
	if s.Op == "renew" || s.Op == "release" {
		s.Count = 0
	}
	return s
}

func randomStep(r *rand.Rand, p *runtime.Policy) jsStep {
	count := func(most int64) int64 {
		most = max(1, most)
		return choose(r, 1, 1, 1+r.Int64N(most), 1+r.Int64N(max(1, most/10)), most)
	}
	switch r.IntN(24) {
	case 0:
		return jsStep{Op: "reset"}
	case 1:
		return jsStep{Op: "peek"}
	case 2:
		return jsStep{Op: "charge", Count: count(p.Rate)}
	case 3, 4:
		return jsStep{Op: "refund", Count: count(p.Rate)}
	case 5, 6:
		return jsStep{Op: "takeUpTo", Count: count(2 * max(1, p.Capacity))}
	case 7:
		return jsStep{Op: "take", Count: choose(r, 0, p.Capacity+p.MaxReserved+1, p.Capacity+1)}
	}
	s := jsStep{Op: choose(r, "take", "take", "take", "check"), Reserve: p.MaxReserved > 0 && (p.Capacity == 0 || r.IntN(2) == 0)}
	most := p.Capacity
	if s.Reserve {
		most = choose(r, most, most+min(p.MaxReserved, 3*p.Rate))
	}
	s.Count = count(most)
	return s
}
