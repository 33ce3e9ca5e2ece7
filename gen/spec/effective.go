package spec

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// effectiveLease is empty without a lease.
func effectiveLease(l *Limit) string {
	lease := l.Policy.Lease
	if lease == (runtime.Lease{}) {
		return ""
	}
	return fmt.Sprintf("{tokens: %d, for: %s}", lease.Tokens, words.Duration(lease.For))
}

// effectiveDurability is empty for the setting of the database.
func effectiveDurability(l *Limit) string {
	if l.Policy.Durability == runtime.DurabilityDefault {
		return ""
	}
	return l.Policy.Durability.String()
}

func effectiveMaxReserved(l *Limit) string {
	if l.Policy.MaxReserved == runtime.Unbounded {
		return unboundedWord
	}
	return strconv.FormatInt(l.Policy.MaxReserved, 10)
}

// effectiveKey is a map of names to types, whether the file names one string or has a map.
func effectiveKey(l *Limit) string {
	if len(l.Key) == 0 {
		return ""
	}
	parts := make([]string, len(l.Key))
	for i, part := range l.Key {
		parts[i] = part.Name + ": " + part.Type
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// effectiveStart is empty for an offset derived from the key.
func effectiveStart(l *Limit) string {
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

func unlessZero(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return words.Duration(d)
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

// listed is a list as limits.yaml writes it; "" for an empty one.
func listed(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "[" + strings.Join(names, ", ") + "]"
}

// effectivePlans is empty for a file without plans.
func effectivePlans(f *File) string {
	return listed(f.PlanNames())
}

func effectiveRate(l *Limit) string {
	if l.UnlimitedRate {
		return unlimited
	}
	return strconv.FormatInt(l.Policy.Rate, 10)
}

// effectiveOverrides is empty without overrides. It has the numbers that are given: others follow those of the limit.
func effectiveOverrides(l *Limit) string {
	b := l.Overrides
	if b == nil {
		return ""
	}
	var parts []string
	switch {
	case b.Unlimited:
		parts = append(parts, "rate: "+unlimited)
	case b.Rate > 0:
		parts = append(parts, "rate: "+strconv.FormatInt(b.Rate, 10))
	}
	if b.Capacity > 0 {
		parts = append(parts, "capacity: "+strconv.FormatInt(b.Capacity, 10))
	}
	if b.MaxReserved > 0 {
		parts = append(parts, "maxReserved: "+unboundedOr(b.MaxReserved, strconv.FormatInt(b.MaxReserved, 10)))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func unboundedOr(n int64, text string) string {
	if n == runtime.Unbounded {
		return unboundedWord
	}
	return text
}

// timeOfDay leaves out seconds that are zero.
func timeOfDay(t time.Time) string {
	if t.Second() == 0 && t.Nanosecond() == 0 {
		return t.Format("15:04")
	}
	return t.Format("15:04:05.999999999")
}

// instantAt returns the instant at an offset from 0:00 UTC on 1 January 1970.
func instantAt(offset time.Duration) time.Time { return time.Unix(0, int64(offset)).UTC() }
