package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// createTable runs a CREATE TABLE IF NOT EXISTS, unless the table that a statement describes exists: the app's user may not
// have the right to create one.
func (s *server) createTable(ctx context.Context, create, describes string) error {
	tries := 0
	return retry(ctx, func() error {
		// First, because an unsuitable database is easier to replace before it has the table.
		if err := s.checkSession(ctx, s.db); err != nil {
			return err
		}
		if describes != "" {
			if found, err := describe(ctx, s.db, describes); err != nil || len(found) > 0 {
				return err
			}
		}
		_, err := s.db.ExecContext(ctx, create)
		if tries++; tries < 10 && createdMeanwhile(err) {
			// The next attempt finds the table of the other process.
			return &RetryTxError{err}
		}
		return err
	})
}

// check compares the session and the table with the dialect's requirements. Some differences would corrupt counts
// without an error: without a primary key, a database may keep two rows for one key.
func (s *server) check(ctx context.Context, db querier) error {
	if s.dialect.Describe == "" {
		return nil
	}
	// First, because in some sessions the table cannot be described.
	if err := s.checkSession(ctx, db); err != nil {
		return err
	}
	found, err := describe(ctx, db, s.dialect.Describe)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return &hintedError{s.fillIn(invisibleTable), errInvisibleTable}
	}
	if all := differences(s.dialect.Parts, found); len(all) > 0 {
		return &hintedError{s.fillIn(wrongTable) + ": " + strings.Join(all, "; "), nil}
	}
	s.checked.Store(true)
	return nil
}

// checkSession compares the settings of the session with the dialect's requirements. A session without autocommit, for
// example, would lose every statement outside of a transaction.
func (s *server) checkSession(ctx context.Context, db querier) error {
	if s.dialect.Session == "" {
		return nil
	}
	found, err := describe(ctx, db, s.dialect.Session)
	if err != nil {
		return s.explainServer(err)
	}
	all := differences(s.dialect.SessionNeeds, found)
	if len(all) == 0 {
		return nil
	}
	hint := wrongSession
	// SessionNeeds has the encoding first, because it cannot be changed by the settings of a connection.
	if strings.HasPrefix(all[0], "server_encoding ") {
		hint = s.fillIn(wrongEncoding)
	}
	return &hintedError{hint + ": " + strings.Join(all, "; "), nil}
}

// errInvisibleTable is wrapped by the error of check if the database does not list the table.
var errInvisibleTable = errors.New("the table is not visible")

// describe returns the names and descriptions that a query selects.
func describe(ctx context.Context, db querier, query string) (map[string]string, error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := map[string]string{}
	for rows.Next() {
		var name, description string
		if err := rows.Scan(&name, &description); err != nil {
			return nil, err
		}
		found[name] = description
	}
	return found, rows.Err()
}

// differences compares found with the required parts, in the form of [Dialect.Parts].
func differences(required string, found map[string]string) (all []string) {
	for line := range strings.Lines(strings.TrimSpace(required)) {
		name, kinds, _ := strings.Cut(strings.TrimSpace(line), ": ")
		allowed := strings.Split(kinds, " | ")
		switch kind, ok := found[name]; {
		case !ok:
			all = append(all, fmt.Sprintf("%s is missing", name))
		case !slices.Contains(allowed, kind):
			all = append(all, fmt.Sprintf("%s is %q instead of %q", name, kind, allowed[0]))
		}
	}
	return all
}
