package spec

import (
	"math"
	"regexp"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// firstUse is the start of windows that begin at a key's first request.
const firstUse = "first use"

const instantPattern = `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[-+][0-9]{2}:[0-9]{2})$`

var (
	instantForm = regexp.MustCompile(instantPattern)
	offsetForm  = regexp.MustCompile(offsetPattern)
	dateForm    = regexp.MustCompile(`^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}`)
)

// The first and the last instant that can be counted in nanoseconds since 1970.
var (
	firstInstant = time.Unix(0, math.MinInt64)
	lastInstant  = time.Unix(0, math.MaxInt64)
)

// start reads when windows begin.
func (p *parser) start(limit *Limit, e entry) (ok bool) {
	text := e.value.Value
	switch {
	case e.value.Kind != yaml.ScalarNode || e.value.Tag == "!!null":
		p.wrongType(e, startInWords, "")
		return false
	case text == firstUse:
		limit.Policy.Start = runtime.StartFirstUse()
		return true
	case text == "0":
		limit.Policy.Start = runtime.StartOffset(0)
		return true
	case dateForm.MatchString(text):
		limit.Policy.Start, ok = p.instant(e)
	default:
		limit.Policy.Start, ok = p.offset(e)
	}
	return ok
}

const startInWords = "an instant, an offset or first use"

// instant reads an RFC 3339 instant.
func (p *parser) instant(e entry) (runtime.Start, bool) {
	text := e.value.Value
	t, err := time.Parse(time.RFC3339Nano, text)
	switch {
	case !instantForm.MatchString(text):
		p.report(e.at, badStart, "an instant is written 2006-01-02T15:04:05Z", "start must be an instant with a time and a zone, not %s", quote(text))
		p.meant(meantInstant(text))
	case err != nil:
		p.report(e.at, badStart, "", "start is not a time that exists: %s", clip(text))
	case t.Before(firstInstant), t.After(lastInstant):
		p.report(e.at, badStart, "", "start must be between the years 1678 and 2262, not %s", clip(text))
	default:
		return runtime.StartAt(t), true
	}
	return runtime.Start{}, false
}

// meantInstant returns the instant that was probably meant by a date, or a time without a zone; "" if there
// is none.
func meantInstant(text string) string {
	for _, layout := range []string{time.DateOnly, time.DateTime, "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02 15:04:05Z07:00"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.Format(time.RFC3339)
		}
	}
	return ""
}

// offset reads an offset from 0:00 UTC on 1 January 1970.
func (p *parser) offset(e entry) (runtime.Start, bool) {
	text := e.value.Value
	if Nearest(text, []string{firstUse, "first request"}) != "" {
		p.report(e.at, badStart, "", "start must be %s, not %s", startInWords, describe(e.value))
		p.meant(firstUse)
		return runtime.Start{}, false
	}
	unsigned, negative := strings.CutPrefix(text, "-")
	sum, ok := exact(strings.TrimPrefix(unsigned, "+"))
	if !offsetForm.MatchString(text) || !ok || e.value.Tag != "!!str" {
		p.notOffset(e)
		return runtime.Start{}, false
	}
	length, ok := p.wholeNanoseconds(e, sum)
	if ok && length > runtime.MaxPeriod {
		p.report(e.at, outOfRange, "", "start must be an offset of at most %s, not %s", longestPeriod, clip(text))
		return runtime.Start{}, false
	}
	if negative {
		length = -length
	}
	return runtime.StartOffset(length), ok
}

func (p *parser) notOffset(e entry) {
	p.report(e.at, badStart, "write an instant such as 2006-01-02T15:04:05Z, an offset from 0:00 UTC such as 8h, or first use",
		"start must be %s, not %s", startInWords, describe(e.value))
	if e.value.Tag == "!!int" || e.value.Tag == "!!float" {
		n := strings.ReplaceAll(e.value.Value, "_", "")
		p.meant(n+"s", n+"m", n+"h")
		return
	}
	p.meant(meantDuration(e.value.Value)...)
}
