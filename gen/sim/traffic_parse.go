package sim

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// trafficParser reads clauses from words.
type trafficParser struct {
	words []word
	text  string
	limit Limit
}

func (p *trafficParser) word() word { return p.words[0] }

// next returns the word that comes next, and passes it; the end is never passed.
func (p *trafficParser) next() word {
	w := p.words[0]
	if len(p.words) > 1 {
		p.words = p.words[1:]
	}
	return w
}

func (p *trafficParser) wrongf(w word, format string, args ...any) error {
	return &TrafficError{p.text, w.column, fmt.Sprintf(format, args...)}
}

// ends reports whether the clause has no more words.
func (p *trafficParser) ends() bool { return p.word().text == "" || p.word().text == ";" }

// clause reads a clause, up to the ";" or the end after it.
func (p *trafficParser) clause() (c clause, err error) {
	kind := p.next()
	c = clause{kind: clauseKind(kind.text), keys: 1, taking: 1}
	switch c.kind {
	case steady, poisson:
		err = p.rate(&c)
	case burst:
		c.n, err = p.number("how many requests at once", mostRequests)
	default:
		err = p.wrongf(kind, "expected steady, poisson or burst")
	}
	given := map[string]bool{}
	for err == nil && !p.ends() {
		name := p.next()
		if given[name.text] {
			return c, p.wrongf(name, "%s is given twice", name.text)
		}
		given[name.text] = true
		err = p.detail(&c, name)
	}
	return c, err
}

// detail reads what comes after a word such as for.
func (p *trafficParser) detail(c *clause, name word) (err error) {
	switch name.text {
	case "for":
		if c.kind == burst {
			return p.wrongf(name, "a burst is at one instant; say when with at")
		}
		c.length, err = p.duration(time.Nanosecond)
	case "at":
		c.at, err = p.duration(0)
	case "over":
		return p.over(c, name)
	case "taking":
		c.taking, err = p.number("how many tokens each request takes", mostTaking)
	default:
		err = p.wrongf(name, "expected for, at, over, taking or ;")
	}
	return err
}

// over reads the number of keys.
func (p *trafficParser) over(c *clause, name word) (err error) {
	if len(p.limit.Key) == 0 {
		return p.wrongf(name, "the limit has one shared counter and no keys")
	}
	if c.keys, err = p.number("by how many keys", mostOver); err != nil {
		return err
	}
	if w := p.next(); w.text != "keys" && w.text != "key" {
		return p.wrongf(w, "expected keys")
	}
	return nil
}

// number reads a whole number from 1 to most.
func (p *trafficParser) number(what string, most int64) (int64, error) {
	w := p.next()
	n, err := strconv.ParseInt(w.text, 10, 64)
	if err != nil || n < 1 || n > most {
		return 0, p.wrongf(w, "expected %s, a number from 1 to %s", what, grouped(most))
	}
	return n, nil
}

// rate reads a number per time: 5/s or 3/10s.
func (p *trafficParser) rate(c *clause) error {
	w := p.next()
	number, per, found := strings.Cut(w.text, "/")
	n, err := strconv.ParseInt(number, 10, 64)
	if per != "" && !isDigit(per[0]) {
		per = "1" + per
	}
	length, ok := parseDuration(per)
	if !found || err != nil || n < 1 || n > mostPer || !ok || length < 1 {
		return p.wrongf(w, "expected a rate such as 5/s, 100/m or 3/10s")
	}
	c.n, c.per = n, length
	return nil
}

// duration reads a duration of at least least.
func (p *trafficParser) duration(least time.Duration) (time.Duration, error) {
	w := p.next()
	d, ok := parseDuration(w.text)
	if !ok || d < least {
		return 0, p.wrongf(w, "expected a duration such as 90s, 10m or 1d, at most 3650d")
	}
	return d, nil
}
