package main

import "fmt"

// ratio is an aim: how many times as many decisions ours must make as theirs, under one load.
type ratio struct {
	ours, theirs  string
	callers, keys int
	atLeast       float64
}

// ratios are the aims. Both sides of each run in one heat.
var ratios = []ratio{
	{oursSQLite, redisRate, 64, 1000, 4},
	{oursSQLite, redisRate, 512, 1, 30},
	{oursPostgres, redisRate, 512, 10_000, 3},
	{oursPostgres, naivePostgres, 64, 1, 40},
	{oursSQLite, floorSQLite, 1, 1000, 0.9},
	{oursPostgres, floorPostgres, 1, 1000, 0.9},
	{oursMariaDB, floorMariaDB, 1, 1000, 0.9},
	{oursMySQL, floorMySQL, 1, 1000, 0.9},
	{oursLeased, xTimeRate, 1, 1000, 0.5},
	{oursLeased, xTimeRate, 64, 1000, 0.5},
}

func (q ratio) String() string {
	return fmt.Sprintf("%s against %s, %s", q.ours, q.theirs, under(q.callers, q.keys))
}

// under names a load.
func under(callers, keys int) string {
	return fmt.Sprintf("%s, %s", plural(callers, "caller"), plural(keys, "key"))
}

// judge returns the verdict on a ratio. It is the median of the ratios of the turns: in each turn, both
// sides have run one soon after the other.
func (q ratio) judge(r *report) verdict {
	v := verdict{What: q.String(), Aim: fmt.Sprintf("at least %g", q.atLeast)}
	ours, theirs := r.cell(q.ours, q.callers, q.keys), r.cell(q.theirs, q.callers, q.keys)
	switch {
	case ours == nil:
		return v.notRun(r.whyNot(q.ours))
	case theirs == nil:
		return v.notRun(r.whyNot(q.theirs))
	}
	figure := median(quotients(ours.Turns, theirs.Turns))
	return v.is(figure, figure >= q.atLeast)
}

// quotients divides the values of a by those of b, one by one.
func quotients(a, b []float64) (q []float64) {
	for i := range min(len(a), len(b)) {
		q = append(q, a[i]/b[i])
	}
	return q
}
