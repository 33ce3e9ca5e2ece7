package runtime

import (
	"math"
	"time"
)

// shards are rows of one key, either all of them or two: the rule and the state of each.
type shards struct {
	rules  []Rule
	states []State
}

// StepShards is [Rule.Step] for a key with at least two shards: it executes a request on the states of all of them, and
// changes the states as a [Batch] with the same seed does. Unlike those of a Batch, Value and Remaining are exact.
func (p *Policy) StepShards(states []State, key string, now int64, q Request, seed uint64) (Decision, error) {
	rule := p.Rule(key).For(q)
	whole := &rule
	if err := whole.refuse(&q); err != nil {
		return Decision{}, err
	}
	all := shards{make([]Rule, len(states)), states}
	for i := range states {
		all.rules[i] = whole.Shard(i, len(states))
	}
	first, second := 0, 1
	if len(states) > 2 {
		first, second = twoOf(len(states), hash(p.Name, key)^seed)
	}
	two := shards{[]Rule{all.rules[first], all.rules[second]}, []State{states[first], states[second]}}
	d, ok, err := two.step(whole, len(states), now, &q)
	if ok {
		states[first], states[second] = two.states[0], two.states[1]
	} else {
		d, _, err = all.step(whole, len(states), now, &q)
	}
	if d.Receipt.Shard > 0 {
		d.Receipt.Shard = [...]int{first, second}[d.Receipt.Shard-1] + 1
	}
	left := whole.balance(State{Value: all.holders(whole).sum(now) - whole.Capacity, TS: now, Exists: true}, now)
	d.Value, d.Remaining = left.Value, left.Remaining
	return d, err
}

// twoOf returns two different numbers below n, chosen by a random number.
func twoOf(n int, random uint64) (first, second int) {
	first = int(random % uint64(n))
	second = int(random / uint64(n) % uint64(n-1))
	// second is one of n-1 numbers: moving those from first on up by one leaves out first without a bias.
	if second >= first {
		second++
	}
	return first, second
}

// step executes a request on shards of a key that has n. It returns false, and changes nothing, if it needs all of them.
func (s shards) step(whole *Rule, n int, now int64, q *Request) (d Decision, ok bool, err error) {
	if q.ofShard() {
		return s.refundOne(whole, n, now, q)
	}
	if len(s.states) == 2 && q.Decides() && s.canDecide(whole, n) {
		if d, ok = s.stepFuller(whole, now, q); ok {
			return d, true, nil
		}
	}
	if len(s.states) < n {
		return Decision{}, false, nil
	}
	d, err = s.stepAll(whole, now, q)
	return d, true, err
}

// canDecide reports whether two shards of n hold what their rows say, whatever the other rows are: see holders.
func (s shards) canDecide(whole *Rule, n int) bool {
	if n == 2 {
		return len(s.holders(whole).states) == 2
	}
	return s.outOfDebt(0) && s.outOfDebt(1)
}

// outOfDebt reports whether shard i exists and had no debt when it was written, but for a rounding.
func (s shards) outOfDebt(i int) bool {
	return s.states[i].Exists && s.rules[i].tokens(s.states[i]) >= -1e-6
}

// stepFuller lets the fuller of two shards decide a request alone, if it allows it without debt. The fuller of two
// random ones ("power of two choices") keeps the shards nearly equal, so that it is rare that neither has enough.
func (s shards) stepFuller(whole *Rule, now int64, q *Request) (d Decision, ok bool) {
	i := 0
	if s.tokens(1, now) > s.tokens(0, now) {
		i = 1
	}
	// A reservation is due as soon as the shards together are out of debt. While one of two still has a debt, the tokens of
	// the other one belong to the reservation.
	if s.tokens(1-i, now) < 0 {
		return Decision{}, false
	}
	alone := *q
	alone.Reserve = false
	if q.Op == TakeUpTo {
		// If this shard has fewer tokens than the count, the tokens of all others are needed too.
		alone.Op = Take
	}
	next, d, err := s.rules[i].Step(s.states[i], now, alone)
	if err != nil || !d.Allowed {
		return Decision{}, false
	}
	s.states[i] = next
	d.Receipt.Shard = i + 1
	// The other shards are not read. Their tokens are estimated by the capacity of these two.
	two := s.rules[0].Capacity + s.rules[1].Capacity
	d.Value = s.sum(now) / two * whole.Capacity
	d.Remaining = wholeTokens(d.Value, allowance(whole.Rate, whole.Period))
	d.FullAfter = s.fullAfter(whole, now)
	return d, true
}

