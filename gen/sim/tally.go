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

// tally counts the decisions of requests. Delayed are the allowed ones that must wait for their tokens, and shadowed
// those that would be denied or delayed if the limit were not in shadow mode. Charges, which are never denied, and partial
// ones, which got only some of their tokens, are among the allowed ones.
type tally struct {
	requests, allowed, denied, delayed, shadowed int64
	charges, partial                             int64
	longest                                      time.Duration
}

func (t *tally) add(l *trace.Line, d runtime.Decision) {
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
func isPartial(l *trace.Line, d runtime.Decision) bool {
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
