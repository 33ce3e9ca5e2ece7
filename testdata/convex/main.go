// Convex compares the decisions of package runtime with those of Convex's published rate limiter, which reference.mjs
// prints, and counts the differences by class. See README.md.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math"
	"os"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// trace has the requests on one key, and the decisions of the reference. Times are in milliseconds.
type trace struct {
	Config struct {
		Kind                  string
		Rate, Period          int64
		Capacity, MaxReserved *int64
		Start                 int64
	}
	Steps []step
}

type step struct {
	Now, Count int64
	Reserve    bool
	OK         bool
	RetryAfter float64
	Error      string
	Value      *float64
	TS         *int64
}

func main() {
	log.SetFlags(0)
	differences, steps := map[string]int{}, 0
	for d := json.NewDecoder(os.Stdin); ; {
		var t trace
		if err := d.Decode(&t); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			log.Fatal(err)
		}
		steps += len(t.Steps)
		t.compare(differences)
	}
	fmt.Printf("%d steps\n", steps)
	for _, class := range slices.Sorted(maps.Keys(differences)) {
		fmt.Printf("%7d  %s\n", differences[class], class)
	}
}

func (t trace) policy() runtime.Policy {
	c := t.Config
	p := runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: c.Rate, Capacity: c.Rate,
		Period: time.Duration(c.Period) * time.Millisecond, MaxReserved: runtime.Unbounded}
	if c.Kind == runtime.FixedWindow.String() {
		p.Kind, p.Start = runtime.FixedWindow, runtime.StartOffset(time.Duration(c.Start)*time.Millisecond)
	}
	if c.Capacity != nil {
		p.Capacity = *c.Capacity
	}
	if c.MaxReserved != nil {
		p.MaxReserved = *c.MaxReserved
	}
	if err := p.Validate(); err != nil {
		log.Fatal(err)
	}
	return p
}

// compare decides the steps of a trace, and counts the differences.
func (t trace) compare(differences map[string]int) {
	p := t.policy()
	rule, state := p.Rule(""), runtime.State{}
	retryAt := int64(0) // the time at which the previous request passes, according to the reference
	for i, s := range t.Steps {
		now := s.Now * int64(time.Millisecond)
		next, d, err := rule.Step(state, now, runtime.Request{Count: s.Count, Reserve: s.Reserve})
		waited := i > 0 && retryAt == s.Now && t.Steps[i-1].Count == s.Count
		if class := t.class(p, s, state, next, d, err, waited); class != "" {
			differences[class]++
		}
		// Continue with the reference's row, so that one difference does not cause others.
		state = runtime.State{}
		if s.Value != nil {
			state = runtime.State{Value: *s.Value - float64(p.Capacity), TS: *s.TS * int64(time.Millisecond), Exists: true}
		}
		if retryAt = 0; s.Error == "" && !s.OK {
			retryAt = s.Now + int64(math.Ceil(s.RetryAfter))
		}
	}
}

// class returns the class of the difference in a step, "" if the decisions agree. waited is true if the reference
// promised that this request passes now.
func (t trace) class(p runtime.Policy, s step, before, after runtime.State, d runtime.Decision, err error, waited bool) string {
	rounding := 1e-9 + 2e-15*float64(p.Rate+p.Capacity) + 2e-15*math.Abs(before.Value)
	short := float64(s.Count) - d.Value // the missing tokens, if d is a denial
	if s.Reserve {
		short -= float64(p.MaxReserved)
	}
	wait := d.RetryAfter
	if s.Reserve {
		wait = d.UsableAfter
	}
	// The rounding error of the tokens as a time, and the nanosecond to which ours is rounded up.
	tolerance := 1 + rounding*float64(p.Period)/float64(p.Rate) + 4e-16*math.Abs(s.RetryAfter*1e6)
	switch off := math.Abs(float64(wait) - s.RetryAfter*1e6); {
	case (err != nil) != (s.Error != ""):
		return fmt.Sprintf("UNEXPLAINED: the error %v, the reference's %q", err, s.Error)
	case err != nil:
		return ""
	case d.Allowed && !s.OK && s.RetryAfter*1e6 < 1000:
		return "the reference denies for less than a microsecond because of rounding"
	case d.Allowed && !s.OK && s.Reserve && math.Abs(d.Value+float64(p.MaxReserved)) <= rounding:
		return "the reference denies a reservation because of rounding"
	case d.Allowed && !s.OK && rounding > 1e-6 && s.RetryAfter*1e6 <= tolerance:
		return "the reference denies because of rounding of numbers beyond 1e9"
	case !d.Allowed && s.OK && math.Abs(short) <= rounding:
		return "the reference allows because of rounding"
	case d.Allowed != s.OK && waited:
		return "UNEXPLAINED: a verdict after a wait"
	case d.Allowed != s.OK:
		return fmt.Sprintf("UNEXPLAINED: the verdict %v", d.Allowed)
	case off > tolerance && s.RetryAfter*1e6 < 1000 && wait == 0:
		return "the reference waits for less than a microsecond because of rounding"
	case off > tolerance && p.Kind == runtime.FixedWindow && math.Abs(off-float64(p.Period)) <= tolerance:
		return "UNEXPLAINED: a wait that is off by a window"
	case off > tolerance:
		return fmt.Sprintf("UNEXPLAINED: a %s's wait", p.Kind)
	case !d.Allowed:
		return ""
	case *s.TS*int64(time.Millisecond) != after.TS:
		return "UNEXPLAINED: ts"
	case math.Abs(*s.Value-float64(p.Capacity)-after.Value) > rounding:
		return "UNEXPLAINED: value"
	}
	return ""
}
