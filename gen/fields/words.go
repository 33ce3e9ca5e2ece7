package fields

import (
	"fmt"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// ruleWords covers kind, rate, period and capacity.
func ruleWords(l *spec.Limit) string {
	return spec.Capital(l.Policy.Kind.String()) + ": " + algorithmOf(l.Policy.Kind).rule(&l.Policy) + "."
}

// AtMost is a number, after "at most" if callers give it and most is the most that they can.
func AtMost(number, most int64) string {
	if most > 0 {
		return "at most " + words.Number(number)
	}
	return words.Number(number)
}

// holdWords describes when a slot is free again.
func holdWords(l *spec.Limit) []string {
	if l.Policy.Hold == 0 {
		return nil
	}
	return []string{
		fmt.Sprintf("A slot is held until it is released, or for %s after it was acquired or last renewed: then its holder is presumed dead.", words.Duration(l.Policy.Hold)),
		"How many can start in a time has no bound, because a released slot is free at once.",
	}
}

// callerWords says which numbers callers give.
func callerWords(l *spec.Limit) []string {
	if len(l.CallerNumbers()) == 0 {
		return nil
	}
	these := "these"
	if len(l.CallerNumbers()) == 1 {
		these = "this"
	}
	sentences := []string{fmt.Sprintf("Callers give the %s of each request, at most %s; the worst case is for the most.", words.List(l.CallerFields(), "and"), these)}
	if l.Policy.AtMost.Rate > 0 && l.Policy.Reserves() {
		sentences = append(sentences, "Reserved tokens are due by the rate of their request: those of requests with different rates may be due together.")
	}
	return sentences
}

func reservingWords(l *spec.Limit) []string {
	switch p := &l.Policy; {
	case !p.Reserves():
		return nil
	case p.MaxReserved == runtime.Unbounded:
		return []string{"Callers may reserve any number of tokens ahead."}
	default:
		return []string{fmt.Sprintf("Callers may reserve at most %s ahead.", words.Count(p.MaxReserved, "token"))}
	}
}

// StartWords describes when the windows of the limit begin.
func StartWords(l *spec.Limit) []string {
	p := &l.Policy
	offset, aligned := p.Start.Offset()
	switch {
	case !p.Kind.Windowed() || p.Precise:
		return nil
	case p.Calendar.Unit != 0:
		return calendarWords(p.Calendar)
	case p.Start.FirstUse():
		return []string{"A window begins at the first request after the previous window has ended."}
	case !aligned && len(l.Key) == 0:
		return []string{"Windows begin at a fixed offset derived from the limit's name."}
	case !aligned:
		return []string{"Each key's windows begin at a fixed offset derived from the key."}
	}
	return []string{alignedWords(p.Period, instantAt(offset))}
}

// alignedWords describes the windows of which one begins at an instant: by the time of day or of the week if all begin
// at the same, otherwise by that instant.
func alignedWords(period time.Duration, at time.Time) string {
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

func shardsWords(l *spec.Limit) []string {
	if l.Policy.Shards < 2 {
		return nil
	}
	return []string{fmt.Sprintf("Each count is split into %s shards.", words.Number(int64(l.Policy.Shards)))}
}

// ModeWords describes the mode of the limit. It is empty for the default.
func ModeWords(l *spec.Limit) []string {
	switch l.Policy.Mode {
	case runtime.ModeShadow:
		return []string{"Shadow mode: requests that would be denied or delayed pass at once, and Decision.Shadowed reports them."}
	case runtime.ModeOff:
		return []string{"Switched off: every request passes, and none is counted."}
	case runtime.ModeBlock:
		return []string{"Blocked: every request is denied."}
	}
	return nil
}

// penaltyWords covers forgive too.
func penaltyWords(l *spec.Limit) []string {
	steps := penaltySteps(&l.Policy)
	var sentence string
	switch n := len(steps); n {
	case 0:
		return nil
	case 1:
		sentence = fmt.Sprintf("After a denial for lack of %ss, a key is denied for %s.", l.Unit(), steps[0])
	default:
		sentence = fmt.Sprintf("After a denial for lack of %ss, a key is denied for %s, and the next times for %s, until there was no penalty for %s.",
			l.Unit(), steps[0], words.List(steps[1:], "and"), words.Duration(l.Policy.Penalty.Forgiveness()))
	}
	if l.Policy.Mode == runtime.ModeShadow {
		sentence += " In shadow mode, these requests pass too, and are counted as denied."
	}
	return []string{sentence}
}

// onErrorWords covers timeout too. It is empty for the default, an error without a timeout.
func onErrorWords(l *spec.Limit) []string {
	p := &l.Policy
	failure := "If the store fails"
	if p.Timeout > 0 {
		failure += " or takes longer than " + words.Duration(p.Timeout)
	}
	switch {
	case p.OnError == runtime.FailOpen || p.Mode == runtime.ModeShadow:
		return []string{failure + ", requests are allowed and not counted."}
	case p.OnError == runtime.FailLocal:
		return []string{failure + ", each process decides by the same rule from its own memory."}
	case p.Timeout > 0:
		return []string{failure + ", no request is allowed and the call returns the error."}
	}
	return nil
}

func jitterWords(l *spec.Limit) []string {
	if l.Policy.Jitter == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Clients are told to retry up to %s later than necessary, so that they do not all come back at once.", words.Duration(l.Policy.Jitter))}
}

func denyCacheWords(l *spec.Limit) []string {
	// The cache has no effect in shadow mode, which denies nothing.
	if l.Policy.DenyCache == 0 || l.Policy.Mode == runtime.ModeShadow {
		return nil
	}
	return []string{fmt.Sprintf("A process repeats a denial from its memory for at most %s.", words.Duration(l.Policy.DenyCache))}
}

func leaseWords(l *spec.Limit) []string {
	lease := l.Policy.Lease
	if lease.Tokens == 0 {
		return nil
	}
	return []string{
		fmt.Sprintf("A process takes blocks of %s, and spends each from its memory within %s.", words.Count(lease.Tokens, "token"), words.Duration(lease.For)),
		algorithmOf(l.Policy.Kind).lease(&l.Policy),
	}
}

// durabilityWords is empty for the setting of the database.
func durabilityWords(l *spec.Limit) []string {
	switch l.Policy.Durability {
	case runtime.DurabilityRelaxed:
		return []string{"A crash of the database's machine may lose the most recent counts."}
	case runtime.DurabilityFull:
		return []string{"A decision waits until the database has written the counts to disk."}
	}
	return nil
}

// calendarWords describes when the windows of a calendar begin.
func calendarWords(c runtime.Calendar) []string {
	zone := " in " + c.Zone
	if c.ZonePerKey {
		zone = " in each key's own time zone"
	}
	day, late := windowDay(c)
	sentences := []string{fmt.Sprintf("Windows begin %sat %s%s.", day, timeOfDay(time.Time{}.Add(c.At)), zone)}
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
