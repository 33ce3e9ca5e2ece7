package spec

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// readTokens returns a reader of a number of tokens.
func readTokens[T any](least int64, at func(*T) *int64) func(*parser, *T, entry) bool {
	return func(p *parser, into *T, e entry) (ok bool) {
		*at(into), ok = p.number(e, least, runtime.MaxTokens)
		return ok
	}
}

// unboundedWord is the maxReserved of a limit whose reservations have no bound. It must be written out, because such a
// limit has no worst case.
const unboundedWord = "unbounded"

// unboundedSynonyms are the words for it in other limiters.
var unboundedSynonyms = []string{"unlimited", "infinite", "infinity", "inf", ".inf", "any", "no bound", "nobound"}

func (p *parser) maxReserved(limit *Limit, e entry) bool {
	text := e.value.Value
	scalar := e.value.Kind == yaml.ScalarNode && e.value.Tag != "!!null"
	switch lower := strings.ToLower(text); {
	case scalar && text == unboundedWord:
		limit.Policy.MaxReserved = runtime.Unbounded
		return true
	case scalar && (slices.Contains(unboundedSynonyms, lower) || Nearest(text, []string{unboundedWord}) != ""):
		p.report(e.at, notWhole, "", "%s must be a whole number or %s, not %s", e.name, unboundedWord, describe(e.value))
		p.meant(unboundedWord)
		return false
	}
	n, ok := p.number(e, 0, runtime.MaxTokens)
	limit.Policy.MaxReserved = n
	return ok
}

func (p *parser) shards(limit *Limit, e entry) bool {
	n, ok := p.number(e, 1, runtime.MaxShards)
	limit.Policy.Shards = int(n)
	return ok
}

var (
	// wholeForm is a number that YAML 1.1, YAML 1.2 and people read alike.
	wholeForm   = regexp.MustCompile(`^-?[0-9]+(_[0-9]+)*$`)
	decimalForm = regexp.MustCompile(`^[-+]?[0-9]+$`)
	octalForm   = regexp.MustCompile(`^[-+]?0[0-9]+$`)
)

// number reads a whole number from least to most.
func (p *parser) number(e entry, least, most int64) (int64, bool) {
	plain := strings.ReplaceAll(e.value.Value, "_", "")
	number := e.value.Tag == "!!int" || e.value.Tag == "!!float"
	switch {
	// wholeForm matches 010 too, so this case must come first.
	case number && octalForm.MatchString(plain):
		p.leadingZero(e, plain)
	case number && wholeForm.MatchString(e.value.Value):
		if n, err := strconv.ParseInt(plain, 10, 64); err == nil && least <= n && n <= most {
			return n, true
		}
		p.report(e.at, outOfRange, "", "%s must be %s to %s, not %s", e.name, words.Number(least), words.Number(most), clip(e.value.Value))
	case e.value.Tag == "!!int":
		p.report(e.at, notWhole, "", "%s must be written in decimal digits, with optional _ between them, not %s", e.name, clip(e.value.Value))
		p.meant(inDecimal(plain))
	default:
		p.report(e.at, notWhole, p.numberHelp(e), "%s must be a whole number, not %s", e.name,
			strings.TrimPrefix(describe(e.value), "the number "))
		p.meant(meantNumber(e.value))
	}
	return 0, false
}

// numberHelp returns the remedy for a number that is not whole. Only a rate is written in other words.
func (p *parser) numberHelp(e entry) string {
	if e.name != "rate" {
		return ""
	}
	return p.rateHelp(e.value.Value)
}

// inDecimal returns an integer in the syntax of Go, such as 0x10, in decimal digits; "" for other text.
func inDecimal(text string) string {
	n, ok := new(big.Int).SetString(text, 0)
	if !ok {
		return ""
	}
	return n.String()
}

