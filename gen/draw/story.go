package draw

import (
	"math"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/sim"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// Story is a sequence of requests of one key, in the order of time.
type Story struct {
	// Requests begin at 0 or later.
	Requests []Request
	// Length is the time that is drawn.
	Length time.Duration
	// Phases name parts of the story.
	Phases []Phase
}

// Request is a request of a story.
type Request struct {
	// At is the time since the origin.
	At time.Duration
	// Count is the number of tokens.
	Count int64
	// Reserve lets the request take tokens that have not accrued yet.
	Reserve bool
	// Running is when the request releases its slots of a limit in flight, after At; 0 if it never does.
	Running time.Duration
}

// Phase is a part of a story.
type Phase struct {
	Name     string
	From, To time.Duration
}

// The numbers of a standard story: how many requests use up a full key, and its phases in units.
const (
	perCapacity = 12
	burstAt     = 0.5
	steadyFrom  = 0.75
	steadyTo    = 2.75
	storyEnd    = 4.0
)

// StandardStory returns the same story for every limit, in the limit's own time: quiet, a burst of a quarter more than a
// full key has, requests at twice the rate, and quiet until the key is full again. If the limit can be reserved, the
// requests reserve, and the burst is what a full key has.
//
// The story of a limit in flight is one of work that runs for half a hold: a burst, of which one holder crashes and never
// releases its slots, and then twice as much as there is room for.
func StandardStory(p *runtime.Policy) Story {
	size := sizeOf(p)
	count := max(1, int64(math.Ceil(size.span/perCapacity)))
	at := func(units float64) time.Duration { return time.Duration(units * size.unit) }
	s := Story{Length: at(storyEnd)}
	for taken := int64(0); float64(taken) < size.burst; taken += count {
		s.Requests = append(s.Requests, Request{At: at(burstAt), Count: count, Reserve: p.Reserves()})
	}
	interval := float64(count) * size.period / (2 * size.rate)
	phase := "twice the rate"
	if p.Kind == runtime.InFlight {
		interval, phase = interval/2, "twice as much as fits"
	}
	for i := 0; ; i++ {
		t := steadyFrom*size.unit + float64(i)*interval
		if t > steadyTo*size.unit || interval < 1 {
			break
		}
		s.Requests = append(s.Requests, Request{At: time.Duration(t), Count: count, Reserve: p.Reserves()})
	}
	s.Phases = []Phase{{"quiet", 0, at(burstAt)}, {"burst", at(burstAt), at(burstAt)},
		{phase, at(steadyFrom), at(steadyTo)}, {"quiet", at(steadyTo), at(storyEnd)}}
	if p.Kind == runtime.InFlight {
		for i := range s.Requests[1:] { // the first one crashes
			s.Requests[i+1].Running = max(1, at(0.5))
		}
	}
	return s
}

// size has the measures of a limit from which its story is made.
type size struct {
	// span is the number of tokens between a full key and one that denies everything, and burst those of the burst.
	span, burst float64
	// rate is how many tokens are granted in a period in the long run. Slots come back within a hold.
	rate, period float64
	// unit is the time in nanoseconds in which the span accrues.
	unit float64
}

func sizeOf(p *runtime.Policy) size {
	capacity, rate := float64(p.Full()), float64(max(p.Rate, p.Slots))
	// More debt than that would make the rest of the story invisible.
	debt := min(float64(p.MaxReserved), 2*max(capacity, rate))
	s := size{span: capacity + debt, burst: 1.25 * capacity, rate: rate, period: float64(max(p.Period, p.Hold))}
	if p.Reserves() {
		s.burst = max(capacity, debt/2)
	}
	if p.Kind == runtime.FixedWindow {
		s.rate = min(rate, s.span)
	}
	s.unit = s.span / s.rate * s.period
	if p.Kind.Windowed() {
		s.unit = max(s.unit, s.period)
	}
	s.unit = min(max(s.unit, 100), math.MaxInt64/16)
	return s
}

// Run is a story as a policy decides it.
type Run struct {
	Policy *runtime.Policy
	Marks  []Mark
	// Curve has the tokens of the key over time, to be connected by lines. It is empty if the policy's mode does not
	// count.
	Curve []Point
	// Edges are the starts of windows after the origin.
	Edges []time.Duration
	// Left has how many tokens each class of requests leaves to the others.
	Left []int64
}

// Mark is a request with its outcome.
type Mark struct {
	At      time.Duration
	Outcome sim.Outcome
	// Locked is for how long from At a penalty denies all requests for the key; 0 without one.
	Locked time.Duration
	// Crossed is the threshold that the request has crossed, in percent, or 0.
	Crossed uint8
}

// Point is the number of tokens at a time.
type Point struct {
	At     time.Duration
	Tokens float64
}

// gridSteps is at how many times a curve is calculated, besides the times at which it bends.
const gridSteps = 160

// Replay decides a story by a policy, which must be valid, for a key that is full at first.
func Replay(p *runtime.Policy, s Story) Run {
	k := newKey(p)
	run := Run{Policy: p, Edges: k.edges(s.Length)}
	for _, edge := range run.Edges {
		k.samples = append(k.samples, edge-1, edge)
	}
	for i := range gridSteps + 1 {
		k.samples = append(k.samples, s.Length/gridSteps*time.Duration(i))
	}
	slices.Sort(k.samples)
	k.samples = slices.Compact(k.samples)
	for _, q := range s.Requests {
		k.advance(q.At)
		run.Marks = append(run.Marks, k.decide(q))
	}
	k.advance(s.Length + 1)
	run.Curve = k.curve
	return run
}

// key is a key of a limit during a story.
type key struct {
	sim.Key
	policy  *runtime.Policy
	rule    meter.Rule
	origin  int64
	samples []time.Duration
	curve   []Point
}

// anniversary is that of a key that has one: the last day of January shows what happens in shorter months.
var anniversary = runtime.Date{Year: epoch.Year() - 1, Month: time.January, Day: 31}

// newKey returns a full key at the start of a window. If the limit has a zone per key, it is UTC.
func newKey(p *runtime.Policy) *key {
	row := *p
	row.Shards = 0
	k := &key{Key: sim.NewKey(&row, ""), policy: p, rule: meter.RuleOf(p, "")}
	if !p.Inside().Numberless() {
		k.rule = k.rule.For(runtime.Request{Zone: time.UTC, Anniversary: anniversary})
	}
	k.origin = Origin(p, &k.rule)
	return k
}

// Origin returns an instant at which a window begins, for a rule of the policy.
func Origin(p *runtime.Policy, rule *meter.Rule) int64 {
	if !scheduled(p) {
		return epoch.UnixNano()
	}
	return rule.WindowEnd(epoch.UnixNano() - 1)
}

// scheduled reports whether a policy has windows that begin at instants which do not depend on requests.
func scheduled(p *runtime.Policy) bool {
	return !p.Inside().Numberless() && p.Kind.Windowed() && !p.Precise && !p.Start.FirstUse()
}

// edges returns the starts of windows, unless they depend on requests.
func (k *key) edges(length time.Duration) (edges []time.Duration) {
	if !scheduled(k.policy) {
		return nil
	}
	const most = 400 // more would be a gray area, and their steps less than a pixel
	for at := k.rule.WindowEnd(k.origin); at-k.origin <= int64(length) && len(edges) < most; at = k.rule.WindowEnd(at) {
		edges = append(edges, time.Duration(at-k.origin))
	}
	return edges
}

func (k *key) step(at time.Duration, q runtime.Request) (runtime.Decision, error) {
	q.Zone, q.Anniversary = time.UTC, anniversary
	return k.Decide(k.origin+int64(at), q)
}

// decide decides a request and adds the tokens before and after it to the curve.
func (k *key) decide(q Request) Mark {
	k.sample(q.At)
	d, err := k.step(q.At, runtime.Request{Op: runtime.Take, Count: q.Count, Reserve: q.Reserve})
	if err != nil { // more than the capacity
		d = runtime.Decision{}
	}
	if !k.policy.Mode.Counts() {
		return Mark{At: q.At, Outcome: sim.OutcomeOf(d)}
	}
	full := k.sample(q.At)
	// The curve bends when the key is full, and jumps when a token of a log counts no longer.
	k.bend(q.At + full)
	if d.Fence != 0 {
		k.bend(q.At + k.policy.Hold)
		if q.Running > 0 {
			k.Hold(k.origin+int64(q.At), d, q.Running)
			k.bend(q.At + q.Running)
		}
	}
	if k.policy.Precise && d.Allowed {
		k.bend(time.Duration(d.TakenAt.UnixNano()-k.origin) + k.policy.Period)
	}
	if k.policy.Start.FirstUse() {
		k.bend(q.At + d.ResetAfter)
	}
	return Mark{q.At, sim.OutcomeOf(d), d.PenaltyFor, d.Crossed}
}

// bend adds a sample at a time, and one just before it.
func (k *key) bend(at time.Duration) {
	for _, t := range []time.Duration{at - 1, at} {
		if last := len(k.curve) - 1; last >= 0 && t <= k.curve[last].At {
			continue
		}
		if i, found := slices.BinarySearch(k.samples, t); !found {
			k.samples = slices.Insert(k.samples, i, t)
		}
	}
}

// advance adds the samples before a time to the curve.
func (k *key) advance(to time.Duration) {
	for len(k.samples) > 0 && k.samples[0] < to {
		k.sample(k.samples[0])
		k.samples = k.samples[1:]
	}
}

// sample adds the tokens at a time to the curve, and returns how long it takes until the key is full.
func (k *key) sample(at time.Duration) time.Duration {
	if !k.policy.Mode.Counts() {
		return 0
	}
	d, err := k.step(at, runtime.Request{Op: runtime.Peek})
	if err != nil {
		panic("draw: a peek fails: " + err.Error())
	}
	k.curve = append(k.curve, Point{at, d.Value})
	return d.FullAfter
}

// RuleOf returns the rule that a limit's pictures are drawn for. If the limit has a zone and an anniversary per key, it is
// that of a key in UTC with an anniversary on the last day of January.
func RuleOf(p *runtime.Policy) meter.Rule {
	return newKey(p).rule
}

// Unit returns the natural time of a limit: that in which an empty key becomes full, and at least the period of its
// windows. A standard story is four units long.
func Unit(p *runtime.Policy) time.Duration {
	if p.Inside().Numberless() {
		return time.Minute
	}
	return time.Duration(sizeOf(p).unit)
}

// Edges returns the starts of the windows of the key with a name in a time from an instant on, in nanoseconds since 1970
// UTC. It is empty if they depend on requests, or on a zone or an anniversary of the key.
func Edges(p *runtime.Policy, name string, from int64, length time.Duration) []time.Duration {
	if !scheduled(p) || p.Calendar.PerKey() {
		return nil
	}
	k := key{policy: p, rule: meter.RuleOf(p, name), origin: from}
	return k.edges(length)
}
