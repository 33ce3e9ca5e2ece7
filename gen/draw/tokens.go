package draw

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/sim"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// laneHeight is the height of a row of marks.
const laneHeight = 15

// Tokens draws one run of a story, or two of the same story, the old version first: the tokens of the key over time, and
// the requests below. The name is that of the limit.
func Tokens(name string, s Story, runs ...Run) Picture {
	d := tokensDrawing{story: s, runs: runs}
	d.scale()
	text := d.text()
	lanes := 0
	for _, run := range runs {
		lanes += len(run.outcomes())
	}
	axisAt := d.bottom() + 6 + lanes*laneHeight
	if len(runs) > 1 {
		axisAt += laneHeight * len(runs) // a heading for each
	}
	d.svg = begin(axisAt+20, name+": "+counted(runs...)+" over time", text)
	d.axes(float64(axisAt))
	d.curves()
	d.locks()
	d.marks()
	return Picture{SVG: d.end(), Text: text, Table: d.table()}
}

// counted is what the curves show.
func counted(runs ...Run) string {
	if slices.ContainsFunc(runs, func(r Run) bool { return r.Policy.Kind != runtime.InFlight }) {
		return "tokens"
	}
	return "free slots"
}

type tokensDrawing struct {
	*svg
	story     Story
	runs      []Run
	low, high float64
}

// bottom is where the marks begin: at the top if there is no curve, because the modes do not count.
func (d *tokensDrawing) bottom() int {
	if slices.ContainsFunc(d.runs, func(r Run) bool { return len(r.Curve) > 0 }) {
		return bottom
	}
	return top
}

// scale finds the range of the vertical axis.
func (d *tokensDrawing) scale() {
	for _, run := range d.runs {
		for _, p := range run.Curve {
			d.low, d.high = min(d.low, p.Tokens), max(d.high, p.Tokens)
		}
		if len(run.Curve) > 0 {
			d.high = max(d.high, float64(run.Policy.Full()))
		}
	}
	if d.low == d.high {
		d.high = d.low + 1
	}
}

func (d *tokensDrawing) x(t time.Duration) float64 {
	return left + float64(t)/float64(max(1, d.story.Length))*(right-left)
}

func (d *tokensDrawing) y(tokens float64) float64 {
	return bottom - (tokens-d.low)/(d.high-d.low)*plotHeight
}

// axes draws the axes, the starts of windows and the names of the phases.
func (d *tokensDrawing) axes(axisAt float64) {
	var grid, edges strings.Builder
	for _, v := range steps(d.low, d.high, 7) {
		if d.bottom() == top {
			break
		}
		fmt.Fprintf(&grid, "M%d %sH%d", left, num(d.y(v)), right)
		d.label("e", left-6, d.y(v)+4, amount(v))
	}
	for _, t := range timeSteps(d.story.Length, 6) {
		if x := d.x(t); x <= right-8 {
			d.label("m", x, axisAt+12, timeLabel(t))
		}
	}
	d.path("grid", grid.String())
	d.thresholds()
	d.left()
	last := 0.0
	for _, edge := range d.runs[len(d.runs)-1].Edges {
		if x := d.x(edge); x-last >= 4 { // closer ones would be a gray area
			fmt.Fprintf(&edges, "M%s %dV%s", num(x), top, num(axisAt))
			last = x
		}
	}
	d.path("edge", edges.String())
	for _, p := range d.story.Phases {
		if p.From == p.To { // beside the label before it
			d.label("s", d.x(p.From), top-8, p.Name)
			continue
		}
		d.label("m", (d.x(p.From)+d.x(p.To))/2, top-8, p.Name)
	}
}

// thresholdClass is the class of the lines at which a limit warns.
const thresholdClass = "edge late"

// thresholds draws a line at each part of the capacity at which the newest version warns.
func (d *tokensDrawing) thresholds() {
	var path strings.Builder
	run := &d.runs[len(d.runs)-1]
	if len(run.Curve) > 0 {
		for _, percent := range run.Policy.Warn[:run.Policy.Warn.Len()] {
			fmt.Fprintf(&path, "M%d %sH%d", left, num(d.y(float64(run.Policy.Full())*(1-float64(percent)/100))), right)
		}
	}
	d.path(thresholdClass, path.String())
}

// leftClass is the class of the lines at what a class of requests leaves.
const leftClass = "edge no"

// left draws a line at the tokens below which each class of requests of the newest version takes none.
func (d *tokensDrawing) left() {
	var path strings.Builder
	if run := &d.runs[len(d.runs)-1]; len(run.Curve) > 0 {
		for _, tokens := range run.Left {
			fmt.Fprintf(&path, "M%d %sH%d", left, num(d.y(float64(tokens))), right)
		}
	}
	d.path(leftClass, path.String())
}

