package agree

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
)

// generator makes policies, rows and calls, with numbers that people use and numbers at the limits of a float64.
type generator struct {
	*rand.Rand
	// plans are the policies of a limit at the numbers that its keys have in turn, by its name.
	plans map[string][]*runtime.Policy
}

var (
	rates   = []int64{1, 3, 7, 10, 97, 1000, 40_000, 1_000_000_007, 700_000_000_000, 999_999_999_999_989}
	periods = []time.Duration{time.Millisecond, time.Second, time.Minute, time.Hour, 24 * time.Hour, 7 * time.Second,
		365 * 24 * time.Hour}
)

// keys is how many keys a limit has.
const keys = 8

func (d generator) policies(n int) []*runtime.Policy {
	all := make([]*runtime.Policy, n)
	for i := range all {
		all[i] = d.policy("limit " + strconv.Itoa(i))
		d.plans[all[i].Name] = []*runtime.Policy{all[i]}
		for range d.IntN(4) {
			d.plans[all[i].Name] = append(d.plans[all[i].Name], d.plan(*all[i]))
		}
	}
	return all
}

// plan returns a policy of the same limit with other numbers.
func (d generator) plan(p runtime.Policy) *runtime.Policy {
	if d.IntN(3) > 0 {
		p.Rate = rates[d.IntN(len(rates))]
		p.Capacity = 1 + d.Int64N(min(runtime.MaxTokens, 3*p.Rate))
	}
	switch {
	case p.Kind == runtime.SlidingWindow:
		p.Capacity = p.Rate
	case p.MaxReserved != runtime.Unbounded:
		p.MaxReserved = min(p.MaxReserved, p.Rate)
	}
	if p.Kind == runtime.TokenBucket && d.IntN(2) == 0 {
		p.Period = periods[d.IntN(len(periods))]
	}
	return &p
}

func (d generator) policy(name string) *runtime.Policy {
	rate := rates[d.IntN(len(rates))]
	p := &runtime.Policy{
		Name: name, Kind: tokenKinds()[d.IntN(len(tokenKinds()))], Rate: rate, Period: periods[d.IntN(len(periods))],
		Capacity: 1 + d.Int64N(min(runtime.MaxTokens, 3*rate)), MaxReserved: d.Int64N(rate + 1),
	}
	if d.IntN(4) == 0 {
		p.MaxReserved = runtime.Unbounded
	}
	if d.IntN(4) == 0 {
		p.Jitter = 10 * time.Second
	}
	switch {
	case p.Kind == runtime.SlidingWindow:
		p.Capacity, p.MaxReserved = rate, 0
	case p.Kind == runtime.FixedWindow && d.IntN(4) == 0:
		p.Start = runtime.StartFirstUse()
	}
	if d.IntN(3) == 0 {
		p.Penalty, p.MaxReserved = runtime.PenaltyOf(0, p.Period/3+1, 2*p.Period, p.Period/7+1), 0
	}
	if d.IntN(2) == 0 {
		p.Warn = runtime.Thresholds{25, 50, 75, 100}
	}
	if d.IntN(4) == 0 {
		p.Mode = runtime.Modes()[d.IntN(len(runtime.Modes()))]
	}
	return p
}

// tokenKinds returns the kinds whose tokens come back with time: all but [runtime.InFlight].
func tokenKinds() []runtime.Kind {
	return slices.DeleteFunc(runtime.Kinds(), func(k runtime.Kind) bool { return k == runtime.InFlight })
}

func key(i int) string { return `"key" \` + strconv.Itoa(i) }

// rows returns rows of the policies: missing, in debt, full, or within a rounding error of a whole count.
func (d generator) rows(policies []*runtime.Policy, now int64) map[runtime.Row]runtime.State {
	rows := map[runtime.Row]runtime.State{}
	for _, p := range policies {
		for i := range keys {
			rows[runtime.Row{Name: p.Name, Key: key(i)}] = d.state(p, now)
		}
	}
	return rows
}

func (d generator) state(p *runtime.Policy, now int64) runtime.State {
	s := runtime.State{
		Value:  float64(p.Capacity) * (d.Float64()*3 - 2),
		TS:     now - d.Int64N(2*int64(p.Period)) + int64(p.Period)/4,
		Exists: true,
	}
	if rule := meter.RuleOf(p, ""); p.Kind == runtime.FixedWindow && d.IntN(2) == 0 {
		// Whole tokens since the start of a window, so that the roll-over of several windows is exact.
		s.Value, s.TS = -math.Abs(math.Floor(2*s.Value)), rule.WindowEnd(now-d.Int64N(20*int64(p.Period)))-int64(p.Period)
	}
	switch d.IntN(4) {
	case 0:
		return runtime.State{}
	case 1:
		// Around the tolerance of a millionth of a token, where a rounding of SQL would change the decision.
		s.Value, s.TS = -float64(d.Int64N(p.Capacity))+float64(d.IntN(5)-2)*5e-7, now
	}
	// A total, or what another kind or an earlier version has left.
	if s.Prev = -meter.TotalUnit * float64(1+d.Int64N(1<<52)); d.IntN(3) == 0 {
		s.Prev = float64(d.Int64N(20) - 10)
	}
	if p.Kind.Linear() && d.IntN(4) == 0 {
		// What refunds have left: takes must keep it.
		s.Log = "g" + string(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, math.Float64bits(1000)),
			math.Float64bits(2)))
	}
	if p.Kind == runtime.SlidingWindow {
		rule := meter.RuleOf(p, "")
		s.TS, s.Prev = rule.WindowEnd(s.TS)-int64(p.Period), float64(d.Int64N(p.Rate+1))
	}
	if rule := meter.RuleOf(p, ""); d.IntN(3) == 0 {
		// In force, or over, or forgiven.
		s = rule.Penalized(s, now+int64(p.Period)/2-d.Int64N(3*int64(p.Period)))
	}
	return s
}

// calls returns calls that mostly take, often several for one key.
func (d generator) calls(policies []*runtime.Policy) []runtime.Call {
	all := make([]runtime.Call, 1+d.IntN(40))
	for i := range all {
		// Only some calls with several requests can be decided by one statement.
		n := 1
		if d.IntN(10) == 0 {
			n = 2 + d.IntN(3)
		}
		for range n {
			p, k := policies[d.IntN(len(policies))], d.IntN(keys)
			p = d.plans[p.Name][k%len(d.plans[p.Name])]
			q := runtime.Request{Count: d.count(p), Reserve: d.IntN(4) == 0}
			switch {
			case n == 1 && d.IntN(20) == 0:
				q.Op = runtime.Op(d.IntN(7))
			case n > 1 && d.IntN(6) == 0:
				q.Op = runtime.Check
			}
			q.Policy, q.Key = p, key(k)
			all[i].Requests = append(all[i].Requests, q)
		}
	}
	return all
}

// count returns a small count most of the time, and sometimes 0 or one that may not fit.
func (d generator) count(p *runtime.Policy) int64 {
	if d.IntN(20) == 0 {
		return 0
	}
	if d.IntN(3) > 0 {
		return 1 + d.Int64N(1+p.Capacity/20)
	}
	return d.Int64N(p.Capacity + p.MaxReserved + 2)
}
