package spec

import (
	"errors"
	"io"
	"strings"

	"gopkg.in/yaml.v3"
)

// mostReread is how many bytes are read again in search of a fault.
const mostReread = MaxSize

// faultyLine returns the line that a syntax error is to be reported at. The YAML reader often names the
// line where the construct began, or none. The fault is on the line after the longest run of lines from
// the top that can be read, and that is a little before the line that the reader had reached.
func (s *source) faultyLine(p problem, reached int) int {
	reached = min(reached, len(s.lines))
	named := max(1, min(p.line, len(s.lines)))
	switch {
	case p.text == "did not find expected node content":
		return min(p.line+1, len(s.lines))
	case p.text == "found unexpected end of stream":
		if opens(s.line(1), `"`, `"`) || opens(s.line(1), "'", "'") {
			return 1
		}
		return named
	case strings.HasPrefix(p.text, "did not find expected ',' or"):
		if end := s.line(s.textAbove(len(s.lines) + 1)); opens(s.line(1), "{", "}") && !opens(end, "}", "{") ||
			opens(s.line(1), "[", "]") && !opens(end, "]", "[") {
			return 1
		}
		// Inside of brackets no run of lines can be read.
		if open := p.line + 1; open >= reached-3 {
			return min(open, len(s.lines))
		}
		return s.textAbove(s.textAbove(reached))
	}
	for n, read := reached, 0; n >= 0 && read < mostReread; n-- {
		text := strings.Join(s.lines[:n], "\n")
		if readable(text) {
			return s.nextText(n)
		}
		read += len(text)
	}
	return named
}

// opens reports whether a line has a quote or a bracket that it does not close. For what begins on the first
// line, the YAML reader names the line where it gave up.
func opens(line, open, end string) bool {
	if open == end {
		return strings.Count(line, open)%2 == 1
	}
	return strings.Count(line, open) > strings.Count(line, end)
}

// readable reports whether a text is YAML.
func readable(text string) bool {
	decoder := yaml.NewDecoder(strings.NewReader(text + "\n"))
	for {
		if _, err := decode(decoder); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

// nextText returns the first line after line n that says something.
func (s *source) nextText(n int) int {
	for i := n + 1; i <= len(s.lines); i++ {
		if s.says(i) {
			return i
		}
	}
	return min(n+1, len(s.lines))
}

// textAbove returns the last line before line n that says something, or n if there is none.
func (s *source) textAbove(n int) int {
	for i := n - 1; i > 0; i-- {
		if s.says(i) {
			return i
		}
	}
	return n
}

// says reports whether a line holds more than spaces and a comment. A tab counts: YAML may refuse it.
func (s *source) says(n int) bool {
	text := strings.Trim(s.line(n), " ")
	return text != "" && !strings.HasPrefix(text, "#")
}

// lacksColon reports whether a line looks like a "name: value" without a colon that YAML takes for one.
func (s *source) lacksColon(n int) bool {
	line := s.line(n)
	return !strings.Contains(line+" ", ": ") && !strings.HasPrefix(line, "---")
}
