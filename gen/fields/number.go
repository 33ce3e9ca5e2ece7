package fields

import (
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// wholeHelp are the remedies for a value that is not a whole number, and for one that is too large.
type wholeHelp struct{ notWhole, tooLarge string }

// readWhole reads a whole number from least to most.
func (p *parser) readWhole(e document.Entry, least, most int64, help wholeHelp) (int64, bool) {
	plain := strings.ReplaceAll(e.Value.Value, "_", "")
	number := e.Value.Tag == "!!int" || e.Value.Tag == "!!float"
	switch {
	// wholeForm matches 010 too, so this case must come first.
	case number && octalForm.MatchString(plain):
		p.leadingZero(e, plain)
	case number && wholeForm.MatchString(e.Value.Value):
		if n, err := strconv.ParseInt(plain, 10, 64); err == nil && least <= n && n <= most {
			return n, true
		}
		if strings.HasPrefix(plain, "-") {
			help.tooLarge = ""
		}
		p.doc.Report(e.At, ids.OutOfRange, help.tooLarge, "%s must be %s to %s, not %s", e.Name, words.Number(least),
			words.Number(most), diag.Clip(e.Value.Value))
	case e.Value.Tag == "!!int":
		p.doc.Report(e.At, ids.NotWhole, "", "%s must be written in decimal digits, with optional _ between them, not %s", e.Name,
			diag.Clip(e.Value.Value))
		p.doc.Offer(inDecimal(plain))
	default:
		if help.notWhole == "" && slices.Contains(boundless, string(diag.Fold(e.Value.Value))) {
			help.notWhole = "write a number, at most " + words.Underscored(most)
		}
		p.doc.Report(e.At, ids.NotWhole, help.notWhole, "%s must be a whole number, not %s", e.Name,
			strings.TrimPrefix(document.Describe(e.Value), "the number "))
		p.doc.Offer(meantNumber(e.Value))
	}
	return 0, false
}

var (
	// wholeForm is a number that YAML 1.1, YAML 1.2 and people read alike.
	wholeForm   = regexp.MustCompile(`^-?[0-9]+(_[0-9]+)*$`)
	decimalForm = regexp.MustCompile(`^[-+]?[0-9]+$`)
	octalForm   = regexp.MustCompile(`^[-+]?0[0-9]+$`)
)

// inDecimal returns an integer in the syntax of Go, such as 0x10, in decimal digits; "" for other text.
func inDecimal(text string) string {
	n, ok := new(big.Int).SetString(text, 0)
	if !ok {
		return ""
	}
	return n.String()
}

// leadingZero reports a number such as 010, which is 8 in YAML but 10 for most readers.
func (p *parser) leadingZero(e document.Entry, plain string) {
	decimal, _ := new(big.Int).SetString(plain, 10)
	if n, err := strconv.ParseInt(plain, 0, 64); err == nil && n != 0 {
		// 07 is 7 in either base, so only one reading is offered.
		if octal := strconv.FormatInt(n, 10); octal != decimal.String() {
			p.doc.Report(e.At, ids.LeadingZero, "", "%s is written %s, which YAML reads as octal %d", e.Name,
				diag.Clip(e.Value.Value), n)
			p.doc.Offer(decimal.String(), octal)
			return
		}
	}
	p.doc.Report(e.At, ids.LeadingZero, "", "%s is written %s, with a leading zero", e.Name, diag.Clip(e.Value.Value))
	p.doc.Offer(decimal.String())
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
			return words.Underscored(n.Num().Int64())
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

// boundless are the words for no bound, folded, which cannot stand for a required number.
var boundless = []string{"unlimited", "unbounded", "none", "off", "infinite", "infinity", ".inf", "inf", "nolimit", "any",
	"all", "never", "null"}

// meantInstead reports a value that probably means a word in place of a number, and returns whether it does.
func (p *parser) meantInstead(e document.Entry, word string, synonyms []string) bool {
	text := strings.ToLower(e.Value.Value)
	isScalar := e.Value.Kind == yaml.ScalarNode && e.Value.Tag != "!!null"
	if !isScalar || !slices.Contains(synonyms, text) && diag.Nearest(text, []string{word}) == "" {
		return false
	}
	p.doc.Report(e.At, ids.NotWhole, "", "%s must be a whole number or %s, not %s", e.Name, word,
		strings.TrimPrefix(document.Describe(e.Value), "the number "))
	p.doc.Offer(word)
	return true
}

// numberReader returns a reader of a whole number.
func numberReader[D any, N int | int64](least, most int64, place func(*D) *N) reader[D] {
	return func(p *parser, into *D, e document.Entry) bool {
		n, ok := p.readWhole(e, least, most, wholeHelp{})
		*place(into) = N(n)
		return ok
	}
}

// numberSchema is the schema of a whole number. For editors that read YAML 1.2, 40_000 is text.
func numberSchema(least, most int64) object {
	return object{"type": []string{"integer", "string"}, "minimum": least, "maximum": most,
		"pattern": "^[1-9][0-9]*(_[0-9]+)+$"}
}

// wordSchema is the schema of a whole number or a word, which editors offer, as they do more.
func wordSchema(least, most int64, word string, more ...any) object {
	schema := numberSchema(least, most)
	schema["pattern"] = "^([1-9][0-9]*(_[0-9]+)+|" + word + ")$"
	schema["defaultSnippets"] = append([]any{object{"label": word, "body": word}}, more...)
	return schema
}

func numberUnlessZero(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func plain(n int64) string { return strconv.FormatInt(n, 10) }

// spokenCount returns a positive number as people write it: 1,000 or 1.5k. It is false for numbers that no rate has.
func spokenCount(text, scale string) (*big.Rat, bool) {
	if text = separators.Replace(text); !floatForm.MatchString(text) {
		return nil, false
	}
	n, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, false
	}
	n.Mul(n, new(big.Rat).SetInt64(map[string]int64{"": 1, "k": 1e3, "K": 1e3, "M": 1e6}[scale]))
	inRange := n.Num().IsInt64() && n.Denom().IsInt64() && n.Sign() > 0 && n.Num().Int64() <= runtime.MaxTokens
	return n, inRange
}

// separators drops what people write between the digits of a large number.
var separators = strings.NewReplacer("_", "", ",", "")

// unlimited is the rate of a plan without a limit, or of overrides that can lift the limit.
const unlimited = "unlimited"

// unlimitedSynonyms are words for a rate without a bound.
var unlimitedSynonyms = []string{"none", "off", "infinite", "infinity", ".inf", "inf", "unbounded", "no limit", "nolimit",
	"any", "all", "-1"}

// unbounded is the maxReserved of a limit whose reservations have no bound. It must be written out, because such a
// limit has no worst case.
const unbounded = "unbounded"