// leadingZero reports a number such as 010, which is 8 in YAML but 10 for most readers.
func (p *parser) leadingZero(e entry, plain string) {
	decimal, _ := new(big.Int).SetString(plain, 10)
	if n, err := strconv.ParseInt(plain, 0, 64); err == nil && n != 0 {
		// 07 is 7 in either base, so only one reading is offered.
		if octal := strconv.FormatInt(n, 10); octal != decimal.String() {
			p.report(e.at, leadingZero, "", "%s is written %s, which YAML reads as octal %d", e.name, clip(e.value.Value), n)
			p.meant(decimal.String(), octal)
			return
		}
	}
	p.report(e.at, leadingZero, "", "%s is written %s, with a leading zero", e.name, clip(e.value.Value))
	p.meant(decimal.String())
}

var (
	floatForm  = regexp.MustCompile(`^[0-9]{1,18}(\.[0-9]{0,18})?([eE]\+?[0-9]{1,2})?$`)
	commasForm = regexp.MustCompile(`^[0-9]{1,3}(,[0-9]{3})+$`)
	scaledForm = regexp.MustCompile(`^([0-9]{1,9}(?:\.[0-9]{1,6})?) ?([kKM])$`)
)

// meantNumber returns the whole number that a value probably means, or "".
func meantNumber(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return ""
	}
	text := strings.ReplaceAll(n.Value, "_", "")
	switch {
	case n.Tag == "!!str" && decimalForm.MatchString(text):
		return text
	case floatForm.MatchString(text):
		return wholeNumber(text)
	case commasForm.MatchString(text):
		return strings.ReplaceAll(text, ",", "_")
	case scaledForm.MatchString(text):
		parts := scaledForm.FindStringSubmatch(text)
		if n, ok := spokenCount(parts[1], parts[2]); ok && n.IsInt() {
			return grouped(n.Num().Int64())
		}
	}
	return ""
}

// wholeNumber returns a number without its fraction and exponent; "" if it is not whole.
func wholeNumber(text string) string {
	n, ok := new(big.Rat).SetString(text)
	if !ok || !n.IsInt() || n.Num().Cmp(big.NewInt(math.MaxInt64)) > 0 {
		return ""
	}
	return n.Num().String()
}

// doc reads the author's text. It becomes a comment in generated code, where some lines would be build constraints.
func (p *parser) doc(limit *Limit, e entry) bool {
	text, ok := p.text(e, "text")
	if !ok {
		return false
	}
	lines := strings.Split(strings.ReplaceAll(text, "\r", ""), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " \t")
		problem := docProblem(line)
		if problem == "" {
			continue
		}
		p.report(p.docLine(e, i), badDoc, "write it in other words", "%s", problem)
		if ok = false; !isLiteral(e.value) {
			// Errors of the other lines would have the same place.
			break
		}
	}
	limit.Doc = strings.TrimRight(strings.Join(lines, "\n"), "\n")
	return ok
}

// IsBuildLine reports whether gofmt treats a line of a comment as an old build constraint, which it moves to the top of
// the file. The line may begin with slashes.
func IsBuildLine(line string) bool {
	bare := strings.TrimLeftFunc(line, func(r rune) bool { return r == '/' || unicode.IsSpace(r) })
	return strings.HasPrefix(bare, "+build")
}

// docProblem returns the reason why a line cannot be part of a Go comment, or "".
func docProblem(line string) string {
	for _, r := range line {
		if Illegible(r) || r == utf8.RuneError {
			return fmt.Sprintf("doc has the character %U, which is not allowed in a Go comment", r)
		}
	}
	if IsBuildLine(line) {
		return "a line of doc cannot begin with +build, which is a build constraint in Go"
	}
	return ""
}

func isLiteral(n *yaml.Node) bool { return n.Style&yaml.LiteralStyle != 0 }

// docLine returns the place of a line of the text, or of the whole text if it is not literal.
func (p *parser) docLine(e entry, i int) span {
	// The YAML reader keeps the lines of literal text only.
	if !isLiteral(e.value) {
		return e.at
	}
	return p.src.wholeLine(min(e.value.Line+1+i, len(p.src.lines)))
}
