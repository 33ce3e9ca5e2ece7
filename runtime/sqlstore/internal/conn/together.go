package conn

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/dialect"
)

// MaxTogether is the most rows from which one statement takes all or none.
const MaxTogether = 8

// Together is the statements that take from several rows, from all or none of them. Each is parts in the order of the rows, of
// which the first runs if no other row denies, and each other one if the part before it has taken. So they lock rows in that
// order, as all statements do, and a denial locks none. Only if a row is taken from between the check and the lock does
// a part take that must not: then the statement fails, which undoes it.
type Together struct {
	part Query
	// sql[n] is that for n rows.
	sql [MaxTogether + 1]string
}

var numbered = regexp.MustCompile(`\$\d+`)

func newTogether(d dialect.Dialect, table string) (*Together, error) {
	if d.TakeTogether == "" {
		return nil, nil
	}
	// As one text, so that they have the same parameters.
	const between = "\x00"
	part, err := Compile(d, d.Denies+between+d.TakeTogether, RowSource{}, table)
	if err != nil {
		return nil, err
	}
	t := &Together{part: part}
	for n := 2; n <= MaxTogether; n++ {
		var parts, results, others []string
		for i := n - 1; i >= 0; i-- {
			own := numbered.ReplaceAllStringFunc(part.Sql, func(param string) string {
				number, _ := strconv.Atoi(param[1:])
				return "$" + strconv.Itoa(i*len(part.Params)+number)
			})
			denies, take, _ := strings.Cut(own, between)
			when, all := fmt.Sprintf("EXISTS (SELECT FROM t%d)", i-1), "true"
			if i == 0 {
				when = "NOT (" + strings.Join(others, " OR ") + ")"
				all = fmt.Sprintf("CASE WHEN EXISTS (SELECT FROM t%d) THEN true ELSE %s END", n-1, d.Undone)
			}
			others = append(others, strings.TrimSpace(denies))
			parts = append([]string{fmt.Sprintf("t%d AS (%s)", i, strings.Replace(take, "{when}", when, 1))}, parts...)
			results = append(results, fmt.Sprintf("SELECT %d, value, at_ns, prev, %s FROM t%d", i, all, i))
		}
		t.sql[n] = d.ReadHint + "WITH " + strings.Join(parts, ", ") + "\n" + strings.Join(results, " UNION ALL ")
	}
	return t, nil
}

// Query runs the statement for rows with these values. It selects the place, value, at_ns, prev and true of each of them, or nothing.
func (t *Together) Query(ctx context.Context, x *Executor, rows []*Values) (*sql.Rows, error) {
	args := make([]any, 0, len(rows)*len(t.part.Params))
	for _, v := range rows {
		args = append(args, v.Args(&t.part)...)
	}
	return x.DB.QueryContext(ctx, t.sql[len(rows)], args...)
}
