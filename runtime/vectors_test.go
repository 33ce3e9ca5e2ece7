package runtime_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// vector is a line of testdata/convex.jsonl, which its README describes. Times are in milliseconds.
type vector struct {
	Config struct {
		Kind                  string
		Rate, Period          int64
		Capacity, MaxReserved *int64
		Start                 int64
	}
	Steps []vectorStep
}

type vectorStep struct {
	Now, Count int64
	Reserve    bool
	OK         bool
	RetryAfter float64
	Value      float64
	TS         int64
}

func vectors(t *testing.T) []vector {
	data, err := os.ReadFile("../testdata/convex.jsonl")
	require.NoError(t, err)
	var all []vector
	steps := 0
	for d := json.NewDecoder(bytes.NewReader(data)); ; {
		var v vector
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		all = append(all, v)
		steps += len(v.Steps)
	}
	require.Equal(t, 4800, steps)
	return all
}

func (v vector) policy(t *testing.T) runtime.Policy {
	p := runtime.Policy{
		Name:        "limit",
		Kind:        runtime.TokenBucket,
		Rate:        v.Config.Rate,
		Period:      ms(v.Config.Period),
		Capacity:    v.Config.Rate,
		MaxReserved: runtime.Unbounded,
	}
	if v.Config.Kind == runtime.FixedWindow.String() {
		p.Kind, p.Start = runtime.FixedWindow, runtime.StartOffset(ms(v.Config.Start))
	}
	if v.Config.Capacity != nil {
		p.Capacity = *v.Config.Capacity
	}
	if v.Config.MaxReserved != nil {
		p.MaxReserved = *v.Config.MaxReserved
	}
	require.NoError(t, p.Validate())
	return p
}

func (s vectorStep) request() runtime.Request {
	return runtime.Request{Op: runtime.Take, Count: s.Count, Reserve: s.Reserve}
}

// wait returns the retryAfter of the vectors: RetryAfter for a plain request, and Delay for a reservation, whether it was
// allowed or not. For a denied reservation Convex returns when the tokens would have accrued without debt; RetryAfter,
// the first instant at which the reservation passes, is earlier.
func (s vectorStep) wait(d runtime.Decision) time.Duration {
	if s.Reserve {
		return d.Delay
	}
	return d.RetryAfter
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// agree compares a decision with a step of the vectors, which are rounded to milliseconds.
func (s vectorStep) agree(t *testing.T, d runtime.Decision, at ...any) {
	t.Helper()
	require.Equal(t, s.OK, d.Allowed, at...)
	require.InDelta(t, s.RetryAfter*1e6, s.wait(d), float64(time.Millisecond), at...)
	require.LessOrEqual(t, d.RetryAfter, s.wait(d), at...)
}

func TestStepAgreesWithConvex(t *testing.T) {
	for line, v := range vectors(t) {
		p, state := v.policy(t), runtime.State{}
		rule := meter.RuleOf(&p, "")
		for i, s := range v.Steps {
			next, d, err := rule.Step(state, int64(ms(s.Now)), s.request())
			require.NoError(t, err, "line %d, step %d", line+1, i)
			s.agree(t, d, "line %d, step %d", line+1, i)
			require.InDelta(t, s.Value, float64(p.Capacity)+next.Value, 1e-6, "line %d, step %d", line+1, i)
			require.Equal(t, int64(ms(s.TS)), next.TS, "line %d, step %d", line+1, i)
			state = next
		}
	}
}

func TestMemStoreAgreesWithConvex(t *testing.T) {
	for line, v := range vectors(t) {
		p, now := v.policy(t), int64(0)
		store := &memstore.Store{Clock: func() time.Time { return time.UnixMilli(now) }}
		for i, s := range v.Steps {
			now = s.Now
			q := s.request()
			q.Policy = &p
			call := runtime.Call{Requests: []runtime.Request{q}}
			answers, err := store.Do(context.Background(), []runtime.Call{call})
			require.NoError(t, err)
			require.NoError(t, answers[0].Err, "line %d, step %d", line+1, i)
			s.agree(t, answers[0].Decisions[0], "line %d, step %d", line+1, i)
		}
	}
}
