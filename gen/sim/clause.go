package sim

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// TrafficError is an error in the text of a [Traffic].
type TrafficError struct {
	// Text is the whole text.
	Text string
	// Column is the place of the error in Text, counted in runes from 1.
	Column int
	// Problem describes the error.
	Problem string
}

// Error returns the problem and, below it, the text with a caret under the column.
func (e *TrafficError) Error() string {
	// Column n is not cell n: a wide rune fills two cells, and a tab more.
	before := string([]rune(e.Text)[:e.Column-1])
	return fmt.Sprintf("%s\n  %s\n  %s^", e.Problem, e.Text, cells.Blank(before))
}

// clause is one part of the text of a [Traffic]: a kind of requests with its options.
type clause struct {
	kind clauseKind
	// n is the number of requests per the duration per, or of a burst.
	n   int64
	per time.Duration
	// at is the start, and length the duration of the requests.
	at, length time.Duration
	// keys is the number of keys, and taking the count of each request.
	keys, taking int64
	// running is how long each request runs; 0 if its slot is not released.
	running time.Duration
	// plan is the plan of the requests; "" to leave it to the trace.
	plan string
	// using is what each request uses, of a limit with prices.
	using []trace.Unit
}

type clauseKind string

const (
	steady  clauseKind = "steady"
	poisson clauseKind = "poisson"
	burst   clauseKind = "burst"
)

func (c clause) end() time.Duration { return c.at + c.length }

// requests returns how many requests a clause makes, on average for poisson.
func (c clause) requests() float64 {
	if c.kind == burst {
		return float64(c.n)
	}
	return math.Ceil(float64(c.n) * float64(c.length) / float64(c.per))
}

// The bounds of a clause. They keep the arithmetic of [stream] from overflowing.
const (
	maxRequests = 100_000_000 // the sum over all clauses
	maxPer      = 1_000_000_000
	maxKeys     = 1 << 24 // see privateAddr
	maxTaking   = 2 * runtime.MaxTokens
)

// parseTraffic parses the clauses of a text.
func parseTraffic(text string, limit *limitState) ([]clause, error) {
	p := clauseParser{rest: split(text), text: text, limit: limit}
	var clauses []clause
	for {
		c, err := p.clause()
		if err != nil {
			return nil, err
		}
		clauses = append(clauses, c)
		if p.peek().text != ";" {
			break
		}
		p.rest = p.rest[1:]
	}
	setLengths(clauses)
	sum := 0.0 // an int64 could overflow
	for _, c := range clauses {
		sum += c.requests()
	}
	if sum > maxRequests { // at column 1, because the clauses exceed it together
		return nil, &TrafficError{text, 1, "the traffic has more than " + words.Number(maxRequests) +
			" requests; shorten it, or lower its rates"}
	}
	return clauses, nil
}

// setLengths lets the clauses without for end together with the last of the others.
func setLengths(clauses []clause) {
	end := time.Duration(0)
	for _, c := range clauses {
		end = max(end, c.end())
	}
	for i, c := range clauses {
		if c.kind == burst || c.length > 0 {
			continue
		}
		// No other clause may last until this one starts.
		if clauses[i].length = end - c.at; clauses[i].length <= 0 {
			clauses[i].length = time.Minute
		}
	}
}

// token is a word of a text, or ";".
type token struct {
	text   string
	column int
}

// tokenForm matches a token. Every space of Unicode separates tokens.
var tokenForm = regexp.MustCompile(`;|[^;\s\v\x{85}\p{Z}]+`)

// split returns the tokens of a text, and an empty one at its end.
func split(text string) (tokens []token) {
	end := 0
	for _, at := range tokenForm.FindAllStringIndex(text, -1) {
		tokens = append(tokens, token{text[at[0]:at[1]], 1 + utf8.RuneCountInString(text[:at[0]])})
		end = at[1]
	}
	// An error at the end has its caret right after the last word, where the missing one belongs.
	return append(tokens, token{"", 1 + utf8.RuneCountInString(text[:end])})
}

// clauseParser parses clauses from tokens.
type clauseParser struct {
	rest  []token
	text  string
	limit *limitState
}

func (p *clauseParser) peek() token { return p.rest[0] }

func (p *clauseParser) next() token {
	t := p.rest[0]
	if len(p.rest) > 1 { // keep the empty token at the end, so that peek always has one
		p.rest = p.rest[1:]
	}
	return t
}

func (p *clauseParser) errorf(t token, format string, args ...any) error {
	return &TrafficError{p.text, t.column, fmt.Sprintf(format, args...)}
}

// atEnd reports whether the clause has no more tokens.
func (p *clauseParser) atEnd() bool { return p.peek().text == "" || p.peek().text == ";" }

