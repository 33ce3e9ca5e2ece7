package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Migrate creates the table if it does not exist. With policies, which should be the generated Policies, it also creates the
// table of overrides. That is the log of package operate too, without which an operator can change no count, so that it is
// created even if none of the policies has overrides. Several processes may do so at once. If the tables exist, Migrate
// needs no right to create them.
func (s *Store) Migrate(ctx context.Context, policies ...*runtime.Policy) error {
	_, err := maintain(ctx, s, func(ctx context.Context) (any, error) {
		create, err := s.dialect.DDL(s.table)
		if err != nil {
			return nil, err
		}
		return nil, s.createTable(ctx, create, s.dialect.Describe)
	})
	if err != nil && s.usable() == nil {
		return fmt.Errorf("create table %q: %w", s.table, err)
	}
	// A dialect of a caller may lack the table.
	needed := slices.ContainsFunc(policies, (*runtime.Policy).Overridable)
	if err != nil || len(policies) == 0 || s.overrides.err != nil && !needed {
		return err
	}
	_, err = maintain(ctx, s, func(ctx context.Context) (any, error) { return nil, s.createOverrides(ctx) })
	return err
}

// createTable runs a CREATE TABLE IF NOT EXISTS, unless the table that a statement describes exists: the app's user may not
// have the right to create one.
func (s *Store) createTable(ctx context.Context, create, describes string) error {
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

// Ready returns nil if the store can decide calls: the table exists, meets the dialect's requirements, and can be read and
// written. It changes nothing. Call it when the program starts, so that a missing table or privilege is known before
// the first request.
//
// If one of the policies has overrides, or such a limit is in use, it also checks and reads the table of overrides, checks the
// right to add to it, and the error names the overrides in force that this program does not understand: pass the generated Policies. Overrides of limits
// that are not among the policies are no error, because the limit may have been removed from limits.yaml or belong to
// another program; nor are numbers that are larger than limits.yaml allows by now, which are reduced to that.
//
// The error names the problem, such as a column of another type, a missing privilege or a server that
// is a replica, and the remedy. On a Galera cluster, it is also about nodes whose clocks differ, as far as 10,000
// rows show that: a row that another node has written, or this one before its clock was set back.
func (s *Store) Ready(ctx context.Context, policies ...*runtime.Policy) error {
	_, err := maintain(ctx, s, func(ctx context.Context) (any, error) {
		return nil, s.withRoom(ctx, func() error { return retry(ctx, func() error { return s.checkSetup(ctx) }) })
	})
	if err != nil || !s.usesOverrides(policies) {
		return err
	}
	_, err = maintain(ctx, s, func(ctx context.Context) (any, error) { return nil, s.checkOverrides(ctx, policies) })
	return err
}

// checkSetup checks the table, a cluster's clocks, a dry run of a call, and poolers.
func (s *Store) checkSetup(ctx context.Context) error {
	x, err := s.prepareNow(ctx)
	if err != nil {
		return err
	}
	// Again, because prepareNow checks the table only once in the store's life.
	if err := s.check(ctx, s.db); err != nil {
		return err
	}
	if err := s.checkClocks(ctx, x); err != nil {
		return err
	}
	if err := s.dryRun(ctx, x); err != nil {
		return err
	}
	return s.checkPooler(ctx, x)
}

// dryRun locks, writes and deletes a row that no limit can have, and rolls back.
func (s *Store) dryRun(ctx context.Context, x *executor) error {
	row := runtime.Row{Shard: -1}
	err := s.inTx(ctx, x, runtime.DurabilityDefault, func(in session) error {
		l := newRowLock(in, []runtime.Row{row}, runtime.DurabilityDefault)
		if err := l.lock(ctx, s.lockOrder(readFirst)); err != nil {
			return err
		}
		// Both, because a user may have the privilege for one of them only.
		for _, st := range []statement{writeRows, deleteRows} {
			if err := l.put(ctx, st, []stored{{row: row}}); err != nil {
				return err
			}
		}
		return errRollback
	})
	if errors.Is(err, errRollback) {
		return nil
	}
	return err
}

// check compares the session and the table with the dialect's requirements. Some differences would corrupt counts
// without an error: without a primary key, a database may keep two rows for one key.
func (s *Store) check(ctx context.Context, db querier) error {
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
func (s *Store) checkSession(ctx context.Context, db querier) error {
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

// explainMissingTable replaces check's error for an invisible table by the database's own error for a query, which
// distinguishes a missing table from a missing privilege.
func (s *Store) explainMissingTable(ctx context.Context, x *executor, err error) error {
	if !errors.Is(err, errInvisibleTable) {
		return err
	}
	queryErr := s.single(ctx, x, func(in session) error {
		rows := []runtime.Row{{Shard: -1}}
		return newRowLock(in, rows, runtime.DurabilityDefault).read(ctx, readUnlocked, rows)
	})
	if queryErr != nil && hintFor(queryErr) != "" {
		return queryErr
	}
	return err
}

// errInvisibleTable is wrapped by the error of check if the database does not list the table.
var errInvisibleTable = errors.New("the table is not visible")

// Hints about the table and the session. See fillIn for the placeholders.
const (
	missingTable     = `there is no table {table}: call Migrate, or run what "ratelimitgen sql {flags}" prints`
	missingTableInTx = `there is no table {table} where the transaction was begun: begin it in the database that holds the counts, ` +
		`or create the table there: call Migrate, or run what "ratelimitgen sql {flags}" prints`
	// Some databases do not list a table for a user without privileges on it.
	invisibleTable = `there is no table {table}, or no right to see it: call Migrate, or run what "ratelimitgen sql {flags}" prints`
	wrongSession   = `change the settings of the connections, in the data source name or in the server`
	// The encoding of an existing database cannot be changed.
	wrongEncoding = `keep table {table} in a database whose encoding is UTF8, such as "CREATE DATABASE ... ENCODING 'UTF8' ` +
		`TEMPLATE template0" makes`
	wrongTable = `change table {table} to what "ratelimitgen sql {flags}" prints`
)

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

// poolerRounds is how often checkPooler gives a pooler the occasion to mix up statements: it may have several sessions,
// and other clients at the same time.
const poolerRounds = 2

// spareTimeout is how long Ready waits for a second connection, or for a pooler's second session, which may not exist.
const spareTimeout = 250 * time.Millisecond

// checkPooler returns the error of a statement that the driver has prepared under a name, and that a pooler has then sent
// to a session of the server that does not have it, or has another client's under that name. Two connections run the same
// statement: the first one alone, the second one in a transaction, and the first one again, which then cannot have the
// session of the transaction. In a pooler that has only one session, the second one finds the first one's statement.
func (s *Store) checkPooler(ctx context.Context, x *executor) error {
	if s.dialect.FindPrepared == "" || x.splits {
		return nil
	}
	first, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	// A closure, because replaceConn changes first.
	defer func() { first.Close() }()
	named, err := s.isNamed(ctx, first)
	for i := 0; err == nil && named && i < poolerRounds; i++ {
		var second *sql.Conn
		if second = s.spareConn(ctx); second != nil {
			err = s.provePoolerMixup(ctx, first, second)
			second.Close()
		}
		if err == nil {
			// A new connection to the pooler, so that the next round may get other sessions.
			first, named, err = s.replaceConn(ctx, first)
		}
	}
	return err
}

// isNamed reports whether the driver has prepared the statement under a name.
func (s *Store) isNamed(ctx context.Context, in runtime.Tx) (named bool, err error) {
	v := new(values)
	v.of[paramName] = "%ratelimitgen_named%"
	q := &s.queries[findNamed][oneRow]
	err = in.QueryRowContext(ctx, q.sql, v.args(q)...).Scan(&named)
	return named, err
}

// spareConn returns a second connection, or nil if the pool has none within [spareTimeout].
func (s *Store) spareConn(ctx context.Context) *sql.Conn {
	if s.db.Stats().MaxOpenConnections == 1 {
		// Waiting for one would only take the timeout.
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, spareTimeout)
	defer cancel()
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil
	}
	return conn
}

// provePoolerMixup runs the statement on two connections so that they cannot have the same session.
func (s *Store) provePoolerMixup(ctx context.Context, first, second *sql.Conn) error {
	tx, err := second.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := s.isNamed(ctx, tx); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, spareTimeout)
	defer cancel()
	// A timeout only shows that the pooler has no second session.
	if _, err := s.isNamed(wait, first); err != nil && wait.Err() == nil {
		return err
	}
	return nil
}

// replaceConn closes a connection, and runs the statement on a new one.
func (s *Store) replaceConn(ctx context.Context, conn *sql.Conn) (_ *sql.Conn, named bool, err error) {
	// database/sql closes a connection for this error, and does not return it to the pool.
	conn.Raw(func(any) error { return driver.ErrBadConn })
	fresh, err := s.db.Conn(ctx)
	if err != nil {
		return conn, false, err
	}
	named, err = s.isNamed(ctx, fresh)
	return fresh, named, err
}
