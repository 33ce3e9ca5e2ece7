package meter_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// preciseLimit returns a precise limit of rate tokens per period.
func preciseLimit(rate int64, period time.Duration) *runtime.Policy {
	return &runtime.Policy{Name: "precise", Kind: runtime.SlidingWindow, Rate: rate, Period: period, Capacity: rate, Precise: true}
}

// A token that was taken at t is available again at exactly t + period.
func TestPreciseWindowSteps(t *testing.T) {
	const s = int64(time.Second)
	allowed := func(left int64, full int64) runtime.Decision {
		return runtime.Decision{Allowed: true, Remaining: left, Value: float64(left), FullAfter: time.Duration(full)}
	}
	denied := func(left, retry, full int64) runtime.Decision {
		return runtime.Decision{Remaining: left, Value: float64(left), RetryAfter: time.Duration(retry), FullAfter: time.Duration(full)}
	}
	rule := meter.RuleOf(preciseLimit(5, time.Minute), "")
	var state runtime.State
	for i, step := range []struct {
		at   int64
		q    runtime.Request
		want runtime.Decision
	}{
		{0, runtime.Request{Op: runtime.Peek}, allowed(5, 0)},
		{0, runtime.Request{Count: 2}, allowed(3, 60*s)},
		{10 * s, runtime.Request{Count: 1}, allowed(2, 60*s)},
		{20 * s, runtime.Request{Op: runtime.Check, Count: 3}, denied(2, 40*s, 50*s)},
		{20 * s, runtime.Request{Count: 2}, allowed(0, 60*s)},
		{60*s - 1, runtime.Request{Count: 1}, denied(0, 1, 20*s+1)},
		{60*s - 1, runtime.Request{Count: 3}, denied(0, 10*s+1, 20*s+1)},
		{60*s - 1, runtime.Request{Count: 4}, denied(0, 20*s+1, 20*s+1)},
		{60 * s, runtime.Request{Op: runtime.Check, Count: 2}, allowed(2, 20*s)},
		{60 * s, runtime.Request{Count: 1}, allowed(1, 60*s)},
		{60 * s, runtime.Request{Count: 2}, denied(1, 10*s, 60*s)},
		// The clock goes back: nothing is gained, and the take counts from the latest one.
		{0, runtime.Request{Count: 1}, allowed(0, 120*s)},
		{0, runtime.Request{Count: 1}, denied(0, 70*s, 120*s)},
		// A refund leaves later takes alone.
		{70 * s, runtime.Request{Op: runtime.Refund, Count: 9, TakenAt: 20 * s}, allowed(3, 50*s)},
		{70 * s, runtime.Request{Op: runtime.Charge, Count: 6}, allowed(-3, 60*s)},
		{70 * s, runtime.Request{Count: 1}, denied(-3, 60*s, 60*s)},
		{70 * s, runtime.Request{Op: runtime.Reset}, allowed(5, 0)},
		{70 * s, runtime.Request{Count: 5}, allowed(0, 60*s)},
	} {
		var d runtime.Decision
		state, d = must2(rule.Step(state, step.at, step.q))
		d.TakenAt = time.Time{}
		step.want.Remaining = max(0, step.want.Remaining)
		if step.want.Allowed && (step.q.Op == runtime.Take || step.q.Op == runtime.Charge) {
			step.want.Taken = step.q.Count
		}
		require.Equal(t, step.want, d, "step %d", i)
	}
	_, _, err := rule.Step(runtime.State{}, 0, runtime.Request{Count: 6})
	require.ErrorIs(t, err, runtime.ErrExceedsCapacity)
}

// timestamps is the log that a precise limit must agree with: an instant for each token.
type timestamps struct {
	rate, period int64
	at           []int64
	last         int64
}

func (l *timestamps) live(now int64) (at []int64) {
	for _, t := range l.at {
		if t+l.period > now {
			at = append(at, t)
		}
	}
	return at
}

