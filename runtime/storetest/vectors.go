package storetest

import (
	"bufio"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// vector is a trace of one limit with the decisions of the reference implementation. Times are in milliseconds.
type vector struct {
	Config struct {
		Kind        string
		Rate        int64
		Period      int64
		Capacity    *int64
		MaxReserved *int64
		Start       *int64
	}
	Steps []vectorStep
}

type vectorStep struct {
	Now        int64
	Count      int64
	Reserve    bool
	OK         bool
	RetryAfter float64
	Value      float64
	TS         int64
}

// Stored returns the state of a row in a store.
type Stored func(row runtime.Row) runtime.State

// Vectors tests a store against traces of the reference implementation, one JSON object per line, as in
// testdata/convex.jsonl: the decisions, the waits, and the stored state after each step. It returns the number of steps
// that agreed.
func Vectors(t *testing.T, store runtime.Store, clock *Clock, stored Stored, traces io.Reader) (agreed int) {
	s := &subject{T: t, ctx: t.Context(), clock: clock, store: store}
	lines := bufio.NewScanner(traces)
	lines.Buffer(nil, 1<<24) // a trace is longer than a Scanner's default line
	for n := 1; lines.Scan(); n++ {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatalf("line %d: %v", n, err)
		}
		p := v.policy("vector" + strconv.Itoa(n))
		for i, step := range v.Steps {
			clock.Set(time.UnixMilli(step.Now))
			d := s.decide(p, runtime.Request{Count: step.Count, Reserve: step.Reserve})
			if row := stored(runtime.Row{Name: p.Name, Key: "k"}); !step.agrees(p, d, row) {
				t.Errorf("line %d, step %d: the decision is %+v and the state %+v\nwant %+v", n, i+1, d, row, step)
				continue
			}
			agreed++
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return agreed
}

// policy returns the limit of a vector.
func (v *vector) policy(name string) *runtime.Policy {
	c := v.Config
	p := &runtime.Policy{Name: name, Kind: runtime.TokenBucket, Rate: c.Rate, Period: time.Duration(c.Period) * time.Millisecond}
	if c.Kind == runtime.FixedWindow.String() {
		p.Kind = runtime.FixedWindow
	}
	// The defaults of the reference implementation.
	p.Capacity, p.MaxReserved = c.Rate, runtime.Unbounded
	if c.Capacity != nil {
		p.Capacity = *c.Capacity
	}
	if c.MaxReserved != nil {
		p.MaxReserved = *c.MaxReserved
	}
	if c.Start != nil {
		p.Start = runtime.StartAt(time.UnixMilli(*c.Start))
	}
	return p
}

// agrees reports whether a decision by p and the state after it are those of the reference, which counts in milliseconds.
func (s vectorStep) agrees(p *runtime.Policy, d runtime.Decision, row runtime.State) bool {
	wait := d.RetryAfter
	// The reference has one field for all waits. For a reservation, allowed or denied, that is the delay.
	if s.Reserve {
		wait = d.Delay
	}
	return d.Allowed == s.OK &&
		math.Abs(float64(wait)/1e6-s.RetryAfter) <= 1 &&
		math.Abs(float64(p.Capacity)+row.Value-s.Value) <= 1e-6 &&
		row.TS == s.TS*1e6
}
