package sim

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/describe"
	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Report summarizes the decisions of a replay for people, in lines of at most 80 cells.
type Report struct {
	replay    *Replay
	timelines map[string]*timeline
	span      span
}

// NewReport returns a report on the decisions of r.
func NewReport(r *Replay) *Report { return &Report{replay: r, timelines: map[string]*timeline{}} }

// Write counts a line with its decision. The error is always nil.
func (r *Report) Write(l *trace.Line, a Answer) error {
	r.span.add(l.At)
	t := r.timelines[l.Limit]
	if t == nil {
		t = new(timeline)
		r.timelines[l.Limit] = t
	}
	t.add(l.At, a.Outcome)
	return nil
}

// maxSections is how many limits have a section of their own, and maxKeysListed how many keys each of them lists.
const maxSections, maxKeysListed = 8, 10

// WriteText prints the totals of each limit and then, for the limits with most denials, a plot over time and the keys
// that were denied most. leftOut is [trace.Reader.LeftOut]. The error is that of w.
func (r *Report) WriteText(w io.Writer, color bool, leftOut int64) error {
	var out bytes.Buffer // so that only one write can fail
	r.span.write(&out, leftOut)
	if r.span.requests > 0 {
		r.writeTotals(&out)
		r.writeSections(&out, cells.InkFor(color))
	}
	_, err := w.Write(out.Bytes())
	return err
}

// requested yields the limits with requests, in the order of the file.
func (r *Report) requested(yield func(*limitState) bool) {
	for _, l := range r.replay.limits {
		if l.requests > 0 && !yield(l) {
			return
		}
	}
}

func (r *Report) writeTotals(out *bytes.Buffer) {
	shadow := r.shadow()
	rows := [][]string{tallyHead("limit", shadow)}
	for l := range r.requested {
		rows = append(rows, append([]string{trace.Clip(l.name, 40)}, l.row(l.requestedKeys(), shadow)...))
		rows = append(rows, l.planRows("  ", shadow)...)
	}
	out.WriteString("\n" + tallyTable(rows, ""))
}

// shadow reports whether a limit with requests is in shadow mode.
func (r *Report) shadow() bool {
	for l := range r.requested {
		if l.policy.Mode == runtime.ModeShadow {
			return true
		}
	}
	return false
}

func (r *Report) writeSections(out *bytes.Buffer, ink cells.Ink) {
	// All plots share one axis, so that they can be read below each other. Its columns fit the coarsest timeline.
	bins, limits := int64(1), 0
	for _, t := range r.timelines {
		bins = max(bins, t.width())
		limits++
	}
	axis := newAxis(r.span.first, r.span.last, bins)
	byDenied := func(a, b *limitState) int { return cmp.Compare(a.limited(), b.limited()) }
	for _, l := range top(r.requested, maxSections, byDenied) {
		fmt.Fprintf(out, "\n%s%s%s\n%s", ink.Bold, trace.Clip(l.name, 60), ink.Off, cells.Wrap(l.words(rulesOf), "  "))
		for _, note := range []string{l.caveat(), l.verbs(), l.held()} {
			if note != "" {
				out.WriteString(cells.Wrap(note, "  "))
			}
		}
		writePlots(out, axis, r.timelines[l.name], ink)
		writeDenied(out, l)
	}
	if rest := limits - maxSections; rest > 0 {
		fmt.Fprintf(out, "\nand %s with fewer denials; -limit NAME shows one of them\n", words.Count(int64(rest), "more limit"))
	}
}

// rulesOf returns the sentences on a limit in a report.
func rulesOf(l *spec.Limit) []string {
	return append(describe.Limit(l).Rules(), fields.ModeWords(l)...)
}

