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

// Told is what a line is told by one side of a [Comparison].
type Told struct {
	Answer
	// Asked is false if the side has no such limit, or one whose keys have another number of parts.
	Asked bool
	// Fits is false if the count can never pass on this side.
	Fits bool
}

// Ask asks both sides. The error is a [*Fault]; a count that can never pass is none if it passes on one side.
func (c *Comparison) Ask(l *Line) error {
	_, _, err := c.AskBoth(l)
	return err
}

// AskBoth is [Comparison.Ask] with the answers.
func (c *Comparison) AskBoth(l *Line) (old, new Told, err error) {
	limit := c.named[l.Limit]
	if limit == nil {
		return Told{}, Told{}, noLimit(l.Limit, c.new.limits)
	}
	if old, new, err = limit.ask(c, l); err != nil {
		return Told{}, Told{}, err
	}
	limit.asked++
	c.span.add(l.At)
	return old, new, nil
}
