package sim

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// Report summarizes the decisions of a replay for people, in lines of at most 80 cells.
type Report struct {
	// LeftOut is the number of lines that the trace has skipped: see [Trace.LeftOut].
	LeftOut int64

	replay    *Replay
	timelines map[string]*timeline
	span      span
}

// NewReport returns a report on the decisions of r.
func NewReport(r *Replay) *Report { return &Report{replay: r, timelines: map[string]*timeline{}} }

// Write counts a line with its decision. The error is always nil.
func (r *Report) Write(l *Line, a Answer) error {
	r.span.add(l.At)
	t := r.timelines[l.Limit]
	if t == nil {
		t = new(timeline)
		r.timelines[l.Limit] = t
	}
	t.add(l.At, a.Decision)
	return nil
}

// maxSections is how many limits have a section of their own, and maxKeysListed how many keys each of them lists.
const maxSections, maxKeysListed = 8, 10

// WriteText prints the totals of each limit and then, for the limits with most denials, a plot over time and the keys
// that were denied most. The error is that of w.
func (r *Report) WriteText(w io.Writer, color bool) error {
	var out bytes.Buffer // so that only one write can fail
	r.span.write(&out, r.LeftOut)
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
		rows = append(rows, append([]string{clip(l.Policy.Name, 40)}, l.row(l.requestedKeys(), shadow)...))
		rows = append(rows, l.planRows("  ", shadow)...)
	}
	out.WriteString("\n" + tallyTable(rows, ""))
}

