package spec

import (
	"regexp"
	"strconv"
	"strings"
)

// syntaxError reports why the YAML reader gave up after it had reached a line.
func (p *parser) syntaxError(err error, reached int) {
	problem := problemOf(err)
	if name, ok := strings.CutPrefix(problem.text, "unknown anchor '"); ok {
		p.unknownAnchor(strings.TrimSuffix(name, "' referenced"))
		return
	}
	line := p.src.faultyLine(problem, reached)
	if above := p.src.textAbove(line); strings.HasPrefix(problem.text, "mapping values") && p.src.lacksColon(above) {
		line, problem.text = above, "could not find expected ':'"
	}
	message, help := explainSyntax(problem.text, p.src.line(line))
	p.report(p.src.culprit(problem.text, line), syntax, help, "%s", message)
}

// unknownAnchor reports an alias of an anchor that does not exist, of which YAML does not say the place.
func (p *parser) unknownAnchor(name string) {
	alias := "*" + name
	for i, line := range p.src.lines {
		if before, _, ok := strings.Cut(line, alias); ok {
			p.refuseAlias(spanning(Pos{i + 1, 1 + len([]rune(before))}, alias), name)
			return
		}
	}
}

// problem is what the YAML reader said, and the line that it named or 0.
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

// explainSyntax says in plain words what the YAML reader said about a line, and what to do.
func explainSyntax(problem, line string) (message, help string) {
	if indentTab.MatchString(line) {
		return "a tab in the indentation", "indent with spaces"
	}
	if strings.Contains(problem, "did not find expected key") && strings.ContainsAny(line, `"'`) {
		return "this does not fit here", "nothing can follow a closing quote, and a quote must be closed"
	}
	for _, w := range syntaxWords {
		if strings.Contains(problem, w.says) {
			return w.message, w.help
		}
	}
	return "this is not YAML: " + clip(problem), ""
}

var syntaxWords = []struct{ says, message, help string }{
	{"mapping values are not allowed", "a colon where no value can begin", `put the text in quotes if the colon belongs to it; otherwise look at the indentation`},
	{"did not find expected key", "this does not continue the map above it", "fields of one limit begin in the same column"},
	{"did not find expected '-' indicator", "this does not continue the list above it", ""},
	{"block sequence entries are not allowed", "a list item where no list can begin", ""},
	{"could not find expected ':'", "a name without a colon", "write name: value"},
	{"did not find expected ',' or '}'", "a { that is not closed, or a missing comma", "separate with commas and end with }"},
	{"did not find expected ',' or ']'", "a [ that is not closed, or a missing comma", "separate with commas and end with ]"},
	{"did not find expected node content", "a value is missing before this", ""},
	{"found unexpected end of stream", "a quote that is not closed", ""},
	{"found unexpected document indicator", "a quote that is not closed", ""},
	{"cannot start any token", "a value cannot begin with this character", "put the value in quotes"},
	{"found unknown escape character", `an escape that YAML does not know after \`, `write \\ for a backslash, or use single quotes`},
	{"hexdecimal number", `an escape that YAML does not know after \`, `write \\ for a backslash, or use single quotes`},
	{"incompatible YAML", "a version of YAML that is not known here", "leave the line %YAML out"},
	{"expected <document start>", "this stands after the end of the map", "look at the brackets and the indentation above"},
	{"exceeded max depth", "nested too deeply", ""},
}
