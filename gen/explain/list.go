package explain

import (
	"fmt"
	"io"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// WriteList prints the limits of a file, one per line, and then the groups with their limits. It returns the error of w.
func WriteList(w io.Writer, file *spec.File, color bool) error {
	p := newPage(color)
	rows := [][]string{{"limit", "key", "kind", "rate", "at once"}}
	for _, l := range file.Limits {
		policy := &l.Policy
		for i, of := range l.Each() {
			rate, atOnce := unlimited, unlimited
			if !of.Unlimited() {
				rate = words.Number(of.Policy.Rate) + " per " + fields.PeriodOf(&of.Policy)
				atOnce = words.Number(of.Policy.Capacity)
			}
			row := []string{policy.Name, strings.Join(keyNames(l), ", "), policy.Kind.String(), rate, atOnce}
			if of.Plan != "" {
				if row[3] = of.Plan + ": " + rate; i > 0 {
					row[0], row[1], row[2] = "", "", ""
				}
			}
			rows = append(rows, row)
		}
	}
	// A line that is too long loses letters of the keys first, then of the rates. The names are cut last, because the
	// command below needs them.
	head, list, _ := strings.Cut(cells.Table(rows, "llllr", "", 1, 3, 0), "\n")
	fmt.Fprintf(p, "%s%s%s\n%s", p.ink.Bold, head, p.ink.Off, list)
	p.groups(file.Groups)
	p.WriteString("\nFor more about one limit, run ratelimitgen explain LIMIT.\n")
	return p.writeTo(w)
}
