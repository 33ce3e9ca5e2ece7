package spec

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// root returns the root of the file's only document, or reports why it has none and returns nil.
func (p *document) root() *yaml.Node {
	reader := &slowReader{text: p.src.text}
	decoder := yaml.NewDecoder(reader)
	first, err := decode(decoder)
	if err == nil {
		return p.only(first, decoder, reader)
	}
	if errors.Is(err, io.EOF) {
		p.report(span{Pos{1, 1}, Pos{1, 1}}, emptyFile, "begin with version: 1", "the file has no content")
		return nil
	}
	p.syntaxError(err, reader.line())
	return nil
}

// only returns the root of the first document, or reports the one after it.
func (p *document) only(first *yaml.Node, decoder *yaml.Decoder, reader *slowReader) *yaml.Node {
	// The rest of the file is decoded too, because an error or a document there would otherwise be ignored.
	second, err := decode(decoder)
	root := first.Content[0]
	switch {
	case err == nil:
		p.report(p.src.wholeLine(second.Line), secondDocument, "put all limits under one limits:",
			"a second document begins here")
	case !errors.Is(err, io.EOF):
		p.syntaxError(err, reader.line())
	case root.Kind == yaml.ScalarNode && root.Tag == "!!null":
		p.report(p.src.at(root), emptyFile, "begin with version: 1", "the file has no content")
	default:
		return root
	}
	return nil
}

// decode returns the next document, or [io.EOF].
func decode(decoder *yaml.Decoder) (document *yaml.Node, err error) {
	// The YAML reader panics on some malformed input.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: %v", r)
		}
	}()
	document = new(yaml.Node)
	err = decoder.Decode(document)
	// A file with comments only is a document without a root.
	if err == nil && len(document.Content) == 0 {
		err = io.EOF
	}
	return document, err
}

// slowReader returns its text byte by byte, because the errors of the YAML reader name no line or a wrong one: its
// position shows how far the YAML reader came.
type slowReader struct {
	text string
	next int
}

func (r *slowReader) Read(b []byte) (int, error) {
	if r.next == len(r.text) {
		return 0, io.EOF
	}
	// More than one byte would make the position run ahead of the error by the size of the buffer.
	b[0] = r.text[r.next]
	r.next++
	return 1, nil
}

// line returns the current line.
func (r *slowReader) line() int { return 1 + strings.Count(r.text[:r.next], "\n") }

// syntaxError reports an error of the YAML reader, which had read the file up to a line.
func (p *document) syntaxError(err error, reached int) {
	problem := problemOf(err)
	line := p.src.faultyLine(problem, reached)
	if name, ok := strings.CutPrefix(problem.text, "unknown anchor '"); ok {
		name = strings.TrimSuffix(name, "' referenced")
		p.refuseAlias(p.src.alias(name, line), name)
		return
	}
	// After a name without a colon, the YAML reader joins the next line to it, and reports the colon there.
	if above := p.src.textAbove(line); strings.HasPrefix(problem.text, "mapping values") && p.src.lacksColon(above) {
		line, problem.text = above, "could not find expected ':'"
	}
	for _, s := range commonMistakes {
		if at, ok := s.in(p.src, line, problem.text); ok {
			p.report(at, syntax, s.help, "%s", s.message)
			return
		}
	}
	p.report(p.src.wholeLine(line), syntax, "", "not valid YAML: %s", clip(problem.text))
}

// alias returns the place of an alias on a line or after it, because the YAML reader names the line of its map.
func (s *source) alias(name string, from int) span {
	form := regexp.MustCompile(`\*` + regexp.QuoteMeta(name) + `(?:[ \t,\]}]|$)`)
	for n := from; n <= len(s.lines); n++ {
		// An asterisk in a comment is not an alias.
		text, _, _ := strings.Cut(s.line(n), " #")
		if place := form.FindStringIndex(text); place != nil && s.hasText(n) {
			return spanning(Pos{n, 1 + utf8.RuneCountInString(text[:place[0]])}, "*"+name)
		}
	}
	return s.wholeLine(from)
}

// problem is an error of the YAML reader, with the line that it names or 0.
type problem struct {
	text string
	line int
}

var problemForm = regexp.MustCompile(`(?s)^yaml: (?:line (\d+): )?(.*)$`)

func problemOf(err error) problem {
	parts := problemForm.FindStringSubmatch(err.Error())
	if parts == nil {
		return problem{text: err.Error()}
	}
	line, _ := strconv.Atoi(parts[1])
	return problem{parts[2], line}
}

