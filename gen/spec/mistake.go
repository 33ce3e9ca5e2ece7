package spec

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// mistake is something that people write and YAML does not read.
type mistake struct {
	// says is a part of what the YAML reader says of it.
	says string
	// culprit finds the part of the line that is wrong, as its first group; nil if that is the whole line.
	culprit *regexp.Regexp
	// message says in plain words what is wrong, and help what to do.
	message, help string
}

const (
	needsQuotes = "a text cannot begin with this character"
	useQuotes   = "put the value in quotes"
)

// mistakes are tried in this order. The first fits of which the YAML reader says so, on a line that has it.
var mistakes = []mistake{
	{"", regexp.MustCompile("^ *(\t)"), "a tab in the indentation", "indent with spaces"},
	{"", tightColonForm, "a colon needs a space after it", "write name: value"},
	{"did not find expected key", regexp.MustCompile(`:[ \t]+([\[{]).*[\]}][ \t]*[^ \t,\]}#]`), needsQuotes, useQuotes},
	{"did not find expected key", regexp.MustCompile(`^[ \t]*(.*["'].*)`), "this does not fit here", "nothing can follow a closing quote, and a quote must be closed"},
	{"did not find expected key", nil, "this does not continue the map above it", "fields of one limit begin in the same column"},
	{"mapping values are not allowed", nil, "a colon where no value can begin", "put the text in quotes if the colon belongs to it; otherwise look at the indentation"},
	{"mapping keys are not allowed", regexp.MustCompile(`[ \t](\?)`), needsQuotes, useQuotes},
	{"did not find expected '-' indicator", nil, "this does not continue the list above it", ""},
	{"block sequence entries are not allowed", regexp.MustCompile(`:[ \t]+(-)`), needsQuotes, useQuotes},
	{"block sequence entries are not allowed", nil, "a list item where no list can begin", ""},
	{"could not find expected ':'", nil, "a name without a colon", "write name: value"},
	{"did not find expected ',' or '}'", nil, "a { that is not closed, or a missing comma", "separate with commas and end with }"},
	{"did not find expected ',' or ']'", nil, "a [ that is not closed, or a missing comma", "separate with commas and end with ]"},
	{"did not find expected node content", nil, "a value is missing before this", ""},
	{"found unexpected end of stream", nil, "a quote that is not closed", ""},
	{"found unexpected document indicator", nil, "a quote that is not closed", ""},
	{"cannot start any token", regexp.MustCompile("(?:^|[ \t,{\\[])([@%`])"), needsQuotes, useQuotes},
	{"cannot start any token", nil, needsQuotes, useQuotes},
	{"alphabetic or numeric character", regexp.MustCompile(`[ \t,{\[]([*&])`), needsQuotes, useQuotes},
	{"expected comment or line break", regexp.MustCompile(`[ \t]([|>])`), needsQuotes, "put the value in quotes, or begin it on the next line"},
	{"tag", regexp.MustCompile(`[ \t,{\[](!)`), needsQuotes, useQuotes},
	{"octet", regexp.MustCompile(`[ \t,{\[](!)`), needsQuotes, useQuotes},
	{"whitespace or line break", regexp.MustCompile(`[ \t,{\[]([!*&])`), needsQuotes, useQuotes},
	{"found unknown escape character", nil, `an escape that YAML does not know after \`, `write \\ for a backslash, or use single quotes`},
	{"hexdecimal number", nil, `an escape that YAML does not know after \`, `write \\ for a backslash, or use single quotes`},
	{"incompatible YAML", nil, "a version of YAML that is not known here", "leave the line %YAML out"},
	{"", regexp.MustCompile(`^(%.*)`), "a line that begins with % is an order to the YAML reader, and not one that it knows", "leave it out"},
	{"expected <document start>", nil, "this stands after the end of the map", "look at the brackets and the indentation above"},
	{"exceeded max depth", nil, "nested too deeply", ""},
}

// in returns the place of the mistake on a line of which the YAML reader says what the problem is. It is
// false if this is not the mistake.
func (m mistake) in(s *source, line int, problem string) (span, bool) {
	if !strings.Contains(problem, m.says) {
		return span{}, false
	}
	if m.culprit == nil {
		return s.wholeLine(line), true
	}
	text := s.line(line)
	place := m.culprit.FindStringSubmatchIndex(text)
	if place == nil {
		return span{}, false
	}
	return spanning(Pos{line, 1 + utf8.RuneCountInString(text[:place[2]])}, strings.TrimRight(text[place[2]:place[3]], " \t")), true
}
