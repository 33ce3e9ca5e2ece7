package spec

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// syntaxError reports why the YAML reader gave up after it had reached a line.
func (p *parser) syntaxError(err error, reached int) {
	problem := problemOf(err)
	line := p.src.faultyLine(problem, reached)
	if name, ok := strings.CutPrefix(problem.text, "unknown anchor '"); ok {
		name = strings.TrimSuffix(name, "' referenced")
		p.refuseAlias(p.src.alias(name, line), name)
		return
	}
	if above := p.src.textAbove(line); strings.HasPrefix(problem.text, "mapping values") && p.src.lacksColon(above) {
		line, problem.text = above, "could not find expected ':'"
	}
	for _, mistake := range mistakes {
		if at, ok := mistake.in(p.src, line, problem.text); ok {
			p.report(at, syntax, mistake.help, "%s", mistake.message)
			return
		}
	}
	p.report(p.src.wholeLine(line), syntax, "", "this is not YAML: %s", clip(problem.text))
}

// alias returns where an alias stands, on a line or after it. YAML does not say the place.
func (s *source) alias(name string, from int) span {
	form := regexp.MustCompile(`\*` + regexp.QuoteMeta(name) + `(?:[ \t,\]}]|$)`)
	for n := from; n <= len(s.lines); n++ {
		text, _, _ := strings.Cut(s.line(n), " #")
		if place := form.FindStringIndex(text); place != nil && s.says(n) {
			return spanning(Pos{n, 1 + utf8.RuneCountInString(text[:place[0]])}, "*"+name)
		}
	}
	return s.wholeLine(from)
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
