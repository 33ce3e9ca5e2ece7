package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

const unlimited = "unlimited"

// rules prints the rule or, if there are plans, the rule of each and what all of them have in common.
func (p *page) rules(d *spec.Description) {
	if len(d.Plans) == 0 {
		p.paragraph("rule", strings.Join(d.Lines(), " "))
		return
	}
	p.planRules("plan ", d)
	if len(d.Sentences) > 0 {
		p.paragraph("all plans", strings.Join(d.Sentences, " "))
	}
}

// planRules prints the rule of each plan, after a label and the name of the plan.
func (p *page) planRules(label string, d *spec.Description) {
	for _, of := range d.Plans {
		p.paragraph(label+of.Plan, strings.Join(of.Lines(), " "))
	}
}

// byPlan prints a paragraph on the policy of each limited plan, or one if they are the same for all.
func (p *page) byPlan(label string, l *spec.Limit, describe func(*runtime.Policy) string) {
	var labels, texts []string
	for _, of := range l.Each() {
		if !of.Unlimited() {
			labels, texts = append(labels, label+", plan "+of.Plan), append(texts, describe(&of.Policy))
		}
	}
	if len(slices.Compact(slices.Clone(texts))) == 1 {
		labels, texts = []string{label}, texts[:1]
	}
	for i := range texts {
		if texts[i] == "" {
			continue
		}
		p.paragraph(labels[i], texts[i])
	}
}

// widest is how many plans a table of numbers has side by side.
const widest = 4

// numbersByPlan prints the numbers of the plans in columns.
func (p *page) numbersByPlan(l *spec.Limit) {
	fmt.Fprintf(p, "  %sat most, for %s:%s\n", p.ink.Bold, words.Holder(keyNames(l)), p.ink.Off)
	for plans := range slices.Chunk(l.Plans, widest) {
		p.WriteString(planTable(plans))
	}
}

// planTable has a column for each plan, and a row for each number that one of them has.
func planTable(plans []*spec.Limit) string {
	head := []string{""}
	var names []string
	values := make([]map[string]string, len(plans))
	for i, of := range plans {
		head, values[i] = append(head, of.Plan), map[string]string{}
		at := 0
		for _, n := range planNumbers(of) {
			name := n.name
			if n.when != "" { // remarks would leave no room for the columns
				name += ", " + n.when
			}
			values[i][name] = n.value
			// A number that the plans before do not have follows the one before it.
			if known := slices.Index(names, name); known >= 0 {
				at = known + 1
			} else {
				names = slices.Insert(names, at, name)
				at++
			}
		}
	}
	rows := [][]string{head}
	for _, name := range names {
		row := []string{name}
		for i := range plans {
			row = append(row, values[i][name])
		}
		rows = append(rows, row)
	}
	return cells.Table(rows, "l"+strings.Repeat("r", len(plans)), indent, 0)
}

func planNumbers(of *spec.Limit) []number {
	if of.UnlimitedRate {
		return []number{{"at once", unbounded, "", ""}}
	}
	return numbersOf(&of.Policy)
}
