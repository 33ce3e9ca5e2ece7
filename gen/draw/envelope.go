package draw

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Bound is the most tokens that one key can use in any interval of a length.
type Bound struct {
	Length time.Duration
	Tokens int64
}

// Bounds returns the envelope of a policy, see [bounds.Within]: bounds from one length to another, in the order of length,
// to be connected by lines on logarithmic axes. Between two of them the envelope is straight, or has so many steps that
// a picture cannot show them. It is nil if there is no bound; if only reservations have none, it is that of callers who
// do not reserve. The mode of the policy is ignored, unless it is [runtime.ModeUnlimited].
func Bounds(p *runtime.Policy, from, to time.Duration) (list []Bound) {
	if p = enforced(p); p == nil {
		return nil
	}
	envelope := bounds.EnvelopeOf(p)
	within := func(t time.Duration) Bound { return Bound{t, envelope.Within(t)} }
	from = max(1, from)
	to = max(from, to)
	const samples = 96
	list = append(list, within(from))
	for i := 1; i <= samples; i++ {
		t := time.Duration(float64(from) * math.Pow(float64(to)/float64(from), float64(i)/samples))
		if last := list[len(list)-1]; t > last.Length {
			list = append(list, jumps(last, within(t), within)...)
			list = append(list, within(t))
		}
	}
	return list
}

// jumps returns the bounds on both sides of each step between two bounds, as near as a picture can show them, or none if
// there are more than a few steps.
func jumps(a, b Bound, within func(time.Duration) Bound) (list []Bound) {
	const most, parts = 3, 128
	near := max(1, (b.Length-a.Length)/parts)
	for n := 0; a.Tokens < b.Tokens; n++ {
		if n == most {
			return nil
		}
		before, after := a, b // the step is in between
		for after.Length-before.Length > near {
			if middle := within(before.Length + (after.Length-before.Length)/2); middle.Tokens > a.Tokens {
				after = middle
			} else {
				before = middle
			}
		}
		list = append(list, before, after)
		a = after
	}
	return list
}

// enforced returns the policy as if it was enforced, with the bound of callers who do not reserve if reservations have
// no bound; nil if there is no bound at all.
func enforced(p *runtime.Policy) *runtime.Policy {
	if p == nil || p.Inside().Numberless() || p.Inside().CountsOnly() || p.Kind == runtime.InFlight { // which has no bound in a time
		return nil
	}
	if p.MaxReserved == runtime.Unbounded {
		if p.Capacity == 0 {
			return nil
		}
		return bounds.Unreserved(p)
	}
	return p
}

// Envelope draws the bounds of one policy, or of an old version and a new one: the most that one key can use in any
// interval, as a function of its length. Both axes are logarithmic. It returns false if no version has a bound.
func Envelope(name string, versions ...*runtime.Policy) (Picture, bool) {
	d := envelopeDrawing{}
	for i, p := range versions {
		if p = enforced(p); p == nil {
			continue
		}
		d.policies, d.names = append(d.policies, p), append(d.names, version(i, len(versions)))
	}
	if len(d.policies) == 0 {
		return Picture{}, false
	}
	d.scale()
	d.texts()
	d.svg = begin(bottom+36, name+": the most in an interval", d.text)
	d.axes()
	for i, list := range d.bounds {
		var places []point
		for _, b := range list {
			places = append(places, point{d.x(b.Length), d.y(float64(b.Tokens))})
		}
		d.path(lineClass(d.names[i]), lines(places))
	}
	d.label("m", (left+right)/2, bottom+32, "length of the interval")
	return Picture{SVG: d.end(), Text: d.text, Table: d.table()}, true
}

type envelopeDrawing struct {
	*svg
	policies []*runtime.Policy
	// names has "old" or "new" for each policy, or "" if there is only one version.
	names    []string
	from, to time.Duration
	bounds   [][]Bound
	// low and high are the ends of the vertical axis.
	low, high float64
	text      string
}

