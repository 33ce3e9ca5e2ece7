package conn

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
)

// MaxTogether is the most parts of one statement that takes from all rows or none.
const MaxTogether = 8

// Together is the statements that take from all rows or none. Each is parts in the order of the rows. None of them runs if a
// row denies, so that a denial locks no row and is no error; and each but the first runs if the part before it has taken
// from all of its rows, so that they lock rows in that order, as all statements do. Only if tokens are taken between the
// check and the lock does a part take that must not: then the statement fails, which undoes it.
type Together struct {
	parts [arityCount]Query
	// sql[arity][n] is that of n parts.
	sql [arityCount][MaxTogether + 1]string
}

var numbered = regexp.MustCompile(`\$\d+`)

func newTogether(d dialect.Dialect, schema, table string, sources [arityCount]RowSource) (*Together, error) {
	if d.TakeTogether == "" {
		return nil, nil
	}
	t := &Together{}
	for arity, source := range sources {
		// As one text, so that they have the same parameters.
		part, err := Compile(d, d.TakeTogether+between+"CAST(:count AS bigint)"+between+d.Denies, source, schema, table)
		if err != nil {
			return nil, err
		}
		t.parts[arity] = part
		for n := 1; n <= MaxTogether; n++ {
			t.sql[arity][n] = d.ReadHint + join(&part, n, Arity(arity), d.Undone)
		}
	}
	return t, nil
}

const between = "\x00"

// join returns the statement of n parts. A first part of one row that denies takes nothing by itself.
func join(part *Query, n int, arity Arity, undone string) string {
	var parts, results []string
	when, denies := make([]string, n+1), "false"
	for i := range n {
		own := strings.Split(numbered.ReplaceAllStringFunc(part.Text, func(param string) string {
			number, _ := strconv.Atoi(param[1:])
			return "$" + strconv.Itoa(i*len(part.Params)+number)
		}), between)
		if i > 0 || arity != OneRow {
			denies += " OR " + strings.TrimSpace(own[2])
		}
		when[i+1] = fmt.Sprintf("(SELECT count(*) FROM t%d) = %s", i, own[1])
		parts = append(parts, fmt.Sprintf("t%d AS (%s)", i, strings.TrimSpace(own[0])))
	}
	when[0] = "NOT (" + denies + ")"
	for i := range n {
		parts[i] = strings.Replace(parts[i], "{when}", when[i], 1)
		results = append(results, fmt.Sprintf("SELECT %d, k, value, at_ns, prev, CASE WHEN %s THEN true ELSE %s END FROM t%d", i,
			when[n], undone, i))
	}
	return "WITH " + strings.Join(parts, ", ") + "\n" + strings.Join(results, " UNION ALL ")
}

// Query runs the statement for parts with these values. It selects the number of the part, key, value, at_ns, prev and true
// of each row, or nothing.
func (t *Together) Query(ctx context.Context, db *sql.DB, arity Arity, parts []*Values) (*sql.Rows, error) {
	of := &t.parts[arity]
	args := make([]any, 0, len(parts)*len(of.Params))
	for _, v := range parts {
		args = append(args, v.Args(of)...)
	}
	return db.QueryContext(ctx, t.sql[arity][len(parts)], args...)
}