func (l *timestamps) decide(now int64, q runtime.Request) runtime.Decision {
	live := l.live(now)
	d := runtime.Decision{Allowed: true}
	free := l.rate - int64(len(live))
	switch q.Op {
	case runtime.Take, runtime.Check:
		if q.Count > free {
			d.Allowed = false
			d.RetryAfter = time.Duration(live[q.Count-free-1] + l.period - now)
		} else if q.Op == runtime.Take {
			live = l.add(live, now, q.Count)
		}
	case runtime.Charge:
		live = l.add(live, now, q.Count)
	case runtime.Refund:
		live = l.refund(live, q)
	case runtime.Reset:
		l.at, live, l.last = nil, nil, math.MinInt64
	}
	d.Remaining = max(0, l.rate-int64(len(live)))
	if len(live) > 0 {
		d.FullAfter = time.Duration(live[len(live)-1] + l.period - now)
	}
	return d
}

func (l *timestamps) add(live []int64, now, count int64) []int64 {
	l.last = max(l.last, now)
	for range count {
		live = append(live, l.last)
	}
	l.at = live
	return live
}

func (l *timestamps) refund(live []int64, q runtime.Request) []int64 {
	left := slices.Clone(live)
	for range q.Count {
		i := len(left) - 1
		for i >= 0 && q.TakenAt != 0 && left[i] != q.TakenAt {
			i--
		}
		if i < 0 {
			break
		}
		left = slices.Delete(left, i, i+1)
	}
	if len(left) < len(live) {
		l.at = left
	}
	return left
}

// preciseRun makes random requests of a limit to a store and to the log of timestamps.
func preciseRun(t *testing.T, seed uint64, steps int) {
	random := rand.New(rand.NewPCG(seed, 1))
	rate := []int64{1, 2, 3, 5, 20, 100, 1000}[random.IntN(7)]
	period := []int64{1, 7, 1000, int64(time.Minute)}[random.IntN(4)]
	p := preciseLimit(rate, time.Duration(period))
	now := int64(1_000_000_000)
	store := &memstore.Store{Clock: func() time.Time { return time.Unix(0, now) }}
	model := &timestamps{rate: rate, period: period, last: math.MinInt64}
	charges, back := random.IntN(4) == 0, random.IntN(3) == 0
	var taken []int64
	for i := range steps {
		switch random.IntN(8) {
		case 0, 1, 2, 3:
			now += random.Int64N(2*period/rate + 2)
		case 4:
			now += random.Int64N(period + 1)
		case 5:
			if back {
				now -= random.Int64N(period/2 + 1)
			}
		case 6:
			// Exactly when a token is due, or just before.
			if live := model.live(now); len(live) > 0 {
				now = live[random.IntN(len(live))] + period - random.Int64N(2)
			}
		}
		q := runtime.Request{Policy: p, Key: "k", Op: runtime.Take, Count: 1 + random.Int64N(rate)*random.Int64N(2)}
		switch random.IntN(20) {
		case 0:
			q.Op = runtime.Check
		case 1:
			q.Op = runtime.Peek
		case 2:
			q.Op = runtime.Refund
			if len(taken) > 0 {
				q.TakenAt = taken[len(taken)-1-random.IntN(min(len(taken), 9))]
			}
		case 3:
			if charges {
				q.Op = runtime.Charge
			}
		case 4:
			if random.IntN(20) == 0 {
				q.Op = runtime.Reset
			}
		}
		want := model.decide(now, q)
		answers := must(store.Do(context.Background(), []runtime.Call{{Requests: []runtime.Request{q}}}))
		require.NoError(t, answers[0].Err)
		d := answers[0].Decisions[0]
		if !d.TakenAt.IsZero() {
			require.Equal(t, model.last, d.TakenAt.UnixNano())
			taken = append(taken, d.TakenAt.UnixNano())
		}
		got := runtime.Decision{Allowed: d.Allowed, RetryAfter: d.RetryAfter, Remaining: d.Remaining, FullAfter: d.FullAfter}
		require.Equal(t, want, got, "seed %d, step %d: %v %d at %d, rate %d per %d, log %v", seed, i, q.Op, q.Count, now, rate, period, model.at)
		require.LessOrEqual(t, store.Len(), 1, "rows")
	}
}