func (d *tokensDrawing) curves() {
	for i, run := range d.runs {
		var places []point
		for _, p := range run.Curve {
			places = append(places, point{d.x(p.At), d.y(p.Tokens)})
		}
		if path := lines(thinned(places)); path != "" {
			if len(d.runs) == 1 {
				zero := num(d.y(max(0, d.low)))
				d.path("area", path+"V"+zero+"H"+num(places[0].x)+"Z")
			}
			d.path(lineClass(version(i, len(d.runs))), path)
		}
	}
}

// locks draws a bar at the bottom of the plot for each time in which a penalty denies all requests, one bar for each run.
func (d *tokensDrawing) locks() {
	for i, run := range d.runs {
		var path strings.Builder
		y := float64(d.bottom()) - 3*float64(len(d.runs)-1-i)
		for from, to := range run.locked {
			fmt.Fprintf(&path, "M%s %sH%s", num(d.x(from)), num(y), num(d.x(min(to, d.story.Length))))
		}
		d.path("lock", path.String())
	}
}

// locked yields the beginning and the end of each time in which a penalty denies all requests.
func (r *Run) locked(yield func(from, to time.Duration) bool) {
	var from, to time.Duration
	for _, m := range r.Marks {
		switch end := m.At + m.Locked; {
		case m.Locked == 0:
		case m.At < to:
			to = max(to, end)
		case to > 0 && !yield(from, to):
			return
		default:
			from, to = m.At, end
		}
	}
	if to > 0 {
		yield(from, to)
	}
}

// Outcomes returns the outcomes that are drawn, in the order of their rows.
func Outcomes() []sim.Outcome {
	return []sim.Outcome{sim.Allowed, sim.Delayed, sim.Denied, sim.Shadowed}
}

// outcomes returns the outcomes that requests of the run can have, in the order of their rows.
func (r *Run) outcomes() (list []sim.Outcome) {
	for _, o := range Outcomes() {
		has := slices.ContainsFunc(r.Marks, func(m Mark) bool { return m.Outcome == o })
		if has || o == sim.Allowed || o == sim.Denied {
			list = append(list, o)
		}
	}
	return list
}

// classOf are the classes of marks.
var classOf = map[sim.Outcome]string{sim.Allowed: "ok", sim.Delayed: "late", sim.Denied: "no", sim.Shadowed: "shadow"}

// marks draws a row for each outcome. Requests that are too close for a mark each share one, which is larger.
func (d *tokensDrawing) marks() {
	y := float64(d.bottom()) + 6
	for i, run := range d.runs {
		if len(d.runs) > 1 {
			d.label("name", left-6, y+11, version(i, len(d.runs)))
			y += laneHeight
		}
		for _, o := range run.outcomes() {
			middle := y + laneHeight/2.0
			d.label("e", left-6, middle+4, o.String())
			groups := d.groups(&run, o)
			for size, radius := range []float64{2.2, 3.2, 4.4} {
				var path strings.Builder
				for _, g := range groups {
					if g.size() == size {
						path.WriteString(shape(o, g.x, middle, radius))
					}
				}
				d.path(fmt.Sprintf("%s s%d", classOf[o], size), path.String())
			}
			y += laneHeight
		}
	}
}

// markGroup is a mark for some requests.
type markGroup struct {
	x        float64
	requests int
}

// size is 0 for one request, 1 for up to five, and 2 for more.
func (g markGroup) size() int {
	switch {
	case g.requests > 5:
		return 2
	case g.requests > 1:
		return 1
	}
	return 0
}

// groups returns the marks of an outcome.
func (d *tokensDrawing) groups(run *Run, o sim.Outcome) (list []markGroup) {
	const apart = 4.5
	for _, m := range run.Marks {
		if m.Outcome != o {
			continue
		}
		x := d.x(m.At)
		if n := len(list); n > 0 && x-list[n-1].x < apart {
			list[n-1].requests++
			continue
		}
		list = append(list, markGroup{x, 1})
	}
	return list
}

// operands has how many numbers follow the letters of a path in SVG.
var operands = map[rune]int{'M': 2, 'l': 2, 'm': 2, 'a': 7, 'h': 1, 'v': 1}

// shape returns the path of a mark: a dot, a clock, a cross or a diamond.
func shape(o sim.Outcome, x, y, r float64) string {
	path := func(letters string, numbers ...float64) string {
		var d strings.Builder
		for _, letter := range letters {
			d.WriteRune(letter)
			for i := range operands[letter] {
				if i > 0 && numbers[0] >= 0 {
					d.WriteByte(' ')
				}
				d.WriteString(num(numbers[0]))
				numbers = numbers[1:]
			}
		}
		return d.String()
	}
	switch o {
	case sim.Denied:
		r *= 0.85
		return path("Mlml", x-r, y-r, 2*r, 2*r, 0, -2*r, -2*r, 2*r)
	case sim.Delayed:
		return path("MaaMvMh", x-r, y, r, r, 0, 1, 0, 2*r, 0, r, r, 0, 1, 0, -2*r, 0, x, y, -r, x, y, r)
	case sim.Shadowed:
		return path("Mlllz", x-r, y, r, -r, r, r, -r, r)
	}
	return path("Mh", x, y, 0)
}

