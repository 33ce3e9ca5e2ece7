package meter

import (
	"math"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
)

// Shards are rows of one key, either all of them, or two, or one: the rule and the state of each.
type Shards struct {
	Rules  []Rule
	States []runtime.State
}

// StepShards is [Rule.Step] for a key with at least two shards: it executes a request on the states of all of them, and
// changes the states as a batch.Batch with the same seed does. Unlike those of a Batch, Value and Remaining are exact.
func StepShards(p *runtime.Policy, states []runtime.State, key string, now int64, q runtime.Request, seed uint64) (runtime.Decision, error) {
	rule := RuleOf(p, key).For(q)
	whole := &rule
	if err := whole.Refuse(&q); err != nil {
		return runtime.Decision{}, err
	}
	all := Shards{make([]Rule, len(states)), states}
	for i := range states {
		all.Rules[i] = whole.Shard(i, len(states))
	}
	first, second := 0, 1
	if len(states) > 2 {
		first, second = TwoOf(len(states), arith.Hash(p.Name, key)^seed)
	}
	two := Shards{[]Rule{all.Rules[first], all.Rules[second]}, []runtime.State{states[first], states[second]}}
	d, ok, err := two.Step(whole, len(states), now, &q)
	if ok {
		states[first], states[second] = two.States[0], two.States[1]
	} else {
		d, _, err = all.Step(whole, len(states), now, &q)
	}
	if d.Receipt.Shard > 0 {
		d.Receipt.Shard = [...]int{first, second}[d.Receipt.Shard-1] + 1
	}
	left := whole.balance(runtime.State{Value: all.holders(whole).sum(now) - whole.Capacity, TS: now, Exists: true}, now)
	d.Value, d.Remaining = left.Value, left.Remaining
	return d, err
}

// TwoOf returns two different numbers below n, chosen by a random number.
func TwoOf(n int, random uint64) (first, second int) {
	first = int(random % uint64(n))
	second = int(random / uint64(n) % uint64(n-1))
	// second is one of n-1 numbers: moving those from first on up by one leaves out first without a bias.
	if second >= first {
		second++
	}
	return first, second
}

// Step executes a request on shards of a key that has n. It returns false, and changes nothing, if it needs all of
// them.
func (s Shards) Step(whole *Rule, n int, now int64, q *runtime.Request) (d runtime.Decision, ok bool, err error) {
	if OfShard(q) {
		return s.refundOne(whole, n, now, q)
	}
	// Without a capacity, one or two shards show nothing of the others.
	if len(s.States) <= 2 && whole.Capacity > 0 && q.Decides() && s.canDecide(whole, n) {
		if d, ok = s.stepFuller(whole, now, q); ok {
			return d, true, nil
		}
	}
	if len(s.States) < n {
		return runtime.Decision{}, false, nil
	}
	d, err = s.stepAll(whole, now, q)
	return d, true, err
}

// canDecide reports whether one or two shards of n hold what their rows say, whatever the other rows are: see holders.
func (s Shards) canDecide(whole *Rule, n int) bool {
	if n == 2 {
		return len(s.holders(whole).States) == 2
	}
	return s.outOfDebt(0) && s.outOfDebt(len(s.States)-1)
}

// outOfDebt reports whether shard i exists and had no debt when it was written, but for a rounding.
func (s Shards) outOfDebt(i int) bool {
	return s.States[i].Exists && linear{&s.Rules[i]}.tokens(s.States[i])+s.Rules[i].left >= -1e-6
}

// stepFuller lets one shard, or the fuller of two, decide a request alone, if it allows it without debt. The fuller of two
// random ones ("power of two choices") keeps the shards nearly equal, so that it is rare that neither has enough.
func (s Shards) stepFuller(whole *Rule, now int64, q *runtime.Request) (d runtime.Decision, ok bool) {
	i, read := 0, 0.0
	for j := range s.States {
		// A reservation is due as soon as the shards together are out of debt. While one of two still has a debt, the
		// tokens of the other one belong to the reservation.
		tokens := s.tokens(j, now)
		if tokens < 0 {
			return runtime.Decision{}, false
		}
		if tokens > s.tokens(i, now) {
			i = j
		}
		read += s.Rules[j].Capacity
	}
	alone := *q
	alone.Reserve = false
	if q.Op.UpTo() {
		// If this shard has fewer tokens than the count, the tokens of all others are needed too.
		alone.Op = runtime.Take
	}
	next, d, err := s.Rules[i].Step(s.States[i], now, alone)
	if err != nil || !d.Allowed {
		return runtime.Decision{}, false
	}
	s.States[i] = next
	d.Receipt.Shard = i + 1
	// The other shards are not read. Their tokens are estimated by the capacity of these.
	d.Value = s.sum(now) / read * whole.Capacity
	d.Remaining = arith.Whole(d.Value, allowance(whole.Rate, whole.Period))
	d.FullAfter = s.fullAfter(whole, now)
	return d, true
}

// keptFor is how long a row is kept at least after its key has become full: half of what a sweep waits.
const keptFor = 30 * time.Minute

