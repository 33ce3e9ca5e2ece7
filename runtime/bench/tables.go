package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/dialect"
)

// markdown returns the report as Markdown tables.
func (r *report) markdown() string {
	var parts []string
	for _, part := range []string{r.Machine.String(), r.ratioTable(), r.cellTable(), r.tallyTable()} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "\n")
}

func (m machine) String() string {
	if m.Go == "" {
		return ""
	}
	lines := []string{fmt.Sprintf("%s on %s/%s, %s.", m.Go, m.OS, m.Arch, plural(m.CPUs, "CPU"))}
	for _, name := range slices.Sorted(maps.Keys(m.Servers)) {
		lines = append(lines, m.Servers[name]+".")
	}
	return strings.Join(lines, "\n") + "\n"
}

// cellTable is the results of every contender under every load.
func (r *report) cellTable() string {
	rows := [][]string{{"callers", "keys", "contender", "decisions/s", "p50", "p99", "failed", "own CPU, µs", "database CPU, µs"}}
	for _, c := range r.Cells {
		own, database := "", ""
		if c.HasCPU {
			own, database = micros(c.Own), micros(c.Server)
		}
		rows = append(rows, []string{
			digits(c.Callers), digits(c.Keys), c.Contender, digits(int(c.PerSecond)), brief(c.P50), brief(c.P99), percent(c.Failed),
			own, database,
		})
	}
	for _, name := range slices.Sorted(maps.Keys(r.NotRun)) {
		rows = append(rows, []string{"", "", name, "not run: " + r.NotRun[name], "", "", "", "", ""})
	}
	return markdownTable(rows)
}

func ratioText(figure float64) string { return strconv.FormatFloat(figure, 'f', 2, 64) }

func micros(seconds float64) string { return strconv.FormatFloat(seconds*1e6, 'f', 1, 64) }

// tallyTable is the counts of every contender.
func (r *report) tallyTable() string {
	rows := [][]string{{"contender", "round trips", "allocations"}}
	for _, c := range contenders {
		if t := r.Tallies[c.name]; t != nil {
			rows = append(rows, []string{c.name, count(t.Trips), count(t.Allocations)})
		}
	}
	return markdownTable(rows)
}

// ratioTable is the ratios that were measured.
func (r *report) ratioTable() string {
	rows := [][]string{{"ratio", "figure", "CPU, µs", "CPU of the other, µs"}}
	for _, q := range slices.Concat(ratios, sweepRatios()) {
		if ours, theirs, ok := q.of(r); ok {
			rows = append(rows, []string{q.String(), ratioText(q.figure(ours, theirs)), ours.cpu(), theirs.cpu()})
		}
	}
	return markdownTable(rows)
}

// cpu returns the processor time of a decision in microseconds, own and database's, or "" if it was not measured.
func (c *cell) cpu() string {
	if !c.HasCPU {
		return ""
	}
	return micros(c.Own) + " + " + micros(c.Server)
}

