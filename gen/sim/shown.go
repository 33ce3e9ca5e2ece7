package sim

import (
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
	"github.com/ratelimitgen/ratelimitgen/gen/printable"
)

// shown returns a text as a terminal can show it in at most width cells: what cannot be seen, or would move
// the cursor or reorder the line, is written as an escape, and what is too long is cut.
func shown(text string, width int) string {
	var out strings.Builder
	used, cut := 0, 0
	for sign := range printable.Signs(text) {
		out.WriteString(sign)
		used += cells.Of(sign)
		switch {
		case used < width:
			cut = out.Len()
		case used > width:
			return out.String()[:cut] + "…"
		}
	}
	return out.String()
}

// padded returns a text with spaces after it, to fill width cells.
func padded(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-cells.Of(text)))
}
