package spec

import (
	"cmp"
	_ "embed"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // so that this program has the zones of its Go version on every machine

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

const (
	calendarPattern = `^(day|week|month|year|[1-9][0-9]{0,3} (days?|weeks?|months?|years?))$`
	// perKey is the zone of windows whose keys have their own.
	perKey = "per key"
	// anniversary is the start of windows whose keys have their own first day.
	anniversary = "anniversary"
)

var calendarForm = regexp.MustCompile(calendarPattern)

// period reads a duration, or a number of calendar units.
func (p *parser) period(limit *Limit, e entry) (ok bool) {
	text := e.value.Value
	if !isString(e.value) || !calendarForm.MatchString(text) {
		limit.Policy.Period, ok = p.length(e)
		return ok
	}
	count, unit, several := strings.Cut(text, " ")
	if !several {
		count, unit = "1", text
	}
	n, _ := strconv.Atoi(count)
	calendar := runtime.Calendar{Unit: unitNamed(strings.TrimSuffix(unit, "s")), Count: n}
	if calendar.Period() > runtime.MaxPeriod {
		p.report(e.at, outOfRange, "", "period must be at most %s, not %s", longestPeriod, clip(text))
		return false
	}
	// One unit has one form, so that equal limits have equal policies.
	if n == 1 {
		calendar.Count = 0
	}
	limit.Policy.Calendar.Unit, limit.Policy.Calendar.Count = calendar.Unit, calendar.Count
	limit.Policy.Period = calendar.Period()
	return true
}

func unitNamed(name string) runtime.CalendarUnit {
	for _, unit := range runtime.CalendarUnits() {
		if unit.String() == name {
			return unit
		}
	}
	panic("spec: no calendar unit is named " + name)
}

//go:embed zones.txt
var zoneList string

// zoneNames returns the names of the IANA time zone database, with the name that each is a link to, or "". They are not
// read from the machine, so that a file is valid on all machines or on none.
var zoneNames = sync.OnceValue(func() map[string]string {
	names := map[string]string{}
	for line := range strings.Lines(zoneList) {
		name, target, _ := strings.Cut(strings.TrimSpace(line), " ")
		names[name] = target
	}
	return names
})

// CanonicalZone returns the name that the name of a time zone is a link to in the IANA database: "Europe/Kyiv" for
// "Europe/Kiev". It returns "" for a name that is not a link.
func CanonicalZone(zone string) string { return zoneNames()[zone] }

// zone reads the name of a time zone.
func (p *parser) zone(limit *Limit, e entry) bool {
	name, ok := p.text(e, "the name of a time zone, or per key")
	if !ok {
		return false
	}
	if name == perKey {
		limit.Policy.Calendar.ZonePerKey = true
		return true
	}
	if _, ok := zoneNames()[name]; !ok {
		p.report(e.at, badZone, "write a name of the IANA database such as UTC or Europe/Berlin, or per key", "unknown time zone %s", quote(name))
		p.meant(meantZone(name))
		return false
	}
	limit.Policy.Calendar.Zone = name
	return true
}

// meantZone returns the zone that a name probably means: a similar one, or the only one of that city.
func meantZone(text string) string {
	all := make([]string, 0, len(zoneNames()))
	var sameCity []string
	for name := range zoneNames() {
		all = append(all, name)
		if _, city, ok := cutLast(name, "/"); ok && string(fold(city)) == string(fold(text)) {
			sameCity = append(sameCity, name)
		}
	}
	if len(sameCity) == 1 {
		return sameCity[0]
	}
	// A map has no order, and two names may be equally near.
	slices.Sort(all)
	return Nearest(text, append(all, perKey))
}

func cutLast(text, sep string) (before, after string, found bool) {
	i := strings.LastIndex(text, sep)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(sep):], true
}

// calendarStart is a start in the words of a calendar: each is "" or 0 if it is not given.
type calendarStart struct {
	anniversary bool
	date        runtime.Date
	month       time.Month
	day         int
	weekday     string
	at          string
}

