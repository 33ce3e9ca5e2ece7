package spacing

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// line is a formatted line, and column is where its comment was. It is -1 for a line of a text, which may be empty.
type line struct {
	body, comment string
	column        int
}

// printer prints the lines one after the other.
type printer struct {
	*layout
	lines []line
	// next is the index of the first text that is not printed, and last the one before it.
	next int
	last text
	// depth is the number of open brackets.
	depth int
	// open are the blocks around the last entry, and shift is by how much that has moved to the right.
	open  []level
	shift int
}

func (f *layout) print() string {
	p := &printer{layout: f}
	following := f.following()
	for i, text := range f.Lines {
		trimmed := strings.Trim(text, blank)
		within := p.last.Line < i && i <= p.last.EndLine
		if p.next < len(f.texts) && f.texts[p.next].Block && f.texts[p.next].Line == i {
			p.advance()
			within = i <= p.last.EndLine
		}
		switch {
		case within && p.last.Block:
			p.lines = append(p.lines, line{shifted(text, p.last), "", -1})
		case within:
			p.printLine(i, text)
		case trimmed == "":
			if len(p.lines) > 0 && p.lines[len(p.lines)-1] != (line{}) {
				p.lines = append(p.lines, line{})
			}
		case strings.HasPrefix(trimmed, "#") && p.depth == 0:
			indent := p.columnOfComment(len(text)-len(strings.TrimLeft(text, blank)), following[i])
			p.lines = append(p.lines, line{comment: strings.Repeat(" ", indent) + trimmed})
		case strings.HasPrefix(text, "---"), strings.HasPrefix(text, "..."), strings.HasPrefix(text, "%"):
			p.lines = append(p.lines, line{body: trimmed})
		default:
			p.printLine(i, text)
		}
		// A text without a character has a place, and nothing to print.
		for p.next < len(f.texts) && f.texts[p.next].Line <= i {
			p.advance()
		}
	}
	return join(align(p.lines))
}

// following returns for each line the next one that begins with an entry, or the number of lines.
func (f *layout) following() []int {
	next, lines := len(f.Lines), make([]int, len(f.Lines))
	for i := len(f.Lines) - 1; i >= 0; i-- {
		if lines[i] = next; f.entry[i] {
			next = i
		}
	}
	return lines
}

func (p *printer) advance() {
	p.last = p.texts[p.next]
	p.next++
}

// shifted returns a line of a text after | or > with its new indentation. Spaces after that are part of the text.
func shifted(line string, of text) string {
	switch {
	case strings.Trim(line, " ") == "" && len(line) <= of.Indent:
		return ""
	case of.shift >= 0:
		return strings.Repeat(" ", of.shift) + line
	}
	return line[min(-of.shift, indentOf(line)):]
}

// columnOfComment returns the column of a comment on a line of its own, which was at a column: that of the following entry,
// or of an open block if the comment was aligned with that.
func (p *printer) columnOfComment(at, following int) int {
	next := level{before: -1}
	if following < len(p.Lines) {
		next = level{indentOf(p.Lines[following]), p.columns[following]}
	} else if len(p.open) > 0 {
		next.now = p.open[len(p.open)-1].now
	}
	aligned := func(l level) bool { return l.before == at }
	if i := slices.IndexFunc(p.open, aligned); i >= 0 && !aligned(next) {
		return p.open[i].now
	}
	return next.now
}

// printLine prints a line with an entry, or one that continues an entry.
func (p *printer) printLine(i int, text string) {
	before := indentOf(text)
	if p.entry[i] {
		for len(p.open) > 0 && p.open[len(p.open)-1].before >= before {
			p.open = p.open[:len(p.open)-1]
		}
		p.open, p.shift = append(p.open, level{before, p.columns[i]}), p.columns[i]-before
	}
	out := pieces{body: strings.Repeat(" ", max(0, before+p.shift))}
	at := len(text) - len(strings.TrimLeft(text, blank))
	if p.last.Line < i && i <= p.last.EndLine { // it begins with the rest of a text
		at = p.addLast(&out, i, text, at)
	}
	for at < len(text) {
		if p.next < len(p.texts) && p.texts[p.next].Line == i && p.texts[p.next].From <= at {
			p.advance()
			at = p.addLast(&out, i, text, at)
			continue
		}
		switch c := text[at]; {
		case c == '#':
			comment := strings.TrimRight(text[at:], blank)
			if out.last == 0 {
				comment, out.body = out.body+comment, ""
			}
			p.lines = append(p.lines, line{out.body, comment, utf8.RuneCountInString(text[:at])})
			return
		case !strings.ContainsRune(blank, rune(c)):
			p.depth += strings.Count("{[", string(c)) - strings.Count("}]", string(c))
			out.put(string(c), c)
		}
		at++
	}
	p.lines = append(p.lines, line{body: out.body})
}

// addLast adds the part of the last text in a line as it is, and returns its end.
func (p *printer) addLast(out *pieces, i int, line string, at int) int {
	_, end := p.last.In(i, line)
	if end > at {
		out.put(line[at:end], 'a')
	}
	return max(at, end)
}

// pieces is the body of a line. last is its last character of YAML, 'a' for a text, and 0 at the beginning.
type pieces struct {
	body string
	last byte
}

// put adds a piece, after a space unless one of the two is a bracket around the other, or the piece is a comma or a colon.
func (p *pieces) put(piece string, kind byte) {
	if p.last != 0 && p.last != '{' && p.last != '[' && strings.IndexByte("}],:", kind) < 0 {
		p.body += " "
	}
	p.body += piece
	p.last = kind
}

// align puts comments one below the other if they were so in lines in a row, and otherwise after one space.
func align(lines []line) []line {
	for i := 0; i < len(lines); {
		end, width := i, 0
		for end < len(lines) && lines[end].column == lines[i].column && lines[end].body != "" && lines[end].comment != "" {
			width = max(width, utf8.RuneCountInString(lines[end].body))
			end++
		}
		for j := i; j < end; j++ {
			lines[j].body += strings.Repeat(" ", width+1-utf8.RuneCountInString(lines[j].body))
		}
		i = max(i+1, end)
	}
	return lines
}

// join returns the text of lines without the empty ones at the end.
func join(lines []line) string {
	var out strings.Builder
	for i, l := range lines {
		if i < len(lines)-1 || l != (line{}) {
			out.WriteString(l.body + l.comment + "\n")
		}
	}
	return out.String()
}