// ofShard reports whether it returns tokens to one shard. A sliding window forgets no use that could be refunded, so that
// the tokens can return to all of them.
func (q *Request) ofShard() bool {
	return 0 < q.Shard && q.Shard <= q.Policy.Shards && q.Policy.Kind.Linear()
}

// refundOne returns tokens to the shard that they were taken from. All shards get them if they have given each other tokens
// since, so that this one may lack fewer by now than all of them, and if one has a debt: see stepFuller. It returns false,
// and changes nothing, if it needs all shards.
func (s shards) refundOne(whole *Rule, n int, now int64, q *Request) (d Decision, ok bool, err error) {
	i := min(q.Shard, len(s.states)) - 1
	r, had := &s.rules[i], s.states[i]
	next, d, err := r.Step(had, now, *q)
	if err != nil {
		return d, true, err
	}
	returned := next.Value - had.Value
	_, known := r.takenSince(had, now, q)
	mayLackFewer := known && r.returnable(State{Value: -float64(q.Count), TS: had.TS}, q, math.Inf(1)) > returned
	// No shard has tokens while another one has a debt.
	if mayBeDebt := returned > 0 && r.tokens(had) < 1; mayLackFewer || mayBeDebt {
		if len(s.states) < n {
			return Decision{}, false, nil
		}
		latest, all := s.latest(), returned
		sum := s.holders(whole).merge(latest)
		if mayLackFewer {
			all = max(all, whole.returnable(sum, q, math.Inf(1)))
		}
		if all > returned || s.anyDebt(latest) {
			sum.Value = min(0, sum.Value+all)
			s.spread(whole, sum, now, true)
			d = whole.balance(sum, now)
			d.FullAfter = s.fullAfter(whole, now)
			return d, true, nil
		}
	}
	s.states[i] = next
	d.Value *= whole.Capacity / r.Capacity // an estimate
	d.Remaining = wholeTokens(d.Value, allowance(whole.Rate, whole.Period))
	return d, true, nil
}

// anyDebt reports whether one of the shards has a debt, but for a rounding.
func (s shards) anyDebt(now int64) bool {
	for i := range s.states {
		if s.tokens(i, now) < -1e-6 {
			return true
		}
	}
	return false
}

// stepAll executes a request on all shards of a key: on their sum, which is then spread over them evenly.
func (s shards) stepAll(whole *Rule, now int64, q *Request) (Decision, error) {
	holders, at := s.holders(whole), now
	if q.Op == Refund && q.TakenAt != 0 {
		at = holders.latest() // as of the last write: see refundLinear
	}
	before := holders.merge(at)
	after, d, err := whole.Step(before, now, *q)
	if err != nil {
		return d, err
	}
	if after != before {
		belongs := q.Op != Reset && !(q.Op == Refund && q.TakenAt == 0)
		total := s.spread(whole, after, now, belongs)
		if d.Receipt.Total != 0 {
			d.Receipt.Total = total
		}
		holders = s
	}
	// The step of the sum expects it to accrue at the whole rate, but a shard that is full accrues nothing.
	d.FullAfter = s.fullAfter(whole, now)
	switch count := float64(q.Count); {
	case d.Allowed:
	case !q.Late(d.Delay):
		d.RetryAfter = holders.until(whole, now, whole.need(q), d.FullAfter)
	case count <= whole.Capacity:
		d.RetryAfter = holders.until(whole, now, count, d.FullAfter)
	}
	return d, nil
}

// holders returns the shards that hold the tokens of the key. These are all of them, unless the policy had fewer shards
// when the key went into debt. A debt is spread over all shards, so if only the first ones exist and one has a debt,
// they hold all of it and accrue the whole rate. The others would otherwise count as full and cancel the debt.
func (s shards) holders(whole *Rule) shards {
	exist, inDebt := 0, false
	for exist < len(s.states) && s.states[exist].Exists {
		inDebt = inDebt || !s.outOfDebt(exist)
		exist++
	}
	for _, state := range s.states[exist:] {
		inDebt = inDebt && !state.Exists
	}
	if !inDebt || exist == len(s.states) || !whole.Kind.Linear() {
		return s
	}
	before := shards{make([]Rule, exist), s.states[:exist]}
	for i := range before.rules {
		before.rules[i] = whole.Shard(i, exist)
	}
	return before
}

