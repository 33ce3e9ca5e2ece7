package spec

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Words describes the limit's rule in sentences, the most important first:
// "Token bucket: 10 per minute, at most 20 at once."
func (l *Limit) Words() (sentences []string) {
	for _, f := range limitFields {
		if f.words != nil {
			sentences = append(sentences, f.words(l)...)
		}
	}
	return sentences
}

// WorstCase says how many tokens can be used in a period at most, see [Within]: "Worst case: 30 in any minute." If
// reservations have no bound, the number is for callers who do not reserve.
func (l *Limit) WorstCase() string {
	p := &l.Policy
	worst := func(p *runtime.Policy) string {
		return fmt.Sprintf("Worst case: %s in any %s", orUncountable(Within(p, p.Period)), words.Period(p.Period))
	}
	switch {
	case p.MaxReserved == runtime.Unbounded && p.Capacity == 0:
		return "Worst case: reservations have no bound."
	case p.MaxReserved == runtime.Unbounded:
		// Unbounded reservations have no worst case, but callers who do not reserve have one.
		return worst(Unreserved(p)) + " without reservations, which have no bound."
	case p.Reserves():
		return worst(p) + ", counting reserved tokens when their delay has passed."
	}
	return worst(p) + "."
}

func orUncountable(n int64) string {
	if n == math.MaxInt64 {
		return "more than can be counted"
	}
	return words.Number(n)
}

// Grouped is [words.Number].
func Grouped(n int64) string { return words.Number(n) }

// PeriodInWords is [words.Period].
func PeriodInWords(period time.Duration) string { return words.Period(period) }

// Duration is [words.Duration].
func Duration(d time.Duration) string { return words.Duration(d) }

// List is [words.List].
func List(items []string, conjunction string) string { return words.List(items, conjunction) }

// ruleWords covers kind, rate, period and capacity.
func ruleWords(l *Limit) []string {
	name := l.Policy.Kind.String()
	return []string{strings.ToUpper(name[:1]) + name[1:] + ": " + algorithmOf(l.Policy.Kind).rule(&l.Policy) + "."}
}

func reservingWords(l *Limit) []string {
	switch p := &l.Policy; {
	case !p.Reserves():
		return nil
	case p.MaxReserved == runtime.Unbounded:
		return []string{"Callers may reserve any number of tokens ahead."}
	default:
		return []string{fmt.Sprintf("Callers may reserve at most %s ahead.", words.Count(p.MaxReserved, "token"))}
	}
}

func startWords(l *Limit) []string {
	p := &l.Policy
	offset, aligned := p.Start.Offset()
	switch {
	case !p.Kind.Windowed() || p.Precise:
		return nil
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

// timeOfDay leaves out seconds that are zero.
func timeOfDay(t time.Time) string {
	if t.Second() == 0 && t.Nanosecond() == 0 {
		return t.Format("15:04")
	}
	return t.Format("15:04:05.999999999")
}

// instantAt returns the instant at an offset from 0:00 UTC on 1 January 1970.
func instantAt(offset time.Duration) time.Time { return time.Unix(0, int64(offset)).UTC() }

func shardsWords(l *Limit) []string {
	if l.Policy.Shards < 2 {
		return nil
	}
	return []string{fmt.Sprintf("Each count is split into %s shards.", words.Number(int64(l.Policy.Shards)))}
}

// onErrorWords covers timeout too. It is empty for the default, an error without a timeout.
func onErrorWords(l *Limit) []string {
	p := &l.Policy
	failure := "If the store fails"
	if p.Timeout > 0 {
		failure += " or takes longer than " + words.Duration(p.Timeout)
	}
	switch {
	case p.OnError == runtime.FailOpen:
		return []string{failure + ", requests are allowed and not counted."}
	case p.Timeout > 0:
		return []string{failure + ", no request is allowed and the call returns the error."}
	}
	return nil
}

func denyCacheWords(l *Limit) []string {
	if l.Policy.DenyCache == 0 {
		return nil
	}
	return []string{fmt.Sprintf("A process repeats a denial from its memory for at most %s.", words.Duration(l.Policy.DenyCache))}
}

func leaseWords(l *Limit) []string {
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
func durabilityWords(l *Limit) []string {
	switch l.Policy.Durability {
	case runtime.DurabilityRelaxed:
		return []string{"A crash of the database's machine may lose the most recent counts."}
	case runtime.DurabilityFull:
		return []string{"A decision waits until the database has written the counts to disk."}
	}
	return nil
}
