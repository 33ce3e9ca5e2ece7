package main

import (
	"fmt"
	"os"
	"strings"
)

// The tables of a run stand between these lines in README.md.
const (
	tablesBegin = "<!-- tables -->\n"
	tablesEnd   = "<!-- /tables -->\n"
)

// withTables returns a text with the tables replaced that stand in it.
func withTables(text, tables string) (string, error) {
	before, rest, begins := strings.Cut(text, tablesBegin)
	_, after, ends := strings.Cut(rest, tablesEnd)
	if !begins || !ends {
		return "", fmt.Errorf("there is no line %q with a line %q after it",
			strings.TrimSpace(tablesBegin), strings.TrimSpace(tablesEnd))
	}
	return before + tablesBegin + tables + tablesEnd + after, nil
}

// writeTables replaces the tables in a file.
func writeTables(path, tables string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	replaced, err := withTables(string(text), tables)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(replaced), 0o644)
}
