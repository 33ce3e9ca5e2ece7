package spec

import (
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

func (p *parser) rate(limit *Limit, e entry) (ok bool) {
	limit.Policy.Rate, ok = p.number(e, 1, runtime.MaxTokens)
	return ok
}

func (p *parser) capacity(limit *Limit, e entry) (ok bool) {
	limit.Policy.Capacity, ok = p.number(e, 0, runtime.MaxTokens)
	return ok
}

func (p *parser) maxReserved(limit *Limit, e entry) (ok bool) {
	limit.Policy.MaxReserved, ok = p.number(e, 0, runtime.MaxTokens)
	return ok
}

func (p *parser) shards(limit *Limit, e entry) bool {
	n, ok := p.number(e, 1, runtime.MaxShards)
	limit.Policy.Shards = int(n)
	return ok
}

var (
	// wholeForm is a number that is read alike by everybody.
	wholeForm   = regexp.MustCompile(`^-?[0-9]+(_[0-9]+)*$`)
	decimalForm = regexp.MustCompile(`^[-+]?[0-9]+$`)
	octalForm   = regexp.MustCompile(`^[-+]?0[0-9]+$`)
)

// number reads a whole number of at least least and at most most.
func (p *parser) number(e entry, least, most int64) (int64, bool) {
	plain := strings.ReplaceAll(e.value.Value, "_", "")
	number := e.value.Tag == "!!int" || e.value.Tag == "!!float"
	switch {
	case number && octalForm.MatchString(plain):
		p.leadingZero(e, plain)
	case number && wholeForm.MatchString(e.value.Value):
		if n, err := strconv.ParseInt(plain, 10, 64); err == nil && least <= n && n <= most {
			return n, true
		}
		p.report(e.at, outOfRange, "", "%s must be %s to %s, not %s", e.name, words.Number(least), words.Number(most), clip(e.value.Value))
	case e.value.Tag == "!!int":
		p.report(e.at, notWhole, "", "%s must be written in decimal digits, maybe with a _ between them, not %s", e.name, clip(e.value.Value))
		p.meant(inDecimal(plain))
	default:
		p.report(e.at, notWhole, p.numberHelp(e), "%s must be a whole number, not %s", e.name,
			strings.TrimPrefix(describe(e.value), "the number "))
		p.meant(meantNumber(e.value))
	}
	return 0, false
}

// numberHelp says what to write in place of a number that is not whole: of a rate, the time belongs to period.
func (p *parser) numberHelp(e entry) string {
	text := strings.ReplaceAll(e.value.Value, "_", "")
	switch parts := perForm.FindStringSubmatch(text); {
	case e.name != "rate":
		return ""
	case parts != nil:
		if per := meantDuration(parts[3]); len(per) > 0 {
			p.impliesPeriod = true
			return "write rate: " + parts[1] + " and period: " + per[0]
		}
		return "write rate: " + parts[1] + ", and the time as period"
	case timedForm.MatchString(text):
		count := strings.TrimRight(text, "mhdwsM")
		return "write rate: " + count + " and period: 1" + text[len(count):] + ", or a number with all its zeros"
	case floatForm.MatchString(text):
		if n, ok := new(big.Rat).SetString(text); ok && n.Sign() > 0 && !n.IsInt() && n.Denom().IsInt64() && n.Denom().Int64() <= 1000 {
			return "tokens are whole: write rate: " + n.Num().String() + ", and " + n.Denom().String() + " times the period"
		}
	}
	return ""
}

// inDecimal returns an integer of Go in decimal digits, "" if it is none.
func inDecimal(text string) string {
	n, ok := new(big.Int).SetString(text, 0)
	if !ok {
		return ""
	}
	return n.String()
}

// leadingZero reports a number such as 010, which is 8 for YAML and 10 for most who read it.
func (p *parser) leadingZero(e entry, plain string) {
	decimal, _ := new(big.Int).SetString(plain, 10)
	if n, err := strconv.ParseInt(plain, 0, 64); err == nil && n != 0 {
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
	scaledForm = regexp.MustCompile(`^([0-9]{1,9}) ?([kKM])$`)
	perForm    = regexp.MustCompile(`^([0-9]{1,18}) ?(/|per |every |an? )(.*)$`)
	timedForm  = regexp.MustCompile(`^[0-9]{1,18}[smhdw]$`)
)

// meantNumber returns the whole number that was probably meant by something else; "" if there is none.
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
		return parts[1] + map[string]string{"k": "_000", "m": "_000_000"}[strings.ToLower(parts[2])]
	}
	return ""
}

// wholeNumber returns the number in text without its fraction or exponent, "" if it is not whole.
func wholeNumber(text string) string {
	n, ok := new(big.Rat).SetString(text)
	if !ok || !n.IsInt() || n.Num().Cmp(big.NewInt(math.MaxInt64)) > 0 {
		return ""
	}
	return n.Num().String()
}
