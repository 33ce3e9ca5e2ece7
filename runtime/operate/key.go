package operate

import (
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
	key := writtenKey(stored)
	// A lone dash stands for limits without a key in tables.
	quoted := key == "" || key == "-" || strings.ContainsFunc(key, func(r rune) bool {
		return r <= unicode.MaxASCII && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("%+,./:@_-", r)
	})
	if !quoted {
		return key
	}
	return "'" + strings.ReplaceAll(key, "'", `'\''`) + "'"
}

// writtenKey returns a stored key as -stored reads it, with %XX for characters that a terminal hides or obeys.
func writtenKey(stored string) string {
	var b strings.Builder
	for rest := stored; rest != ""; {
		_, n := utf8.DecodeRuneInString(rest)
		sign := rest[:n]
		// Each rune alone, because what joins two symbols could be lost when the text is copied.
		if printable.Line(sign) != sign {
			fmt.Fprintf(&b, "%%%s", strings.ReplaceAll(fmt.Sprintf("% X", sign), " ", "%"))
		} else {
			b.WriteString(sign)
		}
		rest = rest[n:]
	}
	return b.String()
}

// subject is the words for a key of a limit.
func subject(key string) string {
	if key == "" {
		return "key (shared)"
	}
	return "key " + QuoteKey(key)
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

// limit returns a limit of the catalog.
func (p Program) limit(name string) (*runtime.CatalogLimit, error) {
	l, ok := p.Catalog.Limit(name)
	if !ok {
		var names []string
		for _, l := range p.Catalog.Limits {
			names = append(names, l.Name)
		}
		return nil, usagef("there is no limit %q%s; the limits are %s", name, suggestion(name, names), strings.Join(names, ", "))
	}
	return &l, nil
}

// Planned is a policy of a limit, with its plan if the limit depends on that.
type Planned struct {
	Plan   string
	Policy *runtime.Policy
}

// numbers are those of a key as limits.yaml has them, where the capacity of a limit in flight is its slots.
type numbers struct{ rate, capacity, maxReserved int64 }

// by returns the numbers of a policy.
func (n numbers) by(p *runtime.Policy) runtime.Numbers {
	if p.Kind == runtime.InFlight {
		return runtime.Numbers{Rate: n.rate, MaxReserved: n.maxReserved, Slots: n.capacity}
	}
	return runtime.Numbers{Rate: n.rate, Capacity: n.capacity, MaxReserved: n.maxReserved}
}

// of returns the policy of a limit with the numbers. Without any, it is the policy with the most that callers can give, or,
// if they are required, an error.
func (n numbers) of(p *runtime.Policy, required bool) (*runtime.Policy, error) {
	most := p.AtMost
	switch {
	case most == runtime.Numbers{} && n != numbers{}:
		return nil, usagef("callers give no numbers of %s: leave -rate, -capacity and -max-reserved out", p.Name)
	case n == numbers{} && !(required && most != runtime.Numbers{}):
		return p, nil
	}
	if n.capacity == 0 && most.Capacity > 0 && n.rate <= most.Capacity {
		n.capacity = n.rate // as in a file
	}
	p, key := n.by(p).For(p, runtime.Key{})
	err := key.Err()
	if err == nil && p.Inside().Zero() {
		err = fmt.Errorf("%w: one of them is 0", runtime.ErrInvalidNumbers)
	}
	if err != nil {
		return nil, usagef("%s depends on the numbers that callers give: %w: give those of the key as -rate, -capacity and -max-reserved", p.Name, err)
	}
	return p, nil
}

// Policies returns the policies by which to read a limit: the one of a plan, or with "" all of them.
func (p Program) Policies(l *runtime.CatalogLimit, plan string) ([]Planned, error) {
	var all []Planned
	for i, of := range l.Policies {
		n := Planned{Policy: of}
		if len(l.Policies) > 1 || len(p.Catalog.Plans) == 1 && of.Mode == runtime.ModeUnlimited {
			n.Plan = p.Catalog.Plans[i]
		}
		if plan == "" || plan == n.Plan {
			all = append(all, n)
		}
	}
	switch {
	case len(all) > 0:
		return all, nil
	case len(l.Policies) == 1:
		return nil, usagef("%s does not depend on the plan: leave -plan out", l.Name)
	}
	return nil, noPlan(plan, p.Catalog.Plans)
}

func noPlan(plan string, plans []string) error {
	return usagef("there is no plan %q%s; the plans are %s", plan, suggestion(plan, plans), strings.Join(plans, ", "))
}
