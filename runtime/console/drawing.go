package console

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/words"
)

// point is the tokens of a key some time from now.
type point struct {
	After  time.Duration
	Tokens float64
}

// future returns the tokens of a key from now until it is full, if nothing more is taken.
func future(p *runtime.Policy, rows []runtime.StoredRow, at int64) ([]point, error) {
	now, err := meter.PeekRows(p, rows, at)
	if err != nil {
		return nil, err
	}
	// At most half of the time that instants have left.
	span := min(max(now.FullAfter, now.PenaltyFor, p.Period/4, p.Hold/4), time.Duration(math.MaxInt64-at)/2)
	const steps = 60
	var times []time.Duration
	for i := range steps + 1 {
		times = append(times, time.Duration(float64(span)*1.1*float64(i)/steps))
	}
	for _, h := range meter.Holders(p, rows, at) {
		times = append(times, h.Ends-1, h.Ends) // the slots become free all at once
	}
	slices.Sort(times)
	var points []point
	for _, after := range slices.Compact(times) {
		d, err := meter.PeekRows(p, rows, at+int64(after))
		if err != nil {
			return nil, err
		}
		points = append(points, point{after, d.Value})
	}
	return points, nil
}

// drawing is the points as SVG. It has no ids, and its colors are those of the page's style.
//
// A penalty, if it is not 0, is how long no request passes, whatever the tokens are.
func drawing(points []point, p *runtime.Policy, penalty time.Duration) template.HTML {
	capacity, what := p.Full(), "Tokens from now on, if nothing more is taken"
	if p.Kind == runtime.InFlight {
		what = "Free slots from now on, if none is acquired, renewed or released"
	}
	const width, height, left, bottom = 640.0, 200.0, 70.0, 24.0
	low, high := 0.0, float64(max(1, capacity))
	for _, p := range points {
		low = min(low, p.Tokens)
	}
	last := points[len(points)-1].After
	x := func(after time.Duration) float64 { return left + (width-left-10)*float64(after)/float64(max(1, last)) }
	y := func(tokens float64) float64 { return 10 + (height-bottom-10)*(high-tokens)/(high-low) }
	var path strings.Builder
	for i, p := range points {
		command := "L"
		if i == 0 {
			command = "M"
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", command, x(p.After), y(p.Tokens))
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg role="img" viewBox="0 0 %.0f %.0f" aria-label="%s: from %.6g to %.6g of %s">`,
		width, height, what, points[0].Tokens, points[len(points)-1].Tokens, words.Number(capacity))
	for _, tokens := range []float64{high, 0} {
		fmt.Fprintf(&b, `<line class="grid" x1="%.0f" y1="%.1f" x2="%.0f" y2="%.1f"/><text x="%.0f" y="%.1f" text-anchor="end">%s</text>`,
			left, y(tokens), width-10, y(tokens), left-6, y(tokens)+4, words.Number(int64(tokens)))
	}
	for _, percent := range p.Warn[:p.Warn.Len()] {
		at := y(float64(capacity) * (1 - float64(percent)/100))
		fmt.Fprintf(&b, `<line class="grid" stroke-dasharray="2 3" x1="%.0f" y1="%.1f" x2="%.0f" y2="%.1f"/><text x="%.0f" y="%.1f" text-anchor="end">warns at %d%%</text>`,
			left, at, width-10, at, width-16, at-4, percent)
	}
	if penalty > 0 {
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" y1="10" x2="%.1f" y2="%.1f"/><text x="%.1f" y="%.1f" text-anchor="end">penalty until here</text>`,
			x(penalty), x(penalty), height-bottom, x(penalty)-6, y(0)-8)
	}
	fmt.Fprintf(&b, `<path class="line" d="%s"/><circle class="now" cx="%.1f" cy="%.1f" r="5"/>`, path.String(), x(0),
		y(points[0].Tokens))
	fmt.Fprintf(&b, `<text x="%.0f" y="%.0f">now</text><text x="%.0f" y="%.0f" text-anchor="end">in %v</text></svg>`,
		left, height-4, width-10, height-4, last.Round(time.Second))
	// Everything in it is a number, or a text above.
	return template.HTML(b.String())
}
