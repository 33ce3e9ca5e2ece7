package spec

import (
	"fmt"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Words returns the limit's rule in sentences, the most important first:
// "Token bucket: 10 per minute, at most 20 at once."
func (l *Limit) Words() []string {
	sentences := []string{l.ruleInWords()}
	for _, sentence := range []string{
		l.startInWords(), l.reservingInWords(), l.shardsInWords(), l.leaseInWords(), l.leaseBoundInWords(), l.denyCacheInWords(),
		l.failingInWords(), l.durabilityInWords(),
	} {
		if sentence != "" {
			sentences = append(sentences, sentence)
		}
	}
	return sentences
}

func (l *Limit) ruleInWords() string {
	p := &l.Policy
	rule := fmt.Sprintf("%s per %s", words.Number(p.Rate), words.Period(p.Period))
	switch {
	case p.Kind == runtime.SlidingWindow:
		return fmt.Sprintf("Sliding window: about %s in any %s.", words.Number(p.Rate), words.Period(p.Period))
	case p.Capacity == 0:
		rule += ", each reserved ahead"
	case p.Kind == runtime.TokenBucket:
		rule += fmt.Sprintf(", at most %s at once", words.Number(p.Capacity))
	case p.Capacity > p.Rate:
		rule += fmt.Sprintf(", and what is not used piles up to %s", words.Number(p.Capacity))
	case p.Capacity < p.Rate:
		rule += fmt.Sprintf(", at most %s at once", words.Number(p.Capacity))
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
	day, week := words.Day, words.Week
	switch {
	case period == day:
		return fmt.Sprintf("Windows begin at %s UTC.", timeInWords(at))
	case period == week:
		return fmt.Sprintf("Windows begin on %s at %s UTC.", at.Weekday(), timeInWords(at))
	case day%period == 0:
		sinceMidnight := at.Sub(at.Truncate(day))
		first := at.Truncate(day).Add(sinceMidnight % period)
		return fmt.Sprintf("Windows begin at %s UTC, and every %s.", timeInWords(first), words.Period(period))
	}
	return fmt.Sprintf("A window begins at %s %s UTC, and every %s before and after it.",
		at.Format("Mon 2006-01-02"), timeInWords(at), words.Period(period))
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
		return fmt.Sprintf("Callers may reserve at most %s ahead.", words.Number(p.MaxReserved))
	}
}

func (l *Limit) shardsInWords() string {
	if l.Policy.Shards < 2 {
		return ""
	}
	return fmt.Sprintf("Each count is split into %s shards.", words.Number(int64(l.Policy.Shards)))
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