// clause parses a clause up to the ";" or the end after it.
func (p *clauseParser) clause() (c clause, err error) {
	kind := p.next()
	c = clause{kind: clauseKind(kind.text), keys: 1, taking: 1}
	for _, unit := range p.limit.units() {
		c.using = append(c.using, trace.Unit{Name: unit, N: 1})
	}
	switch c.kind {
	case steady, poisson:
		err = p.rate(&c)
	case burst:
		c.n, err = p.number("the number of requests", maxRequests)
	default:
		err = p.errorf(kind, "expected steady, poisson or burst")
	}
	seen := map[string]bool{}
	for err == nil && !p.atEnd() {
		name := p.next()
		if seen[name.text] {
			return c, p.errorf(name, "%s is given twice", name.text)
		}
		seen[name.text] = true
		err = p.option(&c, name)
	}
	return c, err
}

// option parses the value of an option such as for.
func (p *clauseParser) option(c *clause, name token) (err error) {
	switch name.text {
	case "for":
		if c.kind == burst {
			return p.errorf(name, "a burst has no duration; set its start with at")
		}
		c.length, err = p.duration(time.Nanosecond)
	case "at":
		c.at, err = p.duration(0)
	case "over":
		return p.over(c, name)
	case "using":
		c.using, err = p.using(name)
	case "taking":
		if p.limit.priced() {
			return p.errorf(name, "the limit has prices; write using %s=1", p.limit.units()[0])
		}
		c.taking, err = p.number("the number of tokens per request", maxTaking)
	case "running":
		c.running, err = p.duration(time.Nanosecond)
	case "plan":
		c.plan, err = p.plan()
	default:
		err = p.errorf(name, "expected for, at, over, taking, using, running, plan or ;")
	}
	return err
}

// plan parses the name of a plan.
func (p *clauseParser) plan() (string, error) {
	if len(p.limit.plans) == 0 {
		return "", p.errorf(p.peek(), "the limit is the same for all plans; remove plan")
	}
	t := p.next()
	names := p.limit.planNames()
	if slices.Contains(names, t.text) {
		return t.text, nil
	}
	return "", p.errorf(t, "expected one of the plans %s", words.List(names, "and"))
}

// using parses what each request uses: input=1200,output=300.
func (p *clauseParser) using(name token) (units []trace.Unit, err error) {
	known := p.limit.units()
	if len(known) == 0 {
		return nil, p.errorf(name, "the limit has no prices; write taking, and a number of tokens")
	}
	t := p.next()
	for part := range strings.SplitSeq(t.text, ",") {
		unit, number, _ := strings.Cut(part, "=")
		n, err := strconv.ParseInt(number, 10, 64)
		again := slices.ContainsFunc(units, func(u trace.Unit) bool { return u.Name == unit })
		if err != nil || n < 0 || again || !slices.Contains(known, unit) {
			return nil, p.errorf(t, "expected what each request uses, such as %s=100, of %s, each once", known[0],
				words.List(known, "and"))
		}
		units = append(units, trace.Unit{Name: unit, N: n})
	}
	return units, nil
}

// over parses the number of keys.
func (p *clauseParser) over(c *clause, name token) (err error) {
	if len(p.limit.key) == 0 {
		return p.errorf(name, "the limit has no key; remove over")
	}
	if c.keys, err = p.number("the number of keys", maxKeys); err != nil {
		return err
	}
	if t := p.next(); t.text != "keys" && t.text != "key" {
		return p.errorf(t, "expected the word keys")
	}
	return nil
}

// number parses a whole number from 1 to most.
func (p *clauseParser) number(what string, most int64) (int64, error) {
	t := p.next()
	n, err := strconv.ParseInt(t.text, 10, 64)
	if err != nil || n < 1 || n > most {
		return 0, p.errorf(t, "expected %s, from 1 to %s", what, words.Number(most))
	}
	return n, nil
}

// rate parses a number per unit or duration: 5/s or 3/10s.
func (p *clauseParser) rate(c *clause) error {
	t := p.next()
	number, per, found := strings.Cut(t.text, "/")
	n, err := strconv.ParseInt(number, 10, 64)
	if per != "" && !trace.IsDigit(per[0]) {
		per = "1" + per // 5/s is 5/1s
	}
	length, ok := fields.Duration(per)
	if !found || err != nil || n < 1 || n > maxPer || !ok || length < 1 {
		return p.errorf(t, "expected a rate such as 5/s, 100/m or 3/10s")
	}
	c.n, c.per = n, length
	return nil
}

// duration parses a duration of at least least.
func (p *clauseParser) duration(least time.Duration) (time.Duration, error) {
	t := p.next()
	d, ok := fields.Duration(t.text)
	if !ok || d < least {
		return 0, p.errorf(t, "expected a duration such as 90s, 10m or 1d, at most 3650d")
	}
	return d, nil
}