func (d *envelopeDrawing) scale() {
	const most = 100
	d.from, d.to = math.MaxInt64, 0
	for _, p := range d.policies {
		d.from = min(d.from, max(1, p.Period/most))
		d.to = max(d.to, min(math.MaxInt64/most, max(p.Period, time.Duration(sizeOf(p).unit)))*30)
	}
	d.low, d.high = math.Inf(1), 1
	for _, p := range d.policies {
		list := Bounds(p, d.from, d.to)
		d.bounds = append(d.bounds, list)
		d.low = min(d.low, max(1, float64(list[0].Tokens)))
		d.high = max(d.high, float64(list[len(list)-1].Tokens))
	}
	d.low /= 1.5
	d.high *= 1.2
}

func (d *envelopeDrawing) x(t time.Duration) float64 {
	return left + math.Log(float64(max(1, t))/float64(d.from))/math.Log(float64(d.to)/float64(d.from))*(right-left)
}

func (d *envelopeDrawing) y(tokens float64) float64 {
	return bottom - math.Log(max(tokens, d.low)/d.low)/math.Log(d.high/d.low)*plotHeight
}

// roundLengths are the labels on the axis of lengths.
var roundLengths = []time.Duration{
	1, 10, 100, time.Microsecond, 10 * time.Microsecond, 100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond,
	time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour,
	words.Day, 10 * words.Day, 100 * words.Day, 1000 * words.Day, 10_000 * words.Day, 100_000 * words.Day,
}

func (d *envelopeDrawing) axes() {
	var grid strings.Builder
	for _, v := range d.amounts() {
		fmt.Fprintf(&grid, "M%d %sH%d", left, num(d.y(v)), right)
		d.label("e", left-6, d.y(v)+4, amount(v))
	}
	last := 0.0
	for _, t := range roundLengths {
		x := d.x(t)
		if t < d.from || t > d.to || x-last < 44 || x > right-10 {
			continue
		}
		last = x
		fmt.Fprintf(&grid, "M%s %dV%d", num(x), top, bottom)
		d.label("m", x, bottom+16, timeLabel(t))
	}
	d.path("grid", grid.String())
}

// amounts returns the labels of the vertical axis.
func (d *envelopeDrawing) amounts() (list []float64) {
	decades := math.Log10(d.high / d.low)
	factors := []float64{1, 2, 5}
	every := 1
	switch {
	case decades > 5:
		factors, every = factors[:1], int(math.Ceil(decades/5))
	case decades > 2:
		factors = factors[:1]
	}
	for exponent := 0; math.Pow10(exponent) <= d.high; exponent += every {
		for _, f := range factors {
			if v := f * math.Pow10(exponent); d.low <= v && v <= d.high {
				list = append(list, v)
			}
		}
	}
	if len(list) < 2 { // the bound hardly grows
		list = []float64{math.Ceil(d.low), math.Floor(d.high)}
	}
	return list
}

// lengths returns the lengths in the table: round ones, and the periods.
func (d *envelopeDrawing) lengths() []time.Duration {
	list := []time.Duration{time.Second, time.Minute, time.Hour, words.Day, 30 * words.Day}
	list = slices.DeleteFunc(list, func(t time.Duration) bool { return t < d.from || t > d.to })
	for _, p := range d.policies {
		list = append(list, bounds.Interval(p))
	}
	slices.Sort(list)
	return append([]time.Duration{0}, slices.Compact(list)...)
}

// lengthName names an interval in a table.
func lengthName(t time.Duration) string {
	if t == 0 {
		return "at once"
	}
	return "in any " + words.Period(t)
}

func (d *envelopeDrawing) table() Table {
	t := Table{Head: []string{"interval"}}
	for _, name := range d.names {
		t.Head = append(t.Head, strings.TrimSpace(name+" most tokens"))
	}
	for _, length := range d.lengths() {
		row := []string{lengthName(length)}
		for _, p := range d.policies {
			row = append(row, words.Bound(bounds.Within(p, length)))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// texts sets the description.
func (d *envelopeDrawing) texts() {
	var sentences []string
	for i, p := range d.policies {
		period := bounds.Interval(p)
		sentences = append(sentences, fmt.Sprintf("%sat most %s at once and %s in any %s.", begins(d.names[i]),
			words.Bound(bounds.Within(p, 0)), words.Bound(bounds.Within(p, period)), words.Period(period)))
	}
	d.text = strings.Join(sentences, " ")
	if d.names[0] == "" {
		d.text = strings.ToUpper(d.text[:1]) + d.text[1:]
	}
}
