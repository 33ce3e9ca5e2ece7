package sim

import (
	"slices"
)

// Comparison replays a trace through the limits of two files, and tells what the new ones would answer
// otherwise than the old.
type Comparison struct {
	// LeftOut is how many lines of other limits were left out.
	LeftOut int64

	old, new *Replay
	limits   []*compared
	named    map[string]*compared
	span     span
}

// NewComparison returns a comparison of new limits with old ones.
func NewComparison(old, new []Limit) *Comparison {
	c := &Comparison{old: NewReplay(old), new: NewReplay(new), named: map[string]*compared{}}
	for _, l := range slices.Concat(c.new.limits, c.old.limits) {
		name := l.Policy.Name
		if c.named[name] == nil {
			pair := newCompared(name, c.old.named[name], c.new.named[name])
			c.named[name] = pair
			c.limits = append(c.limits, pair)
		}
	}
	return c
}

// Ask asks both sides. The error is a [*Fault]; a count that can never pass is none if it passes on one side.
func (c *Comparison) Ask(l *Line) error {
	limit := c.named[l.Limit]
	if limit == nil {
		return noLimit(l.Limit, c.new.limits)
	}
	if err := limit.ask(c, l); err != nil {
		return err
	}
	limit.asked++
	c.span.add(l.At)
	return nil
}
