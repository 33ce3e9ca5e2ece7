package spec

import (
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// People write a rate as they say it: "5/s", "10 requests per minute", "20rpm", "0.5" or "1k". The hints below name the
// rate and the period that mean the same.

const (
	// spokenNumber is a number with or without a fraction, separators and a scale.
	spokenNumber = `([0-9][0-9_,]{0,17}(?:\.[0-9]{1,9})?) ?([kKM]?)`
	// spokenUnit is the counted thing.
	spokenUnit = `(?:requests?|reqs?|r|tokens?|calls?|queries|messages|times|x)?`
)

var (
	perForm = regexp.MustCompile(`^` + spokenNumber + ` ?` + spokenUnit + ` ?(?:/|per |every |each |an? )(.*)$`)
	// shortForm is a number of requests, queries or tokens per time: 20rps.
	shortForm = regexp.MustCompile(`^` + spokenNumber + ` ?(?i:[rqt]p([smhd]))$`)
	timedForm = regexp.MustCompile(`^[0-9]{1,18}[smhdw]$`)
)

// rateHelp returns the remedy for a rate that is not a whole number of tokens, such as "10/s", "20rpm" or 0.5.
func (p *parser) rateHelp(text string) string {
	if parts := shortForm.FindStringSubmatch(text); parts != nil {
		return p.spokenRate(parts[1], parts[2], parts[3])
	}
	if parts := perForm.FindStringSubmatch(text); parts != nil {
		return p.spokenRate(parts[1], parts[2], strings.TrimSpace(parts[3]))
	}
	if timedForm.MatchString(text) {
		count := strings.TrimRight(text, "mhdwsM")
		return "write rate: " + count + " and period: 1" + text[len(count):] + ", or a number with all its zeros"
	}
	n, ok := spokenCount(text, "")
	if !ok || n.IsInt() {
		return ""
	}
	if rate, times, ok := wholeRate(n, p.writtenPeriod); ok {
		return "tokens are whole: write rate: " + rate + " and period: " + times
	}
	if denominator := n.Denom().Int64(); denominator <= mostTimes {
		return "tokens are whole: write rate: " + plain(n.Num().Int64()) + ", and " + n.Denom().String() + " times the period"
	}
	return ""
}

// spokenRate returns the remedy for a count per time.
func (p *parser) spokenRate(count, scale, per string) string {
	n, ok := spokenCount(count, scale)
	if !ok {
		return ""
	}
	lengths := meantDuration(per)
	if len(lengths) == 0 {
		if !n.IsInt() {
			return ""
		}
		return "write rate: " + plain(n.Num().Int64()) + ", and the time as period"
	}
	rate, period, ok := wholeRate(n, lengths[0])
	if !ok {
		return ""
	}
	// The remedy contains the period, so that it need not be reported as missing.
	p.impliesPeriod = true
	return "write rate: " + rate + " and period: " + period
}

// spokenCount returns a positive number as people write it: 1,000 or 1.5k. It is false for numbers that no rate has.
func spokenCount(text, scale string) (*big.Rat, bool) {
	if text = strings.NewReplacer("_", "", ",", "").Replace(text); !floatForm.MatchString(text) {
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

// mostTimes is by how much a hint multiplies a period.
const mostTimes = 1000

// wholeRate returns the smallest whole rate, and the period with which it grants n tokens per period. It is false if the
// period is not a duration, or such a period would be odd.
func wholeRate(n *big.Rat, period string) (rate, times string, ok bool) {
	length, ok := exact(period)
	// 1 per 10,000 seconds is a rate that people may mean, but 333,333 per 1,000,000 seconds is a rounded one.
	odd := n.Denom().Int64() > mostTimes && n.Num().Int64() > 1
	if !ok || !length.IsInt() || odd {
		return "", "", false
	}
	if n.IsInt() {
		return plain(n.Num().Int64()), period, true // as it was written
	}
	long := length.Mul(length, new(big.Rat).SetInt(n.Denom()))
	if long.Cmp(new(big.Rat).SetInt64(int64(runtime.MaxPeriod))) > 0 {
		return "", "", false
	}
	return plain(n.Num().Int64()), words.Duration(time.Duration(long.Num().Int64())), true
}

// periodText returns the text of the period among the entries of a limit, or "".
func periodText(entries []entry) string {
	for _, e := range entries {
		if e.name == "period" && e.value.Kind == yaml.ScalarNode {
			return e.value.Value
		}
	}
	return ""
}

func plain(n int64) string { return strconv.FormatInt(n, 10) }

// underscored is a number as files write large ones: 40_000.
func underscored(n int64) string { return strings.ReplaceAll(words.Number(n), ",", "_") }
