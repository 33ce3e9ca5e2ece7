package operate

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// QuoteKey returns a stored key as a word of a POSIX shell, which -stored and [runtime.CatalogLimit.ParseStored] read as
// this key. Characters that a terminal hides or obeys are written as %XX, and the word is quoted if it has to be.
func QuoteKey(stored string) string {
	var b strings.Builder
	// A lone dash stands for limits without a key in tables.
	bare := stored != "" && stored != "-"
	for rest := stored; rest != ""; {
		r, n := utf8.DecodeRuneInString(rest)
		sign := rest[:n]
		// Each rune alone, because what joins two symbols could be lost when the text is copied.
		if printable.Line(sign) != sign {
			fmt.Fprintf(&b, "%%%s", strings.ReplaceAll(fmt.Sprintf("% X", sign), " ", "%"))
		} else {
			b.WriteString(sign)
			bare = bare && (r > unicode.MaxASCII || unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("%+,./:@_-", r))
		}
		rest = rest[n:]
	}
	if bare {
		return b.String()
	}
	return "'" + strings.ReplaceAll(b.String(), "'", `'\''`) + "'"
}

// subject is the words for a key of a limit.
func subject(key string) string {
	if key == "" {
		return "key (shared)"
	}
	return "key " + QuoteKey(key)
}

// hasRow reports whether the store has a count of a key. It is true if the store cannot list its rows.
func hasRow(ctx context.Context, store runtime.Store, limit, key string) (bool, error) {
	if _, ok := store.(runtime.RowLister); !ok {
		return true, nil
	}
	rows, _, err := Rows(ctx, store, limit, key)
	return len(rows) > 0, err
}

// inCalendar returns a key with the time zone and the anniversary that its limit has for each key.
func inCalendar(l *runtime.CatalogLimit, key runtime.Key, zone, since string) (runtime.Key, error) {
	calendar := l.Policies[0].Calendar
	for _, p := range l.Policies {
		if p.Calendar.Unit != 0 {
			calendar = p.Calendar
		}
	}
	if calendar.ZonePerKey {
		in, err := time.LoadLocation(zone)
		if zone == "" || err != nil {
			return key, usagef("each key of %s has its own time zone: give it as -zone Europe/Berlin", l.Name)
		}
		key = key.In(in)
	}
	if calendar.Anniversary {
		on, err := time.Parse(time.DateOnly, since)
		if err != nil {
			return key, usagef("each key of %s has its own anniversary: give it as -since 2024-05-31", l.Name)
		}
		// Noon, which is on the same day in nearly every zone.
		key = key.Since(on.Add(12 * time.Hour))
	}
	return key, nil
}