// Fuller returns the fuller of two shards as they were last seen, which may be a while ago, if a take from it needs no
// other one: both rows are still there, and neither had a debt when it was written.
func (s Shards) Fuller(now int64) (i int, ok bool) {
	before := now - int64(keptFor)
	for i, r := range s.Rules {
		if state := s.States[i]; !s.outOfDebt(i) || state.TS <= before && r.when(state, before, r.Capacity) <= before {
			return 0, false
		}
	}
	if s.tokens(1, now) > s.tokens(0, now) {
		i = 1
	}
	return i, true
}

// OfKey returns the decision d about shard i, the only one that was read, as one about its key.
func OfKey(whole *Rule, i int, shard *Rule, d runtime.Decision) runtime.Decision {
	d.Receipt.Shard = i + 1
	estimate(whole, shard, &d)
	return d
}

// estimate estimates the tokens of all shards by those of one.
func estimate(whole, shard *Rule, d *runtime.Decision) {
	d.Value *= whole.Capacity / shard.Capacity
	d.Remaining = arith.Whole(d.Value, allowance(whole.Rate, whole.Period))
}

// OfShard reports whether it returns tokens to one shard. A sliding window forgets no use that could be refunded, so
// that the tokens can return to all of them.
func OfShard(q *runtime.Request) bool {
	return 0 < q.Shard && q.Shard <= q.Policy.Shards && q.Policy.Kind.Linear()
}

// refundOne returns tokens to the shard that they were taken from. All shards get them if they have given each other
// tokens since, so that this one may lack fewer by now than all of them, and if one has a debt: see stepFuller. It
// returns false, and changes nothing, if it needs all shards.
func (s Shards) refundOne(whole *Rule, n int, now int64, q *runtime.Request) (d runtime.Decision, ok bool, err error) {
	i := min(q.Shard, len(s.States)) - 1
	r, had := linear{&s.Rules[i]}, s.States[i]
	next, d, err := r.Step(had, now, *q)
	if err != nil {
		return d, true, err
	}
	returned := next.Value - had.Value
	_, known := r.takenSince(had, now, q)
	mayLackFewer := known && r.returnable(runtime.State{Value: -float64(q.Count), TS: had.TS}, q, math.Inf(1)) > returned
	// No shard has tokens while another one has a debt.
	if mayBeDebt := returned > 0 && r.tokens(had) < 1; mayLackFewer || mayBeDebt {
		if len(s.States) < n {
			return runtime.Decision{}, false, nil
		}
		latest, all := s.latest(), returned
		sum := s.holders(whole).merge(latest)
		if mayLackFewer {
			all = max(all, linear{whole}.returnable(sum, q, math.Inf(1)))
		}
		if all > returned || s.anyDebt(latest) {
			sum.Value = min(0, sum.Value+all)
			s.spread(whole, sum, now, true)
			d = whole.balance(sum, now)
			d.FullAfter = s.fullAfter(whole, now)
			return d, true, nil
		}
	}
	s.States[i] = next
	estimate(whole, r.Rule, &d)
	return d, true, nil
}

// anyDebt reports whether one of the shards has a debt, but for a rounding.
func (s Shards) anyDebt(now int64) bool {
	for i := range s.States {
		if s.tokens(i, now)+s.Rules[i].left < -1e-6 {
			return true
		}
	}
	return false
}

// stepAll executes a request on all shards of a key: on their sum, which is then spread over them evenly.
func (s Shards) stepAll(whole *Rule, now int64, q *runtime.Request) (runtime.Decision, error) {
	holders, at := s.holders(whole), now
	if q.Op == runtime.Refund && q.TakenAt != 0 {
		at = holders.latest() // as of the last write: see linear.refund
	}
	before, last, lastBefore := holders.merge(at), len(s.Rules)-1, 0.0
	if whole.warn != nil {
		lastBefore = s.tokens(last, now)
	}
	after, d, err := whole.Step(before, now, *q)
	if err != nil {
		return d, err
	}
	if after != before {
		belongs := q.Op != runtime.Reset && !(q.Op == runtime.Refund && q.TakenAt == 0)
		total := s.spread(whole, after, now, belongs)
		if d.Receipt.Total != 0 {
			d.Receipt.Total = total
		}
		holders = s
	}
	if whole.warn != nil && d.Taken > 0 {
		d.Crossed = s.Rules[last].crossed(lastBefore, s.tokens(last, now))
	}
	// The step of the sum expects it to accrue at the whole rate, but a shard that is full accrues nothing.
	d.FullAfter = s.fullAfter(whole, now)
	switch count := float64(q.Count); {
	case d.Allowed:
	case !q.Late(d.UsableAfter):
		d.RetryAfter = holders.until(whole, now, whole.need(q), d.FullAfter)
	case count <= whole.Capacity:
		d.RetryAfter = holders.until(whole, now, count, d.FullAfter)
	}
	return d, nil
}

