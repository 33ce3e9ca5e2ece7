package runtime

import "time"

// shards are the rows of one key that are at hand, all of them or two: the rule and the state of each.
type shards struct {
	rules  []Rule
	states []State
}

// StepShards is [Rule.Step] for a key with shards, two at least: it answers a question from the states of all of
// them, which it changes as a [Batch] with the seed does. Value and Remaining are not estimated.
func (p *Policy) StepShards(states []State, key string, now int64, q Request, seed uint64) (Decision, error) {
	whole := p.Rule(key)
	if err := whole.refuse(q); err != nil {
		return Decision{}, err
	}
	all := shards{make([]Rule, len(states)), states}
	for i := range states {
		all.rules[i] = whole.Shard(i, len(states))
	}
	first, second := 0, 1
	if len(states) > 2 {
		first, second = pick(hash(p.Name, key)^seed, len(states))
	}
	two := shards{[]Rule{all.rules[first], all.rules[second]}, []State{states[first], states[second]}}
	d, ok, err := two.answer(whole, len(states), now, q)
	if ok {
		states[first], states[second] = two.states[0], two.states[1]
	} else {
		d, _, err = all.answer(whole, len(states), now, q)
	}
	left := whole.decide(State{Value: all.held(whole).sum(now), TS: now, Exists: true}, now)
	d.Value, d.Remaining = left.Value, left.Remaining
	return d, err
}

// pick returns two different numbers below n, by something as good as random.
func pick(random uint64, n int) (first, second int) {
	first = int(random % uint64(n))
	second = int(random / uint64(n) % uint64(n-1))
	if second >= first {
		second++
	}
	return first, second
}

// answer answers a question from the shards at hand, of n. It is false if it takes all of them.
func (s shards) answer(whole Rule, n int, now int64, q Request) (d Decision, ok bool, err error) {
	if len(s.states) == 2 && q.takes() && s.suffice(whole, n) {
		if d, ok = s.answerFuller(whole, now, q); ok {
			return d, true, nil
		}
	}
	if len(s.states) < n {
		return Decision{}, false, nil
	}
	d, err = s.answerWhole(whole, now, q)
	return d, true, err
}

// suffice reports whether two shards of n can answer without the others: not if one was never seen, or was in debt when
// it was, for then the others say what it holds; see held.
func (s shards) suffice(whole Rule, n int) bool {
	if n == 2 {
		return len(s.held(whole).states) == 2
	}
	return s.states[0].settled() && s.states[1].settled()
}

// settled reports whether a shard was seen, and not in debt when it was.
func (s State) settled() bool { return s.Exists && s.Value >= -1e-6 }

// answerWhole answers a question of all shards of a key: of what they hold together, which is then spread
// over them evenly. It changes the states.
func (s shards) answerWhole(whole Rule, now int64, q Request) (Decision, error) {
	held := s.held(whole)
	before := held.merge(now)
	after, d, err := whole.Step(before, now, q)
	if err != nil {
		return d, err
	}
	if after != before {
		s.spread(after)
		held = s
	}
	d.FullAfter = held.fullAfter(now)
	switch count := float64(q.Count); {
	case d.Allowed:
	case !q.late(d.Delay):
		d.RetryAfter = held.until(whole, now, whole.need(q), d.FullAfter)
	case count <= whole.Capacity:
		d.RetryAfter = held.until(whole, now, count, d.FullAfter)
	}
	return d, nil
}

// held returns the shards that hold what there is of the key. These are all of them, unless the policy had fewer when
// the key went into debt: a debt is spread over all shards, so if the rows after the first ones were never written,
// the first ones hold all of it, and accrue the whole rate.
func (s shards) held(whole Rule) shards {
	seen, inDebt := 0, false
	for seen < len(s.states) && s.states[seen].Exists {
		inDebt = inDebt || !s.states[seen].settled()
		seen++
	}
	for _, state := range s.states[seen:] {
		inDebt = inDebt && !state.Exists
	}
	if !inDebt || seen == len(s.states) || whole.Kind == SlidingWindow {
		return s
	}
	before := shards{make([]Rule, seen), s.states[:seen]}
	for i := range before.rules {
		before.rules[i] = whole.Shard(i, seen)
	}
	return before
}

// answerFuller lets the fuller of two shards answer a Take or Check alone, if it can without going into
// debt. What is left of all shards is estimated from the two.
func (s shards) answerFuller(whole Rule, now int64, q Request) (d Decision, ok bool) {
	i := 0
	if s.available(1, now) > s.available(0, now) {
		i = 1
	}
	q.Reserve = false
	next, d, err := s.rules[i].Step(s.states[i], now, q)
	if err != nil || !d.Allowed {
		return Decision{}, false
	}
	s.states[i] = next
	seen := s.rules[0].Capacity + s.rules[1].Capacity
	d.Value = s.sum(now) / seen * whole.Capacity
	d.Remaining = wholeTokens(d.Value, allowance(whole.Rate, whole.Period))
	d.FullAfter = s.fullAfter(now)
	return d, true
}

// merge returns the state that one row would have with what all shards hold at the instant now. If the
// clock has gone back for some of them, it has for the whole.
func (s shards) merge(now int64) State {
	var m State
	for i, r := range s.rules {
		state := s.states[i]
		m.Exists = m.Exists || state.Exists
		if r.Kind == SlidingWindow {
			w := r.slide(state, now)
			state = w.state(r.Rate)
		} else {
			state.Value, state.TS = r.available(state, now)
		}
		m.Value += state.Value
		m.Prev += state.Prev
		if i == 0 || state.TS > m.TS {
			m.TS = state.TS
		}
	}
	if !m.Exists {
		return State{}
	}
	return m
}

// spread gives every shard its share of the state m. The shares of whole tokens are whole, so that they
// can be taken one by one.
func (s shards) spread(m State) {
	n := len(s.states)
	for i := range s.states {
		part := m
		part.Prev = share(m.Prev, i, n)
		if m.Value < 0 {
			part.Value = -share(-m.Value, i, n)
		} else {
			part.Value = share(m.Value, i, n)
		}
		s.states[i] = part
	}
}

func (s shards) available(i int, now int64) float64 {
	avail, _ := s.rules[i].available(s.states[i], now)
	return avail
}

// sum returns what the shards hold together.
func (s shards) sum(now int64) float64 {
	sum := 0.0
	for i := range s.states {
		sum += s.available(i, now)
	}
	return sum
}

// until returns how long after now, at most full, the shards together have need tokens. Each shard stops filling at
// its own time, so there is no formula for the sum; but it never sinks, and so can be searched.
func (s shards) until(whole Rule, now int64, need float64, full time.Duration) time.Duration {
	low, high := now, addSaturating(now, int64(full))
	look := func(at int64) {
		if avail, _ := whole.available(s.merge(at), at); avail >= need {
			high = at
		} else {
			low = at
		}
	}
	asOneRow := whole.when(s.merge(now), now, need) // that is it if no shard is full before
	for _, at := range []int64{asOneRow, asOneRow - 1} {
		if low < at && at < high {
			look(at)
		}
	}
	for low+1 < high {
		look(low + (high-low)/2)
	}
	return time.Duration(high - now)
}

// fullAfter returns how long after now the last of the shards is full.
func (s shards) fullAfter(now int64) time.Duration {
	longest := time.Duration(0)
	for i, r := range s.rules {
		longest = max(longest, r.until(s.states[i], now, r.Capacity))
	}
	return longest
}
