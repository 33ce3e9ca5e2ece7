package fields

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var startField = limitField{
	name:      "start",
	about:     "When windows begin: at an instant and every period before and after it; at an offset from 0:00 UTC on 1 January 1970; or, for a fixed window, at each key's `first use`. Not for a token bucket.",
	more:      startMore,
	accepts:   "an RFC 3339 instant, a duration, or `first use`; for calendar units, such as `15th`, `monday`, `april 6th`, `06:00`, `anniversary`",
	absent:    "each key has a fixed offset of its own; for calendar units, midnight of their first day",
	example:   "8h",
	schema:    startSchema,
	read:      (*parser).readStart,
	check:     (*parser).checkCalendar,
	change:    ids.StartChanged,
	effective: effectiveStart,
	sentences: StartWords,
}

// readStart reads when windows begin.
func (p *parser) readStart(l *draft, e document.Entry) (ok bool) {
	text := e.Value.Value
	start, inWords := parseCalendarStart(text)
	switch {
	case e.Value.Kind != yaml.ScalarNode || e.Value.Tag == "!!null":
		p.doc.WrongType(e, startInWords, "")
		return false
	case inWords:
		// Kept until the period is known.
		l.start = start
		return true
	case l.hasKind(runtime.TokenBucket, runtime.InFlight):
		// The kind has no start, whatever the value.
		return true
	case text == firstUse:
		l.policy.Start = runtime.StartFirstUse()
		return true
	// Zero needs no unit.
	case text == "0":
		l.policy.Start = runtime.StartOffset(0)
		return true
	}
	if c, ok := l.calendar(); ok && !instantForm.MatchString(text) && !offsetForm.MatchString(text) {
		p.doc.Report(e.At, ids.BadStart, "write "+startFormsOf(c), "start %s does not fit period: %s",
			strings.TrimPrefix(document.Describe(e.Value), "the number "), calendarPeriod(c))
		p.doc.Offer(meantCalendarStart(c, text))
		return false
	}
	if dateForm.MatchString(text) {
		l.policy.Start, ok = p.readInstant(e)
	} else {
		l.policy.Start, ok = p.readOffset(e, l.slides())
	}
	return ok
}

// checkCalendar reports a zone or a start that does not fit the period, and completes the calendar.
func (p *parser) checkCalendar(l *draft) {
	period, hasPeriod := l.given["period"]
	start, hasStart := l.given["start"]
	zone, hasZone := l.given["zone"]
	c := &l.policy.Calendar
	switch {
	case !hasPeriod:
	case c.Unit == 0 && hasZone:
		help := "write period: day, week, month or year, or leave zone out"
		if units := aboutUnits[l.policy.Period]; units != 0 {
			help = fmt.Sprintf("write period: %s for calendar %[1]ss in that zone, or leave zone out: %s is a fixed length", units,
				period.Value.Value)
		}
		p.doc.Report(zone.At, ids.NotForPeriod, help, "a period of fixed length has no zone")
		p.doc.Note(period.At, "period is given here")
	case c.Unit == 0 && hasStart && l.start.words != 0:
		// A date without a time is more likely an instant.
		if dateForm.MatchString(start.Value.Value) {
			p.readInstant(start)
			return
		}
		help := startHelp(true)
		if l.policy.Kind == runtime.FixedWindow {
			help = startHelp(false) + "; or period: day, week, month or year, and a zone"
		}
		p.doc.Report(start.At, ids.NotForPeriod, help,
			"start %s needs a period of calendar days, weeks, months or years", diag.Clip(start.Value.Value))
		p.doc.Note(period.At, "period is given here")
	case c.Unit == 0:
	case !hasZone && !l.has("zone") && !p.defaultsUnknown:
		p.doc.Report(period.At, ids.MissingField,
			"add zone: Europe/Berlin, zone: UTC, or zone: per key; or write a fixed length such as "+fixedLength(*c),
			"zone is missing: a %s begins at different instants in different time zones", c.Unit)
	case hasStart && (l.start.words == 0 || !l.start.apply(c)):
		p.doc.Report(start.At, ids.NotForPeriod, "write "+startFormsOf(*c), "start %s does not fit period: %s",
			diag.Clip(start.Value.Value), calendarPeriod(*c))
	}
}

