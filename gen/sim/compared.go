package sim

// compared is a limit of which one side or both are replayed.
type compared struct {
	name string
	// old and new are the limit on either side; nil if it is not there, or cannot be asked what the other is.
	old, new *replayed
	// reshaped says that the keys of the two sides have other numbers of parts.
	reshaped bool
	asked    int64
	// changes counts the requests, and keys the keys of which there is a request, by outcome before and after.
	changes, keys [outcomes][outcomes]int64
	byKey         map[string]*changedKey
}

// changedKey counts the requests for one key.
type changedKey struct {
	key            string
	asked, changed int64
	// seen holds the changes that were seen.
	seen [outcomes][outcomes]bool
}

func newCompared(name string, old, new *replayed) *compared {
	c := &compared{name: name, old: old, new: new, byKey: map[string]*changedKey{}}
	if old != nil && new != nil && len(old.Key) != len(new.Key) {
		c.old, c.reshaped = nil, true
	}
	return c
}

// ask asks the sides that there are. What is wrong with the line is found before either takes anything.
func (c *compared) ask(both *Comparison, l *Line) (old, new Told, err error) {
	switch {
	case c.old == nil:
		a, err := both.new.Ask(l)
		return Told{}, Told{a, true, true}, err
	case c.new == nil:
		a, err := both.old.Ask(l)
		return Told{a, true, true}, Told{}, err
	}
	if _, err := c.new.key(l); err != nil {
		return Told{}, Told{}, err
	}
	was, err := both.old.Ask(l)
	before, ok := outcomeOf(was, err)
	if !ok {
		return Told{}, Told{}, err
	}
	is, err := both.new.Ask(l)
	after, ok := outcomeOf(is, err)
	if !ok || before == neverFits && after == neverFits {
		return Told{}, Told{}, err
	}
	key := is.Key
	if after == neverFits {
		key = was.Key
	}
	c.count(key, before, after)
	return Told{was, true, before != neverFits}, Told{is, true, after != neverFits}, nil
}

// count counts the outcomes of a request on both sides.
func (c *compared) count(key string, before, after outcome) {
	k := c.byKey[key]
	if k == nil {
		k = &changedKey{key: key}
		c.byKey[key] = k
	}
	k.asked++
	if before == after {
		return
	}
	k.changed++
	c.changes[before][after]++
	if !k.seen[before][after] {
		k.seen[before][after] = true
		c.keys[before][after]++
	}
}

// changed returns how many requests have another outcome on the new side.
func (c *compared) changed() int64 {
	sum := int64(0)
	for _, after := range c.changes {
		for _, n := range after {
			sum += n
		}
	}
	return sum
}