// merge returns the state of a single row with the tokens of all shards at the instant now.
func (s shards) merge(now int64) State {
	var sum State
	for i := range s.rules {
		r := &s.rules[i]
		state := r.Kind.algorithm().accrue(r, s.states[i], now)
		sum.Exists = sum.Exists || s.states[i].Exists
		sum.Value += state.Value
		sum.Prev = r.addPrev(sum.Prev, state.Prev)
		// If the clock has gone back for one shard, it has for all of them: the latest instant counts.
		if i == 0 || state.TS > sum.TS {
			sum.TS = state.TS
		}
	}
	if !sum.Exists {
		return State{}
	}
	return sum
}

// spread gives every shard its share of the state m. The shares of whole tokens are whole, because a shard with half a
// token could not be taken from, nor could another one use that half. Tokens that a shard has to give count as taken from
// it; their total is the result. If the tokens do not belong to requests, earlier requests can no longer be refunded.
func (s shards) spread(whole *Rule, m State, now int64, belong bool) (total float64) {
	tokens, n := whole.tokens(m), len(s.states)
	for i := range s.states {
		r, part := &s.rules[i], m
		part.Value = math.Copysign(share(math.Abs(tokens), i, n), tokens) - r.Capacity
		switch had := r.Kind.algorithm().accrue(r, s.states[i], m.TS); {
		case !whole.Kind.Linear():
			if w := previousOf(m.Prev, m.TS); w.previous > 0 {
				w.previous = share(w.previous, i, n)
				part.Prev = w.state().Prev
			}
		case !belong:
			part.Prev = r.voidTotal(had.Prev, now)
		default:
			// At least one, so that no earlier request is the last one of its shard: see refundLinear.
			part.Prev = addTotal(had.Prev, r.newTotal(now), 1+math.Ceil(max(0, had.Value-part.Value)))
		}
		s.states[i] = part
		total += part.total()
	}
	return total
}

// latest returns the instant of the last write.
func (s shards) latest() int64 {
	latest := int64(math.MinInt64)
	for i := range s.states {
		if s.states[i].Exists {
			latest = max(latest, s.states[i].TS)
		}
	}
	return latest
}

// tokens returns the tokens of shard i.
func (s shards) tokens(i int, now int64) float64 {
	r := &s.rules[i]
	tokens, _ := r.Kind.algorithm().available(r, s.states[i], now)
	return tokens
}

// sum returns the tokens of the shards together.
func (s shards) sum(now int64) float64 {
	sum := 0.0
	for i := range s.states {
		sum += s.tokens(i, now)
	}
	return sum
}

// until returns how long after now, at most full, the shards together have need tokens. Each shard stops accruing when it
// is full, so there is no formula for the sum. But the sum never decreases, so that a binary search finds the instant.
func (s shards) until(whole *Rule, now int64, need float64, full time.Duration) time.Duration {
	low, high := now, addSaturating(now, int64(full))
	narrow := func(at int64) {
		if tokens, _ := whole.Kind.algorithm().available(whole, s.merge(at), at); tokens >= need {
			high = at
		} else {
			low = at
		}
	}
	// If no shard is full before, the instant is that of a single row. Two probes confirm it, in place of some 50.
	asOneRow := whole.when(s.merge(now), now, need)
	for _, at := range []int64{asOneRow, asOneRow - 1} {
		if low < at && at < high {
			narrow(at)
		}
	}
	for low+1 < high {
		narrow(low + (high-low)/2)
	}
	return time.Duration(high - now)
}

// fullAfter returns how long after now all of the shards are full.
func (s shards) fullAfter(whole *Rule, now int64) time.Duration {
	return wait(now, s.fullAt(whole, now))
}

// fullAt returns the first instant, now or later, at which all of the shards are full by the rule that applies then.
func (s shards) fullAt(whole *Rule, now int64) int64 {
	if whole.mode.Passes() {
		return now
	}
	at, holders := now, s.holders(whole)
	for i := range holders.rules {
		r := &holders.rules[i]
		at = max(at, r.when(s.states[i], now, r.Capacity))
	}
	if whole.next == nil || at < whole.ends {
		return at
	}
	later := shards{make([]Rule, len(s.rules)), s.states}
	for i := range s.rules {
		later.rules[i] = *s.rules[i].next
	}
	return later.fullAt(whole.next, max(now, whole.ends))
}