// commonMistake is a common syntax error, for which the YAML reader has a message that only experts understand.
type commonMistake struct {
	// problem is a part of the message of the YAML reader.
	problem string
	// culprit matches a line with the mistake, and its first group is the wrong part; nil for the whole line.
	culprit *regexp.Regexp
	// message describes the mistake in plain words, and help is the remedy.
	message, help string
}

const (
	needsQuotes = "a text without quotes cannot begin with this character"
	useQuotes   = "put the value in quotes"
)

// commonMistakes are tried in this order, so those that match a part of the line come before those that match any line.
var commonMistakes = []commonMistake{
	{"", regexp.MustCompile("^ *(\t)"), "a tab in the indentation", "indent with spaces"},
	{"", missingSpaceForm, "a colon needs a space after it", "write name: value"},
	{"did not find expected key", regexp.MustCompile(`:[ \t]+([\[{]).*[\]}][ \t]*[^ \t,\]}#]`), needsQuotes, useQuotes},
	{"did not find expected key", regexp.MustCompile(`^[ \t]*(.*["'].*)`), "unexpected text before or after quotes", "nothing can follow a closing quote, and a quote must be closed"},
	{"did not find expected key", nil, "this line does not continue the map above it", "begin all fields of one limit in the same column"},
	{"mapping values are not allowed", nil, "a colon where no value can begin", "put the text in quotes if the colon belongs to it; otherwise correct the indentation"},
	{"mapping keys are not allowed", regexp.MustCompile(`[ \t](\?)`), needsQuotes, useQuotes},
	{"did not find expected '-' indicator", nil, "this line does not continue the list above it", "begin each item of a list with - in the same column"},
	{"block sequence entries are not allowed", regexp.MustCompile(`:[ \t]+(-)`), needsQuotes, useQuotes},
	{"block sequence entries are not allowed", nil, "a list item where no list can begin", "put the list on a line of its own, or the text in quotes"},
	{"could not find expected ':'", nil, "a name without a colon", "write name: value"},
	{"did not find expected ',' or '}'", nil, "a { that is not closed, or a missing comma", "separate with commas and end with }"},
	{"did not find expected ',' or ']'", nil, "a [ that is not closed, or a missing comma", "separate with commas and end with ]"},
	{"did not find expected node content", nil, "a value is missing before this", "write a value, or delete the comma or bracket"},
	{"found unexpected end of stream", nil, "a quote that is not closed", "end the text with the same quote"},
	{"found unexpected document indicator", nil, "a quote that is not closed", "end the text with the same quote"},
	{"cannot start any token", regexp.MustCompile("(?:^|[ \t,{\\[])([@%`])"), needsQuotes, useQuotes},
	{"cannot start any token", nil, needsQuotes, useQuotes},
	{"alphabetic or numeric character", regexp.MustCompile(`[ \t,{\[]([*&])`), needsQuotes, useQuotes},
	{"expected comment or line break", regexp.MustCompile(`[ \t]([|>])`), needsQuotes, "put the value in quotes, or begin it on the next line"},
	{"tag", regexp.MustCompile(`[ \t,{\[](!)`), needsQuotes, useQuotes},
	{"octet", regexp.MustCompile(`[ \t,{\[](!)`), needsQuotes, useQuotes},
	{"whitespace or line break", regexp.MustCompile(`[ \t,{\[]([!*&])`), needsQuotes, useQuotes},
	{"found unknown escape character", nil, `an unknown escape after \`, `write \\ for a backslash, or use single quotes`},
	{"hexdecimal number", nil, `an unknown escape after \`, `write \\ for a backslash, or use single quotes`},
	{"incompatible YAML", nil, "an unsupported version of YAML", "delete the line %YAML"},
	{"", regexp.MustCompile(`^(%.*)`), "unknown YAML directive: a line that begins with % is one", "delete it, or put the text in quotes"},
	{"expected <document start>", nil, "this is after the end of the map", "correct the brackets or the indentation above"},
	{"exceeded max depth", nil, "nested too deeply", "limits.yaml needs at most four levels"},
}

// in returns the place of the mistake on the line of a problem, or false if the problem is another one.
func (m commonMistake) in(s *source, line int, problem string) (span, bool) {
	if !strings.Contains(problem, m.problem) {
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

// mostReread bounds the bytes that [source.faultyLine] parses again, so that its time is linear in the file.
const mostReread = MaxSize

// faultyLine returns the line of a syntax error. The YAML reader often names the line where the construct began, or no
// line. The error is on the line after the longest valid prefix of the file, which ends a little before the line that
// the reader had reached.
func (s *source) faultyLine(p problem, reached int) int {
	reached = min(reached, len(s.lines))
	named := max(1, min(p.line, len(s.lines)))
	switch {
	case p.text == "did not find expected node content":
		// For this message, the YAML reader names the line above.
		return min(p.line+1, len(s.lines))
	case p.text == "found unexpected end of stream":
		if hasUnclosed(s.line(1), `"`, `"`) || hasUnclosed(s.line(1), "'", "'") {
			return 1
		}
		return named
	case strings.HasPrefix(p.text, "did not find expected ',' or"):
		if end := s.line(s.textAbove(len(s.lines) + 1)); hasUnclosed(s.line(1), "{", "}") && !hasUnclosed(end, "}", "{") ||
			hasUnclosed(s.line(1), "[", "]") && !hasUnclosed(end, "]", "[") {
			return 1
		}
		// Inside brackets no prefix of the file is valid, so the search below would find the opening bracket.
		if open := p.line + 1; open >= reached-3 {
			return min(open, len(s.lines))
		}
		return s.textAbove(s.textAbove(reached))
	}
	for n, read := reached, 0; n >= 0 && read < mostReread; n-- {
		// The longest prefix is tried first, because most errors are near the line that the reader had reached.
		text := strings.Join(s.lines[:n], "\n")
		if readable(text) {
			return s.nextText(n)
		}
		read += len(text)
	}
	return named
}

// hasUnclosed reports whether a line has a quote or a bracket that it does not close. If that is the first line, the
// YAML reader names the line where it gave up instead.
func hasUnclosed(line, open, end string) bool {
	if open == end {
		return strings.Count(line, open)%2 == 1
	}
	return strings.Count(line, open) > strings.Count(line, end)
}

// readable reports whether a text is valid YAML.
func readable(text string) bool {
	decoder := yaml.NewDecoder(strings.NewReader(text + "\n"))
	for {
		if _, err := decode(decoder); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

// nextText returns the first line with text after line n, or the next line if no line has.
func (s *source) nextText(n int) int {
	for i := n + 1; i <= len(s.lines); i++ {
		if s.hasText(i) {
			return i
		}
	}
	return min(n+1, len(s.lines))
}

// lacksColon reports whether a line is probably a "name: value" without the colon or the space after it.
func (s *source) lacksColon(n int) bool {
	line := s.line(n)
	return !strings.Contains(line+" ", ": ") && !strings.HasPrefix(line, "---")
}

// missingSpaceForm is a name with a colon that is part of it in YAML, because no space follows.
var missingSpaceForm = regexp.MustCompile(`^[ \t]*(?:- )?[A-Za-z][A-Za-z0-9_-]*(:)[^\s/:]`)

// refuseIndirection reports anchors, aliases, merge keys and tags anywhere under a node. Editing an anchor would change
// limits on lines that a reviewer does not see.
func (p *document) refuseIndirection(node *yaml.Node) {
	at := p.src.at(node)
	switch word := p.src.between(at); {
	case node.Kind == yaml.AliasNode:
		p.refuseAlias(at, node.Value)
		p.mute(node)
	case node.Anchor != "":
		p.report(at, anchor, writeOut, "anchors such as &%s are not allowed", clip(node.Anchor))
		p.mute(node)
	case node.Style&yaml.TaggedStyle != 0, isTag(node, word):
		p.report(at, tag, "write the value without a tag", "tags such as %s are not allowed", clip(word))
		p.mute(node)
	case node.Tag == mergeTag:
		node.Tag = "!!str" // "<<" is special only as the name of a field
	}
	for i, child := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 0 {
			p.refuseMerge(child)
		}
		p.refuseIndirection(child)
	}
}

const mergeTag = "!!merge"

// refuseMerge reports the name of a field that is a merge key.
func (p *document) refuseMerge(name *yaml.Node) {
	if name.Tag == mergeTag && name.Style&yaml.TaggedStyle == 0 && name.Anchor == "" {
		p.report(p.src.at(name), mergeKey, writeOut, "merge keys (<<) are not allowed")
		p.mute(name)
	}
}

func (p *document) refuseAlias(at span, name string) {
	p.report(at, anchor, writeOut, "aliases such as *%s are not allowed", clip(name))
}

const writeOut = "write the value out, so that each limit can be reviewed on its own"
