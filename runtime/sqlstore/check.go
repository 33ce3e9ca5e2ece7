package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// check returns an error that says how the table differs from what the store needs, if it does. Some of
// that would break counts without a word: without a primary key, a database may keep two rows of one key.
func (s *Store) check(ctx context.Context, db querier) error {
	if s.describe == "" {
		return nil
	}
	// First, for in some sessions the table cannot be described.
	if err := s.checkSession(ctx, db); err != nil {
		return err
	}
	found, err := describe(ctx, db, s.describe)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return &advised{s.say(unseenTable), errUnseen}
	}
	if all := differences(s.dialect.Parts, found); len(all) > 0 {
		return &advised{s.say(otherTable) + ": " + strings.Join(all, "; "), nil}
	}
	s.checked.Store(true)
	return nil
}

// checkSession returns an error that says which settings of the session are not what the store needs, if any
// is: one that does not commit what a statement has written, for example, would lose it.
func (s *Store) checkSession(ctx context.Context, db querier) error {
	if s.dialect.Session == "" {
		return nil
	}
	found, err := describe(ctx, db, s.dialect.Session)
	if err != nil {
		return err
	}
	all := differences(s.dialect.Needs, found)
	if len(all) == 0 {
		return nil
	}
	do := otherSession
	if strings.HasPrefix(all[0], "server_encoding ") {
		do = s.say(otherEncoding)
	}
	return &advised{do + ": " + strings.Join(all, "; "), nil}
}

// blameTable returns what the database itself says about a table that check has not seen, which is more precise: the
// table is missing, or a privilege is.
func (s *Store) blameTable(ctx context.Context, p *prepared, err error) error {
	if !errors.Is(err, errUnseen) {
		return err
	}
	look := s.single(ctx, p, func(in session) error {
		rows := []runtime.Row{{Shard: -1}}
		return newRowLock(in, rows, runtime.DurabilityDefault).read(ctx, lookRows, rows)
	})
	if look != nil && remedy(look) != "" {
		return look
	}
	return err
}

// errUnseen is in the error of check if it has not seen the table.
var errUnseen = errors.New("the table is not visible")

// What to do about a table that cannot be used. See [trouble] for the placeholders.
const (
	noTable     = `there is no table {table}: call Migrate, or run what "ratelimitgen sql {flags}" prints`
	noTableInTx = `there is no table {table} where the transaction was begun: begin it in the database that holds the counts, ` +
		`or create the table there: call Migrate, or run what "ratelimitgen sql {flags}" prints`
	// Some databases do not show a table to a user who may do nothing with it.
	unseenTable  = `there is no table {table}, or no right to see it: call Migrate, or run what "ratelimitgen sql {flags}" prints`
	otherSession = `change the settings of the connections, in the data source name or in the server`
	// An encoding can only be chosen for a new database.
	otherEncoding = `keep table {table} in a database whose encoding is UTF8, such as "CREATE DATABASE ... ENCODING 'UTF8' ` +
		`TEMPLATE template0" makes`
	otherTable = `change table {table} to what "ratelimitgen sql {flags}" prints`
)

// describe returns the parts of a table.
func describe(ctx context.Context, db querier, query string) (map[string]string, error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := map[string]string{}
	for rows.Next() {
		var name, what string
		if err := rows.Scan(&name, &what); err != nil {
			return nil, err
		}
		found[name] = what
	}
	return found, rows.Err()
}

// differences says what is missing from the parts that were found, or not what it must be.
func differences(parts string, found map[string]string) (all []string) {
	for line := range strings.Lines(strings.TrimSpace(parts)) {
		name, kinds, _ := strings.Cut(strings.TrimSpace(line), ": ")
		allowed := strings.Split(kinds, " | ")
		switch what, ok := found[name]; {
		case !ok:
			all = append(all, fmt.Sprintf("%s is missing", name))
		case !slices.Contains(allowed, what):
			all = append(all, fmt.Sprintf("%s is %q instead of %q", name, what, allowed[0]))
		}
	}
	return all
}