// markdownTable returns rows as a Markdown table whose head is the first row, or "" if there are no other rows.
func markdownTable(rows [][]string) string {
	if len(rows) == 1 {
		return ""
	}
	rows = slices.Insert(rows, 1, slices.Repeat([]string{"---"}, len(rows[0])))
	var b strings.Builder
	// Errors of drivers may have line breaks, and a pipe would begin another cell.
	escape := strings.NewReplacer("|", "\\|", "\n", " ")
	for _, row := range rows {
		b.WriteString("|")
		for _, field := range row {
			fmt.Fprintf(&b, " %s |", escape.Replace(field))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// digits returns a number with commas, as "1,000".
func digits(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func plural(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return digits(n) + " " + thing
}

// brief returns a duration with three significant digits.
func brief(d time.Duration) string {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}

// percent returns a fraction as a percentage, or "" for 0.
func percent(part float64) string {
	if part == 0 {
		return ""
	}
	return strconv.FormatFloat(100*part, 'f', 1, 64) + "%"
}

// count returns a count with up to two decimals, or "" for -1, which means not measured.
func count(n float64) string {
	if n == -1 {
		return ""
	}
	return strconv.FormatFloat(math.Round(n*100)/100, 'f', -1, 64)
}

// table is a table as the store creates it, with a *sql.DB of its own.
type table struct {
	db      *sql.DB
	dialect dialect.Dialect
	name    string
}

var dialects = map[server]dialect.Dialect{
	postgres: dialect.Postgres, mariadb: dialect.MariaDB, mysqlDB: dialect.MySQL,
}

func driverOf(of server) string {
	if of == postgres {
		return "pgx"
	}
	return "mysql"
}

// serverConns is how many connections a contender has to a database server. It is more than a machine with two
// processors can use, and more than group commit has batches in flight.
const serverConns = 16

// openTable creates a table with rows in the database of a server.
func (s *site) openTable(ctx context.Context, of server, l limit) (*table, error) {
	dsn, err := s.servers.dsn(of)
	if err != nil {
		return nil, err
	}
	t := &table{dialect: dialects[of], name: newTable()}
	if t.db, err = sql.Open(driverOf(of), dsn); err != nil {
		return nil, err
	}
	return t, t.setUp(ctx, l, s, s.connections(serverConns))
}

// openFile creates a table with rows in a new SQLite database, which has the settings of package sqlite.
func (s *site) openFile(ctx context.Context, path string, l limit) (t *table, err error) {
	options := url.Values{
		"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(NORMAL)", "wal_autocheckpoint(2048)", "journal_size_limit(16777216)"},
		"_txlock": {"immediate"},
	}
	t = &table{dialect: dialect.SQLite, name: dialect.DefaultTable}
	// Immediate transactions, because one that becomes a writer after a read fails with SQLITE_BUSY at once.
	if t.db, err = sql.Open("sqlite", "file:"+path+"?"+options.Encode()); err != nil {
		return nil, err
	}
	// SQLite has one writer. More connections would sleep in busy_timeout.
	return t, t.setUp(ctx, l, s, 1)
}

// setUp creates the table and its rows. If it fails, it drops the table and closes the database.
func (t *table) setUp(ctx context.Context, l limit, s *site, conns int) error {
	t.pool(conns)
	if err := withSetupTimeout(t.create); err != nil {
		return errors.Join(err, t.db.Close())
	}
	if err := t.fill(ctx, l, s); err != nil {
		t.drop()
		return err
	}
	return nil
}

func (t *table) pool(conns int) {
	t.db.SetMaxOpenConns(conns)
	// By default only 2 connections stay open while idle, and contenders would measure the opening of others.
	t.db.SetMaxIdleConns(conns)
}

func (t *table) create(ctx context.Context) error {
	text, err := t.dialect.DDL(t.name)
	if err != nil {
		return err
	}
	_, err = t.db.ExecContext(ctx, text)
	return err
}

// drop drops the table and closes the database. SQLite files are removed with their directory.
func (t *table) drop() {
	// Not with the context of the run: after Ctrl-C the table must still be dropped.
	err := withSetupTimeout(func(ctx context.Context) error {
		_, err := t.db.ExecContext(ctx, "DROP TABLE "+t.name)
		return err
	})
	if err := errors.Join(err, t.db.Close()); err != nil {
		logf("table %s was not dropped: %v", t.name, err)
	}
}

// An upsert begins with insertInto, and ends with setRow in Postgres and SQLite, or with setRowMySQL.
const (
	insertInto = "INSERT INTO {table} (name, {key}, shard, value, at_ns, prev) "
	setRow     = " ON CONFLICT (name, {key}, shard) DO UPDATE SET value = excluded.value, at_ns = excluded.at_ns, prev = excluded.prev"
	// MariaDB does not have the row alias that MySQL recommends instead of VALUES.
	setRowMySQL = " ON DUPLICATE KEY UPDATE value = VALUES(value), at_ns = VALUES(at_ns), prev = VALUES(prev)"
)

// prepareUpsert prepares the statement that inserts or updates one row. Its parameters are name, key, shard, value, ts and
// prev.
func (t *table) prepareUpsert() (*sql.Stmt, error) {
	const insert = insertInto + "VALUES (?, ?, ?, ?, ?, ?)"
	if t.dialect.Quote == "`" {
		return t.prepare(insert + setRowMySQL)
	}
	return t.prepare(insert + setRow)
}

// prepare prepares a statement whose parameters are written "?".
func (t *table) prepare(statement string) (*sql.Stmt, error) {
	text, err := t.dialect.Text(statement, t.name)
	if err != nil {
		return nil, err
	}
	if t.dialect.Numbered {
		text = numbered(text)
	}
	return t.db.Prepare(text)
}

// numbered replaces the parameters "?" by $1, $2 and so on.
func numbered(text string) string {
	parts := strings.Split(text, "?")
	for i := range parts[1:] {
		parts[i] += "$" + strconv.Itoa(i+1)
	}
	return strings.Join(parts, "")
}

// fill inserts full rows for the first keys of plenty. A key of another limit has its row from its first call.
func (t *table) fill(ctx context.Context, l limit, s *site) error {
	if l != plenty || s.rows == 0 {
		return nil
	}
	for _, text := range fillTexts(t.dialect.Name, s.rows) {
		text = strings.NewReplacer("{limit}", l.name, "{key}", t.dialect.Quote+"key"+t.dialect.Quote,
			"{table}", t.name, "{user}", keyPrefix, "{value}", strconv.Itoa(l.capacity),
			"{ts}", strconv.FormatInt(time.Now().Add(-s.age).UnixNano(), 10)).Replace(text)
		if _, err := t.db.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("fill a table: %w", err)
		}
	}
	return nil
}

// fillTexts returns the statements that insert rows in the order of their keys.
func fillTexts(dialect string, rows int) []string {
	const insert = insertInto
	switch dialect {
	case "postgres":
		return []string{
			insert + fmt.Sprintf(`SELECT '{limit}', '{user}' || lpad(CAST(n AS TEXT), 8, '0'), 0, {value}, {ts}, 0
				FROM generate_series(0, %d) n`, rows-1),
			// Otherwise autovacuum would run during the measurement.
			"VACUUM (ANALYZE) {table}",
		}
	case "sqlite":
		return []string{
			insert + fmt.Sprintf(`WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < %d)
				SELECT '{limit}', printf('{user}%%08d', n), 0, {value}, {ts}, 0 FROM numbers`, rows-1),
			// Otherwise the first measured commits would write the log of the fill to the database.
			"PRAGMA wal_checkpoint(TRUNCATE)",
		}
	}
	return []string{insert + fmt.Sprintf(`SELECT '{limit}', CONCAT('{user}', LPAD(n, 8, '0')), 0, {value}, {ts}, 0
		FROM (%s) numbers WHERE n < %d`, numbers(rows), rows)}
}

// numbers returns a query for the numbers n from 0 to at least rows - 1, for MySQL and MariaDB, which have no common
// function for it: a product of tables of ten digits.
func numbers(rows int) string {
	const digits = `SELECT 0 d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4
		UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9`
	n, from := "0", "(SELECT 0) none"
	for i, place := 0, 1; place < rows; i, place = i+1, place*10 {
		n += fmt.Sprintf(" + %d * t%d.d", place, i)
		from += fmt.Sprintf(", (%s) t%d", digits, i)
	}
	return fmt.Sprintf("SELECT %s n FROM %s", n, from)
}