var (
	ordinalForm   = regexp.MustCompile(`^([1-9]|[12][0-9]|3[01])(st|nd|rd|th)$`)
	timeOfDayForm = regexp.MustCompile(`^([01][0-9]|2[0-3]):[0-5][0-9]$`)
)

// calendarStartPattern is for editors: the forms that [parseCalendarStart] reads, with more combinations of them.
const calendarStartPattern = `^(anniversary|monday|tuesday|wednesday|thursday|friday|saturday|sunday|` +
	`((january|february|march|april|may|june|july|august|september|october|november|december)( |$))?([0-9]{1,2}(st|nd|rd|th))?|` +
	`[0-9]{4}-[0-9]{2}-[0-9]{2})( ?([01][0-9]|2[0-3]):[0-5][0-9])?$`

// parseCalendarStart reads words such as "15th 06:00". It returns false if one is unknown or of a sort that is given twice.
func parseCalendarStart(text string) (s calendarStart, ok bool) {
	for word := range strings.FieldsSeq(text) {
		word, was := strings.ToLower(word), s
		switch {
		case word == anniversary:
			s.anniversary = true
		case ordinalForm.MatchString(word):
			s.day, _ = strconv.Atoi(word[:len(word)-2])
			if ordinal(s.day) != word {
				return s, false
			}
		case timeOfDayForm.MatchString(word):
			s.at = word
		case monthNamed(word) > 0:
			s.month = monthNamed(word)
		case weekdayNamed(word) >= 0:
			s.weekday = word
		default:
			day, err := time.Parse(time.DateOnly, word)
			if err != nil || day.Year() < 1 {
				return s, false
			}
			s.date = runtime.DateOf(day)
		}
		if again := was != (calendarStart{}) && was == s; again {
			return s, false
		}
	}
	return s, s != calendarStart{}
}

func monthNamed(word string) time.Month {
	for month := time.January; month <= time.December; month++ {
		if strings.ToLower(month.String()) == word {
			return month
		}
	}
	return 0
}

func weekdayNamed(word string) time.Weekday {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if strings.ToLower(day.String()) == word {
			return day
		}
	}
	return -1
}

// ordinal returns "1st", "2nd", "15th".
func ordinal(n int) string {
	suffix := "th"
	if n/10 != 1 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.Itoa(n) + suffix
}

// readCalendarStart keeps a start in the words of a calendar until the period is known, and reports whether text is one.
func (p *parser) readCalendarStart(text string) (ok bool) {
	p.calendarStart, ok = parseCalendarStart(text)
	if !ok {
		p.calendarStart = calendarStart{}
	}
	return ok
}

// startMore explains the starts of calendars in the reference.
const startMore = "For a `period` in calendar units, `start` is a time of day such as `06:00`, or a first day with or without one: a weekday for `week`; " +
	"`15th` for `month`; `april 6th` for `year`; a date such as `2024-04-06` for `3 months` and other numbers of units; or `anniversary`, with which the method has a parameter " +
	"for each key's own first day. Without a date, several units are counted from 1 January 1970, and weeks from 5 January. In months without a 29th, 30th or 31st, windows begin on the last day."

// zoneSchema lists all zones, so that editors complete them.
func zoneSchema() object {
	names := []string{perKey}
	for line := range strings.Lines(zoneList) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		names = append(names, name)
	}
	return object{"enum": names}
}

// ifCalendar are the schemas of limits with a period in calendar units, which must have a zone, and of others, which
// have none.
func ifCalendar() []any {
	having := func(period object) object {
		return object{"type": "object", "properties": object{"period": period}, "required": []string{"period"}}
	}
	calendar := object{"type": "string", "pattern": calendarPattern}
	return []any{
		object{"if": having(calendar), "then": object{"type": "object", "required": []string{"zone"}}},
		object{
			"if": having(object{"not": calendar}),
			"then": object{
				"type": "object", "properties": object{"zone": false},
				"errorMessage": "A zone needs a period of calendar days, weeks, months or years.",
			},
		},
	}
}

