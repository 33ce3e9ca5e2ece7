package sim

import (
	"bytes"
	"fmt"
	"time"
)

// span is the time of the requests of a trace.
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

// write says when the requests were made.
func (s *span) write(out *bytes.Buffer, leftOut int64) {
	switch {
	case s.requests == 0:
		out.WriteString("no requests")
	case s.first == s.last:
		fmt.Fprintf(out, "%s at %s UTC", plural(s.requests, "request"), instant(s.first))
	default:
		fmt.Fprintf(out, "%s from %s to %s UTC", plural(s.requests, "request"), instant(s.first), instant(s.last))
	}
	if leftOut > 0 {
		fmt.Fprintf(out, "\n%s of other limits left out", plural(leftOut, "line"))
	}
	out.WriteByte('\n')
	if s.looksLikeSeconds() {
		out.WriteString("these times are in 1970; if they were Unix seconds, make milliseconds of them\n")
	}
}

// looksLikeSeconds reports whether all the instants would be in the years 2001 to 2286 if their milliseconds
// were seconds.
func (s *span) looksLikeSeconds() bool {
	const least, most = 1e9 * int64(time.Millisecond), 1e10 * int64(time.Millisecond)
	return s.requests > 0 && s.first >= least && s.last < most
}