func TestPreciseWindowAgreesWithLogOfTimestamps(t *testing.T) {
	for seed := range uint64(100) {
		preciseRun(t, seed, 400)
	}
}

// Another rate reads the log of the old one: nothing is forgotten, and nothing is granted beyond the new rate.
func TestPreciseWindowKeepsLogWhenRateChanges(t *testing.T) {
	for _, rates := range [][2]int64{{5, 8}, {8, 5}, {1, 3}, {3, 1}, {1000, 2}, {1000, 3}} {
		t.Run(fmt.Sprint(rates), func(t *testing.T) {
			old, new := meter.RuleOf(preciseLimit(rates[0], 1000), ""), meter.RuleOf(preciseLimit(rates[1], 1000), "")
			var s runtime.State
			var at []int64
			for now := range rates[0] {
				s, _, _ = old.Step(s, now, runtime.Request{Count: 1})
				at = append(at, now)
			}
			for now := rates[0]; now < 5000; now += 1 + now%17 {
				var d runtime.Decision
				s, d, _ = new.Step(s, now, runtime.Request{Count: 1})
				free := 0 // of the new rate, after the tokens of the last period
				for _, t := range at {
					if t+1000 > now {
						free++
					}
				}
				require.Equal(t, int64(free) < rates[1], d.Allowed, "at %d", now)
				if d.Allowed {
					at = append(at, now)
				}
			}
		})
	}
}

// Switching precise on takes the use of the approximation over, as of the end of its window.
func TestPreciseWindowAdoptsApproximateRow(t *testing.T) {
	approximate := preciseLimit(10, 1000)
	approximate.Precise = false
	approximate.Start = runtime.StartOffset(0)
	before, after := meter.RuleOf(approximate, ""), meter.RuleOf(preciseLimit(10, 1000), "")
	random := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		var s runtime.State
		var at []int64
		now := int64(0)
		for ; now < 2500; now += random.Int64N(200) {
			var d runtime.Decision
			if s, d, _ = before.Step(s, now, runtime.Request{Count: 1}); d.Allowed {
				at = append(at, now)
			}
		}
		end := now
		for ; now < end+4000; now += random.Int64N(300) {
			var d runtime.Decision
			s, d, _ = after.Step(s, now, runtime.Request{Count: 1})
			if d.Allowed {
				at = append(at, now)
				last := slices.DeleteFunc(slices.Clone(at), func(t int64) bool { return t <= now-1000 })
				require.LessOrEqual(t, len(last), 10, "at %d: %v", now, at)
			}
		}
	}
	s, d, _ := after.Step(runtime.State{Value: -6, TS: 5000, Prev: 3, Exists: true}, 5500, runtime.Request{Op: runtime.Peek})
	assert.Equal(t, runtime.Decision{Allowed: true, Remaining: 1, Value: 1, FullAfter: 1499}, d)
	_, d, _ = after.Step(s, 6000, runtime.Request{Op: runtime.Peek})
	assert.Equal(t, int64(4), d.Remaining)
}

// A row without a log, as versions before this one wrote them, counts all tokens as taken at the last take: never more
// is allowed than with the log.
func TestPreciseStepWithoutLogAllowsNoMore(t *testing.T) {
	rule := meter.RuleOf(preciseLimit(5, 100), "")
	random := rand.New(rand.NewPCG(1, 1))
	var s, logged runtime.State
	for now := int64(0); now < 20_000; now += random.Int64N(60) {
		q := runtime.Request{Count: 1 + random.Int64N(2)}
		var d runtime.Decision
		s, d = must2(rule.Step(s, now, q))
		s.Log = ""
		if d.Allowed {
			logged, d = must2(rule.Step(logged, now, q))
			require.True(t, d.Allowed)
		}
	}
}

