package sim

import (
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Replay holds the counts of limits while a trace is replayed.
type Replay struct {
	limits []*replayed
	named  map[string]*replayed
}

// Answer is what a line is told.
type Answer struct {
	runtime.Decision
	// Key is the key as a store has it.
	Key string
}

// NewReplay returns a Replay in which no key has been seen yet.
func NewReplay(limits []Limit) *Replay {
	r := &Replay{named: map[string]*replayed{}}
	for _, l := range limits {
		limit := newReplayed(l)
		r.limits = append(r.limits, limit)
		r.named[l.Policy.Name] = limit
	}
	return r
}

// Ask answers a line at the line's instant, and takes what is allowed. The error is a [*Fault].
func (r *Replay) Ask(l *Line) (Answer, error) {
	limit := r.named[l.Limit]
	if limit == nil {
		return Answer{}, noLimit(l.Limit, r.limits)
	}
	c, d, err := limit.ask(l)
	if err != nil {
		return Answer{}, err
	}
	limit.add(d)
	c.add(d)
	return Answer{d, c.key}, nil
}

// mostNamed is how many limits are named where another one was meant.
const mostNamed = 5

// noLimit is the fault of a line that asks for none of the limits.
func noLimit(name string, limits []*replayed) error {
	var names []string
	for _, l := range limits[:min(len(limits), mostNamed)] {
		names = append(names, l.Policy.Name)
	}
	known := strings.Join(names, ", ")
	if rest := len(limits) - mostNamed; rest > 0 {
		known += " and " + plural(int64(rest), "other")
	}
	fault := faultf("there is no limit \"%s\", only %s", shown(name, 60), known)
	fault.Unknown = name
	return fault
}
