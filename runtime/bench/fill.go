package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// fill gives the table the rows of the first keys of a limit, each full, by a statement of the database's
// own. What is exhausted has none: it begins with the first call.
func (t *table) fill(ctx context.Context, l limit, rows int) error {
	if l != plenty || rows == 0 {
		return nil
	}
	for _, text := range fillTexts(t.dialect.Name, rows) {
		text = strings.NewReplacer("{limit}", l.name, "{key}", t.dialect.Quote+"key"+t.dialect.Quote,
			"{table}", t.name, "{user}", keyPrefix, "{value}", strconv.Itoa(l.capacity),
			"{ts}", strconv.FormatInt(time.Now().UnixNano(), 10)).Replace(text)
		if _, err := t.db.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("fill a table: %w", err)
		}
	}
	return nil
}

// fillTexts returns the statements that insert rows, in the order of their keys.
func fillTexts(dialect string, rows int) []string {
	const insert = "INSERT INTO {table} (name, {key}, shard, value, ts, prev) "
	switch dialect {
	case "postgres":
		return []string{
			insert + fmt.Sprintf(`SELECT '{limit}', '{user}' || lpad(CAST(n AS TEXT), 8, '0'), 0, {value}, {ts}, 0
				FROM generate_series(0, %d) n`, rows-1),
			"VACUUM (ANALYZE) {table}",
		}
	case "sqlite":
		return []string{
			insert + fmt.Sprintf(`WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < %d)
				SELECT '{limit}', printf('{user}%%08d', n), 0, {value}, {ts}, 0 FROM numbers`, rows-1),
			"PRAGMA wal_checkpoint(TRUNCATE)",
		}
	}
	return []string{insert + fmt.Sprintf(`SELECT '{limit}', CONCAT('{user}', LPAD(n, 8, '0')), 0, {value}, {ts}, 0
		FROM (%s) numbers WHERE n < %d`, numbers(rows), rows)}
}

// numbers returns a query for the numbers n from 0 to at least rows - 1, for a database that has no
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
