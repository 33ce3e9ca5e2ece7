package fields

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var pricesField = limitField{
	name: "prices", synonyms: []string{"price", "pricing", "cost", "costs", "weights", "weight"},
	about:   "What a unit of each thing that a request uses costs, in tokens of the limit. Calls then pass a struct with the units in place of a count, and take the sum of price times units, rounded up.",
	accepts: fmt.Sprintf("a map from up to %d camelCase names to prices of more than 0 and at most %s, with at most %d digits after the point; not with `in flight` or capacity 0", maxPrices, words.Number(maxPrice), priceDigits),
	absent:  "calls pass a count",
	example: "{input: 3, cached: 0.3, output: 15}",
	schema:  pricesSchema,
	read:    (*parser).readPrices,
	check:   (*parser).checkPrices,
	change:  ids.PricesChanged,
	effective: func(l *spec.Limit) string {
		if len(l.Prices) == 0 {
			return ""
		}
		return "{" + strings.Join(words.Of(l.Prices, func(price runtime.Price) string { return price.Name + ": " + plainPrice(price) }), ", ") + "}"
	},
	sentences: PricesWords,
}

const (
	maxPrices = 20
	// maxPrice lets the millionths of every price be an int64.
	maxPrice    = 1_000_000_000
	priceDigits = 6
	millionths  = 1_000_000
	pricesHelp  = "write prices: {input: 3, output: 15}"
)

var (
	// priceForm is a decimal number that YAML 1.1, YAML 1.2 and people read alike, without the sign.
	priceForm = regexp.MustCompile(`^((?:0|[1-9][0-9]*(?:_[0-9]+)*))(?:\.([0-9]+))?$`)
	// noPriceNames are the names of other fields of a trace, for which simulate would take them, and of what the generated
	// struct has besides.
	noPriceNames = append(slices.Clone(TraceFields), "cost")
	// TraceFields are the names of the fields of a request in a trace, and of the answer to it.
	TraceFields = []string{
		"at", "limit", "key", "count", "reserve", "plan", "zone", "anniversary", "verb", "running", "priority",
		"allowed", "retryAfterMs", "remaining", "value", "shadowed", "taken",
		"oldAllowed", "oldRetryAfterMs", "oldRemaining", "oldValue", "oldShadowed", "oldTaken",
	}
)

var pricesSchema = object{
	"type": "object", "minProperties": 1, "maxProperties": maxPrices,
	"propertyNames": object{"pattern": spec.LimitNameForm.String(), "maxLength": runtime.MaxKey, "not": object{"enum": noPriceNames}},
	"additionalProperties": object{
		"type": []string{"number", "string"}, "minimum": 0.000001, "maximum": maxPrice,
		"pattern": fmt.Sprintf(`^[1-9][0-9]*(_[0-9]+)+(\.[0-9]{1,%d})?$`, priceDigits),
	},
}

// readPrices reads the map of prices.
func (p *parser) readPrices(l *draft, e document.Entry) bool {
	entries, ok := p.doc.Entries(e.Value, e.At, e.Name, pricesHelp)
	if !ok {
		return false
	}
	before := len(p.doc.Found)
	switch n := len(e.Value.Content) / 2; {
	case n == 0:
		p.doc.Report(e.At, ids.BadPrices, "leave it out, or "+pricesHelp, "prices must not be empty")
	case n > maxPrices:
		p.doc.Report(e.At, ids.BadPrices, "give what costs the same one price", "a limit has at most %d prices, not %s", maxPrices,
			words.Number(int64(n)))
	case !slices.ContainsFunc(entries, func(price document.Entry) bool { return !slices.Contains(p.planNames(), price.Name) }):
		p.doc.Report(e.At, ids.BadPrices, "name what requests use, and give the rate by plan", "prices are the same for all plans")
		return false
	}
	defer p.doc.Enter("prices")()
	first := map[string]document.Entry{}
	for _, price := range entries {
		if p.doc.MissingSpaceAfterColon(price, ids.BadPrices) {
			continue
		}
		named := p.priceName(price, first)
		if n, ok := p.readPrice(price); ok && named && !price.Again {
			l.limit.Prices = append(l.limit.Prices, runtime.Price{Name: price.Name, Millionths: n})
		}
	}
	return len(p.doc.Found) == before
}

