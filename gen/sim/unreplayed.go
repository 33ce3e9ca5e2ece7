package sim

import (
	"fmt"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// unreplayed names what a policy has that no replay shows, since it depends on processes: "lease of 5 for 200ms
// and denyCache of 1s"; "" if it has nothing of it.
func unreplayed(p *runtime.Policy) string {
	var list []string
	if p.Lease != (runtime.Lease{}) {
		list = append(list, fmt.Sprintf("lease of %s for %s", grouped(p.Lease.Tokens), length(p.Lease.For)))
	}
	if p.DenyCache > 0 {
		list = append(list, "denyCache of "+length(p.DenyCache))
	}
	return strings.Join(list, " and ")
}

// inProduction says what comes of the settings that are named.
func inProduction(settings string) (sentences string) {
	if strings.Contains(settings, "lease") {
		sentences += " In production, tokens that one process has leased are denied to the others until it gives them back."
	}
	if strings.Contains(settings, "denyCache") {
		sentences += " In production, a denial may be repeated from memory for as long as denyCache."
	}
	return sentences
}

// caveat says what of a limit is not replayed; "" if all is.
func (l *replayed) caveat() string {
	if of := unreplayed(l.Policy); of != "" {
		return "Not replayed: " + of + "." + inProduction(of)
	}
	return ""
}

// caveat says what of either side is not replayed; "" if all is.
func (c *compared) caveat() string {
	old, new := "", ""
	if c.old != nil {
		old = unreplayed(c.old.Policy)
	}
	if c.new != nil {
		new = unreplayed(c.new.Policy)
	}
	switch {
	case old == "" && new == "":
		return ""
	case old == new:
		return "Not replayed, before and after: " + new + "." + inProduction(new)
	}
	return "Not replayed: before " + orNothing(old) + ", after " + orNothing(new) + "." + inProduction(old+new)
}

func orNothing(text string) string {
	if text == "" {
		return "neither lease nor denyCache"
	}
	return text
}

// same reports whether nothing is known to change: neither an answer nor what is not replayed.
func (c *compared) same() bool {
	return c.old != nil && c.new != nil && c.changed() == 0 && c.old.longest == c.new.longest &&
		unreplayed(c.old.Policy) == unreplayed(c.new.Policy)
}