// writeDenied lists the keys that were denied most or, for a limit in shadow mode, shadowed most.
func writeDenied(out *bytes.Buffer, l *limitState) {
	if l.limited() == 0 || len(l.key) == 0 {
		return
	}
	denied := 0 // the keys with a denial: the others do not belong into the list
	for _, k := range l.keys {
		if k.limited() > 0 {
			denied++
		}
	}
	head := "denied"
	if l.policy.Mode == runtime.ModeShadow {
		head = "shadowed"
	}
	rows := [][]string{{"key", head, "", "max wait"}}
	for _, k := range top(maps.Values(l.keys), min(denied, maxKeysListed), moreDenied) {
		n := k.limited()
		rows = append(rows, []string{
			trace.Clip(k.key, 40), words.Number(n) + " of " + words.Number(k.requests), percent(n, k.requests), roundedDuration(k.longest),
		})
	}
	out.WriteString(cells.Table(rows, "lrrr", plotIndent, 0))
	if rest := denied - maxKeysListed; rest > 0 {
		fmt.Fprintf(out, "%sand %s\n", plotIndent, words.Count(int64(rest), "more key"))
	}
}

// moreDenied orders keys by their denials, and by name where these are equal: maps have no order.
func moreDenied(a, b *keyState) int {
	return cmp.Or(cmp.Compare(a.limited(), b.limited()), -strings.Compare(a.key, b.key))
}

// top returns the n greatest elements, the greatest first and equal ones in their order. n is at least 1.
func top[E any](all func(yield func(E) bool), n int, compare func(a, b E) int) []E {
	var list []E // of n elements; sorting would copy all keys of a trace
	for e := range all {
		if len(list) == n && compare(e, list[n-1]) <= 0 { // the first of equal ones stays
			continue
		}
		i := slices.IndexFunc(list, func(other E) bool { return compare(e, other) > 0 })
		if i < 0 {
			i = len(list)
		}
		list = slices.Insert(list, i, e)
		list = list[:min(len(list), n)]
	}
	return list
}

// caveat describes the settings of the limit that a replay leaves out, or is "".
func (s *limitState) caveat() string {
	if settings := unreplayed(&s.policy); settings != "" {
		return "Not replayed: " + settings + "." + inProduction(&s.policy)
	}
	return ""
}

// held describes the requests whose slots no line releases, or is "".
func (s *limitState) held() string {
	if s.unreleased == 0 {
		return ""
	}
	return fmt.Sprintf("%s held for the whole hold: the trace does not say how long they run (running).",
		words.Count(s.unreleased, "request"))
}

// unreplayed lists the settings that a replay leaves out because they depend on processes: "lease of 5 tokens for
// 200ms and denyCache of 1s".
func unreplayed(p *runtime.Policy) string {
	var list []string
	if p.Lease != (runtime.Lease{}) {
		list = append(list, fmt.Sprintf("lease of %s for %s", words.Count(p.Lease.Tokens, "token"), roundedDuration(p.Lease.For)))
	}
	if cachesDenials(p) {
		list = append(list, "denyCache of "+roundedDuration(p.DenyCache))
	}
	if p.Overridable() {
		list = append(list, "overrides")
	}
	if p.AtMost != (runtime.Numbers{}) {
		list = append(list, "the numbers of callers")
	}
	return words.List(list, "and")
}

// cachesDenials reports whether a process may repeat a denial of a key. Other modes than enforce deny nothing, or
// everything.
func cachesDenials(p *runtime.Policy) bool { return p.DenyCache > 0 && p.Mode == runtime.ModeEnforce }

// inProduction describes how decisions can differ in production because of these settings.
func inProduction(policies ...*runtime.Policy) (sentences string) {
	if slices.ContainsFunc(policies, func(p *runtime.Policy) bool { return p.Lease != (runtime.Lease{}) }) {
		sentences += " In production, tokens leased by one process are denied to the others until it returns them."
	}
	if slices.ContainsFunc(policies, cachesDenials) {
		sentences += " In production, a process may repeat a denial from its memory for as long as denyCache."
	}
	if slices.ContainsFunc(policies, (*runtime.Policy).Most) {
		sentences += " The replay is for callers that give the most: in production, they may give smaller numbers."
	}
	if slices.ContainsFunc(policies, (*runtime.Policy).Overridable) {
		sentences += " In production, operators may have blocked keys or given them other numbers."
	}
	return sentences
}
