package explain

import (
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// List returns the limits of a file, one per row, and then the groups with their limits. program is how the reader starts
// ratelimitgen.
func List(file *spec.File, program string) (p Page) {
	// A line that is too long loses letters of the keys first, then of the rates. The names are cut last, because the
	// command below needs them.
	t := Table{Head: []string{"limit", "key", "kind", "rate", "at once"}, align: "llllr", cut: []int{1, 3, 0}}
	for _, l := range file.Limits {
		policy := &l.Policy
		for i, of := range l.Each() {
			rate, atOnce := unlimited, unlimited
			switch {
			case of.Zero():
				rate, atOnce = "0", "0"
			case of.CountsOnly():
				rate = unlimited + ", counted per " + fields.PeriodOf(&of.Policy)
			case !of.UnlimitedRate:
				rate = fields.AtMost(of.Policy.Rate, of.Policy.AtMost.Rate) + " per " + fields.PeriodOf(&of.Policy)
				if of.Policy.Hold > 0 {
					rate = "held for " + words.Duration(of.Policy.Hold)
				}
				atOnce = words.Number(of.Policy.Full())
				if of.Policy.AtMost.Unlimited {
					rate, atOnce = "by callers", unlimited
				}
			}
			row := []string{policy.Name, strings.Join(spec.PartNames(l.Key), ", "), policy.Kind.String(), rate, atOnce}
			if of.Plan != "" {
				if row[3] = of.Plan + ": " + rate; i > 0 {
					row[0], row[1], row[2] = "", "", ""
				}
			}
			t.Rows = append(t.Rows, row)
		}
	}
	p.table("", "", t)
	p.groups(file.Groups)
	p.add("", "For more about one limit, run "+program+" explain LIMIT.")
	return p
}
