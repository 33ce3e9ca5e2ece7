package sim

import "github.com/ratelimitgen/ratelimitgen/runtime"

// Limit is a limit whose requests are replayed.
type Limit struct {
	// Policy is the rule; it must be valid.
	Policy *runtime.Policy
	// Key names the type of each part of the key, as limits.yaml does: "int64". It is empty for a limit with
	// one shared counter.
	Key []string
	// Words is the rule in words, for people.
	Words string
}

// replayed is a limit with its counts.
type replayed struct {
	Limit
	parts  []func(string) (runtime.Part, bool)
	counts map[string]*count
	tally
}

func newReplayed(l Limit) *replayed {
	r := &replayed{Limit: l, counts: map[string]*count{}}
	for _, typ := range l.Key {
		r.parts = append(r.parts, partOf(typ))
	}
	return r
}

// ask answers a line, and returns the count that it was asked of. The error is a [*Fault].
func (r *replayed) ask(l *Line) (*count, runtime.Decision, error) {
	key, err := r.key(l)
	if err != nil {
		return nil, runtime.Decision{}, err
	}
	c := r.counts[key]
	if c == nil {
		c = newCount(r.Policy, key)
		r.counts[key] = c
	}
	d, err := c.ask(r.Policy, l.At, runtime.Request{Op: runtime.Take, Count: l.Count, Reserve: l.Reserve})
	if err != nil {
		return c, d, &Fault{Reason: r.Policy.Name + ": " + err.Error(), cause: err}
	}
	return c, d, nil
}
