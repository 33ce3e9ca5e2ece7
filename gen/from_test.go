package gen

import (
	"math/rand/v2"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// limitsOfFrom returns the limits of the page, as one file.
func limitsOfFrom(t *testing.T) string {
	page, err := os.ReadFile("spec/FROM.md")
	require.NoError(t, err)
	text := "version: 1\npackage: limits\nlimits:\n"
	for _, m := range regexp.MustCompile("(?s)\n```yaml\n(.*?)```\n").FindAllStringSubmatch(string(page), -1) {
		text += m[1]
	}
	return text
}

func TestLimitsOfOthersCompile(t *testing.T) {
	out, err := goTool(t, module(t, map[string]string{"limits/limits.gen.go": string(generated(t, limitsOfFrom(t)))}), "build", "./...")
	assert.NoError(t, err, out)
}

// rule is the rule of another system for one key: whether it allows a request at a time, in milliseconds since 1970, and
// what it keeps of an allowed one.
type rule func(now int64) (allowed bool, take func())

// fromFirst counts from the first request of a window.
func fromFirst(limit, window int64) rule {
	var count, ends int64
	return func(now int64) (bool, func()) {
		if now >= ends {
			count, ends = 0, now+window
		}
		return count < limit, func() { count++ }
	}
}

// aligned counts in windows that begin at multiples of their length.
func aligned(limit, window int64) rule {
	counts := map[int64]int64{}
	return func(now int64) (bool, func()) {
		return counts[now/window] < limit, func() { counts[now/window]++ }
	}
}

// history keeps the times of what it has allowed.
func history(limit int, window int64) rule {
	var times []int64
	return func(now int64) (bool, func()) {
		for len(times) > 0 && times[0] <= now-window {
			times = times[1:]
		}
		return len(times) < limit, func() { times = append(times, now) }
	}
}

// excess has the thousandths of requests above a rate per second, and allows a burst of them.
func excess(rate, burst int64) rule {
	level, last := int64(-1), int64(0)
	return func(now int64) (bool, func()) {
		next := max(0, level-rate*(now-last)+1000)
		if level < 0 {
			next = 0
		}
		return next <= 1000*burst, func() { level, last = next, now }
	}
}

// gcra has the theoretical arrival time of the next request. It allows a request that is early by some time.
func gcra(count, period, burst, early int64) rule {
	interval, tat := period/count, int64(0)
	return func(now int64) (bool, func()) {
		next := max(tat, now) + interval
		return now >= next-interval*burst-early, func() { tat = next }
	}
}

// greedy refills a bucket with whole tokens, each as soon as its time is over.
func greedy(capacity, tokens, period int64) rule {
	have, at := capacity, int64(0)
	each := period / tokens
	return func(now int64) (bool, func()) {
		n := (now - at) / each
		if have, at = have+n, at+n*each; have >= capacity {
			have, at = capacity, now
		}
		return have > 0, func() { have-- }
	}
}

// weighted adds the share of the previous window, rounded down, to the count of this one.
func weighted(limit, window int64) rule {
	counts := map[int64]int64{}
	return func(now int64) (bool, func()) {
		at := now / window
		return counts[at-1]*(window-now%window)/window+counts[at] < limit, func() { counts[at]++ }
	}
}

const second, minute, hour = int64(1000), int64(60_000), int64(3_600_000)

// The limits of the page decide as the systems whose rules they translate. Those that the page says to be nearly the same
// allow a request at most so many milliseconds later.
func TestLimitsDecideAsThoseOfOthers(t *testing.T) {
	file, problems := fields.Parse("limits.yaml", []byte(limitsOfFrom(t)))
	require.Empty(t, problems)
	type other struct {
		rule  func() rule
		later int64
	}
	others := map[string]other{
		"calls":                        {func() rule { return gcra(10, minute, 20, 0) }, 0},
		"perClient":                    {func() rule { return gcra(10, minute, 10, 0) }, 0},
		"hourly":                       {func() rule { return fromFirst(1000, hour) }, 0},
		"web":                          {func() rule { return fromFirst(100, 15*minute) }, 0},
		"logins":                       {func() rule { return aligned(5, minute) }, 0},
		"api":                          {func() rule { return fromFirst(60, minute) }, 0},
		"user":                         {func() rule { return history(1000, 24*hour) }, 0},
		"perRoute":                     {func() rule { return fromFirst(20, minute) }, 0},
		"perIP":                        {func() rule { return excess(10, 20) }, 0},
		"remoteAddress":                {func() rule { return aligned(100, minute) }, 0},
		"posts":                        {func() rule { return fromFirst(10, minute) }, 0},
		"newRegistrationsPerIPAddress": {func() rule { return gcra(10, 3*hour, 20, 9*minute) }, 9 * minute},
		"perMinute":                    {func() rule { return aligned(60, minute) }, 0},
		"perHour":                      {func() rule { return aligned(1000, hour) }, 0},
		"consumers":                    {func() rule { return fromFirst(200, minute) }, 0},
		"requests":                     {func() rule { return greedy(20, 10, minute) }, 0},
		"perUser":                      {func() rule { return weighted(10, 10*second) }, 10 * second},
		"sendMessage":                  {func() rule { return gcra(10, minute, 3, 0) }, 0},
	}
	tested := 0
	for _, l := range file.Limits {
		p := l.Policy
		if p.Kind == runtime.InFlight {
			continue // slots have no times
		}
		tested++
		require.Contains(t, others, p.Name)
		t.Run(p.Name, func(t *testing.T) {
			for seed := range uint64(3) {
				compareWith(t, &p, others[p.Name].rule(), others[p.Name].later, seed)
			}
		})
	}
	require.Len(t, others, tested)
}

// compareWith makes requests at random times, most of them faster than the limit allows, and some after a pause.
func compareWith(t *testing.T, p *runtime.Policy, theirs rule, later int64, seed uint64) {
	dice := rand.New(rand.NewPCG(seed, 1))
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	limits := limiter.New(&memstore.Store{Clock: func() time.Time { return time.UnixMilli(now) }})
	limit := limits.Limit(p, runtime.KeyOf(runtime.String("k")))
	period := p.Period.Milliseconds()
	each := max(1, period/p.Rate)
	denied, differ := 0, 0
	for step := range 10 * max(100, p.Rate) {
		switch dice.Int64N(10 + 3*p.Rate) {
		case 0:
			now += dice.Int64N(2*period) + 1
		case 1:
			now += period - now%period // the beginning of a window
		case 2, 3:
			now += dice.Int64N(3*each + 1)
		default:
			now += dice.Int64N(each/2 + 1)
		}
		d, err := limit.Allow(t.Context())
		require.NoError(t, err)
		allowed, take := theirs(now)
		if d.Allowed {
			take()
		} else {
			denied++
		}
		if d.Allowed != allowed {
			differ++
			require.True(t, allowed && d.RetryAfter.Milliseconds() <= later, "seed %d, step %d, at %d: %v, and theirs is %t", seed, step, now, d, allowed)
		}
	}
	require.NotZero(t, denied)
	require.Equal(t, later > 0, differ > 0, "the page says whether the decisions differ")
}
