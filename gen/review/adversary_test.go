package review

import (
	"flag"
	"fmt"
	"math"
	"math/big"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// long has the adversary try more pairs of limits.
var long = flag.Bool("long", false, "try 2,500 pairs of limits, not some hundred")

// The adversary looks for schedules that pass a number of a review, or that come up to it. It knows nothing of the
// formulas: it calls the runtime as callers would. Schedules are random, and such as a person would try: take or
// reserve all there is, when a window ends or begins, when a token is due, or evenly spread.

// caller takes tokens from one key, by one version of a limit or by several in turns.
type caller struct {
	d        dice
	versions []*runtime.Policy
	rows     []runtime.State
	blocks   []lent
	uses     []use
}

func newCaller(d dice, versions ...*runtime.Policy) *caller {
	shards := 1
	for _, p := range versions {
		shards = max(shards, p.Shards)
	}
	return &caller{d: d, versions: versions, rows: make([]runtime.State, shards)}
}

const keyOfCaller = "key"

// ask asks one version.
func (c *caller) ask(p *runtime.Policy, now int64, q runtime.Request) (runtime.Decision, error) {
	if p.Shards > 1 {
		return p.StepShards(c.rows[:p.Shards], keyOfCaller, now, q, c.d.Uint64())
	}
	rule := p.Rule(keyOfCaller)
	next, d, err := rule.Step(c.rows[0], now, q)
	c.rows[0] = next
	return d, err
}

func (c *caller) peek(p *runtime.Policy, now int64) runtime.Decision {
	d, _ := c.ask(p, now, runtime.Request{Op: runtime.Peek})
	return d
}

// take takes a count, and uses it when it can be.
func (c *caller) take(p *runtime.Policy, now, count int64) bool {
	d, err := c.ask(p, now, runtime.Request{Count: count, Reserve: p.Reserves()})
	if err != nil || !d.Allowed {
		return false
	}
	c.uses = append(c.uses, use{now + int64(d.Delay), count})
	return true
}

// takeMost takes as much as can be used by an instant.
func (c *caller) takeMost(p *runtime.Policy, now, by int64) {
	low, high := int64(0), p.Capacity+p.MaxReserved
	for low < high {
		middle := low + (high-low+1)/2
		d, err := c.ask(p, now, runtime.Request{Op: runtime.Check, Count: middle, Reserve: p.Reserves()})
		if err == nil && d.Allowed && now+int64(d.Delay) <= by {
			low = middle
		} else {
			high = middle - 1
		}
	}
	if low > 0 {
		c.take(p, now, low)
	}
}

// lend takes a block.
func (c *caller) lend(p *runtime.Policy, now int64) bool {
	if p.Lease.Tokens == 0 {
		return false
	}
	d, err := c.ask(p, now, runtime.Request{Count: p.Lease.Tokens})
	if err != nil || !d.Allowed {
		return false
	}
	rule := p.Rule(keyOfCaller)
	b := lent{left: p.Lease.Tokens, taken: now, end: now + int64(p.Lease.For)}
	if end := rule.WindowEnd(now); end < math.MaxInt64 {
		b.end = min(b.end, end-1)
	}
	c.blocks = append(c.blocks, b)
	return true
}

// end spends the blocks as late as they can be, or at random, and gives back what is left.
func (c *caller) end(p *runtime.Policy, now, later int64, at func(b lent) int64, spent func(b lent) int64) {
	var rest []lent
	for _, b := range c.blocks {
		if b.end > later {
			rest = append(rest, b)
			continue
		}
		used := spent(b)
		c.uses = append(c.uses, use{at(b), used})
		if b.left > used {
			c.ask(p, max(now, b.end), runtime.Request{Op: runtime.Refund, Count: b.left - used, TakenAt: b.taken})
		}
	}
	c.blocks = rest
}

// instants are those of a schedule that is worth trying against a limit, from one instant to another: when windows end
// and begin, and evenly spread.
func instants(p *runtime.Policy, begin, from, length int64) (list []int64) {
	period := int64(p.Period)
	if p.Kind == runtime.TokenBucket { // when tokens are due, as many at a time as do not pile up
		step := max(1, (p.Capacity+p.MaxReserved)/2)
		for k, at := int64(0), begin; at < from+length; k += step {
			if at = begin + period/p.Rate*k + period%p.Rate*k/p.Rate; at > from && at < from+length {
				list = append(list, at)
			}
		}
		return append(append([]int64{from}, list...), from+length)
	}
	if p.Start.FirstUse() {
		delay := int64(spec.LongestDelay(p))
		if !p.Reserves() {
			return append([]int64{begin, from}, parts(from, length, max(1, length/period))...)
		}
		n := (length + delay) / period
		return append([]int64{begin}, parts(begin, from+length-begin, max(1, n))...)
	}
	windows := begin - floorMod(begin-p.Rule(keyOfCaller).Phase, period)
	for at := windows; at <= from+length; at += period {
		list = append(list, max(at, begin), at+period-1)
	}
	return append(slices.DeleteFunc(list, func(at int64) bool { return at < begin || at > from+length }), from+length)
}

// attack returns the most tokens that it finds used in an interval.
func attack(d dice, p *runtime.Policy, length int64) (found int64) {
	rule := p.Rule(keyOfCaller)
	edge := rule.Phase + 40*rule.Period
	delay := int64(spec.LongestDelay(p))
	// Reserve all that can be, so that it is due when the interval begins; then all that can be used in it.
	for _, begin := range []int64{edge, edge - 1} {
		c := newCaller(d, p)
		c.takeMost(p, begin, begin+delay)
		from := begin
		if len(c.uses) > 0 {
			from = c.uses[0].at
		}
		again := &caller{d: d, rows: slices.Clone(c.rows), uses: slices.Clone(c.uses)}
		for _, at := range instants(p, begin, from, length) {
			c.takeMost(p, at, from+length)
		}
		for at := begin; p.Start.FirstUse() && at <= from+length; at += rule.Period {
			again.takeMost(p, at, from+length)
		}
		found = max(found, most(c.uses, length), most(again.uses, length))
	}
	if p.Start.FirstUse() && p.Capacity > 0 && !p.Reserves() { // open a window with one token
		opened := edge - rule.Period + 1
		whole, tokens, windows := []int64{opened, edge}, int64(0), max(1, ceil(length, rule.Period))
		all := (length + rule.Period) / rule.Period * p.Rate
		for i := range windows { // so that each window begins with whole tokens
			tokens += all / windows
			if i < all%windows {
				tokens++
			}
			whole = append(whole, opened+rule.Period/p.Rate*tokens+rule.Period%p.Rate*tokens/p.Rate-1)
		}
		found = max(found, most(drainsOf(d, p, whole), length))
		found = max(found, most(drainsOf(d, p, append([]int64{opened, edge}, parts(opened, length+rule.Period-1, max(1, ceil(length, rule.Period)))...)), length))
	}
	if p.Lease.Tokens > 0 && p.Kind == runtime.TokenBucket { // take blocks, and spend them at once
		c := newCaller(d, p)
		used := edge + int64(p.Lease.For)
		for now := edge; now <= used; {
			if !c.lend(p, now) {
				d, _ := c.ask(p, now, runtime.Request{Op: runtime.Check, Count: p.Lease.Tokens})
				now += max(1, int64(d.RetryAfter))
			}
		}
		for _, b := range c.blocks {
			c.uses = append(c.uses, use{used, b.left})
		}
		for _, at := range instants(p, edge, used, length) {
			c.takeMost(p, at, used+length)
		}
		found = max(found, most(c.uses, length))
	}
	if p.Kind == runtime.SlidingWindow {
		c := newCaller(d, p)
		for _, at := range every(edge-1, edge-1+length, rule.Period) {
			c.takeMost(p, at, at)
		}
		found = max(found, most(c.uses, length))
	}
	return found
}

// drainsOf takes one token, then all that there is at some instants.
func drainsOf(d dice, p *runtime.Policy, instants []int64) []use {
	c := newCaller(d, p)
	c.take(p, instants[0], 1)
	for _, at := range instants[1:] {
		c.takeMost(p, at, at)
	}
	return c.uses
}

// roam makes random calls.
func roam(d dice, p *runtime.Policy) []use {
	c := newCaller(d, p)
	rule := p.Rule(keyOfCaller)
	now := rule.Phase + 3*rule.Period + d.Int64N(rule.Period)
	for range 150 {
		switch d.IntN(5) {
		case 0:
			c.lend(p, now)
		case 1:
			c.takeMost(p, now, now+d.Int64N(2*int64(spec.LongestDelay(p))/2+1))
		case 2, 3:
			c.take(p, now, choose(d, 1, max(1, p.Capacity), p.Capacity+p.MaxReserved, 1+d.Int64N(p.Capacity+p.MaxReserved)))
		}
		due := time.Duration(0)
		if p.Capacity > 0 {
			d, _ := c.ask(p, now, runtime.Request{Op: runtime.Check, Count: 1})
			due = d.RetryAfter
		}
		later := now + d.jump(*p, due)
		if end := rule.WindowEnd(now); d.IntN(4) == 0 && end < math.MaxInt64 {
			later = choose(d, end-1, end)
		}
		c.end(p, now, later, func(b lent) int64 { return choose(d, now, b.end, now+d.Int64N(max(1, b.end-now+1))) },
			func(b lent) int64 { return choose(d, 0, b.left, b.left, d.Int64N(b.left+1)) })
		now = later
	}
	return c.uses
}

// bounded is a random policy without reservations beyond all bounds, sometimes with shards.
func (d dice) bounded() runtime.Policy {
	for {
		p := d.policy()
		if p.MaxReserved == runtime.Unbounded {
			p.MaxReserved = choose(d, 1, p.Rate/2+1, 3*p.Rate)
		}
		if p.MaxReserved > 0 && d.IntN(5) == 0 && p.Kind != runtime.SlidingWindow {
			p.Capacity, p.Lease = 0, runtime.Lease{}
		}
		if d.IntN(4) == 0 {
			p.Shards = choose(d, 2, 3, 4, 7)
		}
		if p.Validate() == nil {
			return p
		}
	}
}

// edited is a random edit of a policy: of one or two of its fields, or all.
func (d dice) edited(p runtime.Policy) runtime.Policy {
	for {
		new, other := p, d.bounded()
		for range 1 + d.IntN(3) {
			switch d.IntN(8) {
			case 0:
				new.Rate = other.Rate
			case 1:
				new.Period = choose(d, other.Period, 24*p.Period, max(time.Second, p.Period/4))
			case 2:
				new.Capacity = other.Capacity
			case 3:
				new.MaxReserved = other.MaxReserved
			case 4:
				new.Kind, new.Start = other.Kind, other.Start
			case 5:
				new.Start = other.Start
			case 6:
				new.Shards, new.Lease = other.Shards, other.Lease
			case 7:
				new = other
			}
		}
		if new.Kind == runtime.SlidingWindow {
			new.Capacity, new.MaxReserved = new.Rate, 0
		}
		if new.Validate() == nil && new != p {
			return new
		}
	}
}

func limitOf(p runtime.Policy, keyed bool) *spec.Limit {
	l := &spec.Limit{Policy: p, GoName: "Limit"}
	if keyed {
		l.Key = keyParts
	}
	return l
}

// tally counts the numbers that were tried, and of them those that a schedule came up to.
type tally struct{ tried, reached map[string]int }

func (y *tally) note(what string, reached bool) {
	y.tried[what]++
	if reached {
		y.reached[what]++
	}
}

func (y *tally) String() (text string) {
	for _, what := range slices.Sorted(func(yield func(string) bool) {
		for what := range y.tried {
			if !yield(what) {
				return
			}
		}
	}) {
		text += fmt.Sprintf("%s: %d tried, %d reached\n", what, y.tried[what], y.reached[what])
	}
	return text
}

// pairs returns how many pairs of limits are tried.
func pairs() int {
	if *long {
		return 2500
	}
	return 100
}

// subjectOfPair reviews an edit, and returns its subject with the numbers as they are printed.
func subjectOfPair(old, new *spec.Limit) Subject {
	r := Of(&spec.File{Limits: []*spec.Limit{old}}, &spec.File{Limits: []*spec.Limit{new}})
	return r.Subjects[0]
}

func TestAdversaryOfNumbers(t *testing.T) {
	d := roll(11)
	y := &tally{map[string]int{}, map[string]int{}}
	for range pairs() {
		old := d.bounded()
		new := d.edited(old)
		s := subjectOfPair(limitOf(old, true), limitOf(new, true))
		for side, p := range []*runtime.Policy{&old, &new} {
			traces := [][]use{roam(d, p), roam(d, p), roam(d, p)}
			for _, n := range s.Numbers {
				value := n.Old
				if side == 1 {
					value = n.New
				}
				if value != nil && n.Unit == Tokens {
					againstNumber(t, y, d, p, n.Name, *value, traces)
				}
			}
		}
	}
	t.Log("\n" + y.String())
	assert.Equal(t, y.tried, y.reached, "some schedule comes up to each number")
}

// againstNumber compares a number of tokens with what schedules find.
func againstNumber(t *testing.T, y *tally, d dice, p *runtime.Policy, name string, value int64, traces [][]use) {
	t.Helper()
	switch name {
	case largestReservation:
		c := newCaller(d, p)
		now := p.Rule(keyOfCaller).Phase + 40*int64(p.Period)
		require.True(t, c.take(p, now, value), "%+v", p)
		require.False(t, newCaller(d, p).take(p, now, value+1), "%+v", p)
		return
	case "at once" + unreserved:
		p, name, traces = spec.Unreserved(p), "at once", nil
		if p.Capacity == 0 {
			require.Zero(t, value)
			return
		}
	}
	length := lengthOf(t, p, name)
	if length/int64(p.Period) > 3000*max(1, p.Capacity+p.MaxReserved)/p.Rate || length > 3000*int64(p.Period) {
		return // that takes too many calls
	}
	for _, uses := range traces {
		require.LessOrEqual(t, most(uses, length), value, "%s of %+v", name, p)
	}
	found := attack(d, p, length)
	require.LessOrEqual(t, found, value, "%s of %+v", name, p)
	if p.Shards > 1 {
		y.note("with shards", true) // it is that of one row, which shards need not come up to
		return
	}
	y.note(fmt.Sprintf("%s, reserving %v, leased %v", p.Kind, p.Reserves(), p.Lease.Tokens > 0), found == value)
	if found != value {
		t.Logf("%s of %+v: %d found, not %d", name, p, found, value)
	}
}

// lengthOf returns the interval that the name of a number says.
func lengthOf(t *testing.T, p *runtime.Policy, name string) int64 {
	t.Helper()
	if name == "at once" {
		return 0
	}
	for _, length := range []time.Duration{time.Minute, time.Hour, 24 * time.Hour, p.Period} {
		if name == "in any "+spec.PeriodInWords(length) {
			return int64(length)
		}
	}
	// It is the period of the other side, which is told of both.
	for _, length := range []time.Duration{time.Second, 30 * time.Second, 90 * time.Second} {
		for _, times := range []time.Duration{1, 24} {
			if name == "in any "+spec.PeriodInWords(times*length) {
				return int64(times * length)
			}
		}
	}
	return math.MaxInt64
}

// emptiedStates has callers empty a key by a rule in ways that a person would try, and random ones, and returns what
// is stored with the instants at which the key has less than one token and owes none, as far as they may matter.
func emptiedStates(d dice, old, new *runtime.Policy, key string, look func(state runtime.State, at int64)) {
	rule, other := old.Rule(key), new.Rule(key)
	begin := rule.Phase + 40*rule.Period
	inspect := func(state runtime.State, now int64) {
		at := []int64{now}
		if count := int64(1); true {
			if _, one, err := rule.Step(state, now, runtime.Request{Op: runtime.Check, Count: count}); err == nil && one.RetryAfter < 1<<60 {
				end := now + int64(one.RetryAfter)
				empty := sort.Search(int(end-now), func(after int) bool {
					_, left, _ := rule.Step(state, now+int64(after), runtime.Request{Op: runtime.Peek})
					return left.Value >= 1-2e-6
				})
				at = append(at, now+int64(empty)-1, now+int64(one.RetryAfter)/2)
				for _, edge := range []int64{end - floorMod(end-other.Phase, other.Period), state.TS - floorMod(state.TS-other.Phase, other.Period) + other.Period} {
					at = append(at, edge-1, edge, edge+other.Period-1, edge+other.Period)
				}
			}
		}
		for _, at := range at {
			_, left, _ := rule.Step(state, at, runtime.Request{Op: runtime.Peek})
			if at >= now && left.Value >= 0 && left.Value < 1-2e-6 { // nearer to a token, a sum is rounded either way
				look(state, at)
			}
		}
	}
	take := func(state runtime.State, now, count int64, reserve bool) runtime.State {
		next, decision, err := rule.Step(state, now, runtime.Request{Count: count, Reserve: reserve})
		if err == nil && decision.Allowed {
			inspect(next, now)
			return next
		}
		return state
	}
	all := func(state runtime.State, now int64) runtime.State {
		_, left, _ := rule.Step(state, now, runtime.Request{Op: runtime.Peek})
		return take(state, now, left.Remaining, false)
	}
	edge := begin - floorMod(begin-other.Phase, other.Period) + choose[int64](d, 1, 2, 3)*other.Period // of the new windows
	near := edge - floorMod(edge-rule.Phase, rule.Period)
	for _, now := range []int64{begin, near, begin - 1, begin + rule.Period/3} {
		empty := all(runtime.State{}, now)
		for _, debt := range []int64{1, old.Rate, old.MaxReserved / 2, old.MaxReserved, old.MaxReserved / old.Rate * old.Rate} {
			take(empty, now, debt, true)
		}
		if rule.FirstUse { // a window that begins with a part of a token
			for _, owed := range []int64{0, old.MaxReserved} {
				state := take(empty, now, max(1, owed), true)
				_, one, _ := rule.Step(state, now, runtime.Request{Op: runtime.Check, Count: 1})
				for part := range int64(3) {
					all(state, now+int64(one.RetryAfter)+rule.Period/old.Rate-1-part)
					all(empty, now+rule.Period+rule.Period/old.Rate-1-part)
				}
			}
		}
		if rule.Kind == runtime.SlidingWindow { // some used soon after a window that used all
			begin := max(begin, now-floorMod(now-rule.Phase, rule.Period))
			used := all(runtime.State{}, begin-1)
			for count := int64(1); count <= min(old.Rate, 600); count++ {
				_, one, _ := rule.Step(used, begin, runtime.Request{Op: runtime.Check, Count: count})
				take(used, begin+int64(one.RetryAfter), count, false)
			}
		}
	}
	state, now := runtime.State{}, begin+d.Int64N(rule.Period)
	for range 20 {
		state = take(state, now, choose(d, 1, old.Capacity, 1+d.Int64N(old.Capacity+old.MaxReserved)), old.Reserves())
		state = all(state, now)
		_, one, _ := rule.Step(state, now, runtime.Request{Op: runtime.Check, Count: 1})
		now += d.jump(*old, min(one.RetryAfter, 20*old.Period))
	}
}

// What a key has right after a deploy is never more than is said, and some key has as much. Keys whose windows are not
// as unlucky as can be come close.
func TestAdversaryOfDeploys(t *testing.T) {
	d := roll(12)
	tried, reached, close := 0, 0, 0
	for range pairs() {
		old := d.bounded()
		old.Shards, old.Lease = 0, runtime.Lease{}
		new := d.edited(old)
		if new.Shards > 1 || old.Capacity == 0 {
			continue
		}
		most, found := Carried(limitOf(old, true), limitOf(new, true)), int64(0)
		for i := range 15 {
			key := fmt.Sprint("user", i)
			after := new.Rule(key)
			emptiedStates(d, &old, &new, key, func(state runtime.State, at int64) {
				_, left, err := after.Step(state, at, runtime.Request{Op: runtime.Peek})
				require.NoError(t, err)
				require.LessOrEqual(t, left.Remaining, most, "%+v\nat %d of %+v\nto %+v", state, at, old, new)
				found = max(found, left.Remaining)
			})
		}
		tried++
		switch {
		case found == most:
			reached++
		case 10*found >= 7*most-20 && gridOf(limitOf(old, true), limitOf(new, true)).step == 1:
			close++
		default:
			t.Logf("%d found, not %d\nof %+v\nto %+v", found, most, old, new)
		}
	}
	t.Logf("%d edits tried, %d reached, %d close", tried, reached, close)
	assert.GreaterOrEqual(t, 100*(reached+close), 97*tried)
}

// Two versions never take more at once than is said, and some schedule takes as much.
func TestAdversaryOfVersionsSideBySide(t *testing.T) {
	d := roll(13)
	tried, reached, close, lastable, lasted := 0, 0, 0, 0, 0
	for range pairs() {
		p := d.bounded()
		old := *spec.Unreserved(&p)
		q := d.edited(old)
		new := *spec.Unreserved(&q)
		old.Lease, new.Lease = runtime.Lease{}, runtime.Lease{}
		if old.Validate() != nil || new.Validate() != nil || old == new || !countTogether(limitOf(old, true), limitOf(new, true)) {
			continue
		}
		said, found := Together(limitOf(old, true), limitOf(new, true)), int64(0)
		for i := range 60 {
			found = max(found, sideBySide(d, &old, &new, fmt.Sprint("user", i)))
		}
		require.LessOrEqual(t, found, said, "%+v\nto %+v", old, new)
		tried++
		if rate, ok := lasting(limitOf(old, true), limitOf(new, true)); ok {
			longest := max(old.Period, new.Period)
			windows := roundUp(big.NewRat(40*int64(longest), int64(new.Period)))
			sum := lastingly(d, &old, &new, 40*int64(longest))
			require.LessOrEqual(t, sum, said+rate*(windows+windows/20+2), "%+v\nto %+v", old, new)
			if 10*sum >= 9*rate*windows {
				lasted++
			}
			lastable++
		}
		switch {
		case found == said:
			reached++
		case 10*found >= 8*said-20:
			close++
		default:
			t.Errorf("%d found, not %d\nof %+v\nto %+v", found, said, old, new)
		}
	}
	t.Logf("%d edits tried, %d reached, %d close; %d long runs tried, %d within a tenth", tried, reached, close, lastable, lasted)
	assert.Greater(t, 3*lasted, lastable)
}

// lastingly has two versions take from the rows of one key for a time, whoever comes, and returns what they take.
func lastingly(d dice, old, new *runtime.Policy, length int64) (sum int64) {
	c := newCaller(d, old, new)
	begin := int64(1e18)
	step := max(length/4000, min(int64(old.Period)*max(1, old.Capacity)/old.Rate, int64(new.Period)*max(1, new.Capacity)/new.Rate, int64(old.Period), int64(new.Period))/2)
	for now := begin; now < begin+length; now += step {
		first := d.IntN(2)
		for turn := range 2 {
			p := c.versions[(first+turn)%2]
			if count := c.peek(p, now).Remaining; count > 0 && c.take(p, now, count) {
				sum += count
			}
		}
	}
	return sum
}

// sideBySide has two versions take from the rows of one key at random instants near the ends of windows, and returns
// the most that they take at one of them.
func sideBySide(d dice, old, new *runtime.Policy, key string) (found int64) {
	rules := []runtime.Rule{old.Rule(key), new.Rule(key)}
	near := func(now int64) int64 {
		r := choose(d, rules...)
		if r.Kind == runtime.TokenBucket || d.IntN(4) == 0 {
			return now + d.Int64N(r.Period)
		}
		return now - floorMod(now-r.Phase, r.Period) + choose[int64](d, 1, 2)*r.Period - choose[int64](d, 0, 1)
	}
	for range 12 {
		c := newCaller(d, old, new)
		now := near(rules[0].Phase + 40*rules[0].Period)
		if opens := choose(d, old, new); d.IntN(3) == 0 && opens.Start.FirstUse() && opens.Capacity > 0 {
			c.take(opens, now-int64(opens.Period)+1, 1)
		}
		for range 3 {
			// Whoever comes first takes all that it finds, then the other one.
			sum := int64(0)
			first := d.IntN(2)
			for turn := range 4 {
				p := c.versions[(first+turn)%2]
				count := left(p, c.rows[:max(1, p.Shards)], now)
				if p.Kind != runtime.TokenBucket && !p.Start.FirstUse() {
					count = left(withWindow(p, rules[(first+turn)%2].Phase), c.rows[:max(1, p.Shards)], now)
				}
				if d.IntN(3) == 0 {
					count = min(count, choose(d, 1, 1+d.Int64N(count+1)))
				}
				if count > 0 {
					phased := withWindow(p, rules[(first+turn)%2].Phase)
					_, err := c.ask(phased, now, runtime.Request{Count: count})
					if err == nil {
						sum += count
					}
				}
			}
			found = max(found, sum)
			now = near(now)
		}
	}
	return found
}