// slides reports whether the kind has windows that cannot start at the first use.
func (l *draft) slides() bool {
	return slices.ContainsFunc(runtime.Kinds(),
		func(k runtime.Kind) bool { return l.hasKind(k) && k.Windowed() && k != runtime.FixedWindow })
}

// firstUse is the start of windows that begin at each key's first request.
const firstUse = "first use"

const startInWords = "an instant, an offset or first use"

// startHelp is the remedy for a start of windows of fixed length. Sliding windows cannot start at the first use.
func startHelp(sliding bool) string {
	const instant, offset = "write an instant such as 2006-01-02T15:04:05Z", "an offset from 0:00 UTC such as 8h"
	if sliding {
		return instant + ", or " + offset
	}
	return instant + ", " + offset + ", or " + firstUse
}

var instantForm = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[-+][0-9]{2}:[0-9]{2})$`)

// The first and the last instant that an int64 of nanoseconds since 1970 can represent.
var (
	firstInstant = time.Unix(0, math.MinInt64)
	lastInstant  = time.Unix(0, math.MaxInt64)
)

// readInstant reads an RFC 3339 instant.
func (p *parser) readInstant(e document.Entry) (runtime.Start, bool) {
	text := e.Value.Value
	t, err := time.Parse(time.RFC3339Nano, text)
	switch {
	// time.Parse accepts more than RFC 3339, such as a comma before the fraction.
	case !instantForm.MatchString(text):
		p.doc.Report(e.At, ids.BadStart, "write an instant such as 2006-01-02T15:04:05Z",
			"start must be an instant with a time and a zone, not %s", diag.Quote(text))
		p.doc.Offer(meantInstant(text))
	case err != nil:
		p.doc.Report(e.At, ids.BadStart, "", "start is a time that does not exist: %s", diag.Clip(text))
	case t.Before(firstInstant), t.After(lastInstant):
		p.doc.Report(e.At, ids.BadStart, "", "start must be between the years 1678 and 2262, not %s", diag.Clip(text))
	default:
		return runtime.StartAt(t), true
	}
	return runtime.Start{}, false
}

// meantInstant returns the instant in UTC that a date or a time without a zone probably means, or "".
func meantInstant(text string) string {
	for _, layout := range []string{time.DateOnly, time.DateTime, "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02T15:04",
		"2006-01-02 15:04:05Z07:00"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.Format(time.RFC3339)
		}
	}
	return ""
}

var (
	offsetForm = regexp.MustCompile(`^[-+]?` + unitPattern + `+$`)
	dateForm   = regexp.MustCompile(`^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}`)
)

// readOffset reads an offset from 0:00 UTC on 1 January 1970.
func (p *parser) readOffset(e document.Entry, sliding bool) (runtime.Start, bool) {
	text := e.Value.Value
	// Without this, a misspelled "first use" would be reported as a wrong duration.
	if !sliding && diag.Nearest(text, []string{firstUse, "first request"}) != "" {
		p.doc.Report(e.At, ids.BadStart, "", "start must be %s, not %s", startInWords, document.Describe(e.Value))
		p.doc.Offer(firstUse)
		return runtime.Start{}, false
	}
	unsigned, negative := strings.CutPrefix(text, "-")
	sum, ok := exact(strings.TrimPrefix(unsigned, "+"))
	if !offsetForm.MatchString(text) || !ok || e.Value.Tag != "!!str" {
		p.notOffset(e, sliding)
		return runtime.Start{}, false
	}
	length, ok := p.wholeNanoseconds(e, sum)
	if ok && length > runtime.MaxPeriod {
		p.doc.Report(e.At, ids.OutOfRange, "", "start must be an offset of at most %s, not %s", longestPeriod, diag.Clip(text))
		return runtime.Start{}, false
	}
	if negative {
		length = -length
	}
	return runtime.StartOffset(length), ok
}

func (p *parser) notOffset(e document.Entry, sliding bool) {
	forms := startInWords
	if sliding {
		forms = "an instant or an offset"
	}
	p.doc.Report(e.At, ids.BadStart, startHelp(sliding), "start must be %s, not %s", forms, document.Describe(e.Value))
	if e.Value.Tag == "!!int" || e.Value.Tag == "!!float" {
		n := strings.ReplaceAll(e.Value.Value, "_", "")
		p.doc.Offer(n+"s", n+"m", n+"h")
		return
	}
	p.doc.Offer(meantDuration(e.Value.Value)...)
}

// noStart refuses a start for limits without aligned windows.
func noStart(limit, help string) refusal {
	return refusal{field: "start", message: limit + " has no windows to start", help: help}
}

// startSchema has one pattern, so that editors show the patternErrorMessage if it does not match.
var startSchema = object{
	"type":    []string{"string", "integer"},
	"minimum": 0,
	"maximum": 0,
	"pattern": "^(0|" + firstUse + ")$|" + offsetForm.String() + "|" + instantForm.String() + "|" + calendarStartPattern,
	"defaultSnippets": []any{
		object{"label": firstUse, "body": firstUse},
		object{"label": "0", "body": "0"},
	},
}

// effectiveStart is empty for an offset derived from the key.
func effectiveStart(l *spec.Limit) string {
	offset, aligned := l.Policy.Start.Offset()
	switch {
	case l.Policy.Calendar.Unit != 0:
		return effectiveCalendarStart(l.Policy.Calendar)
	case l.Policy.Start.FirstUse():
		return firstUse
	case !aligned:
		return ""
	// The file cannot have such an offset as a duration, so it has an instant.
	case offset.Abs() > runtime.MaxPeriod:
		return instantAt(offset).Format(time.RFC3339Nano)
	}
	return words.Duration(offset)
}

// instantAt returns the instant at an offset from 0:00 UTC on 1 January 1970.
func instantAt(offset time.Duration) time.Time { return time.Unix(0, int64(offset)).UTC() }

// StartWords describes when the windows of the limit begin.
func StartWords(l *spec.Limit) []string {
	p := &l.Policy
	offset, aligned := p.Start.Offset()
	switch {
	case !p.Kind.Windowed() || p.Precise:
		return nil
	case p.Calendar.Unit != 0:
		return calendarSentences(p.Calendar)
	case p.Start.FirstUse():
		return []string{"A window begins at the first request after the previous window has ended."}
	case !aligned && len(l.Key) == 0:
		return []string{"Windows begin at a fixed offset derived from the limit's name."}
	case !aligned:
		return []string{"Each key's windows begin at a fixed offset derived from the key."}
	}
	return []string{alignedSentence(p.Period, instantAt(offset))}
}

// alignedSentence describes the windows of which one begins at an instant: by the time of day or of the week if all begin
// at the same, otherwise by that instant.
func alignedSentence(period time.Duration, at time.Time) string {
	switch {
	case period == words.Day:
		return fmt.Sprintf("Windows begin at %s UTC.", timeOfDay(at))
	case period == words.Week:
		return fmt.Sprintf("Windows begin on %s at %s UTC.", at.Weekday(), timeOfDay(at))
	case words.Day%period == 0:
		// The instant may be any of the windows' beginnings: people want the first one of a day.
		sinceMidnight := at.Sub(at.Truncate(words.Day))
		first := at.Truncate(words.Day).Add(sinceMidnight % period)
		return fmt.Sprintf("Windows begin at %s UTC, and every %s.", timeOfDay(first), words.Period(period))
	}
	return fmt.Sprintf("A window begins at %s %s UTC, and every %s before and after it.",
		at.Format("Mon 2006-01-02"), timeOfDay(at), words.Period(period))
}