// startForms are the forms of a calendar's start, by unit.
var startForms = map[runtime.CalendarUnit]string{
	runtime.Day:   "a time of day such as 06:00",
	runtime.Week:  "a weekday such as monday, a time of day such as 06:00, both, or anniversary",
	runtime.Month: "a day such as 15th, a time of day such as 06:00, both, or anniversary",
	runtime.Year:  "a day such as april 6th, a time of day such as 06:00, both, or anniversary",
}

// startFormsOf describes the starts of a calendar.
func startFormsOf(c runtime.Calendar) string {
	if c.Count > 1 {
		return "the first day of a window such as 2024-04-06, a time of day such as 06:00, both, or anniversary"
	}
	return startForms[c.Unit]
}

// settleCalendar reports a zone or a start that does not fit the period, and completes the calendar.
func (p *parser) settleCalendar(policy *runtime.Policy, given map[string]entry) {
	period, hasPeriod := given["period"]
	start, hasStart := given["start"]
	zone, hasZone := given["zone"]
	c := &policy.Calendar
	switch {
	case !hasPeriod:
	case c.Unit == 0 && hasZone:
		p.report(zone.at, notForPeriod, "write period: day, week, month or year, or leave zone out", "a period of fixed length has no zone")
		p.note(period.at, "period is given here")
	case c.Unit == 0 && hasStart && p.calendarStart != calendarStart{}:
		// A date without a time is more likely an instant.
		if dateForm.MatchString(start.value.Value) {
			p.instant(start)
			return
		}
		p.report(start.at, notForPeriod, "write an instant such as 2006-01-02T15:04:05Z, an offset from 0:00 UTC such as 8h, or first use; or period: day, week, month or year",
			"start %s needs a period of calendar days, weeks, months or years", clip(start.value.Value))
		p.note(period.at, "period is given here")
	case c.Unit == 0:
	case !hasZone && !p.gaveZone:
		p.report(period.at, missingField, "add zone: Europe/Berlin, zone: UTC, or zone: per key; or write a fixed length such as "+fixedLength(*c),
			"zone is missing: a %s begins at different instants in different time zones", c.Unit)
	case hasStart && (p.calendarStart == calendarStart{}):
		p.report(start.at, notForPeriod, "write "+startFormsOf(*c), "start %s does not fit period: %s", clip(start.value.Value), calendarPeriod(*c))
	case hasStart:
		if !p.calendarStart.apply(c) {
			p.report(start.at, notForPeriod, "write "+startFormsOf(*c), "start %s does not fit period: %s", clip(start.value.Value), calendarPeriod(*c))
		}
	}
}

// fixedLength is a duration that is about as long as a window.
func fixedLength(c runtime.Calendar) string {
	days := map[runtime.CalendarUnit]int{runtime.Day: 1, runtime.Week: 7, runtime.Month: 30, runtime.Year: 365}
	return strconv.Itoa(days[c.Unit]*max(1, c.Count)) + "d"
}

