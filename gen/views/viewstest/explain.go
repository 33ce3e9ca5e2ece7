package viewstest

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// Explain requires that a query for one key finds its rows by the primary key of the table, and its entries in the log by
// an index: in the plan that the database prints, no table is read by the name alone.
func Explain(t *testing.T, db *sql.DB, dialect sqlstore.Dialect, table string) {
	s := create(t, db, dialect, table, "")
	names := []string{"bucket", "split", "byPlan", "perKey", "splitWindow", "firstUse", "berlin", "splitDay", "sliding", "splitSliding", "log",
		"given", "givenShards", "givenPlan", "givenWindow", "givenMonth", "givenSliding", "givenLog"}
	for _, name := range names {
		var rows []string
		for i := range 2000 {
			rows = append(rows, fmt.Sprintf("('%s', '%d', 0, -1, 1800000000000000000, 0)", name, i))
		}
		s.exec("INSERT INTO " + table + " VALUES " + strings.Join(rows, ", "))
	}
	var entries []runtime.OverrideEntry
	for i := range 5000 {
		entries = append(entries, runtime.OverrideEntry{ID: int64(i + 1), Limit: names[i%len(names)], Key: fmt.Sprint(i), What: runtime.OverrideBlock,
			Until: runtime.ForGood, Reason: "r", Author: "a", At: time.Now()})
	}
	s.insert(entries)
	for _, table := range []string{table, s.overrides()} {
		s.exec(map[string]string{"sqlite": "ANALYZE", "postgres": "ANALYZE " + table, "mariadb": "ANALYZE TABLE " + table, "mysql": "ANALYZE TABLE " + table}[dialect.Name])
	}
	for _, name := range names {
		text, err := dialect.Text(fmt.Sprintf("SELECT * FROM {table} WHERE name = '%s' AND {key} = '42'", name), table+"_now")
		require.NoError(t, err)
		plan := s.plan(text)
		plan, whole := withoutLog(plan)
		assert.Empty(t, whole, "%s: all of the log of overrides is read", name)
		used, whole := accesses[dialect.Name](plan)
		assert.Positive(t, used, "%s: no access by name and key:\n%s", name, strings.Join(plan, "\n"))
		assert.Empty(t, whole, "%s: more than the rows of the key are read", name)
	}
}

// Clock requires that the present in the views is that of the database's clock, which must be the clock of this machine.
func Clock(t *testing.T, db *sql.DB, dialect sqlstore.Dialect, table string) {
	s := create(t, db, dialect, table, "")
	state := runtime.State{Value: -20, TS: time.Now().Add(-30 * time.Second).UnixNano(), Exists: true}
	s.exec(fmt.Sprintf("INSERT INTO %s VALUES ('bucket', 'k', 0, %s, %d, 0)", table, literal(state.Value), state.TS))
	left := func(at time.Time) float64 {
		_, d, err := Step(s.limits[0], []runtime.State{state}, at.UnixNano(), runtime.Request{Policy: s.limits[0], Key: "k", Op: runtime.Peek}, 0)
		require.NoError(t, err)
		return d.Value
	}
	// SQLite's clock has milliseconds.
	least := left(time.Now().Add(-2 * time.Millisecond))
	row := s.read()["bucket  k"]
	assert.GreaterOrEqual(t, row.left.Float64, least)
	assert.LessOrEqual(t, row.left.Float64, left(time.Now().Add(2*time.Millisecond)))
	assert.WithinDuration(t, time.Unix(0, state.TS).Add(2*time.Minute), row.full, s.resolution)
}

// plan returns the plan of a query, one line for each row that the database selects, its columns joined with "|".
func (s *suite) plan(query string) (lines []string) {
	explain := map[string]string{"sqlite": "EXPLAIN QUERY PLAN ", "postgres": "EXPLAIN ", "mariadb": "EXPLAIN ", "mysql": "EXPLAIN FORMAT=TRADITIONAL "}
	rows, err := s.db.QueryContext(context.Background(), explain[s.dialect.Name]+query)
	require.NoError(s.t, err)
	defer rows.Close()
	names, err := rows.Columns()
	require.NoError(s.t, err)
	for rows.Next() {
		columns, at := make([]sql.NullString, len(names)), make([]any, len(names))
		for i := range columns {
			at[i] = &columns[i]
		}
		require.NoError(s.t, rows.Scan(at...))
		line := ""
		for i, c := range columns {
			line += names[i] + "=" + c.String + "|"
		}
		lines = append(lines, line)
	}
	require.NoError(s.t, rows.Err())
	return lines
}

// onLog matches a line about the table of overrides, by its name or an alias, and ofAll one that reads all of a table.
var (
	onLog = regexp.MustCompile(`(SEARCH|SCAN) (kb|wb|ko|wo|o)\b|_overrides |\|table=(kb|wb|ko|wo|o)\|`)
	ofAll = regexp.MustCompile(`SCAN |Seq Scan|\|type=ALL\|`)
)

// withoutLog returns the lines of a plan that are not about the table of overrides, and those that read all of it.
func withoutLog(plan []string) (others, whole []string) {
	for _, line := range plan {
		switch {
		case !onLog.MatchString(line):
			others = append(others, line)
		case ofAll.MatchString(line):
			whole = append(whole, line)
		}
	}
	return others, whole
}

// accesses counts in a plan the accesses to the table by name and key, and returns all others.
var accesses = map[string]func(plan []string) (byKey int, others []string){
	"sqlite":   func(plan []string) (int, []string) { return sorted(plan, "PRIMARY KEY", "(name=? AND key=?") },
	"postgres": onPostgres,
	"mariadb":  onMySQL,
	"mysql":    onMySQL,
}

// sorted counts the lines with a text that have another one too, and returns those that do not.
func sorted(plan []string, with, must string) (n int, others []string) {
	for _, line := range plan {
		switch {
		case !strings.Contains(line, with):
		case strings.Contains(line, must):
			n++
		default:
			others = append(others, line)
		}
	}
	return n, others
}

func onPostgres(plan []string) (n int, others []string) {
	for i, line := range plan {
		switch {
		case strings.Contains(line, "Seq Scan"):
			others = append(others, line)
		case strings.Contains(line, "Index Scan") || strings.Contains(line, "Index Only Scan"):
			if cond := plan[i+1]; strings.Contains(cond, "(key = '42'") && strings.Contains(cond, "(name = '") {
				n++
			} else {
				others = append(others, line, cond)
			}
		}
	}
	return n, others
}

// onMySQL finds the table by its alias. The columns name and key have 257 bytes each in the primary key.
func onMySQL(plan []string) (n int, others []string) {
	for _, line := range plan {
		switch {
		case !strings.Contains(line, "|table=r|"):
		case strings.Contains(line, "|key=PRIMARY|key_len=514|") || strings.Contains(line, "|key=PRIMARY|key_len=518|"):
			n++
		default:
			others = append(others, line)
		}
	}
	return n, others
}