// shadow reports whether a limit with requests is in shadow mode.
func (r *Report) shadow() bool {
	for l := range r.requested {
		if l.Policy.Mode == runtime.ModeShadow {
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
	byDenied := func(a, b *limitState) int { return cmp.Compare(a.denied+a.shadowed, b.denied+b.shadowed) }
	for _, l := range top(r.requested, maxSections, byDenied) {
		fmt.Fprintf(out, "\n%s%s%s\n%s", ink.Bold, clip(l.Policy.Name, 60), ink.Off, cells.Wrap(l.Words, "  "))
		for _, note := range []string{l.caveat(), l.verbs()} {
			if note != "" {
				out.WriteString(cells.Wrap(note, "  "))
			}
		}
		writePlots(out, axis, r.timelines[l.Policy.Name], ink)
		writeDenied(out, l)
	}
	if rest := limits - maxSections; rest > 0 {
		fmt.Fprintf(out, "\nand %s with fewer denials; -limit NAME shows one of them\n", words.Count(int64(rest), "more limit"))
	}
}

// writeDenied lists the keys that were denied most or, for a limit in shadow mode, shadowed most.
func writeDenied(out *bytes.Buffer, l *limitState) {
	if l.denied+l.shadowed == 0 || len(l.Key) == 0 {
		return
	}
	denied := 0 // the keys with a denial: the others do not belong into the list
	for _, k := range l.keys {
		if k.denied+k.shadowed > 0 {
			denied++
		}
	}
	head := "denied"
	if l.Policy.Mode == runtime.ModeShadow {
		head = "shadowed"
	}
	rows := [][]string{{"key", head, "", "max wait"}}
	for _, k := range top(maps.Values(l.keys), min(denied, maxKeysListed), moreDenied) {
		n := k.denied + k.shadowed // one of them is 0, as a limit has one mode
		rows = append(rows, []string{
			clip(k.key, 40), words.Number(n) + " of " + words.Number(k.requests), percent(n, k.requests), roundedDuration(k.longest),
		})
	}
	out.WriteString(cells.Table(rows, "lrrr", plotIndent, 0))
	if rest := denied - maxKeysListed; rest > 0 {
		fmt.Fprintf(out, "%sand %s\n", plotIndent, words.Count(int64(rest), "more key"))
	}
}

// moreDenied orders keys by their denials, and by name where these are equal: maps have no order.
func moreDenied(a, b *keyState) int {
	return cmp.Or(cmp.Compare(a.denied+a.shadowed, b.denied+b.shadowed), -strings.Compare(a.key, b.key))
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

// tally counts the decisions of requests. Delayed are the allowed ones that must wait for their tokens, and shadowed
// those that would be denied or delayed if the limit were not in shadow mode. Charges, which are never denied, and partial
// ones, which got only some of their tokens, are among the allowed ones.
type tally struct {
	requests, allowed, denied, delayed, shadowed int64
	charges, partial                             int64
	longest                                      time.Duration
}

func (t *tally) add(l *Line, d runtime.Decision) {
	t.requests++
	switch {
	case l.Op == runtime.Charge:
		t.charges++
	case isPartial(l, d):
		t.partial++
	}
	switch {
	case !d.Allowed:
		t.denied++
	case d.Delay > 0:
		t.delayed++
		fallthrough // a delayed request is an allowed one
	default:
		t.allowed++
	}
	if d.Shadowed {
		t.shadowed++
	}
	t.longest = max(t.longest, wait(d))
}

// isPartial reports whether a request got only some of its tokens.
func isPartial(l *Line, d runtime.Decision) bool {
	return l.Op == runtime.TakeUpTo && d.Allowed && d.Taken < l.Count
}

// verbs says how many of the allowed requests were not simply allowed, or is "".
func (t *tally) verbs() string {
	var list []string
	if t.charges > 0 {
		list = append(list, words.Count(t.charges, "charge"))
	}
	if t.partial > 0 {
		list = append(list, words.Count(t.partial, "request")+" for more tokens than there were")
	}
	if len(list) == 0 {
		return ""
	}
	return "Allowed includes " + words.List(list, "and") + "."
}

// wait returns the time until the retry of a denied request, or until the tokens of an allowed one can be used.
func wait(d runtime.Decision) time.Duration {
	switch {
	case d.Allowed:
		return d.Delay
	case d.RetryAfter == runtime.Never:
		return 0 // a blocked limit, for which no wait helps
	}
	return d.RetryAfter
}

// tallyHead returns the heads of a name and of the columns of tally.row.
func tallyHead(name string, shadow bool) []string {
	if shadow {
		return []string{name, "requests", "allowed", "shadowed", "denied", "delayed", "keys", "max wait"}
	}
	return []string{name, "requests", "allowed", "denied", "", "delayed", "keys", "max wait"}
}

// tallyTable aligns rows that begin with a name.
func tallyTable(rows [][]string, indent string) string {
	return cells.Table(rows, "l"+strings.Repeat("r", len(rows[0])-1), indent, 0)
}

// row has the column for shadow mode, in place of a share that would not fit beside it, if a limit of the table has it.
func (t *tally) row(keys int, shadow bool) []string {
	denied := []string{words.Number(t.denied), percent(t.denied, t.requests)}
	if shadow {
		denied = []string{words.Number(t.shadowed), words.Number(t.denied)}
	}
	return []string{
		words.Number(t.requests), words.Number(t.allowed), denied[0], denied[1], words.Number(t.delayed),
		words.Number(int64(keys)), roundedDuration(t.longest),
	}
}

// span is the time between the first and the last request of a trace.
type span struct {
	requests    int64
	first, last int64
}

func (s *span) add(at int64) {
	if s.requests == 0 {
		s.first = at
	}
	s.last = at
	s.requests++
}

// write prints the header of a report: the number of requests, their time span, and the skipped lines.
func (s *span) write(out *bytes.Buffer, leftOut int64) {
	switch requests := words.Count(s.requests, "request"); {
	case s.requests == 0:
		out.WriteString("no requests")
	case s.first == s.last:
		fmt.Fprintf(out, "%s at %s UTC", requests, instant(s.first))
	default:
		fmt.Fprintf(out, "%s from %s to %s UTC", requests, instant(s.first), instant(s.last))
	}
	if leftOut > 0 {
		fmt.Fprintf(out, "\n%s for other limits skipped", words.Count(leftOut, "line"))
	}
	out.WriteByte('\n')
	if s.looksLikeSeconds() {
		out.WriteString("all times are in 1970; if they are Unix seconds, convert them to milliseconds\n")
	}
}

// looksLikeSeconds reports whether all instants would be in the years 2001 to 2286 if their milliseconds were seconds.
func (s *span) looksLikeSeconds() bool {
	const least, most = 1e9 * int64(time.Millisecond), 1e10 * int64(time.Millisecond)
	return s.requests > 0 && s.first >= least && s.last < most
}

// caveat describes the settings of the limit that a replay leaves out, or is "".
func (s *limitState) caveat() string {
	if settings := unreplayed(s.Policy); settings != "" {
		return "Not replayed: " + settings + "." + inProduction(s.Policy)
	}
	return ""
}

// unreplayed lists the settings that a replay leaves out because they depend on processes: "lease of 5 tokens for
// 200ms and denyCache of 1s".
func unreplayed(p *runtime.Policy) string {
	var list []string
	if p.Lease != (runtime.Lease{}) {
		list = append(list, fmt.Sprintf("lease of %s for %s", words.Count(p.Lease.Tokens, "token"), roundedDuration(p.Lease.For)))
	}
	if p.DenyCache > 0 {
		list = append(list, "denyCache of "+roundedDuration(p.DenyCache))
	}
	if p.Overridable() {
		list = append(list, "overrides")
	}
	return words.List(list, "and")
}

// inProduction describes how decisions can differ in production because of these settings.
func inProduction(policies ...*runtime.Policy) (sentences string) {
	if slices.ContainsFunc(policies, func(p *runtime.Policy) bool { return p.Lease != (runtime.Lease{}) }) {
		sentences += " In production, tokens leased by one process are denied to the others until it returns them."
	}
	if slices.ContainsFunc(policies, func(p *runtime.Policy) bool { return p.DenyCache > 0 }) {
		sentences += " In production, a process may repeat a denial from its memory for as long as denyCache."
	}
	if slices.ContainsFunc(policies, (*runtime.Policy).Overridable) {
		sentences += " In production, operators may have blocked keys or given them other numbers."
	}
	return sentences
}

// percent formats a share so that 0% and 100% are exact.
func percent(part, whole int64) string {
	switch p := 100 * float64(part) / float64(whole); {
	case part == 0:
		return "0%"
	case part == whole:
		return "100%"
	case p < 0.1:
		return "<0.1%"
	case p > 99.9: // which could be rounded to 100.0%
		return ">99.9%"
	default:
		return fmt.Sprintf("%.1f%%", p)
	}
}

// roundedDuration rounds a duration to about three digits; [words.Duration] would print every nanosecond.
func roundedDuration(d time.Duration) string {
	switch {
	case d <= 0:
		return "0s"
	case d >= words.Day:
		d = d.Round(time.Hour) // before splitting off the days, since it may round up to one more
		return words.Number(int64(d/words.Day)) + "d" + withoutZeros(d%words.Day)
	case d >= 10*time.Minute:
		return withoutZeros(d.Round(time.Second))
	case d >= 10*time.Second:
		return withoutZeros(d.Round(100 * time.Millisecond))
	case d >= time.Millisecond:
		return withoutZeros(d.Round(time.Millisecond))
	}
	return d.String()
}

// withoutZeros formats 1h0m0s as 1h, and 0 as "".
func withoutZeros(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return strings.TrimPrefix(text, "0s")
}

func instant(at int64) string { return time.Unix(0, at).UTC().Format("2006-01-02 15:04:05.999") }

// clip returns a text as [printable.Line] does, cut to width cells. It cuts between escapes, where [cells.Fit] could
// cut one in two.
func clip(text string, width int) string {
	var out strings.Builder
	used, cut := 0, 0
	for sign := range printable.Signs(text) {
		out.WriteString(sign)
		used += cells.Of(sign)
		switch {
		case used < width:
			cut = out.Len() // the "…" still fits after it
		case used > width:
			return out.String()[:cut] + "…"
		}
	}
	return out.String()
}