// apply sets the start of a calendar, and reports whether its words fit the unit. Equal windows get equal calendars.
func (s calendarStart) apply(c *runtime.Calendar) bool {
	if s.at != "" {
		clock, _ := time.Parse("15:04", s.at)
		c.At = time.Duration(clock.Hour())*time.Hour + time.Duration(clock.Minute())*time.Minute
	}
	several, months := c.Count > 1, c.Unit == runtime.Month || c.Unit == runtime.Year
	days := 0
	for _, given := range []bool{s.anniversary, s.date != runtime.Date{}, s.weekday != "", s.month != 0 || s.day != 0} {
		if given {
			days++
		}
	}
	switch {
	case days > 1:
		return false
	case s.anniversary:
		c.Anniversary = true
		return c.Unit != runtime.Day || several
	case s.date != runtime.Date{}:
		c.From = s.date
		if !several {
			c.From = simplest(c.Unit, s.date)
		}
		return several || c.Unit != runtime.Day
	case s.weekday != "":
		// 4 January 1970 was a Sunday.
		c.From = simplest(c.Unit, runtime.Date{Year: 1970, Month: time.January, Day: 4 + int(weekdayNamed(s.weekday))})
		return c.Unit == runtime.Week && !several
	case s.month != 0:
		from := runtime.Date{Year: 1972, Month: s.month, Day: max(1, s.day)}
		c.From = simplest(c.Unit, from)
		return c.Unit == runtime.Year && !several && from.Valid()
	case s.day != 0:
		c.From = simplest(c.Unit, runtime.Date{Year: 1970, Month: time.January, Day: s.day})
		return months && c.Unit == runtime.Month && !several
	}
	return true
}

// simplest returns the first day of windows of one unit in its simplest form, zero for the default.
func simplest(unit runtime.CalendarUnit, d runtime.Date) runtime.Date {
	switch unit {
	case runtime.Week:
		weekday := time.Date(d.Year, d.Month, d.Day, 0, 0, 0, 0, time.UTC).Weekday()
		d = runtime.Date{Year: 1970, Month: time.January, Day: 5 + (int(weekday)+6)%7}
		if d.Day == 5 {
			return runtime.Date{}
		}
	case runtime.Month:
		d.Year, d.Month = 1970, time.January
	case runtime.Year:
		if d.Year = 1970; !d.Valid() {
			d.Year = 1972
		}
	case runtime.Day:
		return runtime.Date{}
	}
	if (d == runtime.Date{Year: 1970, Month: time.January, Day: 1}) {
		return runtime.Date{}
	}
	return d
}

// effectiveZone is empty without a calendar.
func effectiveZone(l *Limit) string {
	if l.Policy.Calendar.ZonePerKey {
		return perKey
	}
	return l.Policy.Calendar.Zone
}

// effectivePeriod returns a period as limits.yaml writes it.
func effectivePeriod(l *Limit) string {
	if c := l.Policy.Calendar; c.Unit != 0 {
		return calendarPeriod(c)
	}
	return words.Duration(l.Policy.Period)
}

func calendarPeriod(c runtime.Calendar) string {
	if c.Count > 1 {
		return fmt.Sprintf("%d %ss", c.Count, c.Unit)
	}
	return c.Unit.String()
}

// effectiveCalendarStart returns the start of a calendar as limits.yaml writes it, "" for the default.
func effectiveCalendarStart(c runtime.Calendar) string {
	var parts []string
	switch from := c.From; {
	case c.Anniversary:
		parts = append(parts, anniversary)
	case from == runtime.Date{}:
	case c.Count > 1:
		parts = append(parts, from.String())
	case c.Unit == runtime.Week:
		parts = append(parts, strings.ToLower(weekdayOf(from).String()))
	case c.Unit == runtime.Month:
		parts = append(parts, ordinal(from.Day))
	default:
		parts = append(parts, strings.ToLower(from.Month.String()), ordinal(from.Day))
	}
	if c.At > 0 {
		parts = append(parts, clockOf(c.At))
	}
	return strings.Join(parts, " ")
}

func weekdayOf(d runtime.Date) time.Weekday {
	return time.Date(d.Year, d.Month, d.Day, 0, 0, 0, 0, time.UTC).Weekday()
}

func clockOf(at time.Duration) string {
	return timeOfDay(time.Time{}.Add(at))
}

// PeriodOf returns the period of a policy as it reads after "per": "minute", "month", "3 months".
func PeriodOf(p *runtime.Policy) string {
	if p.Calendar.Unit != 0 {
		return calendarPeriod(p.Calendar)
	}
	return words.Period(p.Period)
}

