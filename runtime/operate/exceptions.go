package operate

import (
	"fmt"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// Exception says what limits.yaml gives a key of a limit in place of its numbers, and why; "" for a key without an
// exception.
func (p Program) Exception(l *runtime.CatalogLimit, key runtime.Key) string {
	x, ok := l.Exception(key)
	if !ok {
		return ""
	}
	var gives []string
	add := func(name string, n int64) {
		if n > 0 {
			gives = append(gives, fmt.Sprintf("%s %d", name, n))
		}
	}
	if 0 < x.Plan && x.Plan <= len(p.Catalog.Plans) {
		gives = append(gives, "plan "+p.Catalog.Plans[x.Plan-1])
	}
	if x.Mode != runtime.ModeEnforce {
		gives = append(gives, "mode "+x.Mode.String())
	}
	if x.Numbers.Unlimited {
		gives = append(gives, "rate unlimited")
	}
	add("rate", x.Numbers.Rate)
	add("capacity", x.Numbers.Full())
	add("maxReserved", x.Numbers.MaxReserved)
	return strings.Join(gives, ", ") + ": " + printable.Line(x.Reason)
}