// A larger rate than a log can have instants of is exact too, but for a thousandth of the period by which tokens come
// back late.
func TestPreciseWindowOfLargeRates(t *testing.T) {
	const period, grain = 86_400_000, 86_400
	for _, rate := range []int64{1001, 3000, 50_000} {
		rule := meter.RuleOf(preciseLimit(rate, period), "")
		random := rand.New(rand.NewPCG(1, uint64(rate)))
		type take struct{ at, count int64 }
		var s runtime.State
		var takes []take
		denials := 0
		for now := int64(0); now < 4*period; now += random.Int64N(period / 700) {
			q := runtime.Request{Count: 1 + random.Int64N(rate/500)}
			if random.IntN(100) == 0 {
				q.Count = rate / 3
			}
			next, d := must2(rule.Step(s, now, q))
			// The tokens of the half-open period that ends after now, and those that are not due a thousandth of it later.
			counted, due := int64(0), int64(0)
			for _, t := range slices.Backward(takes) {
				if t.at > now-period {
					counted += t.count
				}
				if t.at <= now-period-grain {
					break
				}
				due += t.count
			}
			switch {
			case d.Allowed:
				require.LessOrEqual(t, counted+q.Count, rate, "at %d", now)
				takes = append(takes, take{now, q.Count})
			default:
				require.Greater(t, due+q.Count, rate, "at %d", now)
				denials++
				at := now + int64(d.RetryAfter)
				_, early, _ := rule.Step(s, at-1, q)
				_, later, _ := rule.Step(s, at, q)
				require.False(t, early.Allowed)
				require.True(t, later.Allowed)
			}
			s = next
			require.LessOrEqual(t, len(s.Log), 22+8*1002, "bytes of a key")
		}
		assert.Greater(t, denials, 100)
	}
}

// Tokens charged beyond the rate leave a bounded log, of which no token comes back early.
func TestPreciseLogIsBounded(t *testing.T) {
	rule := meter.RuleOf(preciseLimit(3, 1_000_000), "")
	var s runtime.State
	for now := range int64(5000) {
		s, _, _ = rule.Step(s, now, runtime.Request{Op: runtime.Charge, Count: 2})
	}
	require.LessOrEqual(t, len(s.Log), 22+2*1002)
	s, d := must2(rule.Step(s, 5000, runtime.Request{Count: 1}))
	assert.Equal(t, -9997.0, d.Value)
	assert.Equal(t, time.Duration(4998+1_000_000-5000), d.RetryAfter)
	for at, left := range map[int64]float64{3997: -9997, 3998: 3 - 2*1001, 4998: 1} {
		_, d, _ := rule.Step(s, 1_000_000+at, runtime.Request{Op: runtime.Peek})
		assert.Equal(t, left, d.Value, "a period after %d", at)
	}
}

// Every change of a row shows in its numbers, so that a store need not compare logs.
func TestPreciseRowsDifferAfterEachChange(t *testing.T) {
	rule := meter.RuleOf(preciseLimit(5, 100), "")
	seen := map[runtime.State]bool{}
	s := runtime.State{}
	for range 10 {
		for _, q := range []runtime.Request{
			{Count: 1}, {Op: runtime.Refund, Count: 1}, {Op: runtime.Charge, Count: 1}, {Op: runtime.Refund, Count: 1, TakenAt: 7},
		} {
			s, _, _ = rule.Step(s, 7, q)
			numbers := s
			numbers.Log = ""
			require.False(t, seen[numbers], "%+v", s)
			seen[numbers] = true
		}
	}
}