// calendarWords describes when the windows of a calendar begin.
func calendarWords(c runtime.Calendar) []string {
	zone := " in " + c.Zone
	if c.ZonePerKey {
		zone = " in each key's own time zone"
	}
	day, late := windowDay(c)
	sentences := []string{fmt.Sprintf("Windows begin %sat %s%s.", day, clockOf(c.At), zone)}
	if late {
		sentences = append(sentences, "In a shorter month, a window begins on the last day.")
	}
	if c.PerKey() {
		changing := "time zone"
		switch {
		case c.ZonePerKey && c.Anniversary:
			changing = "time zone or its anniversary"
		case c.Anniversary:
			changing = "anniversary"
		}
		sentences = append(sentences, fmt.Sprintf("If a key's %s changes, its windows still begin at least %s apart.", changing, halfInWords(c)))
	}
	return sentences
}

// windowDay describes the days on which windows begin, and whether some months lack that day.
func windowDay(c runtime.Calendar) (day string, late bool) {
	every := "each " + c.Unit.String()
	if c.Count > 1 {
		every = "every " + calendarPeriod(c)
	}
	from := c.From
	if (from == runtime.Date{}) {
		from = runtime.Date{Year: 1970, Month: time.January, Day: 1}
		if c.Unit == runtime.Week {
			from.Day = 5
		}
	}
	months := c.Unit == runtime.Month || c.Unit == runtime.Year
	switch {
	case c.Anniversary:
		return fmt.Sprintf("on the day of each key's anniversary, and %s before and after it, ", every), months
	case c.Count > 1:
		return fmt.Sprintf("on %s, and %s before and after it, ", from, every), months && from.Day > 28
	case c.Unit == runtime.Week:
		return fmt.Sprintf("on each %s ", weekdayOf(from)), false
	case c.Unit == runtime.Month:
		return fmt.Sprintf("on the %s of each month ", ordinal(from.Day)), from.Day > 28
	case c.Unit == runtime.Year:
		return fmt.Sprintf("on %d %s of each year ", from.Day, from.Month), from.Month == time.February && from.Day > 28
	}
	return "", false
}

// halfInWords returns half of a window's mean length, rounded down to a length that people can read.
func halfInWords(c runtime.Calendar) string {
	half := c.Period() / 2
	if half >= 2*words.Day {
		half = half.Truncate(words.Day)
	}
	return words.Duration(half)
}

// maxClockChange is how much closer in time two windows of a zone can begin than their days are apart: a day, which some
// zones have skipped. Windows of a day begin at least half a day apart, because a skipped day has no window.
func maxClockChange(c runtime.Calendar, n int64) time.Duration {
	switch {
	case c.Zone == "UTC":
		return 0
	case c.Unit == runtime.Day:
		return words.Day / 2
	case n == 1:
		return words.Day
	}
	return words.Day + 2*time.Hour // and in another window, the clock has been put forward
}

// ShortestSpan returns how far apart the starts of two windows of a calendar are at least, if n windows begin after one
// and up to the other, and the zone and the anniversary of the key remain the same.
func ShortestSpan(c runtime.Calendar, n int64) time.Duration {
	if n <= 0 {
		return 0
	}
	count := n * int64(max(1, c.Count))
	days := count
	switch c.Unit {
	case runtime.Week:
		days = 7 * count
	case runtime.Month:
		days = shortestMonths(count, c)
	case runtime.Year:
		days = shortestMonths(12*count, c)
	}
	if days >= math.MaxInt64/int64(words.Day) {
		return math.MaxInt64
	}
	return time.Duration(days)*words.Day - maxClockChange(c, n)
}

var shortest sync.Map