// holders returns the shards that hold the tokens of the key. These are all of them, unless the policy had fewer shards
// when the key went into debt. A debt is spread over all shards, so if only the first ones exist and one has a debt,
// they hold all of it and accrue the whole rate. The others would otherwise count as full and cancel the debt.
func (s Shards) holders(whole *Rule) Shards {
	exist, inDebt := 0, false
	for exist < len(s.States) && s.States[exist].Exists {
		inDebt = inDebt || !s.outOfDebt(exist)
		exist++
	}
	for _, state := range s.States[exist:] {
		inDebt = inDebt && !state.Exists
	}
	if !inDebt || exist == len(s.States) || !whole.Kind.Linear() {
		return s
	}
	before := Shards{make([]Rule, exist), s.States[:exist]}
	for i := range before.Rules {
		before.Rules[i] = whole.Shard(i, exist)
	}
	return before
}

// merge returns the state of a single row with the tokens of all shards at the instant now.
func (s Shards) merge(now int64) runtime.State {
	var sum runtime.State
	for i := range s.Rules {
		r := &s.Rules[i]
		state := r.algorithm().accrue(s.States[i], now)
		sum.Exists = sum.Exists || s.States[i].Exists
		sum.Value += state.Value
		sum.Prev = addPrev(r.Kind, sum.Prev, state.Prev)
		// If the clock has gone back for one shard, it has for all of them: the latest instant counts.
		if i == 0 || state.TS > sum.TS {
			sum.TS = state.TS
		}
	}
	if !sum.Exists {
		return runtime.State{}
	}
	return sum
}

// spread gives every shard its share of the state m. The shares of whole tokens are whole, because a shard with half a
// token could not be taken from, nor could another one use that half. Tokens that a shard has to give count as taken
// from it; their total is the result. If the tokens do not belong to requests, earlier requests can no longer be
// refunded.
func (s Shards) spread(whole *Rule, m runtime.State, now int64, belong bool) (total float64) {
	// Those of all classes of requests: the shares of what one class has are not what it has in each shard.
	tokens, n := linear{whole}.tokens(m)+whole.left, len(s.States)
	for i := range s.States {
		r, part := &s.Rules[i], m
		part.Log = "" // the totals of one shard are not those of all
		part.Value = math.Copysign(share(math.Abs(tokens), i, n), tokens) - (r.Capacity + r.left)
		switch had := r.algorithm().accrue(s.States[i], m.TS); {
		case !whole.Kind.Linear():
			if w := previousOf(m.Prev, m.TS); w.previous > 0 {
				w.previous = share(w.previous, i, n)
				part.Prev = w.state().Prev
			}
		case !belong:
			part.Prev = r.totals.void(had.Prev, now)
		default:
			// At least one, so that no earlier request is the last one of its shard: see linear.refund.
			part.Prev = addTotal(had.Prev, r.totals.fresh(now), 1+math.Ceil(max(0, had.Value-part.Value)))
		}
		s.States[i] = part
		total += totalOf(part)
	}
	if !whole.Kind.Linear() {
		return totalOf(m) // each of the shards has the void total of all
	}
	return total
}

// latest returns the instant of the last write.
func (s Shards) latest() int64 {
	latest := int64(math.MinInt64)
	for i := range s.States {
		if s.States[i].Exists {
			latest = max(latest, s.States[i].TS)
		}
	}
	return latest
}

// tokens returns the tokens of shard i.
func (s Shards) tokens(i int, now int64) float64 {
	r := &s.Rules[i]
	tokens, _ := r.algorithm().available(s.States[i], now)
	return tokens
}

// sum returns the tokens of the shards together.
func (s Shards) sum(now int64) float64 {
	sum := 0.0
	for i := range s.States {
		sum += s.tokens(i, now)
	}
	return sum
}

// until returns how long after now, at most full, the shards together have need tokens. Each shard stops accruing when
// it is full, so there is no formula for the sum. But the sum never decreases, so that a binary search finds the
// instant.
func (s Shards) until(whole *Rule, now int64, need float64, full time.Duration) time.Duration {
	low, high := now, arith.Add(now, int64(full))
	narrow := func(at int64) {
		if tokens, _ := whole.algorithm().available(s.merge(at), at); tokens >= need {
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
func (s Shards) fullAfter(whole *Rule, now int64) time.Duration {
	return arith.Between(now, s.fullAt(whole, now))
}

// fullAt returns the first instant, now or later, at which all of the shards are full by the rule that applies then.
func (s Shards) fullAt(whole *Rule, now int64) int64 {
	if whole.mode.Passes() {
		return now
	}
	at, holders := now, s.holders(whole)
	for i := range holders.Rules {
		r := &holders.Rules[i]
		at = max(at, r.when(s.States[i], now, r.Capacity))
	}
	if whole.next == nil || at < whole.ends {
		return at
	}
	later := Shards{make([]Rule, len(s.Rules)), s.States}
	for i := range s.Rules {
		later.Rules[i] = *s.Rules[i].next
	}
	return later.fullAt(whole.next, max(now, whole.ends))
}
