package runtime

import "time"

// shards are the rows of one key that are at hand, all of them or two: the rule and the state of each.
type shards struct {
	rules  []Rule
	states []State
}

// answerWhole answers a question of all shards of a key: of what they hold together, which is then spread
// over them evenly. It changes the states.
func (s shards) answerWhole(whole Rule, now int64, q Ask) (Decision, error) {
	before := s.merge(now)
	after, d, err := whole.Step(before, now, q)
	if err != nil {
		return d, err
	}
	if after != before {
		s.spread(after)
	}
	switch count := float64(q.Count); {
	case d.Allowed:
	case !q.late(d.Delay):
		d.RetryAfter = s.until(whole, now, whole.need(q))
	case count <= whole.Capacity:
		d.RetryAfter = s.until(whole, now, count)
	}
	d.FullAfter = s.fullAfter(now)
	return d, nil
}

// answerFuller lets the fuller of two shards answer a Take or Check alone, if it can without going into
// debt. What is left of all shards is estimated from the two.
func (s shards) answerFuller(whole Rule, now int64, q Ask) (d Decision, ok bool) {
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
	d.Remaining = wholeTokens(d.Value)
	d.FullAfter = s.fullAfter(now)
	return d, true
}

// merge returns the state that one row would have with what all shards hold at the instant now. If the
// clock has gone back for some of them, it has for the whole.
func (s shards) merge(now int64) State {
	var m State
	for i, r := range s.rules {
		state := s.states[i]
		m.Seen = m.Seen || state.Seen
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
	if !m.Seen {
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

// until returns how long after now the shards together have need tokens. Each shard stops filling at its
// own time, so there is no formula for the sum; but it never sinks, and so can be searched.
func (s shards) until(whole Rule, now int64, need float64) time.Duration {
	low, high := now, addSaturating(now, int64(s.fullAfter(now)))
	for low+1 < high {
		middle := low + (high-low)/2
		if avail, _ := whole.available(s.merge(middle), middle); avail >= need {
			high = middle
		} else {
			low = middle
		}
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
