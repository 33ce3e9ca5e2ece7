package spec

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Words returns the limit's rule in sentences, the most important first:
// "Token bucket: 10 per minute, at most 20 at once."
func (l *Limit) Words() []string {
	words := []string{l.ruleInWords()}
	for _, sentence := range []string{
		l.startInWords(), l.reservingInWords(), l.shardsInWords(), l.leaseInWords(), l.leaseBoundInWords(), l.denyCacheInWords(),
		l.failingInWords(), l.durabilityInWords(),
	} {
		if sentence != "" {
			words = append(words, sentence)
		}
	}
	return words
}

func (l *Limit) ruleInWords() string {
	p := &l.Policy
	rule := fmt.Sprintf("%s per %s", grouped(p.Rate), periodInWords(p.Period))
	switch {
	case p.Kind == runtime.SlidingWindow:
		return fmt.Sprintf("Sliding window: about %s in any %s.", grouped(p.Rate), periodInWords(p.Period))
	case p.Capacity == 0:
		rule += ", each reserved ahead"
	case p.Kind == runtime.TokenBucket:
		rule += fmt.Sprintf(", at most %s at once", grouped(p.Capacity))
	case p.Capacity > p.Rate:
		rule += fmt.Sprintf(", and what is not used piles up to %s", grouped(p.Capacity))
	case p.Capacity < p.Rate:
		rule += fmt.Sprintf(", at most %s at once", grouped(p.Capacity))
	}
	name := p.Kind.String()
	return strings.ToUpper(name[:1]) + name[1:] + ": " + rule + "."
}

func (l *Limit) startInWords() string {
	p := &l.Policy
	offset, aligned := p.Start.Offset()
	switch {
	case p.Kind == runtime.TokenBucket:
		return ""
	case p.Start.FirstUse():
		return "A window begins at the first request after the one before ended."
	case !aligned && len(l.Key) == 0:
		return "Windows begin at a time of this limit's own, the same for ever."
	case !aligned:
		return "Each key's windows begin at a time of its own, the same for ever."
	}
	return alignedInWords(p.Period, instantAt(offset))
}

// alignedInWords says when windows begin of which one begins at an instant.
func alignedInWords(period time.Duration, at time.Time) string {
	day, week := units["d"], units["w"]
	switch {
	case period == day:
		return fmt.Sprintf("Windows begin at %s UTC.", timeInWords(at))
	case period == week:
		return fmt.Sprintf("Windows begin on %s at %s UTC.", at.Weekday(), timeInWords(at))
	case day%period == 0:
		sinceMidnight := at.Sub(at.Truncate(day))
		first := at.Truncate(day).Add(sinceMidnight % period)
		return fmt.Sprintf("Windows begin at %s UTC, and every %s.", timeInWords(first), periodInWords(period))
	}
	return fmt.Sprintf("A window begins at %s %s UTC, and every %s before and after it.",
		at.Format("Mon 2006-01-02"), timeInWords(at), periodInWords(period))
}

// timeInWords says the time of day, to the minute if that is all there is to say.
func timeInWords(t time.Time) string {
	if t.Second() == 0 && t.Nanosecond() == 0 {
		return t.Format("15:04")
	}
	return t.Format("15:04:05.999999999")
}

// instantAt returns the instant at an offset from 0:00 UTC on 1 January 1970.
func instantAt(offset time.Duration) time.Time { return time.Unix(0, int64(offset)).UTC() }

func (l *Limit) reservingInWords() string {
	switch p := &l.Policy; {
	case !p.Reserves():
		return ""
	case p.MaxReserved == runtime.Unbounded:
		return "Callers may reserve as far ahead as they like."
	default:
		return fmt.Sprintf("Callers may reserve at most %s ahead.", grouped(p.MaxReserved))
	}
}

func (l *Limit) shardsInWords() string {
	if l.Policy.Shards < 2 {
		return ""
	}
	return fmt.Sprintf("Each count is split into %s shards.", grouped(int64(l.Policy.Shards)))
}

func (l *Limit) failingInWords() string {
	p := &l.Policy
	late := ""
	if p.Timeout > 0 {
		late = fmt.Sprintf(" within %v", p.Timeout)
	}
	switch {
	case p.OnError == runtime.FailOpen:
		return fmt.Sprintf("If the store does not answer%s, everything passes, uncounted.", late)
	case late != "":
		return fmt.Sprintf("If the store does not answer%s, nothing passes.", late)
	}
	return ""
}

// periodUnits are the units in which a period is said, the longest first.
var periodUnits = []struct {
	length time.Duration
	name   string
}{
	{units["w"], "week"}, {units["d"], "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"},
	{time.Millisecond, "millisecond"}, {time.Microsecond, "microsecond"}, {time.Nanosecond, "nanosecond"},
}

// periodInWords says a period as people do after "per": minute, 90 seconds, 2 weeks.
func periodInWords(period time.Duration) string {
	for _, unit := range periodUnits {
		switch n := period / unit.length; {
		case period%unit.length != 0:
			continue
		case n == 1:
			return unit.name
		default:
			return grouped(int64(n)) + " " + unit.name + "s"
		}
	}
	return strconv.FormatInt(int64(period), 10) + " nanoseconds"
}