// count returns how many requests of a run have each outcome, from one time to before another.
func (r *Run) count(from, to time.Duration) (counts [sim.Outcomes]int) {
	for _, m := range r.Marks {
		if from <= m.At && m.At < to {
			counts[m.Outcome]++
		}
	}
	return counts
}

// text describes the runs.
func (d *tokensDrawing) text() string {
	var sentences []string
	for i, run := range d.runs {
		counts := run.count(0, math.MaxInt64)
		var parts []string
		for _, o := range run.outcomes() {
			parts = append(parts, fmt.Sprintf("%d %s", counts[o], o))
		}
		sentence := fmt.Sprintf("%s%s in %s: %s.", begins(version(i, len(d.runs))), words.Count(int64(len(run.Marks)), "request"),
			words.Duration(roundTo(d.story.Length)), words.List(parts, "and"))
		if len(run.Curve) > 0 {
			byTokens := func(a, b Point) int { return cmp.Compare(a.Tokens, b.Tokens) }
			least, most := slices.MinFunc(run.Curve, byTokens), slices.MaxFunc(run.Curve, byTokens)
			sentence += fmt.Sprintf(" The key has between %s and %s %s.", tokens(least.Tokens), tokens(most.Tokens), counted(run))
		}
		if times := maps.Collect(run.locked); len(times) > 0 {
			sentence += " Penalties lock the key out " + words.Count(int64(len(times)), "time") + "."
		}
		if warn := &run.Policy.Warn; len(run.Curve) > 0 && warn.Len() > 0 {
			crossed := 0
			for _, m := range run.Marks {
				if m.Crossed > 0 {
					crossed++
				}
			}
			sentence += fmt.Sprintf(" It warns %s, at %s of the capacity.", words.Count(int64(crossed), "time"), warn)
		}
		sentences = append(sentences, sentence)
	}
	return strings.Join(sentences, " ")
}

// roundTo rounds a duration to two units at most.
func roundTo(t time.Duration) time.Duration {
	for _, unit := range []time.Duration{words.Day, time.Hour, time.Minute, time.Second, time.Millisecond, time.Microsecond} {
		if t >= 20*unit {
			return t.Round(unit)
		}
	}
	return t
}

// tableSteps is the most rows of a table of tokens.
const tableSteps = 24

// table has a row for each step of time: the tokens at its beginning, and the requests until the next one.
func (d *tokensDrawing) table() Table {
	t := Table{Head: []string{"time"}}
	for i, run := range d.runs {
		of := version(i, len(d.runs)) + " "
		if len(run.Curve) > 0 {
			t.Head = append(t.Head, strings.TrimSpace(of+counted(run)))
		}
		for _, o := range run.outcomes() {
			t.Head = append(t.Head, strings.TrimSpace(of+o.String()))
		}
	}
	times := timeSteps(d.story.Length, tableSteps)
	for i, from := range times {
		to := d.story.Length + 1
		if i+1 < len(times) {
			to = times[i+1]
		}
		row := []string{timeLabel(from)}
		for _, run := range d.runs {
			if len(run.Curve) > 0 {
				row = append(row, tokens(run.tokensAt(from)))
			}
			counts := run.count(from, to)
			for _, o := range run.outcomes() {
				row = append(row, words.Number(int64(counts[o])))
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// tokensAt returns the tokens at a time, before its requests.
func (r *Run) tokensAt(t time.Duration) float64 {
	i, _ := slices.BinarySearchFunc(r.Curve, t, func(p Point, t time.Duration) int { return cmp.Compare(p.At, t) })
	switch {
	case i == len(r.Curve):
		return r.Curve[i-1].Tokens
	case i == 0 || r.Curve[i].At == t:
		return r.Curve[i].Tokens
	}
	a, b := r.Curve[i-1], r.Curve[i]
	return a.Tokens + (b.Tokens-a.Tokens)*float64(t-a.At)/float64(b.At-a.At)
}

// Symbol returns the mark of an outcome, for a legend.
func Symbol(o sim.Outcome) string { return symbol(classOf[o]+" s1", shape(o, 6, 6, 3.2)) }

// LockSymbol returns the mark of a time in which a penalty denies all requests, for a legend.
func LockSymbol() string { return symbol("lock", "M0 6H12") }

// LeftSymbol returns the line at what a class of requests leaves, for a legend.
func LeftSymbol() string { return symbol(leftClass, "M0 6H12") }

// ThresholdSymbol returns the line at which a limit warns, for a legend.
func ThresholdSymbol() string { return symbol(thresholdClass, "M0 6H12") }

func symbol(class, path string) string {
	s := new(svg)
	s.WriteString(`<svg class="rl" aria-hidden="true" viewBox="0 0 12 12">`)
	s.path(class, path)
	return s.end()
}
