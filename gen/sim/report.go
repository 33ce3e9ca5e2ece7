package sim

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
)

// Report sums up the answers to a trace for people, in lines of at most 80 cells.
type Report struct {
	// LeftOut is how many lines of other limits were left out.
	LeftOut int64

	replay    *Replay
	timelines map[string]*timeline
	span      span
}

// NewReport returns a report of what r answers.
func NewReport(r *Replay) *Report { return &Report{replay: r, timelines: map[string]*timeline{}} }

// Write counts a line with its answer. The error is always nil.
func (r *Report) Write(l *Line, a Answer) error {
	r.span.add(l.At)
	t := r.timelines[l.Limit]
	if t == nil {
		t = new(timeline)
		r.timelines[strings.Clone(l.Limit)] = t
	}
	t.add(l.At, a.Decision)
	return nil
}

// The most limits that are shown one by one, and the most keys of each.
const mostSections, mostKeys = 8, 10

// WriteText prints the report: for each limit what became of its requests, then for the limits that denied most
// when that was, and whom. The error is that of w.
func (r *Report) WriteText(w io.Writer, color bool) error {
	var out bytes.Buffer
	ink := inkOf(color)
	r.span.write(&out, r.LeftOut)
	if r.span.requests > 0 {
		r.writeTotals(&out)
		r.writeSections(&out, ink)
	}
	_, err := w.Write(out.Bytes())
	return err
}

// asked yields the limits that were asked, in their order.
func (r *Report) asked(yield func(*replayed) bool) {
	for _, l := range r.replay.limits {
		if l.asked > 0 && !yield(l) {
			return
		}
	}
}

func (r *Report) writeTotals(out *bytes.Buffer) {
	t := table{append([]string{"limit"}, tallyHead...)}
	for l := range r.asked {
		t = append(t, append([]string{shown(l.Policy.Name, 40)}, l.row(len(l.counts))...))
	}
	out.WriteByte('\n')
	t.write(out, "")
}

func (r *Report) writeSections(out *bytes.Buffer, ink ink) {
	bins, asked := int64(1), 0
	for _, t := range r.timelines {
		bins = max(bins, t.width())
		asked++
	}
	axis := newAxis(r.span.first, r.span.last, bins)
	byDenied := func(a, b *replayed) int { return cmp.Compare(a.denied, b.denied) }
	for _, l := range most(r.asked, mostSections, byDenied) {
		fmt.Fprintf(out, "\n%s%s%s\n%s", ink.bold, shown(l.Policy.Name, 60), ink.off, cells.Wrap(l.Words, "  "))
		if caveat := l.caveat(); caveat != "" {
			out.WriteString(cells.Wrap(caveat, "  "))
		}
		writePlots(out, axis, r.timelines[l.Policy.Name], ink)
		writeDenied(out, l)
	}
	if rest := asked - mostSections; rest > 0 {
		fmt.Fprintf(out, "\nand %s, which denied less; -limit shows one by itself\n", plural(int64(rest), "more limit"))
	}
}

// writeDenied lists the keys that were denied most.
func writeDenied(out *bytes.Buffer, l *replayed) {
	if l.denied == 0 || len(l.Key) == 0 {
		return
	}
	denied := 0
	for _, c := range l.counts {
		if c.denied > 0 {
			denied++
		}
	}
	t := table{{"denied most", "denied", "", "max wait"}}
	for _, c := range most(maps.Values(l.counts), min(denied, mostKeys), moreDenied) {
		t = append(t, []string{shown(c.key, 40), grouped(c.denied) + " of " + grouped(c.asked), percent(c.denied, c.asked), length(c.longest)})
	}
	t.write(out, plotIndent)
	if rest := denied - mostKeys; rest > 0 {
		fmt.Fprintf(out, "%sand %s\n", plotIndent, plural(int64(rest), "more key"))
	}
}

// moreDenied orders counts by what was denied, and then by key.
func moreDenied(a, b *count) int {
	return cmp.Or(cmp.Compare(a.denied, b.denied), -strings.Compare(a.key, b.key))
}
