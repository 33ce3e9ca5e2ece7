package sim

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// tally counts the decisions of requests by their outcome. Charges, which are never denied, are among the allowed ones.
type tally struct {
	requests, charges int64
	// unreleased counts the requests that hold slots and do not say how long they run.
	unreleased int64
	// penalties counts the denials that have started a penalty or that one has caused.
	penalties int64
	// crossed counts the requests that have crossed a threshold of their limit.
	crossed int64
	by      [Outcomes]int64
	longest time.Duration
}

func (t *tally) add(l *trace.Line, d Answer) {
	t.requests++
	t.by[d.Outcome]++
	if l.Op == runtime.Charge {
		t.charges++
	} else if d.PenaltyFor > 0 && (!d.Allowed || d.Shadowed) {
		t.penalties++
	}
	if d.Crossed > 0 {
		t.crossed++
	}
	if d.Fence != 0 && l.Running == 0 {
		t.unreleased++
	}
	t.longest = max(t.longest, wait(d.Decision))
}

// limited counts the requests that were denied or, for a limit in shadow mode, would have been.
func (t *tally) limited() int64 { return t.by[Denied] + t.by[Shadowed] }

// verbs says how many of the allowed requests were not simply allowed, how many met a penalty, and how many crossed a
// threshold, or is "".
func (t *tally) verbs() string {
	var list []string
	if t.charges > 0 {
		list = append(list, words.Count(t.charges, "charge"))
	}
	if t.by[Partly] > 0 {
		list = append(list, words.Count(t.by[Partly], "request")+" for more tokens than there were")
	}
	sentence := ""
	if len(list) > 0 {
		sentence = "Allowed includes " + words.List(list, "and") + ". "
	}
	if t.penalties > 0 {
		sentence += words.Count(t.penalties, "request") + " started a penalty or came during one. "
	}
	if t.crossed > 0 {
		sentence += words.Count(t.crossed, "request") + " crossed a threshold of warn."
	}
	return strings.TrimSpace(sentence)
}

// wait returns the time until the retry of a denied request, or until the tokens of an allowed one can be used.
func wait(d runtime.Decision) time.Duration {
	switch {
	case d.Allowed:
		return d.UsableAfter
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
	limited := []string{words.Number(t.by[Denied]), percent(t.by[Denied], t.requests)}
	if shadow {
		limited = []string{words.Number(t.by[Shadowed]), words.Number(t.by[Denied])}
	}
	return []string{
		words.Number(t.requests), words.Number(t.requests - t.by[Denied]), limited[0], limited[1], words.Number(t.by[Delayed]),
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
		fmt.Fprintf(out, "%s at %s UTC", requests, trace.Instant(s.first))
	default:
		fmt.Fprintf(out, "%s from %s to %s UTC", requests, trace.Instant(s.first), trace.Instant(s.last))
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