func TestPreciseWindowRefusesDamagedRow(t *testing.T) {
	rule := meter.RuleOf(preciseLimit(5, 100), "")
	full, _ := must2(rule.Step(runtime.State{}, 10, runtime.Request{Count: 5}))
	for _, s := range []runtime.State{
		{Value: math.NaN(), TS: 10, Prev: -1, Exists: true},
		{Value: -5, TS: 10, Prev: math.NaN(), Exists: true},
		{Value: -5, TS: 10, Prev: math.Inf(-1), Exists: true},
		{Value: -5, TS: 10, Prev: -1e15, Exists: true},
		{Value: math.Inf(-1), TS: 10, Prev: -1 << 40, Exists: true},
		{Value: math.NaN(), TS: 10, Prev: 3, Exists: true},
		{Value: -5, TS: 10, Prev: -2, Exists: true, Log: "x"},
		{Value: -6, TS: 10, Prev: -2, Exists: true, Log: full.Log},
		{Value: -5, TS: 10, Prev: -2, Exists: true, Log: full.Log[:5]},
		{Value: -5, TS: 10, Prev: -2, Exists: true, Log: full.Log[:17]},
		{Value: -5, TS: 10, Prev: -2, Exists: true, Log: full.Log + "\x00"},
	} {
		_, d := must2(rule.Step(s, 50, runtime.Request{Count: 1}))
		assert.False(t, d.Allowed, "%+v", s)
		assert.LessOrEqual(t, d.RetryAfter, time.Duration(159))
	}
}

// A log whose older runs are damaged counts all tokens as taken at the newest one.
func TestPreciseWindowRefusesDamagedRuns(t *testing.T) {
	rule := meter.RuleOf(preciseLimit(5, 100), "")
	var s runtime.State
	for now := range int64(5) {
		s, _, _ = rule.Step(s, 10*now, runtime.Request{Count: 1})
	}
	_, d, _ := rule.Step(s, 105, runtime.Request{Count: 1})
	require.True(t, d.Allowed)
	_, d, _ = rule.Step(s, 105, runtime.Request{Count: 3})
	require.Equal(t, 15*time.Nanosecond, d.RetryAfter)
	denied := 0
	const runs = 17 // the bytes before are the tag and two instants, which say nothing of each other
	for i := runs; i < len(s.Log); i++ {
		for _, with := range []byte{0, 1, 9, 0x80, 0xff} {
			damaged := s
			damaged.Log = s.Log[:i] + string([]byte{with}) + s.Log[i+1:]
			for _, damaged.Log = range []string{damaged.Log, s.Log[:i]} {
				for _, now := range []int64{50, 105} {
					next, d := must2(rule.Step(damaged, now, runtime.Request{Op: runtime.Charge, Count: 1}))
					require.LessOrEqual(t, d.Value, 1.0, "byte %d is %x", i, with)
					if _, d, _ = rule.Step(damaged, now, runtime.Request{Count: 4}); !d.Allowed {
						denied++
					}
					must2(rule.Step(next, now, runtime.Request{Op: runtime.Refund, Count: 1}))
				}
			}
		}
	}
	assert.Greater(t, denied, 100)
}

func BenchmarkPreciseTake(b *testing.B) {
	for _, rate := range []int64{5, 100, 1000} {
		b.Run(fmt.Sprintf("rate=%d", rate), func(b *testing.B) {
			now := int64(1e18)
			store := &memstore.Store{Clock: func() time.Time { return time.Unix(0, now) }}
			l := limiter.New(store).Limit(preciseLimit(rate, time.Minute), runtime.Key{})
			b.ReportAllocs()
			for b.Loop() {
				// A token is due at each take, so that the ring goes round.
				now += int64(time.Minute) / rate
				if d, err := l.Allow(context.Background()); err != nil || !d.Allowed {
					b.Fatal(d, err)
				}
			}
		})
	}
}
