package main

import (
	"database/sql"
	"strconv"
	"strings"
)

// prepareUpsert prepares the statement that inserts or updates one row; its parameters are name, key, shard,
// value, ts and prev.
func (t *table) prepareUpsert() (*sql.Stmt, error) {
	const insert = "INSERT INTO {table} (name, {key}, shard, value, ts, prev) VALUES (?, ?, ?, ?, ?, ?) "
	if t.dialect.Quote == "`" {
		return t.prepare(insert + "ON DUPLICATE KEY UPDATE value = VALUES(value), ts = VALUES(ts), prev = VALUES(prev)")
	}
	return t.prepare(insert + `ON CONFLICT (name, {key}, shard)
		DO UPDATE SET value = excluded.value, ts = excluded.ts, prev = excluded.prev`)
}

// prepare prepares a statement for the table, whose parameters are written "?".
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

// numbered returns a statement with its parameters written $1, $2 and so on.
func numbered(text string) string {
	parts := strings.Split(text, "?")
	for i := range parts[1:] {
		parts[i] += "$" + strconv.Itoa(i+1)
	}
	return strings.Join(parts, "")
}