// shortestMonths returns the fewest days of a number of months that follow each other, in 400 years.
func shortestMonths(months int64, c runtime.Calendar) int64 {
	if months >= 4800 { // the calendar repeats after 400 years
		return months / 4800 * 146_097
	}
	firsts := []int{1, 29, 30, 31}
	if !c.Anniversary {
		firsts = []int{max(1, c.From.Day)}
	}
	fewest := int64(math.MaxInt64)
	for _, first := range firsts {
		key := [2]int64{months, int64(first)}
		if known, ok := shortest.Load(key); ok {
			fewest = min(fewest, known.(int64))
			continue
		}
		least := int64(math.MaxInt64)
		for from := range int64(4800) {
			least = min(least, dayOfMonths(from+months, first)-dayOfMonths(from, first))
		}
		shortest.Store(key, least)
		fewest = min(fewest, least)
	}
	return fewest
}

// dayOfMonths returns the day on which a window begins, a number of months after January 2000.
func dayOfMonths(months int64, first int) int64 {
	begin := time.Date(2000, time.Month(1+months), 1, 0, 0, 0, 0, time.UTC)
	last := begin.AddDate(0, 1, -1).Day()
	return begin.Unix()/int64(words.Day/time.Second) + int64(min(first, last))
}

// WindowStarts returns an instant at which a window begins, or for a calendar those of 400 windows, which differ in length.
func WindowStarts(p *runtime.Policy) []int64 {
	rule := p.Rule("")
	if p.Calendar.Unit == 0 {
		return []int64{rule.Phase}
	}
	starts := make([]int64, 400)
	at := time.Date(2023, time.December, 31, 0, 0, 0, 0, time.UTC).UnixNano()
	for i := range starts {
		at = rule.WindowEnd(at)
		starts[i] = at
	}
	return starts
}

// LongestWindow returns the start of the longest of the windows that begin at [WindowStarts].
func LongestWindow(p *runtime.Policy) int64 {
	rule := p.Rule("")
	return slices.MaxFunc(WindowStarts(p), func(a, b int64) int { return cmp.Compare(rule.WindowEnd(a)-a, rule.WindowEnd(b)-b) })
}

// Interval returns the period of a policy or, for a calendar, the longest interval in which at most one window begins after
// the first instant.
func Interval(p *runtime.Policy) time.Duration {
	if p.Calendar.Unit == 0 {
		return p.Period
	}
	span := ShortestSpan(p.Calendar, 1)
	if span > 2*words.Day {
		span = span.Truncate(words.Day)
	}
	return span
}

// StartWords describes when the windows of the limit begin.
func (l *Limit) StartWords() []string { return startWords(l) }

// withinCalendar is [Within] for windows of a calendar: the tokens left over from the window before the interval, and those
// of each window that begins in it.
func withinCalendar(p *runtime.Policy, t int64) int64 {
	begun := int64(0)
	// The interval begins just before a window does, so that n windows begin in it if it is longer than the shortest span
	// of the n-1 after the first.
	if t > 0 {
		begun = 1 + mostWindows(p.Calendar, time.Duration(t)-1)
	}
	if p.Reserves() {
		// All of the capacity and of the debt can be due when the interval begins.
		begun = mostWindows(p.Calendar, time.Duration(t)) + ceil(p.MaxReserved, p.Rate)
	}
	return add(p.Capacity, times(min(p.Rate, p.Capacity+p.MaxReserved), begun))
}

// mostWindows returns the most windows that begin after the start of one, within a time from it.
func mostWindows(c runtime.Calendar, t time.Duration) int64 {
	low, high := int64(0), int64(t/c.Period()*2+4)
	for low < high {
		if middle := low + (high-low+1)/2; ShortestSpan(c, middle) <= t {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low
}

// calendarWorstCase describes the worst case of a calendar's windows: in each of them, and around the start of one.
func calendarWorstCase(p *runtime.Policy) string {
	span := Interval(p)
	around := fmt.Sprintf("%s in any %s", orUncountable(Within(p, span)), words.Period(span))
	if p.Reserves() || p.MaxReserved > 0 {
		return "Worst case: " + around
	}
	each := "calendar " + p.Calendar.Unit.String()
	if p.Calendar.Count > 1 {
		each = "window"
	}
	return fmt.Sprintf("Worst case: %s in each %s, and %s", words.Number(p.Capacity), each, around)
}