// priceName reports a name that cannot be that of a field of the generated struct.
func (p *parser) priceName(e document.Entry, first map[string]document.Entry) bool {
	if e.Again {
		return false // which has a diagnostic already
	}
	name := diag.Quote(e.Name)
	refuse := func(help, format string, args ...any) bool {
		p.doc.Report(e.Named, ids.BadPrices, help, format, args...)
		return false
	}
	switch before, taken := first[spec.GoName(e.Name)]; {
	case !spec.LimitNameForm.MatchString(e.Name):
		refuse("begin with a lowercase letter and use letters and digits only", "the name of a price must be camelCase, not %s", name)
		p.doc.Offer(spec.CamelCase(e.Name))
		return false
	case len(e.Name) > runtime.MaxKey:
		return refuse("choose a shorter name", "the name of a price has at most %d bytes, and %s has %s", runtime.MaxKey, name,
			words.Number(int64(len(e.Name))))
	case slices.Contains(TraceFields, e.Name):
		return refuse("choose another name", "simulate reads %s as another field of a trace", name)
	case spec.GoName(e.Name) == "Cost":
		return refuse("choose another name", "the generated struct has a method Cost")
	case taken:
		refuse("choose another name", "%s and %s both have the Go name %s", diag.Quote(before.Name), name,
			diag.Clip(spec.GoName(e.Name)))
		p.doc.Note(before.Named, "the first is here")
		return false
	}
	first[spec.GoName(e.Name)] = e
	return true
}

// readPrice returns a price in millionths.
func (p *parser) readPrice(e document.Entry) (int64, bool) {
	if p.doc.Muted(e.Value) {
		return 0, false
	}
	text := e.Value.Value
	refuse := func(help, format string, args ...any) (int64, bool) {
		p.doc.Report(e.At, ids.BadPrices, help, format, args...)
		return 0, false
	}
	if number := e.Value.Kind == yaml.ScalarNode && (e.Value.Tag == "!!int" || e.Value.Tag == "!!float"); !number {
		refuse("write a decimal number such as 3 or 0.3", "the price of %s must be a number, not %s", diag.Label(e.Name),
			document.Describe(e.Value))
		if priceForm.MatchString(text) && document.IsString(e.Value) {
			p.doc.Offer(text)
		}
		return 0, false
	}
	unsigned := strings.TrimPrefix(text, "-")
	parts := priceForm.FindStringSubmatch(unsigned)
	if parts == nil {
		return refuse("write it in decimal digits, such as 1500, 3 or 0.3",
			"the price of %s must be written in decimal digits, not %s", diag.Label(e.Name), diag.Clip(text))
	}
	whole, err := strconv.ParseInt(strings.ReplaceAll(parts[1], "_", ""), 10, 64)
	fraction, _ := strconv.ParseInt((parts[2] + "000000")[:priceDigits], 10, 64)
	switch {
	case len(parts[2]) > priceDigits:
		return refuse("let the limit count a smaller unit, such as millionths of a cent, so that prices have fewer digits",
			"the price of %s has %d digits after the point, and prices have at most %d", diag.Label(e.Name), len(parts[2]), priceDigits)
	case whole == 0 && fraction == 0 && err == nil:
		return refuse("leave "+diag.Label(e.Name)+" out: what is free is not counted", "the price of %s is 0", diag.Label(e.Name))
	case unsigned != text:
		return refuse("give a price of more than 0", "the price of %s is less than 0: %s", diag.Label(e.Name), diag.Clip(text))
	case err != nil || whole > maxPrice || whole == maxPrice && fraction > 0:
		return refuse("let the limit count a larger unit", "the price of %s must be at most %s, not %s", diag.Label(e.Name),
			words.Number(maxPrice), diag.Clip(text))
	}
	return whole*millionths + fraction, true
}

// checkPrices reports prices of a limit whose tokens can only be reserved.
func (p *parser) checkPrices(l *draft) {
	capacity, ok := l.given["capacity"]
	if prices, given := l.given["prices"]; ok && given && l.policy.Kind != runtime.InFlight && l.policy.Capacity == 0 {
		p.doc.Report(prices.At, ids.BadPrices, "give a capacity of at least 1, or leave prices out",
			"a limit with capacity 0 has no prices: its tokens never accumulate, and can only be reserved")
		p.doc.Note(capacity.At, "capacity is given here")
	}
}

// PricesWords says what a request takes.
func PricesWords(l *spec.Limit) []string {
	if len(l.Prices) == 0 {
		return nil
	}
	list := words.Of(l.Prices, func(price runtime.Price) string {
		return TokensInWords(price.Millionths) + " per unit of " + price.Name
	})
	return []string{"A request takes the cost of what it uses, rounded up: " + words.List(list, "and") + "."}
}

// PriceInWords is a number of millionths for people: "1,500" or "0.3".
func PriceInWords(n int64) string {
	return words.Number(n/millionths) + fractionOf(n)
}

// TokensInWords is a number of millionths of tokens: "0.3 tokens" or "1 token".
func TokensInWords(n int64) string {
	if n == millionths {
		return "1 token"
	}
	return PriceInWords(n) + " tokens"
}

// plainPrice is a price as limits.yaml writes it.
func plainPrice(price runtime.Price) string {
	return plain(price.Millionths/millionths) + fractionOf(price.Millionths)
}

// fractionOf is the part after the whole number of some millionths: ".3", or "" without one.
func fractionOf(n int64) string {
	if n %= millionths; n == 0 {
		return ""
	}
	return "." + strings.TrimRight(fmt.Sprintf("%06d", n), "0")
}
