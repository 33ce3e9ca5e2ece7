package views

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// A block or an override is an entry of a log. Four can be in force for a key: the newest about blocks and the newest about
// overrides, each of the key and of the whole limit. The index on name, key and id finds them. See [runtime.Override] for
// their order.

// limit is a policy, with those of all plans, which an override can give to its keys.
type limit struct {
	*runtime.Policy
	plans []*spec.Limit
}

// overridden adds the block or override in force for the key of each row, NULL without one, and the numbers that follow from
// it: whole_rate, whole_capacity and whole_debt, and whole_period if that of the plans differs. lifted is 1 if the key is not
// limited.
func (w words) overridden(p limit, below string) string {
	if !p.Overridable() {
		return below
	}
	columns := []string{
		p.inForce("rate", func(q *runtime.Policy) (own, most int64) { return q.Rate, q.Overrides.Rate }) + " AS whole_rate",
		p.inForce("capacity", func(q *runtime.Policy) (own, most int64) { return q.Capacity, q.Overrides.Capacity }) + " AS whole_capacity",
		p.inForce("max_reserved", func(q *runtime.Policy) (own, most int64) { return q.MaxReserved, q.Overrides.MaxReserved }) + " AS whole_debt",
		p.lifted() + " AS lifted",
	}
	if p.periodsDiffer() {
		period := func(q *runtime.Policy) string { return strconv.FormatInt(int64(q.Period), 10) }
		columns = append(columns, "CASE"+p.ofPlans(period)+" ELSE "+period(p.Policy)+" END AS whole_period")
	}
	return level(entries(p, below), w.once("rows_3", columns...)...)
}

// entries adds the entry in force for the key of each row: its effect, plan and numbers. The level below has the present.
func entries(p limit, below string) string {
	join := func(alias, key, about, does string) string {
		return fmt.Sprintf("LEFT JOIN {overrides} %s ON %[1]s.id = (SELECT MAX(o.id) FROM {overrides} o\n"+
			"\t\t\tWHERE o.name = '%s' AND o.{key} = %s AND o.what %s)\n\t\tAND %[1]s.what %[5]s AND %[1]s.until_ns > r.present", alias, p.Name, key, about, does)
	}
	const blocks, others = "IN ('block', 'unblock', 'none')", "NOT IN ('block', 'unblock', 'granted', 'taken', 'reset')"
	columns := []string{"CASE WHEN kb.id IS NOT NULL OR wb.id IS NOT NULL THEN 'block' ELSE COALESCE(ko.what, wo.what) END AS what"}
	for _, name := range []string{"plan", "rate", "capacity", "max_reserved"} {
		columns = append(columns, fmt.Sprintf("COALESCE(ko.%[1]s, wo.%[1]s) AS given_%[1]s", name))
	}
	return fmt.Sprintf("(\n\tSELECT r.*, %s\n\tFROM %s r\n\t%s\n\t%s\n\t%s\n\t%s\n)", strings.Join(columns, ",\n\t\t"), indented(below),
		join("kb", "r.{key}", blocks, "= 'block'"), join("wb", "''", blocks, "= 'block'"),
		join("ko", "r.{key}", others, "<> 'none'"), join("wo", "''", others, "<> 'none'"))
}

// inForce is a number in force. The function of returns that of a policy, and the most that an override can make of it.
func (p limit) inForce(column string, of func(*runtime.Policy) (own, most int64)) string {
	number := func(q *runtime.Policy) string {
		own, most := of(q)
		given := "r.given_" + column
		switch {
		case own == 0 || q.Mode == runtime.ModeUnlimited:
			return strconv.FormatInt(own, 10)
		case column == "capacity" && !q.Kind.Linear():
			given = "r.given_rate"
		case column == "capacity" && q.Capacity == q.Rate:
			given = "CASE WHEN r.given_capacity = 0 THEN r.given_rate ELSE r.given_capacity END"
		}
		return fmt.Sprintf("CASE WHEN %s = 0 THEN %d ELSE LEAST(GREATEST(%[1]s, %[3]d), %[4]d) END", given, own, max(1, q.Shards), most)
	}
	own, _ := of(p.Policy)
	return fmt.Sprintf("CASE WHEN r.what = 'numbers' THEN %s%s ELSE %d END", number(p.Policy), p.ofPlans(number), own)
}

// ofPlans are the cases of the plans that an override can give.
func (p limit) ofPlans(number func(*runtime.Policy) string) (cases string) {
	for _, of := range p.plans {
		cases += fmt.Sprintf("\n\t\t\tWHEN r.what = 'plan' AND r.given_plan = '%s' THEN %s", of.Plan, number(&of.Policy))
	}
	return cases
}

// lifted is 1 if the entry in force lifts the limit.
func (p limit) lifted() string {
	cases := ""
	if p.Overrides.Unlimited {
		cases = " WHEN r.what IN ('unlimited', 'off') THEN 1"
	}
	for _, of := range p.plans {
		if of.Unlimited() {
			cases += fmt.Sprintf(" WHEN r.what = 'plan' AND r.given_plan = '%s' THEN 1", of.Plan)
		}
	}
	if cases == "" {
		return "0"
	}
	return "CASE" + cases + " ELSE 0 END"
}

// periodsDiffer reports whether an override can give another period, with a plan.
func (p limit) periodsDiffer() bool {
	for _, of := range p.plans {
		if p.Overridable() && !of.Unlimited() && of.Policy.Period != p.Period {
			return true
		}
	}
	return false
}

// unlessLifted is an expression, or NULL for a key that is not limited.
func (p limit) unlessLifted(expression string) string {
	if !p.Overridable() {
		return expression
	}
	return "CASE WHEN r.lifted = 0 THEN " + expression + " END"
}

// whole is a number of the whole limit: a literal, or the column of overridden.
func (p limit) whole(column string, own int64) string {
	if p.Overridable() {
		return "r.whole_" + column
	}
	return strconv.FormatInt(own, 10)
}
